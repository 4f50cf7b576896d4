# SPDX-License-Identifier: GPL-2.0-only
# A floor as large as the cgroup's memory: no OOM kill that stock does not
# have, no allocation failure, everything written.  Wants a disk "d".
#
# 6.12 kills a lone writer in 24 MiB on xfs and btrfs without any help: its reclaim
# (MGLRU) meets dirty pages only and does not wait for them.  So the memory is what
# stock can do with.
. /tap.sh
cd /sys/fs/cgroup || exit 1
limits 134217728
mkdir stock weir

# write_through CGROUP FILE: 5/3 as much as its memory of $megabytes, checked afterwards and removed
write_through() {
	echo ${megabytes}M >"$1/memory.max"
	in_cgroup "$1" dd if=/dev/urandom of="/mnt/d/$2" bs=64k count=$((megabytes * 80 / 3)) 2>/dev/null || return 1
	held=$(awk '/^file_dirty |^file_writeback /{ n += $2 } END { print n }' "$1/memory.stat")
	sync
	written=$(wc -c <"/mnt/d/$2")
	# several of the largest do not fit on the disk
	rm "/mnt/d/$2"
	is "$written" $((megabytes * 80 / 3 * 65536))
}
oom_kills() {
	awk '/^oom_kill /{ print $2 }' "$1/memory.events"
}

# three times in a row: now and then it is killed, and sometimes it is not
stock_writes() {
	for megabytes in 24 48 96 192; do
		rmdir stock
		mkdir stock
		stock_held=0
		for file in 1 2 3; do
			write_through stock $file || continue 2
			[ "$held" -le $stock_held ] || stock_held=$held
		done
		is "$(oom_kills stock)" 0 && return
	done
	return 1
}
ok "stock writes through a small cgroup" stock_writes
memory=$((megabytes << 20))
echo "# of $megabytes MiB"
insmod /weir.ko || exit 1
echo max >weir/memory.dirty_min
ok "with a floor of everything it writes, too" write_through weir weir
ok "no kill" is "$(oom_kills weir)" 0
ok "the floor was used" between 1 "$(stat weir nr_floor_admitted)" 100000000
ok "the effective floor is at most half of memory.max" between 4096 "$(stat weir floor)" $((memory / 2))
# floor_within BYTES
floor_within() {
	between 0 "$(stat weir floor)" "$1"
}
echo $((memory - 4194304)) >weir/memory.min
ok "and at most memory.max - memory.min, live" soon floor_within 4194304
echo 0 >weir/memory.min
echo 16M >weir/memory.dirty_bytes
echo max >weir/memory.max
ok "and at most what the ceiling lets it fill" comes_to 12582912 stat weir floor
mkdir weir/below
echo +memory >weir/cgroup.subtree_control
echo 64M >weir/below/memory.dirty_min
ok "its own or an ancestor's" is "$(stat weir/below floor)" 12582912

# a floor above covers a cgroup that is smaller than it
mkdir above above/small
echo +memory >above/cgroup.subtree_control
echo $((2 * megabytes))M >above/memory.dirty_min
ok "below a floor that is larger than all its memory, too" write_through above/small small
# a writer is looked at every few dozen pages: of 24M, 16.2M were seen on a busy machine.  In the
# large folios of 7.3's btrfs stock holds all.
most=$((memory - 4194304))
ok "it holds not all of its memory, or no more than stock" between 1 "$held" \
	$((stock_held > most ? stock_held : most))
ok "no kill" is "$(oom_kills above/small)" 0
ok "the floor above was used" between 1 "$(stat above/small nr_floor_admitted)" 100000000

# Two floors of all their parent's memory.  6.12 killed a writer here in 1 of 150 rounds, and in
# none of 150 with no floor: once is its throttle's luck, twice in a row would be the floors'.
# both_write: succeeds if neither is killed
both_write() {
	rmdir pair/one pair/two pair 2>/dev/null
	mkdir pair pair/one pair/two
	echo ${megabytes}M >pair/memory.max
	echo +memory >pair/cgroup.subtree_control
	echo max >pair/one/memory.dirty_min
	echo max >pair/two/memory.dirty_min
	write_through pair/one one &
	write_through pair/two two
	two=$?
	wait $! && is "$two $(oom_kills pair)" "0 0"
}
both_write_at_last() {
	both_write || both_write
}
ok "two floors in so little memory: both write all, no task is killed" both_write_at_last
finish
