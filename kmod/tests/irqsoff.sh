# SPDX-License-Identifier: GPL-2.0-only
# irqsoff.sh [SECONDS]: the longest sections with interrupts, or preemption, off that weir adds,
# while cgroups with every knob write, come and go.
# Wants --make WEIR_IRQSOFF=y, --count-instructions, one CPU, and a disk "d"; an instruction is a nanosecond.
# Sections are those of weir's own locks and of the kernel's percpu_counter_sum() that weir calls.
. /tap.sh
seconds=${1:-20}
# what a real-time host notices is some microseconds
most=${MOST:-5000}
sections=/sys/module/weir/parameters/irqsoff
cd /sys/fs/cgroup || exit 1
limits 33554432
insmod /weir.ko tiers=0 || exit 1

# eight levels, a knob at each
here=a
mkdir $here
for level in 1 2 3 4 5 6 7; do
	echo "+memory +io" >$here/cgroup.subtree_control
	echo $((level * 50)) >$here/memory.dirty_weight
	echo $((40 - level))M >$here/memory.dirty_bytes
	echo $((9 - level))M >$here/memory.dirty_min
	here=$here/d
	mkdir $here
done
mkdir b
echo 1M >$here/memory.dirty_min
echo 400 >b/memory.dirty_weight
echo 8M >b/memory.dirty_bytes

for group in $here a/d b; do
	name=$(echo $group | tr / _)
	# an inner cgroup takes no process
	[ ! -e $group/d ] || { mkdir $group/leaf; group=$group/leaf; }
	in_cgroup $group fio --name="$name" --directory=/mnt/d --rw=randwrite --bs=64k --size=32m \
		--numjobs=2 --thread --time_based --runtime="$seconds" --output=/dev/null &
done
end=$(($(cut -d. -f1 /proc/uptime) + seconds))
rounds=0
while [ "$(cut -d. -f1 /proc/uptime)" -lt $end ]; do
	mkdir c
	echo 4M >c/memory.dirty_bytes
	echo 200 >c/memory.dirty_weight
	dirty /mnt/d/c 4 c
	cat c/memory.dirty_stat a/memory.dirty_stat >/dev/null
	rmdir c
	rounds=$((rounds + 1))
done
wait
echo "# $rounds cgroups came and went; passes: $(stat $here nr_passes) below, $(stat b nr_passes) in b"
ok "there were passes" between 1 "$(stat b nr_passes)" 1000000000
sort -k3,3nr $sections | sed 's/^/section /'
for kind in irqs preempt; do
	longest=$(awk -v kind=$kind '$1 == kind && $3 > most { most = $3 } END { print most + 0 }' $sections)
	echo "irqsoff $kind $longest"
	ok "no section of more than $most ns with $kind off" between 0 "$longest" "$most"
done
ok "sections were seen" test -s $sections
ok "unloads" rmmod weir
finish
