# SPDX-License-Identifier: GPL-2.0-only
# lent.sh: a cgroup of a hundredth that fills the host's limit keeps no disk idle.  The writer of the
# other one is throttled then, dirties a few pages at a time, and is not waited for.
# Wants --count-instructions and a disk "d" of 200 MB/s.
. /tap.sh
insmod /weir.ko || exit 1
limits 67108864
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir least most
disk=$(basename "$(readlink -f /dev/weir/d)")

for group in least most; do
	in_cgroup $group fio --name=$group --directory=/mnt/d --rw=write --bs=64k --size=300m --invalidate=0 \
		--fallocate=none --time_based --runtime=600 --output=/dev/null &
done
sleep 15
echo 10000 >most/memory.dirty_weight
echo 100 >least/memory.dirty_weight
sleep 4

written() {
	awk '{ printf "%.0f", $7 * 512 }' "/sys/block/$disk/stat"
}

of() {
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i } END { printf "%.0f", sum }' "$1/io.stat"
}

all=$(written) most=$(of most)
sleep 8
all=$((($(written) - all) / 8)) most=$((($(of most) - most) / 8))
ok "the disk writes" between 160000000 $all 250000000
ok "most of it for the one of the most weight" between 144000000 $most 250000000
rmmod weir
for group in least most; do
	echo 1 >$group/cgroup.kill
done
{ wait; } 2>/dev/null
finish
