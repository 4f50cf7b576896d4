#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes the chart's images from this tree and Debian's packages, as archives that `ctr images
# import`, `podman load` and `skopeo copy docker-archive:...` read:
#   cluster/charts/images.sh DIRECTORY VERSION PROGRAMS [PREBUILT]
#     DIRECTORY/weir.tar         the programs of the directory PROGRAMS, and busybox
#     DIRECTORY/weir-module.tar  a compiler and the module's source, and modules that are
#                                PREBUILT/RELEASE/weir.ko
# SUITE=trixie is whose compiler it is: that of the nodes' distribution.
set -eu
tree=$(dirname "$(readlink -f "$0")")/../..
out=$1
version=$2
programs=$3
prebuilt=${4:-}
suite=${SUITE:-trixie}

uri() { # the host's own mirror of this archive
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		sort -u | grep -m 1 "/$1/\$" ||
		{ echo "images.sh: no archive '$1' among this host's apt sources" >&2; exit 1; }
}
debian=$(uri debian)
security=$(uri debian-security)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/images.XXXXXX")
trap 'rm -rf "$work"' EXIT

# apt and dpkg for headers from packages; what the headers' own programs need, and pahole, which
# Kbuild calls where they have a vmlinux.
packages=make,gcc,libc6-dev,libelf1,libdw1,pahole,openssl,busybox-static
key=$(echo "$suite $packages" | sha256sum | cut -c 1-8)
base=$out/weir-module-$key.base.tar
if [ ! -e "$base" ]; then
	mmdebstrap --quiet --format=tar --variant=apt --architectures=amd64 \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/info/*' \
		--include=$packages \
		--customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*' \
		"$suite" "$base.new" \
		"deb $debian $suite main" "deb $debian $suite-updates main" "deb $security $suite-security main" >&2
	mv "$base.new" "$base"
fi
mkdir "$work/module" "$work/weir"
tar -x --no-same-owner --exclude=./dev/* -f "$base" -C "$work/module"
mkdir -p "$work/module/usr/src/weir" "$work/module/usr/lib/weir"
(cd "$tree" && cp -a --parents kmod/*.[ch] kmod/compat kmod/Kbuild kmod/Makefile kmod/policy policy "$work/module/usr/src/weir")
install -m 755 "$tree/packaging/node/build" "$tree/packaging/node/again" "$work/module/usr/lib/weir"
if [ -n "$prebuilt" ]; then
	mkdir "$work/module/usr/lib/weir/modules"
	(cd "$prebuilt" && cp --parents */weir.ko "$work/module/usr/lib/weir/modules")
fi
"$tree/packaging/oci.sh" "localhost/weir-module:$version" "$work/module" /usr/lib/weir/build >"$out/weir-module.tar"

mkdir -p "$work/weir/bin" "$work/weir/lib/weir" "$work/weir/run" "$work/weir/etc" "$work/weir/tmp"
cp "$programs"/* "$work/weir/bin"
cp "$work/module/bin/busybox" "$work/weir/bin"
for applet in sh cat cksum mv rm sleep; do
	ln -s busybox "$work/weir/bin/$applet"
done
install -m 755 "$tree/packaging/node/load" "$tree/packaging/node/unload" "$tree/packaging/node/again" "$work/weir/lib/weir"
"$tree/packaging/oci.sh" "localhost/weir:$version" "$work/weir" /bin/weir >"$out/weir.tar"
