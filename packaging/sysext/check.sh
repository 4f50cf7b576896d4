#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Has systemd-sysext merge the image into an empty root, in a mount namespace of its own, and checks
# what is there; as root.
#   packaging/sysext/check.sh IMAGE
set -eu
image=$1
if [ "${2:-}" != inside ]; then
	exec unshare --mount --propagation private "$(readlink -f "$0")" "$(readlink -f "$image")" inside
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/sysext.XXXXXX")
root=$work/root
# The namespace ends with its last process, and what is mounted in it.
trap 'umount -R "$root" 2>/dev/null || :; rm -rf --one-file-system "$work"' EXIT

fail() {
	echo "check.sh: $1" >&2
	exit 1
}
# systemd-sysext wants a mount point at /run, and that /usr's mounts are shared with the process that
# merges.
mount -t tmpfs tmpfs /run
mkdir "$root"
mount -t tmpfs tmpfs "$root"
mount --make-shared "$root"
mkdir -p "$root/usr/lib" "$root/etc" "$root/var/lib/extensions/weir"
echo ID=bare >"$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
echo kept >"$root/usr/lib/own"
# Mounted, the image is a directory to systemd-sysext: for an image itself it asks udev, which is not here.
extension=$root/var/lib/extensions/weir
mount -o loop,ro "$image" "$extension" || fail "the image is no filesystem that this kernel mounts"
outside=$(find "$extension" -mindepth 1 -maxdepth 1 ! -name usr ! -name lost+found)
[ -z "$outside" ] || fail "an extension is of /usr alone, and this has $outside"

systemd-sysext --root="$root" merge
[ "$(cat "$root/usr/lib/own")" = kept ] || fail "merging hides what the host has"
said=$(chroot "$root" /usr/bin/weir --version) || fail "weir does not run there"
echo "merged: $said"
chroot "$root" /usr/bin/weir agent --check /usr/share/weir/agent.toml || fail "the agent refuses the extension's policy"
for unit in sysinit.target.wants/weir.service multi-user.target.wants/weir-agent.service; do
	program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$root/usr/lib/systemd/system/$unit")
	[ -x "$root$program" ] || fail "$unit starts $program, which is not there"
done
systemd-sysext --root="$root" unmerge
[ ! -e "$root/usr/bin/weir" ] || fail "unmerged, and still there"
[ "$(cat "$root/usr/lib/own")" = kept ] || fail "unmerging takes what the host has"
echo "unmerged: nothing is left"
