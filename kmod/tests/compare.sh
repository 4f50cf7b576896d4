# SPDX-License-Identifier: GPL-2.0-only
# Sourced after tap.sh by tests that hold weir against stock: one light writer
# beside a noisy one, first without a knob, then with, in the same boot.
#
# "Never worse than stock" is asked of three figures: the writer's rate, its
# longest write, and the most the host ever held.  Guests are emulated and share
# a machine, so the bounds are wide (half the rate; three times the longest write
# and two seconds; a tenth beyond the limit, which floors are part of, or what stock
# held: real-time tasks may go a quarter beyond it) and the figures are printed.
# With a limit of 32 MiB the host may hold 35 MiB.

limit=33554432
floor=8388608
seconds=${SECONDS_EACH:-3}
pace=2 # MiB/s
noisy_in=/mnt/d # nowhere: no noisy writer
priority=

# most_held FILE: the host's highest dirty + writeback in pages while FILE exists
most_held() {
	most=0
	while [ -e "$1" ]; do
		held=0
		while read -r key value; do
			case $key in
			nr_dirty | nr_writeback) held=$((held + value)) ;;
			esac
		done </proc/vmstat
		[ $held -le $most ] || most=$held
		usleep 50000
	done
	echo $most
}

# measured ARM DIRECTORY FIO-OPTION...: the light writer, in cgroup a, beside the
# noisy one; leaves KiB/s, longest write in ms and pages held in /tmp/ARM
measured() {
	arm=$1
	directory=$2
	shift 2
	sync
	if [ "$noisy_in" ]; then
		in_cgroup noisy fio --name=noisy --directory=$noisy_in --rw=write --bs=64k --size=256m \
			--numjobs=2 --thread --time_based --runtime=3600 --output=/dev/null &
		noisy=$!
		sleep 2
	fi
	touch /tmp/sampling
	most_held /tmp/sampling >/tmp/most &
	sampler=$!
	in_cgroup a $priority fio --name="$arm" --directory="$directory" --rw=write --bs=16k \
		--rate=${pace}m --size=$((pace * seconds))m --runtime=$((4 * seconds)) \
		--fallocate=none "$@" --output-format=terse >/tmp/terse
	status=$?
	rm /tmp/sampling
	wait $sampler
	echo 1 >/sys/fs/cgroup/noisy/cgroup.kill
	wait
	# terse version 3: 48 is the rate, 80 the longest write in microseconds
	awk -F';' -v most="$(cat /tmp/most)" '$1 == 3 { printf "%d %d %d\n", $48, $80 / 1000, most }' \
		/tmp/terse >/tmp/"$arm"
	rm -f "$directory/$arm".* /mnt/d/noisy.*
	return $status
}

figure() {
	awk -v n="$2" '{ print $n }' /tmp/"$1"
}

# knobs FLOOR CEILING of cgroup a; 0 and max leave stock behaviour
knobs() {
	echo "$1" >/sys/fs/cgroup/a/memory.dirty_min
	echo "$2" >/sys/fs/cgroup/a/memory.dirty_bytes
}

# compared NAME DIRECTORY FIO-OPTION...
compared() {
	name=$1
	shift
	knobs 0 max
	ok "$name: runs on stock" measured stock "$@"
	rmdir /sys/fs/cgroup/a
	mkdir /sys/fs/cgroup/a
	knobs $floor 24M
	ok "$name: runs with weir" measured weir "$@"
	echo "# compared: $name; KiB/s $(figure stock 1), $(figure weir 1);" \
		"longest write ms $(figure stock 2), $(figure weir 2);" \
		"host held pages $(figure stock 3), $(figure weir 3)"
	ok "$name: no slower" between $(($(figure stock 1) / 2)) "$(figure weir 1)" 100000000
	ok "$name: no longer stalls" between 0 "$(figure weir 2)" $((3 * $(figure stock 2) + 2000))
	bound=$(((limit + limit / 10) / $(page_size)))
	[ "$(figure stock 3)" -le $bound ] || bound=$(figure stock 3)
	ok "$name: the host stays within its limit" between 0 "$(figure weir 3)" $bound
}

# admitted NAME, left_alone NAME: what the floor did in the last comparison
admitted() {
	ok "$1: the floor admits" between 1 "$(stat a nr_floor_admitted)" 100000000
}
left_alone() {
	ok "$1: the floor stays out of it" is "$(stat a nr_floor_admitted)" 0
	ok "$1: so does the ceiling" is "$(stat a nr_ceiling_held)" 0
}

compare_begin() {
	insmod /weir.ko || exit 1
	limits $limit
	mkdir /sys/fs/cgroup/a /sys/fs/cgroup/noisy
}
