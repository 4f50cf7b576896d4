# SPDX-License-Identifier: GPL-2.0-only
# memory.dirty_stat counts exactly what memory.stat does, at rest, on every
# filesystem.  Wants disks "d" (ext4), "x" (xfs) and "f" (vfat).
. /tap.sh
insmod /weir.ko || exit 1
page=$(page_size)
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
# nothing is written back by itself while we count
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
limits 536870912
echo 16M >/sys/fs/cgroup/b/memory.dirty_min

same() {
	weir=$(($(stat "$1" dirty) + $(stat "$1" writeback)))
	kernel=$(awk '/^file_dirty |^file_writeback /{ n += $2 } END { print n }' "/sys/fs/cgroup/$1/memory.stat")
	is "$weir" "$kernel"
}

for fs in d x f; do
	dirty /mnt/$fs/one 8 a
	dirty /mnt/$fs/two 4 b
	# soon: what the kernel writes back meanwhile moves between two looks
	ok "$fs: a's count is the kernel's" soon same a
	ok "$fs: b's count is the kernel's" soon same b
done
# not all: now and then the kernel writes one file back by itself
ok "the counts were not of nothing" between 8388608 "$(stat a dirty)" 26214400
sync
ok "nothing left after sync" is "$(($(stat a dirty) + $(stat a writeback)))" 0

# shared file: b rewrites what a owns
dirty /mnt/d/shared 4 a
sync
# some of what b wrote above, and on vfat all, is in no wb of its own
before=$(stat b foreign)
dirty /mnt/d/shared 4 b
ok "rewritten pages stay with their owner" between 4194304 "$(stat a dirty)" 4300000
# and on each disk above a task exited with less than 80 pages that it had not reported
ok "and are b's foreign pages, under its floor" between $((4194304 - 170 * page)) "$(stat b foreign)" \
	$((before + 4194304 + 320 * page))
ok "b's own count stays small" between 0 "$(stat b dirty)" 65536
finish
