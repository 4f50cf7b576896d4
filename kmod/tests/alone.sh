# SPDX-License-Identifier: GPL-2.0-only
# alone.sh: what a cgroup writes by fsync while nothing else competes for the disk is not owed to
# the one that comes next.  Wants a disk "d" with ext4, 16 MB/s, one CPU, 1 GB, and to count
# instructions.
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
mkdir heavy light
echo 300 >heavy/memory.dirty_weight

floods() { # CGROUP
	in_cgroup "$1" dd if=/dev/zero of=/mnt/d/"$1" bs=64k count=4000 conv=notrunc 2>/dev/null &
}
written() { # CGROUP: KiB
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' "$1"/io.stat
}
# in the first round heavy has no flusher that is known by then
for round in 1 2 3; do
	in_cgroup heavy dd if=/dev/zero of=/mnt/d/synced bs=1M count=60 conv=fsync 2>/dev/null
	floods light
	floods heavy
	usleep 500000
	h=$(written heavy) l=$(written light)
	sleep 2
	h=$(($(written heavy) - h)) l=$(($(written light) - l))
	echo "# round $round: heavy $h KiB, light $l KiB"
	ok "three to one after a sync of heavy's own" between 25 $((h * 10 / (l + 1))) 35
	echo 1 >heavy/cgroup.kill
	echo 1 >light/cgroup.kill
	{ wait; } 2>/dev/null
	rm -f /mnt/d/heavy /mnt/d/light /mnt/d/synced
	sync
done
ok "unloads" rmmod weir
finish
