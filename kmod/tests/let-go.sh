# SPDX-License-Identifier: GPL-2.0-only
# let-go.sh: the hooks of the throttle go when nothing needs them, and no task waits for that.
#
#   cleared    ten seconds after the last knob both functions are the kernel's own, once a minute
#   again      a knob that is set at about that moment is in effect when its write returns
#   inside     writers are in a pass of weir's, asleep, when its hook goes; then the module
#   unloading  the module goes at about that moment
#   starved    tenants hold off a grace period by cpu.max: the hooks stay, and a knob is set at once
#
# Wants a disk "d" with ext4 of 4 MB/s.  Counted instructions, one CPU; freed memory poisoned.
. /tap.sh
cd /sys/fs/cgroup || exit 1
echo "+memory +io +cpu" >cgroup.subtree_control
mkdir a b

set_knob() {
	echo 64M >a/memory.dirty_bytes
}
clear_knob() {
	echo max >a/memory.dirty_bytes
}
hooked() {
	echo "$(hooks) $(cat /sys/kernel/weir/hooked)"
}
# in_force: the knob that was just set is
in_force() {
	is "$(hooked) $(state) $(stat a in_effect)" "2 1 active 1"
}

again() {
	# two seconds for the task that asked, five for others, a beat and a grace period
	for ms in 6900 7000 7020 7040 7060 7080 7100 7110 7120 7130 7140 7150 7170 7300; do
		# more than a minute after the last time, which is within a minute after the last knob
		sleep 130
		set_knob && clear_knob || return 1
		usleep ${ms}000
		echo "after $ms ms: $(hooked)" >>/tmp/moments
		set_knob && in_force || return 1
		clear_knob
	done
}

# half_asleep: of the writers, at least half are in a pass
half_asleep() {
	sleepers=0
	for pid in $(cat b/cgroup.procs); do
		! grep -q 'balance_dirty_pages' "/proc/$pid/stack" || sleepers=$((sleepers + 1))
	done
	[ $sleepers -ge 4 ]
}
inside() {
	limits 8388608
	set_knob
	for i in 1 2 3 4 5 6 7 8; do
		in_cgroup b dd if=/dev/zero of=/mnt/d/$i bs=1M count=64 2>/dev/null &
	done
	usleep 500000
	soon half_asleep || return 1
	clear_knob
	sleep 10
	is "$(hooked)" "0 0" || return 1
	soon half_asleep || return 1
	rmmod weir || return 1
	soon half_asleep || return 1
	echo 1 >b/cgroup.kill
	wait 2>/dev/null
	limits 268435456
	insmod /weir.ko
}

unloading() {
	for ms in 7060 7100 7120 7140 7300; do
		set_knob && clear_knob || return 1
		usleep ${ms}000
		rmmod weir && insmod /weir.ko || return 1
	done
}

starved() {
	echo "1000 100000" >b/cpu.max
	spinners=
	for i in 1 2 3 4 5 6 7 8; do
		in_cgroup b sh -c 'while :; do :; done' &
		spinners="$spinners $!"
	done
	set_knob && clear_knob || return 1
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		sleep 1
		echo "$(hooked)"
	done | sort | uniq -c >/tmp/starved
	begun=$(awk '{ print int($1 * 1000) }' /proc/uptime)
	set_knob || return 1
	took=$(($(awk '{ print int($1 * 1000) }' /proc/uptime) - begun))
	in_force || return 1
	clear_knob
	kill $spinners
	wait $spinners 2>/dev/null
	# looking for proof is a beat, 200 ms
	between 0 $took 1000
}

ok "loads" insmod /weir.ko
set_knob
clear_knob
sleep 10
ok "cleared: nothing is hooked any more" is "$(hooked)" "0 0"
set_knob
ok "a knob hooks again" in_force
clear_knob
sleep 20
ok "hooks go once a minute at most" is "$(hooked)" "2 1"
sleep 60
ok "and then they do" is "$(hooked)" "0 0"
: >/tmp/moments
ok "again: a knob set while hooks go is in effect" again
sed 's/^/# /' /tmp/moments
sleep 61
ok "inside: tasks in a pass stay there, the module goes" inside
ok "unloading while hooks go" unloading
ok "starved: a knob waits for no grace period" starved
sed 's/^ */# functions, hooked: /' /tmp/starved
ok "unloads" rmmod weir
finish
