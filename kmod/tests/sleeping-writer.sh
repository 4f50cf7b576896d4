# SPDX-License-Identifier: GPL-2.0-only
# sleeping-writer.sh [ROUNDS [KIND...]]: what a writer sleeps on is removed while it sleeps.
#
# In every round a writer is asleep in the throttle, and then loses, by kind:
#   cgroup      its cgroup: the writer is moved out, the cgroup removed
#   controller  the memory controller of its cgroup, switched off in the parent
#   task        itself: SIGKILL
#   device      the disk that it writes to, with its backing_dev_info
#   module      weir: rmmod, then insmod
# Of writers that sleep in weir's own waits, at their return to user mode:
# paced/KIND: the same of a writer that waits for the bandwidth of its cgroup's parent, the least
# there is.  It stays below that when its own cgroup goes.
# left/KIND: the same of a task that was just made and waits for what writers left that were killed
# in its cgroup; it holds nothing of a disk.
# past/KIND: the same of a writer that waits for its parent's full ceiling, among thirty that do,
# all with files of another cgroup's.
#
# A round counts only if the writer slept in the throttle right before the removal, and still in
# the same pass or wait right after it.  Of a disk and of a module it must have slept as the removal
# began; for disks the last lines say how often it still did after 20 ms.  A module lets it go, and
# the kernel's own throttle then holds it to the disk's pace, as the host is far above its limit:
# 1 MiB, and 1 MiB for each second that unloading takes.
# /proc/PID/stack says where it sleeps, and write_bytes of /proc/PID/io that no page was
# dirtied in between.  A writer that outlives the removal must then pause at least three times more.
# What it does to freed memory is for the kernel to report: boot with slub_debug=FZPU, or KASAN.
#
# Wants a disk "d" with ext4 and an empty one, "u", of 1 MB/s each.
. /tap.sh
rounds=${1:-2}
[ $# -eq 0 ] || shift
kinds=${*:-cgroup controller task device module
	paced/cgroup paced/controller paced/task paced/device paced/module
	left/cgroup left/controller left/task left/module
	past/cgroup past/controller past/task past/device past/module}
root=/sys/fs/cgroup
pulled=$(readlink -f "/sys/class/block/$(basename "$(readlink -f /dev/weir/u)")/device/..")

# What keeps the host above its limit for seconds: 1 MB/s takes it off.
fill=16

# The frame below the scheduler's: where the task sleeps; empty if not in $throttle, or not for $caller.
asleep() { # PID
	awk -v throttle="$throttle" -v caller="$caller" '/schedule/ { next }
		frame == "" && $0 !~ throttle { exit }
		frame == "" { frame = $2 }
		$0 ~ caller { print frame; exit }' "/proc/$1/stack" 2>/dev/null
}
switches() { # PID
	awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$1/status" 2>/dev/null
}
dirtied() { # PID
	awk '$1 == "write_bytes:" { print $2 }' "/proc/$1/io" 2>/dev/null
}
gone() { # PID
	[ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}
paused() { # PID SWITCHES
	gone "$1" || [ "$(switches "$1")" -ge "$2" ]
}
sleeps() { # PID
	[ -n "$(asleep "$1")" ]
}
settle_down() { # PID
	kill -9 "$1" 2>/dev/null
	soon gone "$1"
	wait "$1" 2>/dev/null
}

# $! is the writer itself afterwards
start() { # CGROUP FILE
	sh -c 'echo 0 >"$0/cgroup.procs" && exec dd if=/dev/zero of="$1" bs=64k count=20000 conv=notrunc' \
		"$root/$1" "$2" 2>/dev/null &
}

# Writers of p/v are killed before they have waited.  $writer is one that is made after them: its
# shell ends, as whatever it ran next would wait, too.
start_after_killed() { # FILE
	rm -f /tmp/made
	sh -c 'echo 0 >"$0/cgroup.procs"
		pids=
		for i in $(seq 12); do
			dd if=/dev/zero of=/mnt/d/w$i bs=64k count=20000 &
			pids="$pids $!"
		done
		sleep 1
		kill -9 $pids
		wait $pids
		dd if=/dev/zero of="$1" bs=64k count=20000 conv=notrunc &
		echo $! >/tmp/made' "$root/p/v" "$1" 2>/dev/null
	writer=$(cat /tmp/made)
}

# A PCI disk that is pulled, and comes back: slow, as a writer whose disk is clean is let go.
disk_on() {
	node=$(readlink -f /dev/weir/u)
	mkfs.ext4 -q -F "$node" && mount "$node" /mnt/gone
}
disk_off() {
	echo 1 >"$pulled/remove"
}
came_back() {
	ls "$pulled"/virtio*/block
}
disk_cleared() {
	umount -l /mnt/gone
	sleep 1
	echo 1 >/sys/bus/pci/rescan
	soon came_back >/tmp/back || return 1
	ln -sf "/dev/$(cat /tmp/back)" /dev/weir/u
}

load() {
	insmod /weir.ko || return 1
	# a knob elsewhere, so that weir stays armed
	soon sh -c "echo 512M >$root/keep/memory.dirty_bytes"
}

# The removal itself, as short as it can be.
remove() { # KIND PID
	case $1 in
	cgroup)
		echo "$2" >"$root/$elsewhere/cgroup.procs"
		i=0
		until rmdir $root/p/v 2>/dev/null; do
			i=$((i + 1))
			[ $i -lt 100 ] || return 1
		done
		;;
	controller) echo -memory >$root/p/cgroup.subtree_control ;;
	task) kill -9 "$2" ;;
	# both take their time: the one writes back what is dirty, the other may wait for writers
	device | module)
		if [ "$1" = device ]; then disk_off; else rmmod weir; fi &
		removing=$!
		usleep 20000
		;;
	esac
}

