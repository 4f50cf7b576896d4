# SPDX-License-Identifier: GPL-2.0-only
# A knob can be cleared while a livepatch holds the throttle; what is refused is refused as busy.
# However often, it costs no more than a beat does.  Wants weir_livepatch.ko.
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
ok "drain_seconds: setting it is refused" \
	refuses /sys/module/weir/parameters/drain_seconds 5 busy
ok "drain_seconds: the default is taken" \
	takes /sys/module/weir/parameters/drain_seconds 0 0

# who writes what is refused has each knob evaluated anew ten times a second at most
cd /sys/kernel/tracing || exit 1
echo p:rounds weir_floors_evaluate >kprobe_events
echo 1 >events/kprobes/rounds/enable
begun_cs=$(awk '{ print $1 * 100 }' /proc/uptime)
refused=0
for i in $(seq 500); do
	(echo 8M >/sys/fs/cgroup/a/memory.dirty_min) 2>/dev/null || refused=$((refused + 1))
done
took_cs=$(($(awk '{ print $1 * 100 }' /proc/uptime) - begun_cs))
rounds=$(awk '$1 == "rounds" { print $2 }' kprobe_profile)
echo 0 >events/kprobes/rounds/enable
echo >kprobe_events
cd /sys/fs/cgroup/a || exit 1
ok "500 writes are refused" is $refused 500
ok "within $took_cs hundredths of a second, with $rounds rounds" \
	between 0 "$rounds" $((took_cs / 10 + 2))
unpatch
ok "takes a knob once the patch is gone" soon takes memory.dirty_min 8M 8388608
ok "in effect then" comes_to 1 stat a in_effect
rmmod weir
finish
