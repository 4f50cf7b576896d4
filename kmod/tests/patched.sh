# SPDX-License-Identifier: GPL-2.0-only
# A knob can be cleared while a livepatch holds the throttle; what is refused is refused as busy.
# Wants weir_livepatch.ko.
. /tap.sh
patch=/sys/kernel/livepatch/weir_livepatch
insmod /weir.ko || exit 1
mkdir /sys/fs/cgroup/a
cd /sys/fs/cgroup/a || exit 1
echo 8M >memory.dirty_min
echo 64M >memory.dirty_bytes
echo 50 >memory.dirty_ratio
echo 300 >memory.dirty_weight
# one of the two is refused: this, or what weir says below
insmod /weir_livepatch.ko 2>/tmp/refused || echo "# the livepatch is refused: $(cat /tmp/refused)"
usleep 900000
echo "# state $(state)"
ok "dirty_weight can be cleared" takes memory.dirty_weight 100 100
ok "dirty_ratio can be cleared" takes memory.dirty_ratio 0 0
ok "dirty_bytes can be cleared" takes memory.dirty_bytes max max
ok "dirty_min can be cleared" takes memory.dirty_min 0 0
unpatch() {
	[ ! -e $patch ] || echo 0 >$patch/enabled
	soon test ! -e $patch
	! grep -q weir_livepatch /proc/modules || rmmod weir_livepatch
}
unpatch
rmmod weir

insmod /weir_livepatch.ko || exit 1
ok "loads beside a livepatch" insmod /weir.ko
for file in dirty_min dirty_bytes; do
	before=$(cat memory.$file)
	ok "memory.$file: setting it is refused" refuses memory.$file 16384 busy
	ok "memory.$file: the default is taken" takes memory.$file "$before" "$before"
done
ok "no record is kept for what was refused" is "$(cat /sys/kernel/weir/groups)" 0
unpatch
ok "takes a knob once the patch is gone" soon takes memory.dirty_min 8M 8388608
ok "in effect then" comes_to 1 stat a in_effect
rmmod weir
finish
