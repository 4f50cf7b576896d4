# SPDX-License-Identifier: GPL-2.0-only
# stacked.sh [WAY...]: filesystems on top of others, held against stock: a loop
# device, NFS from this very host, FUSE; and a device made strictlimit by hand.
# All of them by default.  Wants a disk "d" of 32M/s, the packages
# nfs-kernel-server, nfs-common and fuse-overlayfs, the drivers nfsd and nfsv4.
. /tap.sh
. /compare.sh
. /stacks.sh
compare_begin

# The filesystem on the loop device has domains of its own, and the floor acts
# there.  What the worker writes below is made by a kernel thread: stock.  Its
# pages are charged to the writer all the same, so both layers count.
way_loop() {
	stack loop /mnt/d || return 1
	compared loop /mnt/loop
	admitted loop
	# hand the upper pages to the worker, and leave the lower ones dirty
	sync
	echo 0 >/proc/sys/vm/dirty_writeback_centisecs
	dirty /mnt/loop/both 8 a
	xfs_io -c "sync_range -b -w -a 0 8m" /mnt/loop/both
	ok "loop: the pages below are counted as the writer's" between 6291456 "$(stat a dirty)" 9437184
	echo 500 >/proc/sys/vm/dirty_writeback_centisecs
	umount /mnt/loop
	losetup -d "$loop"
	rm /mnt/d/image
}

# The client's pages are throttled on the mount's one wb, nfsd writes from
# kernel threads: floors and ceilings stay out of both.
way_nfs() {
	stack nfs /mnt/d || return 1
	compared NFS /mnt/nfs
	left_alone NFS
	umount /mnt/nfs
	rpc.nfsd 0
}

# With its writeback cache, as fuse-overlayfs asks for.  The device is strictlimit
# and has one wb for all writers.  The daemon writes from the root cgroup here.
way_fuse() {
	stack fuse /mnt/d || return 1
	compared FUSE /mnt/fuse
	left_alone FUSE
	umount /mnt/fuse
}

# the kernel keeps such a device to its own share even below freerun
way_strictlimit() {
	device=$(awk '$2 == "/mnt/d" { print $1 }' /proc/mounts)
	bdi=/sys/class/bdi/$(cat "/sys/class/block/$(basename "$device")/dev")
	# btrfs may be on several devices, and has one of its own for all
	for own in /sys/class/bdi/btrfs-*; do
		[ ! -e "$own" ] || bdi=$own
	done
	[ -e "$bdi/strict_limit" ] || {
		echo "# this kernel has no strict_limit file: strictlimit not tested"
		return
	}
	echo 1 >"$bdi/strict_limit"
	compared strictlimit /mnt/d
	left_alone strictlimit
	echo 0 >"$bdi/strict_limit"
}

[ $# -gt 0 ] || set -- loop nfs fuse strictlimit
for way in "$@"; do
	"way_$way" || ok "$way could be set up" false
done
finish
