# SPDX-License-Identifier: GPL-2.0-only
# Sourced by every test here: TAP output, a cgroup to work in, a few questions
# to the kernel.  Runs under busybox sh as root in a guest; see README.md.

n=0
failed=0

# ok TEXT COMMAND...: passes if the command succeeds
ok() {
	text=$1
	shift
	n=$((n + 1))
	if "$@" >/tmp/ok.out 2>&1; then
		echo "ok $n - $text"
	else
		failed=$((failed + 1))
		echo "not ok $n - $text"
		sed 's/^/# /' /tmp/ok.out
		echo "# command: $*"
	fi
}

# skip TEXT REASON: a test that this kernel gives no occasion for
skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# is GOT WANTED
is() {
	[ "$1" = "$2" ] || { echo "got '$1', wanted '$2'"; return 1; }
}

# between LOW VALUE HIGH
between() {
	[ "$2" -ge "$1" ] && [ "$2" -le "$3" ] ||
		{ echo "got $2, wanted $1..$3"; return 1; }
}

# soon COMMAND...: succeeds within a minute, and prints what it said last; on a busy
# machine, that may be long after it should
soon() {
	deadline=$(($(date +%s) + 60))
	soon_status=0
	soon_said=$(mktemp) # jobs in the background wait for something, too
	# in this shell: what it sets stays set
	until "$@" >"$soon_said"; do
		[ "$(date +%s)" -lt $deadline ] ||
			{ echo "not within a minute: $*" >>"$soon_said"; soon_status=1; break; }
		sleep 0.2
	done
	cat "$soon_said"
	rm "$soon_said" # tests look for files left behind
	return $soon_status
}

# comes_to WANTED COMMAND...: soon prints it
comes_to() {
	wanted=$1
	shift
	soon prints "$wanted" "$@"
}
prints() {
	wanted=$1
	shift
	is "$("$@")" "$wanted"
}

# refuses FILE VALUE WORDS: the write fails with this error, the value stays
refuses() {
	before=$(cat "$1")
	error=$(sh -c 'echo -n "$1" >"$0"' "$1" "$2" 2>&1) &&
		{ echo "write of '$2' succeeded"; return 1; }
	case $error in
	*"$3"*) is "$(cat "$1")" "$before" ;;
	*) echo "another error than '$3': $error"; return 1 ;;
	esac
}

no_switch="this kernel takes kernel.ftrace_enabled=1 only"
# silence_ftrace: fails where the kernel has no switch for it: 7.3 takes
# kernel.ftrace_enabled=1 only
silence_ftrace() {
	sh -c 'echo 0 >/proc/sys/kernel/ftrace_enabled' 2>/dev/null
}

# takes FILE VALUE SHOWN
takes() {
	printf '%s' "$2" >"$1" && is "$(cat "$1")" "$3"
}

# stat CGROUP KEY
stat() {
	awk -v key="$2" '$1 == key { print $2 }' "/sys/fs/cgroup/$1/memory.dirty_stat"
}

# in_cgroup CGROUP COMMAND...
in_cgroup() {
	group=$1
	shift
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" && exec "$@"' "$group" "$@"
}

# dirtied FILE MEGABYTES CGROUP: buffered writes from inside the cgroup
dirty() {
	in_cgroup "$3" dd if=/dev/zero of="$1" bs=64k count=$(($2 * 16)) conv=notrunc 2>/dev/null
}

# functions of the throttle that are hooked, by whomever
hooks() {
	grep -cE '^(balance_dirty_pages|domain_dirty_limits) ' \
		/sys/kernel/debug/tracing/enabled_functions
}

# page_size: bytes of a page of this kernel
page_size() {
	awk '/^KernelPageSize:/ { print $2 * 1024; exit }' /proc/self/smaps
}

state() {
	cat /sys/kernel/weir/state
}

# limits BYTES: vm.dirty_bytes, half of it for background
limits() {
	echo "$1" >/proc/sys/vm/dirty_bytes
	echo $(($1 / 2)) >/proc/sys/vm/dirty_background_bytes
}

finish() {
	echo "1..$n"
	exit $((failed > 0))
}
