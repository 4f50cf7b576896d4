# SPDX-License-Identifier: GPL-2.0-only
# stretch.sh [ROUNDS]: a writer loses its CPU between the two domains of a pass, without a sleep of
# its own; meanwhile it is moved out of its cgroup, which is removed, with its record.  What the pass
# knows of the path by then, that there is a ceiling on it, outlives the record.
#
# Wants the module built with WEIR_FAULTS=y, freed memory poisoned, and a disk "d" with ext4 of 4 MB/s.
. /tap.sh
rounds=${1:-3}
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir other
limits 8388608
echo 1 >/proc/sys/kernel/panic_on_oops
ok "loads" insmod /weir.ko
# a limit that is lifted has each domain amended by itself
echo 3 >/sys/module/weir/parameters/drain_seconds
in_cgroup other sh -c 'while :; do head -c 64000000 /dev/zero >/mnt/d/other; done' &
lifted() {
	[ "$(cat /sys/kernel/weir/drain_limit_bytes)" -gt 0 ]
}
ok "the limit is lifted" soon lifted

# the cgroup's record is gone while its writer is in the pass
round() {
	mkdir a || return 1
	echo 8M >a/memory.dirty_bytes || return 1
	records=$(cat /sys/kernel/weir/groups)
	in_cgroup a dd if=/dev/zero of=/mnt/d/a bs=64k count=4000 conv=notrunc 2>/dev/null &
	sleep 1
	pid=$(cat a/cgroup.procs)
	echo 4000 >/sys/module/weir/parameters/fault_late_ms
	sleep 1
	asleep=$(awk '/^voluntary/ { print $2 }' "/proc/$pid/status")
	echo "$pid" >other/cgroup.procs
	rmdir a || return 1
	sleep 1
	gone=$(cat /sys/kernel/weir/groups)
	late=$(awk '/^voluntary/ { print $2 }' "/proc/$pid/status")
	echo 0 >/sys/module/weir/parameters/fault_late_ms
	sleep 5
	kill -9 "$pid"
	echo "records $records, then $gone; sleeps of its own $asleep, then $late" >>/tmp/rounds
	[ "$gone" -lt "$records" ] && is "$late" "$asleep"
}
: >/tmp/rounds
for i in $(seq "$rounds"); do
	ok "round $i: its record goes while it is in the pass" round
done
sed 's/^/# /' /tmp/rounds
echo 1 >other/cgroup.kill
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
