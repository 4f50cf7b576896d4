#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes a Debian system for guests, with systemd, container runtimes and what DKMS
# needs, from the distribution's packages alone, and prints the directory it is in:
#   packaging/image.sh [SUITE]   bookworm (the default), trixie, or trixie+sid: that with the
#                                container runtimes of unstable
#
#   root.img   an ext4 image; a guest changes an overlay of it, never the image
#   vmlinuz    its kernel, stock
#   initrd     its initramfs, made by its own packages
#
# The directory is in the lab's cache and named after the suite, this file and the unit: made
# once (4 minutes and 2.5 GB while it is made), made again when either changes.  What a guest
# is to do it finds on its second disk, see run.sh.
set -eu
here=$(dirname "$(readlink -f "$0")")
cache=${WEIR_CACHE:-$here/../.cache/weir}
suite=${1:-bookworm}
key=$(cat "$here/image.sh" "$here/weir-test.service" | sha256sum | cut -c 1-8)
image=$cache/system-$suite-$key

if [ -d "$image" ]; then
	echo "$image"
	exit
fi

# What DKMS needs, compiler and headers included; what the tests themselves call; and the
# runtimes as the suite ships them.
packages="systemd-sysv dbus dbus-user-session libpam-systemd udev
	initramfs-tools dkms openssl kmod busybox-static jq procps"
case $suite in
bookworm) # and what a rootless user needs
	packages="$packages linux-image-6.12-cloud-amd64 linux-headers-6.12-cloud-amd64
		podman crun runc uidmap slirp4netns containerd docker.io apparmor" ;;
trixie | trixie+sid) # with a podman that has Quadlet, Ansible, and what pods run
	packages="$packages linux-image-cloud-amd64 linux-headers-cloud-amd64
		crun runc containerd podman ansible-core python3-apt e2fsprogs fio etcd-server" ;;
*)
	echo "image.sh: no such suite: '$suite': expected bookworm, trixie or trixie+sid" >&2
	exit 2 ;;
esac

uri() { # the host's own mirror of this archive
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		sort -u | grep -m 1 "/$1/\$" ||
		{ echo "image.sh: no archive '$1' among this host's apt sources" >&2; exit 1; }
}
debian=$(uri debian)
security=$(uri debian-security)

partial=$image.partial
rm -rf "$partial"
mkdir -p "$partial"
trap 'rm -rf "$partial"' EXIT

# Of unstable nothing but what is named, and also of a mirror that is weeks behind.
newer=
[ "$suite" = "${suite%+sid}" ] || newer="deb [check-valid-until=no] $debian sid main"
suite=${suite%+sid}
cat >"$partial/preferences" <<END
Package: *
Pin: release n=sid
Pin-Priority: -1

Package: containerd runc
Pin: release n=sid
Pin-Priority: 990
END

# Owners are kept without being root, too.
as_root=
[ "$(id -u)" -eq 0 ] || as_root=fakeroot

# shellcheck disable=SC2086 # a list of packages
mmdebstrap --quiet --variant=minbase --architectures=amd64 \
	--aptopt='APT::Install-Recommends "false"' \
	--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--setup-hook='mkdir -p "$1/etc/apt/preferences.d"' \
	--setup-hook="copy-in $partial/preferences /etc/apt/preferences.d" \
	--include="$(echo $packages | tr ' ' ',')" \
	--customize-hook='echo weir-guest >"$1/etc/hostname"' \
	--customize-hook='echo "/dev/vda / ext4 defaults 0 1" >"$1/etc/fstab"' \
	--customize-hook="copy-in $here/weir-test.service /etc/systemd/system" \
	--customize-hook='chroot "$1" useradd --create-home --shell /bin/sh owner' \
	--customize-hook='chroot "$1" systemctl enable weir-test.service' \
	--customize-hook='chroot "$1" systemctl mask etcd.service serial-getty@.service getty@.service apt-daily.timer apt-daily-upgrade.timer man-db.timer e2scrub_reap.service' \
	"$suite" "$partial/root.tar" \
	"deb $debian $suite main" "deb $debian $suite-updates main" \
	"deb $security $suite-security main" ${newer:+"$newer"} >&2

mkdir "$partial/root"
$as_root sh -eu -c '
	tar -x --xattrs --xattrs-include="*" -f "$0/root.tar" -C "$0/root"
	cp "$0"/root/boot/vmlinuz-* "$0/vmlinuz"
	cp "$0"/root/boot/initrd.img-* "$0/initrd"
	mke2fs -q -t ext4 -d "$0/root" "$0/root.img" 6G' "$partial" >&2
rm -rf "$partial/root" "$partial/root.tar" "$partial/preferences"
mv "$partial" "$image"
echo "$image"
