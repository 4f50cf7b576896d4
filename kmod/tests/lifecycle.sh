# SPDX-License-Identifier: GPL-2.0-only
# Loading, arming, observing, going blind, unloading.  Wants a disk "d".
. /tap.sh
mkdir /sys/fs/cgroup/a
cd /sys/fs/cgroup/a || exit 1

ok "loads" insmod /weir.ko
ok "idle after load" is "$(state)" idle
ok "nothing hooked before the first knob" is "$(hooks)" 0
echo 16M >memory.dirty_min
ok "active with a floor" is "$(state)" active
ok "in effect, says dirty_stat" is "$(stat a in_effect)" 1
ok "two functions hooked for a floor" is "$(hooks)" 2
echo 64M >memory.dirty_bytes
ok "the same two with a ceiling" is "$(hooks)" 2
echo max >memory.dirty_bytes
echo 0 >memory.dirty_min
ok "idle when the last knob is cleared" is "$(state)" idle
ok "hooks stay, and pass everything on" is "$(hooks) $(cat /sys/kernel/weir/hooked)" "2 1"

echo 16M >memory.dirty_min
cd /
rmdir /sys/fs/cgroup/a
ok "idle when the only cgroup with a knob is gone" comes_to idle state
ok "nothing kept of it" is "$(cat /sys/kernel/weir/groups)" 0
mkdir /sys/fs/cgroup/a
ok "a new cgroup of the name starts with the default" is "$(cat /sys/fs/cgroup/a/memory.dirty_min)" 0

echo 16M >/sys/fs/cgroup/a/memory.dirty_min
if silence_ftrace; then
	ok "blind with kernel.ftrace_enabled=0" comes_to blind state
	ok "dirty_stat says so" is "$(stat a in_effect)" 0
	echo 1 >/proc/sys/kernel/ftrace_enabled
	ok "active again once it is back" comes_to active state
fi
echo 0 >/sys/kernel/debug/kprobes/enabled
usleep 900000
ok "as active with kprobes/enabled=0" is "$(state)" active
echo 1 >/sys/kernel/debug/kprobes/enabled
rmmod weir
ok "no file left after unload" test ! -e /sys/fs/cgroup/a/memory.dirty_min
ok "no sysfs left after unload" test ! -e /sys/kernel/weir

insmod /weir.ko observe=1
limits 33554432
echo 16M >/sys/fs/cgroup/a/memory.dirty_min
echo 1 >/sys/fs/cgroup/a/memory.dirty_ratio
ok "observing" is "$(state)" observe
dirty /mnt/d/observed 64 a
ok "observe: counts what the floor would admit" between 1 "$(stat a nr_would_admit)" 1000000
ok "observe: counts what the ceiling would hold" between 1 "$(stat a nr_would_hold)" 1000000
ok "observe: reserves nothing" is "$(cat /sys/kernel/weir/limit_in_force_bytes)" 33554432
ok "observe: lets no writer go" is "$(stat a nr_floor_released)" 0
ok "observe: admits nothing" is "$(stat a nr_floor_admitted)" 0
ok "observe: holds nothing" is "$(stat a nr_ceiling_held)" 0
rmmod weir

insmod /weir.ko off
ok "weir.off: loads, off" is "$(state)" off
ok "weir.off: adds no file" test ! -e /sys/fs/cgroup/a/memory.dirty_min
ok "weir.off: hooks nothing" is "$(hooks)" 0
rmmod weir

if silence_ftrace; then
	ok "refuses to load with ftrace off" sh -c '! insmod /weir.ko'
	ok "and says why" sh -c 'dmesg | grep -q "weir: refusing to load: .*ftrace_enabled"'
	echo 1 >/proc/sys/kernel/ftrace_enabled
fi

# under load, with a file held open
insmod /weir.ko
echo 16M >/sys/fs/cgroup/a/memory.dirty_min
in_cgroup a dd if=/dev/zero of=/mnt/d/load bs=64k count=4096 2>/dev/null &
writer=$!
exec 3</sys/fs/cgroup/a/memory.dirty_stat
ok "unloads under load with a file open" rmmod weir
ok "an open file reads as gone" sh -c '! cat <&3 >/dev/null 2>&1'
exec 3<&-
wait $writer
ok "loads again" insmod /weir.ko
ok "unloads again" rmmod weir

# groups of removed cgroups go, with no knob left, too
groups() {
	cat /sys/kernel/weir/groups
}
insmod /weir.ko
mkdir -p /sys/fs/cgroup/parent
echo +memory >/sys/fs/cgroup/parent/cgroup.subtree_control
echo 64M >/sys/fs/cgroup/parent/memory.dirty_bytes
for i in 1 2 3 4 5; do mkdir /sys/fs/cgroup/parent/$i; done
ok "a group for each cgroup below a knob" comes_to 6 groups
echo max >/sys/fs/cgroup/parent/memory.dirty_bytes
ok "idle without a knob" is "$(state)" idle
rmdir /sys/fs/cgroup/parent/? /sys/fs/cgroup/parent
ok "none is kept of removed ones while idle" comes_to 0 groups

# a work item that outlives the module would take the kernel down
echo 1 >/sys/kernel/rcu_expedited
mkdir /sys/fs/cgroup/b
unloads_with_floors() {
	for i in 1 2 3 4 5; do
		echo 1M >/sys/fs/cgroup/a/memory.dirty_min &&
			echo 1M >/sys/fs/cgroup/b/memory.dirty_min || return 1
		rmmod weir && insmod /weir.ko || return 1
		usleep 100000
	done
}
ok "unloads with two floors set" unloads_with_floors
rmmod weir
finish
