# SPDX-License-Identifier: GPL-2.0-only
# extents.sh [MIB]: whether a window cuts files to pieces.  A file is written without a window and with
# windows, once in order and once 64 KiB at a time in random order: its extents, the commits of ext4's
# journal, write requests of the disk.  At most 1.1 times as many extents and commits as without; from a
# window of 2 MiB on, 1.5 times as many requests.  Wants a disk "d" and the package e2fsprogs.
. /tap.sh
mib=${1:-1024}
insmod /weir.ko || exit 1
limits 67108864
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir here
disk=$(basename "$(readlink -f /dev/weir/d)")

requests() {
	awk '{ print $5 }' "/sys/block/$disk/stat"
}

commits() {
	cat /proc/fs/jbd2/"$disk"-*/info 2>/dev/null | awk '$2 == "transactions" { print $1; exit }'
}

# measure WINDOW ORDER: sets extents, made (commits), sent (requests)
measure() {
	echo "$1" >here/memory.writeback_bytes
	sync
	sent=$(requests) made=$(commits)
	in_cgroup here fio --name=file --filename=/mnt/d/file --rw="$2" --bs=64k --size="${mib}m" \
		--fallocate=none --randrepeat=1 --end_fsync=0 --output=/dev/null
	# what is left of it is written by a sync, which no window holds
	sync
	sent=$(($(requests) - sent)) made=$(($(commits) - ${made:-0}))
	extents=$(filefrag /mnt/d/file | sed 's/.*: \([0-9]*\) extent.*/\1/')
	rm /mnt/d/file
	echo "extents $1 $2: $extents extents, $made commits, $sent requests"
}

for order in write randwrite; do
	measure max $order
	stock_extents=$extents stock_made=$made stock_sent=$sent
	for window in 256K 1M 2M 8M; do
		measure $window $order
		ok "$window, $order: at most 1.1 times the extents" [ $((extents * 10)) -le $((stock_extents * 11)) ]
		ok "$window, $order: and commits" [ $((made * 10)) -le $((stock_made * 11 + 10)) ]
		case $window in
		2M | 8M) ok "$window, $order: 1.5 times the requests" [ $((sent * 10)) -le $((stock_sent * 15)) ] ;;
		esac
	done
done
finish
