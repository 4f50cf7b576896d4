# SPDX-License-Identifier: GPL-2.0-only
# A floor as large as the cgroup's memory: no OOM kill that stock does not
# have, no allocation failure, everything written.  Wants a disk "d".
. /tap.sh
cd /sys/fs/cgroup || exit 1
limits 134217728
mkdir stock weir

# write_through CGROUP FILE: 40 MiB through 24 MiB of memory, checked afterwards
write_through() {
	echo 24M >"$1/memory.max"
	in_cgroup "$1" dd if=/dev/urandom of="/mnt/d/$2" bs=64k count=640 2>/dev/null || return 1
	held=$(awk '/^file_dirty |^file_writeback /{ n += $2 } END { print n }' "$1/memory.stat")
	sync
	is "$(wc -c <"/mnt/d/$2")" 41943040
}
oom_kills() {
	awk '/^oom_kill /{ print $2 }' "$1/memory.events"
}

ok "stock writes through a small cgroup" write_through stock stock
ok "stock does not kill" is "$(oom_kills stock)" 0
insmod /weir.ko || exit 1
echo max >weir/memory.dirty_min
ok "with a floor of everything it writes, too" write_through weir weir
ok "no kill" is "$(oom_kills weir)" 0
ok "the floor was used" between 1 "$(stat weir nr_floor_admitted)" 100000000
ok "the effective floor is at most half of memory.max" between 4096 "$(stat weir floor)" 12582912
# floor_within BYTES
floor_within() {
	between 0 "$(stat weir floor)" "$1"
}
echo 20M >weir/memory.min
ok "and at most memory.max - memory.min, live" soon floor_within 4194304
echo 0 >weir/memory.min
echo 16M >weir/memory.dirty_bytes
echo max >weir/memory.max
ok "and at most the ceiling" comes_to 16777216 stat weir floor
mkdir weir/below
echo +memory >weir/cgroup.subtree_control
echo 64M >weir/below/memory.dirty_min
ok "its own or an ancestor's" is "$(stat weir/below floor)" 16777216

# a floor above covers a cgroup that is smaller than it, and two floors a parent's memory
mkdir above above/small pair
echo +memory >above/cgroup.subtree_control
echo 64M >above/memory.dirty_min
ok "below a floor that is larger than all its memory, too" write_through above/small small
# a writer is looked at every few dozen pages: 16.2M were seen on a busy machine; all its memory would be 24M
ok "it holds not all of its memory" between 1 "$held" 20971520
ok "no kill" is "$(oom_kills above/small)" 0
ok "the floor above was used" between 1 "$(stat above/small nr_floor_admitted)" 100000000
echo 24M >pair/memory.max
echo +memory >pair/cgroup.subtree_control
mkdir pair/one pair/two
echo max >pair/one/memory.dirty_min
echo max >pair/two/memory.dirty_min
write_through pair/one one &
ok "two floors in so little memory: both write all" write_through pair/two two
wait $!
ok "no kill" is "$(oom_kills pair)" 0
finish
