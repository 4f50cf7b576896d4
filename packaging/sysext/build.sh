#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a system extension, for hosts whose /usr is read-only:
#   packaging/sysext/build.sh DIRECTORY COMMAND [PREBUILT]
# DIRECTORY/weir.raw is an image of ext4, which systemd-sysext merges into /usr of any distribution of
# COMMAND's architecture. Modules that are PREBUILT/RELEASE/weir.ko go with it; where there is none,
# the agent's policy is stock mode.
set -eu
tree=$(dirname "$(readlink -f "$0")")/../..
out=$1
command=$2
prebuilt=${3:-}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/sysext.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

make --no-print-directory -C "$tree" install-command COMMAND="$command" DESTDIR="$work" PREFIX=/usr >/dev/null
units=$work/usr/lib/systemd/system
install -D -m 644 "$tree/debian/weir.service" "$units/weir.service"
install -D -m 644 "$tree/debian/weir.weir-agent.service" "$units/weir-agent.service"
# An extension has no /etc, where `systemctl enable` would write.
mkdir "$units/sysinit.target.wants" "$units/multi-user.target.wants"
ln -s ../weir.service "$units/sysinit.target.wants"
ln -s ../weir-agent.service "$units/multi-user.target.wants"
mkdir -p "$work/usr/lib/tmpfiles.d" "$work/usr/share/weir" "$work/usr/lib/extension-release.d"
cat >"$work/usr/share/weir/agent.toml" - "$tree/packaging/agent.toml" <<-END
	# SPDX-License-Identifier: GPL-2.0-only
	# Rules are kept by the module where it is loaded, and by files of the stock kernel until then.
	[stock]
	mode = "auto"

END
echo 'C /etc/weir/agent.toml 0644 - - - /usr/share/weir/agent.toml' >"$work/usr/lib/tmpfiles.d/weir.conf"
# What it starts waits for that file.
mkdir "$units/weir-agent.service.d"
printf '[Service]\nExecStartPre=+/usr/bin/systemd-tmpfiles --create weir.conf\n' >"$units/weir-agent.service.d/10-sysext.conf"
if [ -n "$prebuilt" ]; then
	for module in "$prebuilt"/*/weir.ko; do
		release=$(basename "$(dirname "$module")")
		install -D -m 644 "$module" "$work/usr/lib/modules/$release/updates/weir.ko"
	done
fi
architecture=$(readelf -h "$command" | sed -n 's/^ *Machine: *//p')
case $architecture in
*X86-64) architecture=x86-64 ;;
AArch64) architecture=arm64 ;;
*)
	echo "build.sh: $command is of architecture $architecture" >&2
	exit 1
	;;
esac
printf 'ID=_any\nARCHITECTURE=%s\nEXTENSION_RELOAD_MANAGER=1\n' "$architecture" >"$work/usr/lib/extension-release.d/extension-release.weir"

# A quarter more than the files, for ext4's own.
size=$(($(du -sk "$work" | cut -f 1) * 5 / 4 + 1024))
rm -f "$out/weir.raw"
mke2fs -q -t ext4 -m 0 -O ^has_journal -E root_owner=0:0 -d "$work" "$out/weir.raw" "${size}k"
ls "$out/weir.raw"
