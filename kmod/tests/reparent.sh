# SPDX-License-Identifier: GPL-2.0-only
# Cgroups removed while their pages are dirty: the subtree's count stays the kernel's, and when the
# pages are clean nothing is kept.  Since 7.1 the kernel makes the pages the parent's, but leaves
# the counters.
# Wants a disk "d".
. /tap.sh
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
echo 360000 >/proc/sys/vm/dirty_expire_centisecs
limits 536870912
root=/sys/fs/cgroup
mkdir $root/p
echo +memory >$root/p/cgroup.subtree_control

# leaves FILE [SECONDS]: 2 MiB dirty, by a cgroup that lived so long
leaves() {
	mkdir $root/p/child
	sleep "${2:-0}"
	dirty /mnt/d/"$1" 2 p/child
	sleep "${2:-0}"
	rmdir $root/p/child
}
# the same by a child of the child
leaves_deeper() {
	mkdir $root/p/child
	echo +memory >$root/p/child/cgroup.subtree_control
	mkdir $root/p/child/inner
	sleep 1
	dirty /mnt/d/"$1" 2 p/child/inner
	rmdir $root/p/child/inner
	sleep 1
	rmdir $root/p/child
}
same() {
	weir=$(($(stat "$1" subtree_dirty) + $(stat "$1" subtree_writeback)))
	kernel=$(awk '/^file_dirty |^file_writeback /{ n += $2 } END { print n }' $root/"$1"/memory.stat)
	is "$weir" "$kernel"
}
groups() {
	cat /sys/kernel/weir/groups
}
many() {
	for i in 1 2 3 4; do
		leaves "$1$i" "$2"
	done
}

# history: pages of children that were cleaned, and others that were not, before weir came
many before
sync
many kept
insmod /weir.ko || exit 1
echo 64M >$root/p/memory.dirty_bytes
sleep 1
ok "what came before weir is counted" soon same p
ok "and not as nothing" between 8000000 "$(stat p subtree_dirty)" 9000000
sync
ok "nothing is left after sync" soon same p
ok "really nothing" is "$(stat p subtree_dirty)" 0

many long 1
ok "removed ones that had a record" soon same p
ok "8 MiB of them" between 8000000 "$(stat p subtree_dirty)" 9000000
many short
ok "others too short-lived for one" soon same p
ok "16 MiB by now" between 16000000 "$(stat p subtree_dirty)" 18000000
leaves_deeper deep
ok "removed below removed" soon same p
mkdir $root/p/other
dirty /mnt/d/other 4 p/other
ok "beside a living one" soon same p
ok "22 MiB by now" between 22000000 "$(stat p subtree_dirty)" 25000000
sync
ok "nothing is left of any" soon same p
ok "neither here nor there" is "$(stat p subtree_dirty) $(stat p/other subtree_dirty)" "0 0"
ok "no record of removed ones" comes_to 2 groups
many again
ok "what is dirtied then counts in full" soon same p
ok "all 8 MiB" between 8000000 "$(stat p subtree_dirty)" 9000000

# removed below removed, before anything is folded: charged to a cgroup at all times.  memory.stat would fold.
sync
mkdir $root/p/child
echo +memory >$root/p/child/cgroup.subtree_control
mkdir $root/p/child/inner
sleep 1
dirty /mnt/d/both 4 p/child/inner
rmdir $root/p/child/inner $root/p/child
least=$(stat p subtree_dirty)
for i in $(seq 30); do
	now=$(stat p subtree_dirty)
	[ "$now" -ge "$least" ] || least=$now
	usleep 100000
done
ok "removed below removed is always charged: $least bytes at least" between 4000000 "$least" 9000000
ok "and in the end the parent's" soon same p

# a tenant's loop, that dirties as it can: below the ceiling at all times, as far as a beat sees
sync
most=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	mkdir $root/p/loop
	dirty /mnt/d/loop$i 6 p/loop
	rmdir $root/p/loop
	now=$(awk '/^file_dirty /{ print $2 }' $root/p/memory.stat)
	[ "$now" -le $most ] || most=$now
	sync -f /mnt/d/loop$i
done
echo "# the loop held $most bytes at most"
ok "the loop cannot dig a hole" soon same p
sync
# what cgroups without a record reported is held against the next of them for 2 to 4 s (kmod/tree.c)
sleep 5
many last
ok "and what comes after it counts" soon same p
ok "all 8 MiB of it" between 8000000 "$(stat p subtree_dirty)" 9000000
sync
ok "records are gone" comes_to 2 groups
rmdir $root/p/other
rmmod weir
finish
