# SPDX-License-Identifier: GPL-2.0-only
# flush-cost.sh [SECONDS]: instructions that the guest executes for each MiB of a flood that it writes
# back, without weir, with a window or a weight on another cgroup, and on the flood's own.
# Prints lines "flush WHERE INSTRUCTIONS MIB": what the CPU executed, and what the disk wrote.
# Wants --count-instructions and a disk "d"; an instruction takes a nanosecond there.
. /tap.sh
seconds=${1:-20}
limits 67108864
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir here other
disk=$(basename "$(readlink -f /dev/weir/d)")

# Nanoseconds that the CPU was not idle, in steps of 10 ms.  Idle time is measured, the time of
# tasks is sampled by the timer, so what is not idle is what counts.
busy() {
	idle=$(awk '$1 == "cpu" { print $5 + $6 }' /proc/stat)
	awk -v idle="$idle" '{ printf "%.0f\n", ($1 * 100 - idle) * 10000000 }' /proc/uptime
}

written() {
	awk '{ print $7 * 512 }' "/sys/block/$disk/stat"
}

measure() { # WHERE
	in_cgroup here sh -c 'exec dd if=/dev/zero of=/mnt/d/flood bs=64k count=100000 conv=notrunc' 2>/dev/null &
	flood=$!
	sleep 6
	from=$(busy) mib=$(written)
	sleep "$seconds"
	executed=$(($(busy) - from)) mib=$((($(written) - mib) / 1048576))
	echo 1 >here/cgroup.kill
	wait $flood
	rm /mnt/d/flood
	sync
	echo "flush $1 $executed $mib"
	ok "$1: the disk wrote" [ "$mib" -gt 0 ]
}

measure absent
insmod /weir.ko
measure idle
echo 4M >other/memory.writeback_bytes
measure window-elsewhere
echo max >other/memory.writeback_bytes
for window in 256K 1M 4M; do
	echo $window >here/memory.writeback_bytes
	measure window-$window
done
echo max >here/memory.writeback_bytes
echo 400 >other/memory.dirty_weight
measure weight-elsewhere
echo 400 >here/memory.dirty_weight
measure weight-here
rmmod weir
measure unloaded
finish
