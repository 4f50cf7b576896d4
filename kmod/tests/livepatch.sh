# SPDX-License-Identifier: GPL-2.0-only
# A livepatch of balance_dirty_pages(), before and after weir: weir stands aside
# within a second and says so.  Wants weir_livepatch.ko and a disk "d".
. /tap.sh
patch=/sys/kernel/livepatch/weir_livepatch
mkdir /sys/fs/cgroup/a
cd /sys/fs/cgroup/a || exit 1
limits 33554432

patched_passes() {
	cat /sys/module/weir_livepatch/parameters/passes
}

# Every task must have left the old function before the transition is over.
settled() {
	i=0
	while [ $i -lt 300 ] && [ "$(cat $patch/transition 2>/dev/null || echo 0)" = 1 ]; do
		i=$((i + 1))
		usleep 100000
	done
	is "$(cat $patch/transition 2>/dev/null || echo 0)" 0
}

insmod /weir.ko
echo 8M >memory.dirty_min
echo 16M >memory.dirty_bytes
dirty /mnt/d/before 4 a
ok "in effect before the patch" is "$(stat a in_effect)" 1
ok "the floor admits" between 1 "$(stat a nr_floor_admitted)" 1000000

insmod /weir_livepatch.ko
usleep 900000
ok "says within a second that it is not in effect" is "$(stat a in_effect)" 0
ok "blind, says the state" is "$(state)" blind
ok "weir status says so" sh -c 'weir status | grep -q -i "not in effect\|blind"'
ok "took its probes away" is "$(probes)" 0
ok "said which function" sh -c 'dmesg | grep -q "weir: .*livepatch.*balance_dirty_pages"'
ok "the transition ends" settled
admitted=$(stat a nr_floor_admitted)
dirty /mnt/d/patched 8 a
ok "passes are the patch's" between 1 "$(patched_passes)" 1000000
ok "and none of weir's" is "$(stat a nr_floor_admitted)" "$admitted"
ok "a knob refuses to promise what cannot be kept" refuses memory.dirty_min 9M "busy"

echo 0 >$patch/enabled
i=0
while [ -e $patch ] && [ $i -lt 300 ]; do
	i=$((i + 1))
	usleep 100000
done
ok "the patch can be reverted" test ! -e $patch
ok "in effect again" comes_to 1 stat a in_effect
# what the patch let through still fills the floor
sync
dirty /mnt/d/after 4 a
ok "the floor admits again" between $((admitted + 1)) "$(stat a nr_floor_admitted)" 1000000
rmmod weir_livepatch

# the other order: the patch is there first
rmmod weir
insmod /weir_livepatch.ko
ok "the transition ends once more" settled
ok "loads beside a livepatch" insmod /weir.ko
ok "a knob refuses" refuses memory.dirty_min 8M "busy"
ok "no probe" is "$(probes)" 0
echo 0 >$patch/enabled
while [ -e $patch ]; do usleep 100000; done
ok "takes the knob once the patch is gone" takes memory.dirty_min 8M 8388608
ok "in effect then" is "$(stat a in_effect)" 1
rmmod weir_livepatch
rmmod weir
finish