# round KIND NUMBER [MODE]: 0 if it counts, 1 if the writer did not sleep as it should, 2 if it fails
round() {
	place=/mnt/d
	throttle='balance_dirty_pages[+.]|[[]weir[]]'
	limits 314572800
	mkdir -p $root/p/v $root/p/w
	echo "+memory +io" >$root/p/cgroup.subtree_control
	elsewhere= caller=
	[ -z "$3" ] || throttle='[[]weir[]]' caller=task_work_run
	before_it=1
	if [ "$3" = paced ] || [ "$3" = left ]; then
		echo 64K >$root/p/memory.dirty_bandwidth
		elsewhere=p/w
		before_it=12
		[ "$3" = paced ] || before_it=0
	elif [ "$3" = past ]; then
		echo 1M >$root/p/memory.dirty_bytes
		elsewhere=p/w
		before_it=30
	else
		echo 600M >$root/p/v/memory.dirty_bytes
	fi
	case $1$3 in
	device*) disk_on && place=/mnt/gone || return 2 ;;
	esac
	dd if=/dev/zero of=/mnt/d/fill bs=1M count=$fill 2>/dev/null
	beside=
	if [ "$3" = past ]; then
		in_cgroup keep dd if=/dev/zero of=$place/v bs=4k count=1 2>/dev/null
		for i in $(seq $before_it); do
			in_cgroup keep dd if=/dev/zero of=/mnt/d/w$i bs=4k count=1 2>/dev/null
		done
	fi
	# before it in the line of a bandwidth, or at a ceiling, for a longer wait
	for i in $(seq $before_it); do
		start p/w /mnt/d/w$i
		beside="$beside $!"
	done
	[ $before_it -le 1 ] || sleep 1
	if [ "$3" = left ]; then
		start_after_killed $place/v
	else
		start p/v $place/v
		writer=$!
	fi
	usleep 200000
	limits 2097152
	# one that does not, on a busy machine, makes a round that does not count
	soon sleeps $writer

	counts=1
	where=$(asleep $writer)
	before=$(dirtied $writer)
	since=$(switches $writer)
	began=$(date +%s)
	remove "$1" $writer || result=2
	case $1 in
	# the task is dead, or about to find that out
	task) [ -n "$where" ] && counts=0 ;;
	# unloading lets it go, by a page, and the kernel's own pass holds it then
	module) [ -n "$where" ] && counts=0 ;;
	device)
		[ -n "$where" ] && counts=0
		sleeps $writer && [ "$(dirtied $writer)" = "$before" ] && echo . >>/tmp/slept_on
		;;
	*) [ -n "$where" ] && sleeps $writer && [ "$(dirtied $writer)" = "$before" ] && counts=0 ;;
	esac
	case $1 in
	task) soon gone $writer || result=2 ;;
	module)
		wait $removing || result=2
		most=$(((1 + $(date +%s) - began) * 1048576))
		between 0 $(($(dirtied $writer) - before)) $most || result=2
		load || result=2
		;;
	# its writer gets errors, or ends: nothing of its disk is dirty any more
	device) wait $removing || result=2 ;;
	*) soon paused $writer $((since + 3)) || result=2 ;;
	esac

	# what is dirty is dropped with its file: the next round begins alike
	settle_down $writer
	for pid in $beside; do settle_down "$pid"; done
	rm -f /mnt/d/fill /mnt/d/w* /mnt/d/v
	case $1$3 in
	device*) disk_cleared || result=2 ;;
	esac
	for group in p/v p/w p; do
		[ ! -d $root/$group ] || soon rmdir $root/$group || result=2
	done
	echo "round $2: asleep in '$where', dirtied $before, counts: $counts"
	[ $counts -ne 0 ] || echo "$where" >>/tmp/where
	return $counts
}

# ROUNDS rounds that count, in at most three times as many
rounds_of() { # KIND
	counted=0
	tried=0
	result=0
	while [ $counted -lt "$rounds" ] && [ $tried -lt $((3 * rounds)) ]; do
		tried=$((tried + 1))
		round "${1#*/}" $tried "$(expr "$1" : '\([a-z]*\)/')"
		case $?$result in
		00) counted=$((counted + 1)) ;;
		10) ;;
		*) echo "round $tried failed"; return 1 ;;
		esac
	done
	echo $tried >/tmp/tried
	is $counted "$rounds"
}

# after an oops tasks hang: better an end now, with the report on the console
echo 1 >/proc/sys/kernel/panic_on_oops
echo -1 >/proc/sys/kernel/panic
mkdir -p $root/keep /mnt/gone
echo "+memory +io" >$root/cgroup.subtree_control
: >/tmp/where
ok "loads" load
for kind in $kinds; do
	ok "$kind: removed in $rounds rounds while its writer slept" rounds_of "$kind"
	echo "# of $(cat /tmp/tried) rounds tried"
done
echo "# where writers slept: $(sed 's/+.*//' /tmp/where | sort | uniq -c | xargs)"
[ ! -e /tmp/slept_on ] || echo "# slept on while its disk went: $(wc -l </tmp/slept_on)"
ok "unloads" rmmod weir
finish
