# SPDX-License-Identifier: GPL-2.0-only
# missed.sh [WRITERS] [SECONDS]: so many writers at once, half of them under a
# floor and half under a ceiling, and no probe may miss a call.  Wants a disk "d"
# and, to be hard, 4 CPUs and preempt=full.
. /tap.sh
writers=${1:-100}
seconds=${2:-10}
limits 33554432
cd /sys/fs/cgroup || exit 1
mkdir floor ceiling
echo 1000000 >/proc/sys/kernel/threads-max
insmod /weir.ko || exit 1
echo 8M >floor/memory.dirty_min
echo 8M >ceiling/memory.dirty_bytes

writers_in() {
	mkdir -p "/mnt/d/$1"
	in_cgroup "$1" fio --name=w --directory="/mnt/d/$1" --rw=write --bs=4k --size=1m --fallocate=none --thread \
		--numjobs=$((writers / 2)) --time_based --runtime="$seconds" --group_reporting --output=/dev/null
}

writers_in floor &
floor=$!
writers_in ceiling &
wait $floor $!
ok "the floor admitted passes" between 1 "$(stat floor nr_floor_admitted)" 1000000000
ok "the ceiling held passes" between 1 "$(stat ceiling nr_ceiling_held)" 1000000000
ok "some were put to sleep ($(stat ceiling nr_throttled) pauses)" between 1 "$(stat ceiling nr_throttled)" 1000000000
ok "none was missed of $(stat floor nr_passes) and $(stat ceiling nr_passes) passes" is "$(cat /sys/kernel/weir/missed)" 0
ok "none had arguments of another kind" is "$(cat /sys/kernel/weir/misfit)" 0
ok "unloads" rmmod weir
finish
