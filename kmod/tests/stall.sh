# SPDX-License-Identifier: GPL-2.0-only
# stall.sh [CHILDREN]: a disk on which nothing of a window's is written for a while gets no more of it.
#
# p has a window of 256 KiB, and 64 children that write now and then.  Their parent is held by one
# io.max, or the disk is taken by a direct write of another cgroup.  No child's pages are overtaken,
# and none may take room for each that is known to move: four windows at most are under writeback,
# and an fsync beside them waits for little more when that io.max is lifted.
#
# Wants a disk "d" with ext4 and 16 MB/s, one CPU, 1 GB, and to count instructions.
. /tap.sh
children=${1:-64}
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 134217728
echo 1048576 >/proc/sys/vm/dirty_background_bytes
mkdir p other
echo "+memory +io" >p/cgroup.subtree_control
device=$(awk '$5 == "/mnt/d" { print $3 }' /proc/self/mountinfo)
mkdir p/a
echo "+memory +io" >p/a/cgroup.subtree_control
dd if=/dev/zero of=/mnt/d/log bs=64k count=16 2>/dev/null
dd if=/dev/zero of=/mnt/d/large bs=1M count=32 2>/dev/null
sync
echo 256K >p/memory.writeback_bytes
for i in $(seq "$children"); do
	mkdir p/a/$i
	in_cgroup p/a/$i sh -c 'while :; do
		dd if=/dev/zero of=/mnt/d/c$0 bs=64k count=8 conv=notrunc; sleep 0.5; done' $i 2>/dev/null &
done
# KiB below p under writeback, the most of one look each 50 ms
peak() { # SECONDS
	most=0
	for look in $(seq $(($1 * 20))); do
		now=$(awk '$1 == "file_writeback" { print $2 / 1024 }' p/memory.stat)
		[ "$now" -le "$most" ] || most=$now
		sleep 0.05
	done
	echo $most
}
now_ms() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}
# ms that an fsync of another cgroup takes
fsync_ms() {
	begun=$(now_ms)
	in_cgroup other dd if=/dev/zero of=/mnt/d/log bs=4k count=1 conv=notrunc,fsync 2>/dev/null
	echo $(($(now_ms) - begun))
}
sleep 5
open=$(peak 3)
# some pages are written, and all of them late
echo "$device wbps=262144" >p/a/io.max
slow=$(peak 20)
echo "$device wbps=max" >p/a/io.max
sleep 5
echo "$device wbps=8192" >p/a/io.max
held=$(peak 4)
echo "$device wbps=max" >p/a/io.max
wait_ms=$(fsync_ms)
sleep 3
in_cgroup other dd if=/dev/zero of=/mnt/d/large bs=32M count=1 oflag=direct conv=notrunc 2>/dev/null &
burst=$!
stalled=$(peak 3)
wait $burst
echo "# under writeback, KiB: $open, slowed by one io.max $slow, held by it $held, while another takes the disk $stalled"
echo "# an fsync as that io.max is lifted: $wait_ms ms"
ok "the window holds" between 64 "$open" 384
ok "slowed above the disk" between 64 "$slow" 1024
ok "held above the disk" between 64 "$held" 1024
ok "while another takes the disk" between 64 "$stalled" 1024
echo 1 >p/cgroup.kill
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
