# SPDX-License-Identifier: GPL-2.0-only
# memory.dirty_weight: forms, hierarchy, and shares of a device.  Wants a slow
# disk "d".
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 16777216
mkdir light heavy

ok "the default is 100" is "$(cat light/memory.dirty_weight)" 100
ok "writing the default arms nothing" takes light/memory.dirty_weight 100 100
ok "nothing hooked without a weight" is "$(cat /sys/kernel/weir/hooked)" 0
for value in 0 10001 99999999999999999999; do
	ok "refuses $value" refuses light/memory.dirty_weight $value "result out of range"
done
for value in " " -1 1.5 1K max default; do
	ok "refuses '$value'" refuses light/memory.dirty_weight "$value" "Invalid argument"
done
ok "takes 1" takes light/memory.dirty_weight 1 1
ok "hooked for a weight, and not in writers' passes" is "$(cat /sys/kernel/weir/hooked) $(hooks)" "1 0"
ok "takes 10000" takes light/memory.dirty_weight 10000 10000
ok "and back" takes light/memory.dirty_weight 100 100
ok "idle without one" is "$(state)" idle

# an unprivileged owner of a delegated subtree, which is a light one
mkdir light/own light/other
chown 1000:1000 light light/cgroup.procs light/cgroup.subtree_control
echo +memory >light/cgroup.subtree_control
chown -R 1000:1000 light/own light/other
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
owner() {
	su user -s /bin/sh -c "echo -n '$2' >/sys/fs/cgroup/light/$1" 2>&1
}
ok "a delegated cgroup's weight is not its owner's to write" sh -c '
	su user -s /bin/sh -c "echo 1000 >/sys/fs/cgroup/light/memory.dirty_weight" 2>&1 |
	grep -q "ermission denied"'
owner own/memory.dirty_weight 10000
ok "below it its owner may share out as it likes" is "$(cat light/own/memory.dirty_weight)" 10000
echo 400 >heavy/memory.dirty_weight

# writer CGROUP: an unlimited writer
writer() {
	in_cgroup "$1" fio --name="$(echo "$1" | tr / _)" --directory=/mnt/d --rw=write --bs=64k --size=40m \
		--invalidate=0 --time_based --runtime=600 --fallocate=posix --output=/dev/null &
}
# written CGROUP: bytes written back so far
written() {
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i } END { print sum + 0 }' "$1/io.stat"
}
# portions: of light/own, light/other and heavy
portions() {
	echo "$(stat light/own weight_portion) $(stat light/other weight_portion) $(stat heavy weight_portion)"
}
# at_rest: no writer of light/other began to wait within two seconds
at_rest() {
	held=$(stat light/other nr_weight_held)
	sleep 2
	[ "$(stat light/other nr_weight_held)" != "$held" ] || echo yes
}
writer light/own
writer light/other
writer heavy
ok "weights below light share out what light has" comes_to "1980 20 8000" portions
# outruns: heavy's bytes written back were more than light's, for six seconds.  Due is
# four times, on a busy machine 1.5 was seen; without weights light's two flushers face one.
outruns() {
	h=$(written heavy) l=$(written light)
	sleep 6
	h=$(($(written heavy) - h)) l=$(($(written light) - l))
	echo "# heavy wrote $h bytes, light $l" >&2
	[ $h -le $((l * 5 / 4)) ] || echo yes
}
ok "the heavy one gets more than two light ones together" comes_to yes outruns
ok "the light ones were held" between 1 $(($(stat light/own nr_weight_held) + $(stat light/other nr_weight_held))) 1000000
echo 8M >light/other/memory.dirty_min
# fills: light/other holds more than its portion, 0.2 %, could bring it to
fills() {
	[ "$(stat light/other dirty)" -lt 4194304 ] || echo yes
}
ok "below its floor no writer is held" comes_to yes fills
echo 0 >light/other/memory.dirty_min
echo 1 >light/own/cgroup.kill
echo 1 >heavy/cgroup.kill
ok "alone on the device no writer is held" comes_to yes at_rest

# a hundredth: of a disk that is full of what was submitted before there were weights
mkdir least most
writer least
writer most
sleep 5
echo 10000 >most/memory.dirty_weight
echo 1 >light/other/cgroup.kill
# hundredths SECONDS: of what both wrote, the part of the one that a hundredth is due to, times ten.
# It may have been lent a part, 1 MiB, while the other waited for a journal: twice what is due.
hundredths() {
	l=$(written least) m=$(written most)
	sleep "$1"
	l=$(($(written least) - l)) m=$(($(written most) - m))
	echo "# it wrote $l bytes, the other $m"
	between 5 $((l * 1000 / (l + m + 1))) 40
}
sleep 3
ok "one of a hundredth has no more" hundredths 8
sleep 4
ok "and is not starved for what it had before" hundredths 15
echo 1 >least/cgroup.kill
echo 1 >most/cgroup.kill
writer light/other

writer heavy
ok "held again" comes_to 8000 stat heavy weight_portion
echo Y >/sys/module/weir/parameters/observe
ok "observed, no writer is held" comes_to yes at_rest
# counted: a pass beyond its portion was, once its cgroup came to make one
counted() {
	[ "$(stat light/other nr_would_wait)" -eq 0 ] || echo yes
}
ok "but counted" comes_to yes counted
echo N >/sys/module/weir/parameters/observe
ok "held once more" comes_to 8000 stat heavy weight_portion
ok "unloads while tasks are held" rmmod weir
echo 1 >light/cgroup.kill
echo 1 >heavy/cgroup.kill
# the shell says of each that it was killed, and the plan is to be the last line
{ wait; } 2>/dev/null
finish
