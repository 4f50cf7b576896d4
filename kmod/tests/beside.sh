# SPDX-License-Identifier: GPL-2.0-only
# beside.sh PROBES...: weir beside a follower of balance_dirty_pages(), in both
# orders.  PROBES are bpftrace's, separated by commas: kprobe,kretprobe
# kfunc,kretfunc (fentry and fexit).  A pass is either left out or runs, never both
# and never neither, and the follower sees each once.  Wants bpftrace and a disk
# "d" slower than a writer.
. /tap.sh
trace=/sys/kernel/tracing
mkdir /sys/fs/cgroup/floor /sys/fs/cgroup/ceiling
[ -e $trace/trace ] || mount -t tracefs tracefs $trace
limits 33554432

# Behind the ftrace site, so only what runs is counted: 5 bytes, 9 with an ENDBR; on
# arm64 two instructions, 12 bytes with a BTI.
for at in 5 9 8 12; do
	echo "p:body balance_dirty_pages+$at" >>$trace/kprobe_events && break
done 2>/dev/null
echo 1 >$trace/events/kprobes/body/enable

# body COLUMN: of what ran, 2 counted, 3 missed
body() {
	awk -v column="$1" '$1 == "body" { print $column }' $trace/kprobe_profile
}

load() {
	insmod /weir.ko && echo 16M >/sys/fs/cgroup/floor/memory.dirty_min &&
		echo 4M >/sys/fs/cgroup/ceiling/memory.dirty_bytes
}

# follow PROBES: until they are attached
follow() {
	program=
	for probe in $(echo "$1" | tr , ' '); do
		program="$program $probe:balance_dirty_pages { @$probe = count(); }"
	done
	: >/tmp/bpf
	bpftrace -B line -e "$program interval:s:1 { printf(\"tick\\n\"); }" >/tmp/bpf 2>&1 &
	follower=$!
	soon grep -q tick /tmp/bpf
}

# write TEXT CGROUP MEGABYTES: adds to total; weir was loaded anew or not
write() {
	passes=$(stat "$2" nr_passes) admitted=$(stat "$2" nr_floor_admitted) ran=$(body 2)
	dirty "/mnt/d/$2" "$3" "$2"
	passes=$(($(stat "$2" nr_passes) - passes)) ran=$(($(body 2) - ran))
	admitted=$(($(stat "$2" nr_floor_admitted) - admitted))
	total=$((total + passes))
	echo "# $1: passes $passes, admitted $admitted, ran $ran"
	ok "$1: in effect" is "$(state) $(stat "$2" in_effect)" "active 1"
	ok "$1: what was not admitted ran, and nothing else" is $ran $((passes - admitted))
}

# throttle TEXT: a writer under its floor, then one under its ceiling
throttle() {
	total=0
	write "$1, floor" floor 32
	ok "$1, floor: admits some" between 1 "$admitted" $((passes - 1))
	held=$(stat ceiling nr_ceiling_held)
	write "$1, ceiling" ceiling 16
	ok "$1, ceiling: admits none" is "$admitted" 0
	ok "$1, ceiling: holds some" between $((held + 1)) "$(stat ceiling nr_ceiling_held)" 1000000
	# what is still held would leave the next floor no room
	sync
}

# entries TEXT PROBES: each of them saw each pass once
entries() {
	kill -INT $follower
	wait $follower
	for probe in $(echo "$2" | tr , ' '); do
		ok "$1: each pass seen once" grep -qx "@$probe: $total" /tmp/bpf
		grep "^@$probe:" /tmp/bpf | sed "s/^/# of $total: /"
	done
}

for probes in "$@"; do
	ok "weir loads and takes knobs" load
	ok "then $probes" follow "$probes"
	throttle "before $probes"
	entries "before $probes" "$probes"
	throttle "$probes gone"
	rmmod weir

	ok "$probes" follow "$probes"
	ok "then weir loads and takes knobs" load
	throttle "after $probes"
	ok "unloads before $probes go" rmmod weir
	entries "after $probes" "$probes"
done
ok "no entry of the kernel's function was lost to its counter" is "$(body 3)" 0
finish
