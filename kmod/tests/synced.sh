# SPDX-License-Identifier: GPL-2.0-only
# synced.sh: a cgroup of little weight that syncs more than it is due gets its other pages written.
#
# "heavy" has 100 times the weight of "light" and floods the disk. "light" writes and syncs a file
# of 1 MiB twice a second, which no weight holds, and dirties another one of 512 KiB once.  Charged
# for its syncs, its flusher would wait for ever.
#
# Wants a disk "d" with ext4 and 16 MB/s, one CPU, 1 GB, and to count instructions.
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
echo 100 >/proc/sys/vm/dirty_writeback_centisecs
echo 300 >/proc/sys/vm/dirty_expire_centisecs
mkdir p
echo "+memory +io" >p/cgroup.subtree_control
mkdir p/heavy p/light
echo 10000 >p/heavy/memory.dirty_weight

# KiB of the file's pages that are dirty; those of the synced file come and go
dirty_kib() {
	least=1048576
	for try in 1 2 3 4 5 6 7 8; do
		now=$(awk '$1 == "file_dirty" { print $2 / 1024 }' p/light/memory.stat)
		[ "$now" -ge "$least" ] || least=$now
		sleep 0.13
	done
	echo "$least"
}

in_cgroup p/heavy sh -c 'while :; do
	dd if=/dev/zero of=/mnt/d/heavy bs=64k count=4096 conv=notrunc; done' 2>/dev/null &
sleep 10
in_cgroup p/light sh -c 'dd if=/dev/zero of=/mnt/d/left bs=64k count=8 2>/dev/null
	while :; do dd if=/dev/zero of=/mnt/d/synced bs=64k count=16 conv=notrunc,fsync; sleep 0.5; done' \
	2>/dev/null &
sleep 5
before=$(dirty_kib)
sleep 50
after=$(dirty_kib)
echo "# dirty, KiB: $before after 5 s, $after after 55"
ok "there is something to write" between 64 "$before" 4096
ok "it is written" between 0 "$after" 128
echo 1 >p/cgroup.kill
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
