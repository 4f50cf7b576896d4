# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the tests here in which pods work on disks of their own, and are measured.
# The guest's clock runs beside an emulated CPU: its figures need an otherwise idle machine.
. ./kube.sh

# disk NAME: one of `disks`, with an empty filesystem
disk() {
	udevadm settle
	mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 "/dev/disk/by-id/virtio-$1" && mkdir -p "/mnt/$1" &&
		mount -o commit=120 "/dev/disk/by-id/virtio-$1" "/mnt/$1"
}
# programs PROGRAM...: into the root file system of images, with the libraries they need
programs() {
	for program in "$@"; do
		cp "$(command -v "$program")" $rootfs/bin
		ldd "$rootfs/bin/$program" | awk '/=> \// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
			mkdir -p "$rootfs$(dirname "$library")"
			cp -L "$library" "$rootfs$library"
		done
	done
}
# runs POD SECONDS OPTION...: fio in a pod, one line of results
runs() {
	in=$1 seconds=$2
	shift 2
	cripod exec "$in" a /bin/fio --directory=/data --bs=4k --ioengine=psync --allow_mounted_write=1 \
		--runtime="$seconds" --output-format=terse --terse-version=3 "$@"
}
# floods POD SECONDS OPTION...: the same in the background
floods() {
	runs "$@" >/tmp/flood 2>&1 &
	flood=$!
}
floods_no_more() {
	wait $flood
	sync
}
# compared WORDS A OPERATOR FACTOR B: ok if A OPERATOR FACTOR * B
compared() {
	ok "$1" awk -v a="$2" -v factor="$4" -v b="$5" "BEGIN { exit !(a $3 factor * b) }"
}
work="--namespace db --image localhost/work:1"
# prepared NAME PROGRAM...: the disk, the image with fio and programs, a plugin that allows floors
prepared() {
	ok "the disk is there" disk "$1"
	shift
	make_rootfs
	programs fio "$@"
	ok "the image of what pods run is imported" archive work /bin/sh
	configure <<END
allow:
- namespaces: [db]
  pod-floor: 64M
END
	ok "the plugin starts" plugin_starts
	ratio=$(cat /proc/sys/vm/dirty_ratio) background=$(cat /proc/sys/vm/dirty_background_ratio)
}
over() {
	clear_pods
	plugin_stops
	echo "$background" >/proc/sys/vm/dirty_background_ratio
	echo "$ratio" >/proc/sys/vm/dirty_ratio
	finish
}
dirty() { # BYTES BACKGROUND
	echo "$2" >/proc/sys/vm/dirty_background_bytes
	echo "$1" >/proc/sys/vm/dirty_bytes
}

