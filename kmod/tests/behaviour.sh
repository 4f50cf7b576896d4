# SPDX-License-Identifier: GPL-2.0-only
# behaviour.sh [WAY...]: the ways to write, held against stock: mmap, io_uring,
# real-time tasks, O_DSYNC, O_DIRECT, a file shared by two cgroups, laptop mode.
# All of them by default.  Wants a disk "d" of 32M/s, the package util-linux.
. /tap.sh
. /compare.sh
compare_begin

# the pass is made in the page fault
way_mmap() {
	compared mmap /mnt/d --ioengine=mmap
	admitted mmap
}

# the first try must not wait (BDP_ASYNC); what cannot go on is handed to a
# worker, which is a thread of the task and in its cgroup
way_io_uring() {
	compared io_uring /mnt/d --ioengine=io_uring --iodepth=4
	admitted io_uring
}

# limits are a quarter and more higher for them; a ceiling is not
way_rt() {
	priority="chrt -f 10"
	compared "real-time" /mnt/d
	admitted "real-time"
	knobs 0 4M
	pace=1000
	ok "real-time: as fast as it can under a ceiling" measured rt /mnt/d --size=32m
	ok "real-time: held by the ceiling" between 1 "$(stat a nr_ceiling_held)" 100000000
	pace=2
	priority=
}

# Both wait for the disk, not for the throttle, and are measured alone: beside a
# noisy writer the disk's queue would decide.  O_DIRECT dirties nothing, but for
# btrfs's metadata.
way_synchronous() {
	noisy_in=
	compared O_DSYNC /mnt/d --sync=dsync
	compared O_DIRECT /mnt/d --direct=1
	ok "O_DIRECT: never put to sleep" is "$(stat a nr_throttled)" 0
	noisy_in=/mnt/d
}

# b rewrites what a owns, flat out: no count of b's own shows it, but the credit
# does.  What is admitted is bounded by b's floor, the rest is throttled.
way_shared() {
	mkdir /sys/fs/cgroup/b
	knobs 0 24M
	dirty /mnt/d/shared 48 a
	sync
	echo $floor >/sys/fs/cgroup/b/memory.dirty_min
	b_before=$(stat b nr_passes)
	# who comes second finds the pages dirty and is not looked at: until b was first somewhere
	rounds=0
	while [ $rounds -lt 20 ] &&
		{ [ "$(stat b nr_passes)" -le "$b_before" ] || [ "$(stat b foreign)" -lt 1048576 ] ||
			[ "$(stat b nr_floor_admitted)" -eq "$(stat b nr_passes)" ]; }; do
		dirty /mnt/d/shared 48 a &
		dirty /mnt/d/shared 48 b
		wait $!
		rounds=$((rounds + 1))
	done
	ok "shared file: b's passes are seen" between 1 $(($(stat b nr_passes) - b_before)) 100000000
	ok "shared file: what b dirtied of a's counts" between 1048576 "$(stat b foreign)" 1000000000
	ok "shared file: the floor does not admit all of b" \
		between 0 "$(stat b nr_floor_admitted)" $(($(stat b nr_passes) - 1))
	ok "shared file: the ceiling of the owner holds" between 1 "$(stat a nr_ceiling_held)" 100000000
	sync
	ok "shared file: complete" is "$(wc -c </mnt/d/shared)" 50331648
	rmdir /sys/fs/cgroup/b
}

# written DIRECTORY: KiB written back while 20 MiB are dirtied below the freerun level
written() {
	sync
	before=$(awk '/^nr_written /{ print $2 }' /proc/vmstat)
	dirty "$1" 20 a
	sleep 1
	after=$(awk '/^nr_written /{ print $2 }' /proc/vmstat)
	echo $(((after - before) * $(page_size) / 1024))
}

# nothing is written before the limit is near, with or without a floor; gone since 7.0
way_laptop() {
	echo 5 >/proc/sys/vm/laptop_mode
	if dmesg | grep -q "laptop_mode is deprecated"; then
		echo "# this kernel has no laptop mode any more"
		return
	fi
	echo 0 >/proc/sys/vm/laptop_mode
	knobs 32M max
	eager=$(written /mnt/d/eager)
	echo 5 >/proc/sys/vm/laptop_mode
	knobs 0 max
	stock=$(written /mnt/d/stock)
	knobs 32M max
	weir=$(written /mnt/d/weir)
	echo 0 >/proc/sys/vm/laptop_mode
	ok "without laptop mode the flusher starts at once" between 2048 "$eager" 24576 # with metadata
	ok "laptop mode: stock lets the disk sleep" between 0 "$stock" 1024
	ok "laptop mode: so does the floor" between 0 "$weir" 1024
	ok "laptop mode: the floor was used" between 1 "$(stat a nr_floor_admitted)" 100000000
}

[ $# -gt 0 ] || set -- mmap io_uring rt synchronous shared laptop
for way in "$@"; do
	"way_$way"
done
finish
