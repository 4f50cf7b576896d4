# SPDX-License-Identifier: GPL-2.0-only
# Where knobs hold and where they are left alone.  Wants disks "d" (ext4),
# "x" (xfs), "b" (btrfs) and "v" (vfat).
. /tap.sh
insmod /weir.ko || exit 1
limits 33554432
cd /sys/fs/cgroup || exit 1

# fresh CGROUP: with a floor and a ceiling
fresh() {
	rmdir a 2>/dev/null
	mkdir a
	echo 8M >a/memory.dirty_min
	echo 16M >a/memory.dirty_bytes
}

for fs in d x b; do
	fresh
	dirty /mnt/$fs/file 48 a
	ok "$fs: the floor admits" between 1 "$(stat a nr_floor_admitted)" 100000000
	ok "$fs: the ceiling holds" between 1 "$(stat a nr_ceiling_held)" 100000000
	sync
done

# no cgroup writeback: writers are throttled on the device's one wb, stock
fresh
dirty /mnt/v/file 48 a
ok "vfat: counted" between 1 "$(($(stat a dirty) + $(stat a writeback)))" 100000000
ok "vfat: the floor stays out of it" is "$(stat a nr_floor_admitted)" 0
ok "vfat: so does the ceiling" is "$(stat a nr_ceiling_held)" 0
sync

# a strictlimit device is left alone
device=$(awk '$2 == "/mnt/d" { print $1 }' /proc/mounts)
bdi=/sys/class/bdi/$(cat "/sys/class/block/$(basename "$device")/dev")
if echo 1 2>/dev/null >"$bdi/strict_limit"; then
	fresh
	dirty /mnt/d/strict 32 a
	ok "strictlimit: the floor stays out of it" is "$(stat a nr_floor_admitted)" 0
	ok "strictlimit: so does the ceiling" is "$(stat a nr_ceiling_held)" 0
	sync
else
	echo "# this kernel has no strict_limit file: strictlimit not tested"
fi
finish
