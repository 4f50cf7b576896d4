# SPDX-License-Identifier: GPL-2.0-only
# A floor as large as the cgroup's memory: no OOM kill that stock does not
# have, no allocation failure, everything written.  Wants a disk "d".
. /tap.sh
cd /sys/fs/cgroup || exit 1
limits 134217728
mkdir stock weir

# write_through CGROUP: 96 MiB through 24 MiB of memory, checked afterwards
write_through() {
	echo 24M >"$1/memory.max"
	in_cgroup "$1" dd if=/dev/urandom of="/mnt/d/$1" bs=64k count=1536 2>/dev/null || return 1
	sync
	is "$(wc -c <"/mnt/d/$1")" 100663296
}
oom_kills() {
	awk '/^oom_kill /{ print $2 }' "$1/memory.events"
}

ok "stock writes through a small cgroup" write_through stock
ok "stock does not kill" is "$(oom_kills stock)" 0
insmod /weir.ko || exit 1
echo max >weir/memory.dirty_min
ok "with a floor of everything it writes, too" write_through weir
ok "no kill" is "$(oom_kills weir)" 0
ok "the floor was used" between 1 "$(stat weir nr_floor_admitted)" 100000000
ok "the effective floor is at most half of memory.max" between 4096 "$(stat weir floor)" 12582912
echo 20M >weir/memory.min
sleep 1
ok "and at most memory.max - memory.min, live" between 0 "$(stat weir floor)" 4194304
echo 0 >weir/memory.min
echo 16M >weir/memory.dirty_bytes
echo max >weir/memory.max
sleep 1
ok "and at most the ceiling" is "$(stat weir floor)" 16777216
mkdir weir/below
echo +memory >weir/cgroup.subtree_control
echo 64M >weir/below/memory.dirty_min
ok "its own or an ancestor's" is "$(stat weir/below floor)" 16777216
finish
