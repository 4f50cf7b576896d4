# SPDX-License-Identifier: GPL-2.0-only
# Sourced by tests: filesystems on top of another one, each at /mnt/KIND.
#   loop   wants nothing more
#   nfs    the packages nfs-kernel-server and nfs-common, the drivers nfsd and nfsv4
#   fuse   the package fuse-overlayfs

# stack KIND BELOW: mounts /mnt/KIND, its data in the filesystem mounted at BELOW
stack() {
	mkdir -p "/mnt/$1"
	"stack_$1" "$2"
}

stack_loop() {
	modprobe loop || return 1
	# a module on generic kernels, which nothing has loaded below another filesystem
	grep -qw ext4 /proc/filesystems || modprobe ext4 || return 1
	truncate -s 512M "$1/image"
	mkfs.ext4 -q -F "$1/image"
	loop=$(losetup -f)
	losetup "$loop" "$1/image"
	mount "$loop" /mnt/loop
}

# version 4 alone, which needs no rpcbind
stack_nfs() {
	ip link set lo up
	modprobe nfsd && modprobe nfsv4 || return 1
	mkdir -p /var/lib/nfs/v4recovery /run/rpc_pipefs /etc/exports.d
	mount -t nfsd nfsd /proc/fs/nfsd
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	: >/etc/exports
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	printf 'nfs 2049/tcp\nnfs 2049/udp\n' >/etc/services
	rpc.mountd -N 2 -N 3 || return 1
	exportfs -o rw,no_root_squash,no_subtree_check,insecure,fsid=0 "127.0.0.1:$1"
	rpc.nfsd -N 3 -V 4 4
	echo Y >/proc/fs/nfsd/v4_end_grace
	mount.nfs4 127.0.0.1:/ /mnt/nfs -o soft,timeo=600
}

stack_fuse() {
	mkdir "$1/lower" "$1/upper" "$1/work"
	# a module on 6.1, and no program here loads one for a device that is not there
	[ -e /dev/fuse ] || modprobe fuse || return 1
	fuse-overlayfs -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" /mnt/fuse
}
