# SPDX-License-Identifier: GPL-2.0-only
# siblings.sh: a bound of root's on a parent, beside children that do not pay.
#
# Below a bound of 2M on p, b writes 4 KiB every 4 ms, which is half of it.  Beside it, in a, are
#   honest   eight writers: the parent's bound is kept within 3 %
#   killed   writers that are killed before they pay, over and over: b keeps 9/10 of its rate
#            alone, and the host dirties no more than the parent's bound and a tenth
#   short    processes that write 20 KiB each and exit: the same
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
# dirtied SECONDS: KiB/s of the whole host, in so long
dirtied() {
	before=$(dirtied_pages)
	sleep "$1"
	echo $((($(dirtied_pages) - before) * 4 / $1))
}
dirtied_pages() {
	awk '$1 == "nr_dirtied" { print $2 }' /proc/vmstat
}
# keeps_bound NAME: a parent's bound of 2M, by what the host dirties in 20 s, once the first calls
# of its tasks are over
keeps_bound() {
	sleep 12
	got=$(dirtied 20)
	echo "# $1: the host dirties $got KiB/s below a bound of 2048"
	ok "$1: the parent's bound is kept" between 512 "$got" 2253
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
	# with and without the bound: such writers take CPU time, too
	for bound in max 2M; do
		echo $bound >$root/p/memory.dirty_bandwidth
		below p/a /mnt/d/a 15 killed 32 $bytes 100 >/tmp/a &
		below p/b /mnt/d/b 15 steady >/tmp/b.$bound
		wait
		echo "# beside killed writers of $bytes bytes, bound $bound: b $(rate b.$bound) KiB/s," \
			"longest gap $(cut -d ' ' -f 2 /tmp/b.$bound) ms; a $(rate a) KiB/s"
		clear_files
	done
	below p/a /mnt/d/a 34 killed 32 $bytes 100 >/tmp/a &
	below p/b /mnt/d/b 34 steady >/tmp/b &
	keeps_bound "killed writers of $bytes bytes"
	wait
	clear_files
	ok "killed writers of $bytes bytes: b keeps 9/10" \
		between $(($(rate b.max) * 9 / 10)) "$(rate b.2M)" 1000000
	# what they owe, two minutes at most, is a's
	below p/b /mnt/d/b 10 steady >/tmp/b
	echo "# afterwards b $(rate b) KiB/s"
	ok "and does not pay for them afterwards" between $(($(rate alone) * 8 / 10)) "$(rate b)" 1000
	clear_files
done

below p/a /mnt/d/a 34 short 8 20480 >/tmp/a &
below p/b /mnt/d/b 34 steady >/tmp/b &
keeps_bound "short processes"
wait
echo "# beside short processes: b $(rate b) KiB/s"
ok "short processes: b keeps 9/10" between $(($(rate alone) * 9 / 10)) "$(rate b)" 1000
clear_files

# with no debts from before
mkdir $root/q
echo 4M >$root/q/memory.dirty_bandwidth
below q /mnt/x/a 40 timed 16 >/tmp/a
echo "# with timers: $(rate a) KiB/s below a bound of 4096"
ok "timers: the bound is kept within 10 %" between 3686 "$(rate a)" 4506
ok "unloads" rmmod weir
finish
