#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds RPM packages of this tree in a folder of its own:
#   packaging/rpm/build.sh DIRECTORY VERSION COMMAND
# DIRECTORY gets weir-VERSION-1.ARCHITECTURE.rpm with COMMAND, a static binary, and
# weir-dkms-VERSION-1.noarch.rpm.
set -eu
tree=$(dirname "$(readlink -f "$0")")/../..
out=$1
version=$2
command=$3
work=$(mktemp -d "${TMPDIR:-/var/tmp}/rpm.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/SOURCES" "$work/tmp"
# What git knows of, as it is now.
git -C "$tree" ls-files -z | tar -C "$tree" --null -T - --transform "flags=rSH;s,^,weir-$version/," -cf "$work/SOURCES/weir-$version.tar"
rpmbuild -bb --quiet --nodeps --define "_topdir $work" --define "_tmppath $work/tmp" \
	--define "weir_version $version" --define "weir_command $command" "$tree/packaging/rpm/weir.spec" >"$work/log" 2>&1 ||
	{ cat "$work/log" >&2; exit 1; }
rm -f "$out"/weir*.rpm
mv "$work"/RPMS/*/*.rpm "$out"
ls "$out"/*.rpm
