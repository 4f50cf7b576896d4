# SPDX-License-Identifier: GPL-2.0-only
# at-return.sh: a task that owes a wait at its return to user mode, and does not return.
#
# It received into a shared mapping below a bound of 64K, in a call that waits for more to receive:
# for what it dirtied, 8 s, it would wait when that is over. Unloading takes back what it was to
# wait for: if not, rmmod waits for ever, or the task runs code that is gone when it is killed.
# Boot with slub_debug=FZPU, or KASAN.
# Wants a disk "d" with ext4, and /blocked (blocked.c).
. /tap.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 268435456
mkdir a
receives() {
	for pid in $(cat a/cgroup.procs); do
		grep -q unix_stream "/proc/$pid/stack" && [ "$(stat a nr_bandwidth_held)" -gt "$held" ] && return
	done
	return 1
}
# blocks TIMES: so many tasks that owe it
blocks() {
	held=$(stat a nr_bandwidth_held)
	for i in $(seq "$1"); do
		in_cgroup a /blocked /mnt/d/map.$i >/tmp/sent.$i &
	done
	soon receives || return 1
	# each has sent, and its receiver is past its last fault
	soon sh -c "[ \$(cat /tmp/sent.* | grep -c sent) -eq $1 ]" && sleep 5
}
gone() {
	! grep -q . a/cgroup.procs
}
insmod /weir.ko || exit 1
for time in 1 2 3; do
	echo 64K >a/memory.dirty_bandwidth
	ok "$time: tasks block with a wait ahead of them" blocks 4
	case $time in
	# killed while they are blocked: they exit with it
	1) echo 1 >a/cgroup.kill ;;
	# killed after it was taken back
	2) ok "$time: unloads although they do not return" rmmod weir ;;
	# killed while it is taken back
	3) rmmod weir & ;;
	esac
	echo 1 >a/cgroup.kill
	ok "$time: they end" soon gone
	wait
	rm -f /mnt/d/map.* /tmp/sent.*
	[ $time -eq 1 ] || insmod /weir.ko || exit 1
done
ok "unloads" rmmod weir
finish
