# SPDX-License-Identifier: GPL-2.0-only
# siblings.sh: a bound of root's on a parent, beside children that do not pay.
#
# Below a bound of 2M on p, b writes 4 KiB every 4 ms, which is half of it.  Beside it, in a, are
#   honest   eight writers: the parent's bound is kept within 3 %
#   killed   writers that are killed before they pay, over and over: b keeps 9/10 of its rate alone
# On disk "x", sixteen writers whose waits a timer signal interrupts keep the least bound within
# 10 %.
#
# Wants /siblings, a disk "d" with ext4, a disk "x" with xfs.  On one CPU that counts instructions.
. /tap.sh
root=/sys/fs/cgroup

# below GROUP FILE SECONDS WAY...: prints KiB/s, and ms
below() {
	group=$1 file=$2 seconds=$3 way=$4
	shift 4
	in_cgroup "$group" /siblings "$way" "$file" "$seconds" "$@"
}
rate() {
	cut -d ' ' -f 1 "/tmp/$1"
}
clear_files() {
	rm -f /mnt/d/*.[0-9]* /mnt/x/*.[0-9]*
	sync
}

ok "loads" insmod /weir.ko
echo "+memory +io" >$root/cgroup.subtree_control
mkdir -p $root/p/a $root/p/b
echo "+memory +io" >$root/p/cgroup.subtree_control
limits 268435456
echo 2M >$root/p/memory.dirty_bandwidth

below p/b /mnt/d/b 9 steady >/tmp/alone
echo "# alone: $(rate alone) KiB/s, longest gap $(cut -d ' ' -f 2 /tmp/alone) ms"
ok "alone, b is not held" between 900 "$(rate alone)" 1000
clear_files

below p/a /mnt/d/a 15 honest 8 >/tmp/a &
below p/b /mnt/d/b 15 honest 8 >/tmp/b
wait
echo "# honest: a $(rate a) KiB/s, b $(rate b)"
ok "honest writers: the parent's bound is kept" between 1987 $(($(rate a) + $(rate b))) 2109
clear_files

for bytes in 16384 131072; do
	below p/a /mnt/d/a 15 killed 32 $bytes 100 >/tmp/a &
	below p/b /mnt/d/b 15 steady >/tmp/b
	wait
	echo "# beside killed writers of $bytes bytes: b $(rate b) KiB/s, longest gap" \
		"$(cut -d ' ' -f 2 /tmp/b) ms; a $(rate a) KiB/s"
	ok "killed writers of $bytes bytes: b keeps 9/10" \
		between $(($(rate alone) * 9 / 10)) "$(rate b)" 1000000
	clear_files
	# a bound's debt is 32 s at most
	sleep 40
done

echo 64K >$root/p/memory.dirty_bandwidth
below p/a /mnt/x/a 60 timed 16 >/tmp/a
echo "# with timers: $(rate a) KiB/s below a bound of 64"
ok "timers: the bound is kept within 10 %" between 58 "$(rate a)" 70
ok "unloads" rmmod weir
finish
