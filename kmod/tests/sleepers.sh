# SPDX-License-Identifier: GPL-2.0-only
# sleepers.sh [THREADS]: so many threads asleep in the throttle at once, each counted, none missed.
# Wants --count-instructions, /sleepers (sleepers.c) and a slow disk "d".
. /tap.sh
threads=${1:-5000}
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir a
echo 1000000 >/proc/sys/kernel/threads-max
insmod /weir.ko || exit 1
echo 1G >a/memory.dirty_bytes
# so much is dirty, and so little allowed then, that a look ends only with the test
limits 536870912
dirty /mnt/d/fill 160 a
limits 8388608
in_cgroup a /sleepers /mnt/d/map "$threads" &
# The throttle counts its sleepers as waiting for I/O; flushers and jbd2 are a handful.
asleep() {
	awk '$1 == "procs_blocked" { print $2 }' /proc/stat
}
most() {
	[ "$(asleep)" -ge $((threads * 9 / 10)) ]
}
ok "nine of ten threads sleep at once" soon most
echo "# asleep: $(asleep) of $threads"
kill -9 "$(pidof sleepers)"
wait
limits 536870912
slept=$(stat a nr_throttled)
ok "each pause is counted" between $((threads * 9 / 10)) "$slept" 1000000000
ok "no pass was missed" is "$(cat /sys/kernel/weir/missed)" 0
ok "unloads" rmmod weir
finish
