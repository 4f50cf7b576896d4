# SPDX-License-Identifier: GPL-2.0-only
# What a floor's task rewrites of another cgroup's files counts against the floor, on however many
# devices it does so in turn.  A group remembers eight.  Wants
# to count instructions, one CPU, the driver brd, and a disk (for mkfs.ext4).
. /tap.sh
insmod /weir.ko || exit 1
modprobe brd rd_nr=9 rd_size=65536 || exit 1
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
limits 268435456
echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/b /sys/fs/cgroup/c
echo 192M >/sys/fs/cgroup/b/memory.dirty_min

# a filesystem on each of nine disks, with a file of c's and one of b's: what b dirtied of its own
# vouches for as much, once
shared=
for i in 0 1 2 3 4 5 6 7 8; do
	mkdir /tmp/$i
	mkfs.ext4 -q -F /dev/ram$i && mount /dev/ram$i /tmp/$i || exit 1
	in_cgroup c dd if=/dev/zero of=/tmp/$i/shared bs=1M count=4 2>/dev/null
	shared=$shared:/tmp/$i/shared
done
sync
for i in 0 1 2 3 4 5 6 7 8; do
	in_cgroup b dd if=/dev/zero of=/tmp/$i/own bs=1M count=8 2>/dev/null
done

# one task rewrites c's files on the first N disks, 32 pages of each in turn
rewrites() { # DISKS
	in_cgroup b fio --name=b --thread --rw=write --bs=4k --invalidate=0 --fallocate=none \
		--filename="$(echo "${shared#:}" | cut -d : -f 1-"$1")" \
		--file_service_type=roundrobin:32 --size=$(($1 * 4))m >/tmp/fio.out
}
foreign() {
	awk '$1 == "foreign" { print $2 }' /sys/fs/cgroup/b/memory.dirty_stat
}
ok "eight disks are written to" rewrites 8
before=$(foreign)
ok "and what is another's is foreign: $before bytes of 33,554,432" between 29000000 "$before" 36000000
sync
ok "nine are" rewrites 9
after=$(foreign)
ok "and it is foreign there, too: $((after - before)) bytes of 37,748,736" \
	between 34000000 $((after - before)) 40000000
for i in 0 1 2 3 4 5 6 7 8; do
	umount /tmp/$i
done
rmmod weir
finish
