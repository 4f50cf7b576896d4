# SPDX-License-Identifier: GPL-2.0-only
# turns.sh: a window that has no room for a second lets a part past it, and a neighbour's full window
# takes none of these turns.  Two tenants below one parent, "a" and "b", each have a child whose io.max
# keeps the window full, and one that writes past it: of that nothing is known before its first turn.
#
# Wants a disk "d" with ext4, one CPU, 1 GB, and to count instructions.
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
mkdir p
echo "+memory +io" >p/cgroup.subtree_control
device=$(awk '$5 == "/mnt/d" { print $3 }' /proc/self/mountinfo)

# tenant NAME: below p, with a window that stays full, and a writer beside what fills it
tenant() {
	mkdir p/"$1"
	echo "+memory +io" >p/"$1"/cgroup.subtree_control
	mkdir p/"$1"/full p/"$1"/writer
	echo 64K >p/"$1"/memory.writeback_bytes
	echo "$device wbps=8192" >p/"$1"/full/io.max
	in_cgroup p/"$1"/full dd if=/dev/zero of=/mnt/d/full-"$1" bs=64k count=64 conv=notrunc 2>/dev/null &
	sleep 4
	in_cgroup p/"$1"/writer sh -c 'while :; do
		dd if=/dev/zero of=/mnt/d/writer-"$0" bs=64k count=400 conv=notrunc; done' "$1" 2>/dev/null &
	sleep 4
}
# KiB that b's writer has had written so far
written() {
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' p/b/writer/io.stat
}
# in 4 s
rate() {
	before=$(written)
	sleep 4
	echo $(($(written) - before))
}

echo 100 >/proc/sys/vm/dirty_writeback_centisecs
echo 300 >/proc/sys/vm/dirty_expire_centisecs
echo 1048576 >/proc/sys/vm/dirty_background_bytes
tenant b
alone=$(rate)
tenant a
beside=$(rate)
echo "# b's writer, KiB in 4 s: alone $alone, beside a full window of a neighbour $beside"
ok "parts go past a full window" between 16384 "$alone" 100000
# the writers of both share the disk
ok "a neighbour's takes no turn" between $((alone * 3 / 8)) "$beside" 100000
echo 1 >p/cgroup.kill
{ wait; } 2>/dev/null
soon grep -q "^populated 0" p/cgroup.events
# while flushers wait for turns: one tenant goes at once, the module in the midst of the other
ok "a tenant goes" rmdir p/a/full p/a/writer p/a
sleep 2
ok "unloads" rmmod weir
ok "the other goes" rmdir p/b/full p/b/writer p/b p
finish
