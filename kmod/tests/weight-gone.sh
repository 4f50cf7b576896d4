# SPDX-License-Identifier: GPL-2.0-only
# weight-gone.sh: shares of two floods stay what they are while a cgroup that once wrote is removed.
# What a device has written is summed up over its wbs, and falls with the one that goes.
#
# Wants a disk "d" with ext4 and 16 MB/s, one CPU, 1 GB, and to count instructions.
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
echo 1048576 >/proc/sys/vm/dirty_background_bytes
mkdir heavy light gone
echo 900 >heavy/memory.dirty_weight
echo 100 >light/memory.dirty_weight
for group in gone gone gone; do
	in_cgroup $group dd if=/dev/zero of=/mnt/d/$group bs=64k count=512 conv=notrunc,fsync 2>/dev/null
done
rm /mnt/d/gone
sync
for group in heavy light; do
	in_cgroup $group sh -c 'while :; do
		dd if=/dev/zero of=/mnt/d/$0 bs=64k count=512 conv=notrunc; done' $group 2>/dev/null &
done
written() {
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' "$1/io.stat"
}
# of 1000 KiB that both have written in four seconds, the heavy one's
share() {
	heavy=$(written heavy) light=$(written light)
	sleep 4
	heavy=$(($(written heavy) - heavy)) light=$(($(written light) - light))
	echo $((heavy * 1000 / (heavy + light)))
}
sleep 6
before=$(share)
rmdir gone
first=$(share) second=$(share)
sleep 8
later=$(share)
echo "# of 1000, with 900 : 100: $before, after a cgroup was removed $first, $second, later $later"
ok "before" between 850 "$before" 950
ok "in the first four seconds" between 850 "$first" 950
ok "and the next" between 850 "$second" 950
ok "and later" between 850 "$later" 950
echo 1 >heavy/cgroup.kill
echo 1 >light/cgroup.kill
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
