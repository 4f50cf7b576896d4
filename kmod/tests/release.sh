# SPDX-License-Identifier: GPL-2.0-only
# A writer that sleeps in the throttle and is let go.
#
# When its floor has room again: until its next look it may dirty the square root of that room, not
# that of the host's limit.  When the module is unloaded: at once, and by a page only, although the
# host is far above its limit and stays there.
#
# Wants --count-instructions and disks "d" and "e".
. /tap.sh
trace=/sys/kernel/tracing
limits 268435456
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir victim noisy idle
# 128 pages; their square root, to a power of two, is 8
echo 512K >victim/memory.dirty_min

# writes CGROUP FILE SIZE COUNT: in the background; the writer itself is $!, no shell around it
writes() {
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" &&
		exec dd if=/dev/zero of="/mnt/$1" bs="$2" count="$3" 2>/dev/null' "$@" &
}
noisy=
for i in 1 2 3; do
	writes noisy d/noisy$i 64k 4000
	noisy="$noisy $!"
done
throttled() {
	[ "$(stat noisy nr_throttled)" -ge 12 ]
}
ok "the host is full" soon throttled
writes victim e/victim 4k 200000
victim=$!
above() {
	[ "$(stat victim dirty)" -gt 1048576 ]
}
ok "the victim is above its floor" soon above
clean() {
	dd if=/dev/zero of=/mnt/e/victim count=0 conv=notrunc,fsync 2>/dev/null
}
# Reserve half of the limit: until the slow disk has written that much, writers look and sleep again.
echo 128M >idle/memory.dirty_min
usleep 500000
echo 8192 >$trace/buffer_size_kb
echo 1 >$trace/events/weir/enable
echo 1 >$trace/events/writeback/balance_dirty_pages/enable
for i in 1 2 3 4 5; do
	clean
	usleep 400000
done
echo 0 >$trace/tracing_on
released=$(stat victim nr_floor_released)
awk '/^nr_(dirty|writeback) / { print "# " $0 }' /proc/vmstat
# pages that each look of the writer found
grep -- "-$victim " $trace/trace | grep -oE ' (pages|dirtied)=[0-9]+' | cut -d= -f2 | sort -n >/tmp/looks
worst=$(tail -n 1 /tmp/looks)
# half of the limit is 32,768 pages, whose square root is, to a power of two, 128
by_host=$(grep -c '^128$' /tmp/looks)
echo "# $released releases, $(wc -l </tmp/looks) looks, most pages before one $worst, $by_host after 128"
host_pages() {
	awk '/^nr_(dirty|writeback) / { sum += $2 } END { print sum }' /proc/vmstat
}
asleep() {
	grep -l 'weir_pass\|pass_wrapper' /proc/[0-9]*/stack 2>/dev/null | wc -l
}
sleeping() {
	between 1 "$(asleep)" 100
}
# far below what is dirty: no disk here gets there before the module is gone
kill -9 $victim
limits 8388608
ok "writers sleep in a pass of weir's" soon sleeping
before=$(host_pages)
ok "unloads" rmmod weir
after=$(host_pages)
kill -9 $noisy
echo "# host's dirty pages: $before before unloading, $after after, limit 2048"
ok "before they could leave by themselves" between 4096 "$after" 100000000
ok "and let them dirty next to nothing" between 0 "$after" $((before + 64))
ok "the writer was let go in its sleep" between 1 "$released" 100000000
ok "its looks were seen" between 5 "$(wc -l </tmp/looks)" 100000000
ok "none came when the host's limit would have had it" between 0 "$by_host" 2
finish
