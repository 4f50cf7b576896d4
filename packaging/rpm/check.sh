#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the packages of DIRECTORY into an empty root by rpm, and checks what is there:
#   packaging/rpm/check.sh DIRECTORY VERSION
# What a package requires is not there, and its scripts do not run: they are only read.
set -eu
tree=$(dirname "$(readlink -f "$0")")/../..
packages=$1
version=$2
root=$(mktemp -d "${TMPDIR:-/var/tmp}/rpm-root.XXXXXX")
trap 'rm -rf "$root" "$root.said"' EXIT

fail() {
	echo "check.sh: $1" >&2
	exit 1
}
in_root() { # ARGUMENTS of rpm; Debian's has its database elsewhere, and a note on each use
	rpm --root "$root" --dbpath /var/lib/rpm "$@" 2>"$root.said" || {
		cat "$root.said" >&2
		return 1
	}
}
there() { # FILE...
	for file; do
		[ -s "$root/$file" ] || fail "/$file is not there, or empty"
	done
}

in_root --initdb
in_root --install --nodeps --noscripts --nosignature "$packages"/weir*.rpm
there usr/bin/weir etc/weir/agent.toml usr/lib/systemd/system/weir.service usr/lib/systemd/system/weir-agent.service \
	usr/share/bash-completion/completions/weir usr/share/zsh/site-functions/_weir usr/share/fish/vendor_completions.d/weir.fish \
	usr/share/doc/weir/guide.md usr/share/licenses/weir/LICENSE "usr/src/weir-$version/dkms.conf"
for page in weir weir-load weir-agent weir-doctor; do
	[ -s "$root/usr/share/man/man1/$page.1" ] || [ -s "$root/usr/share/man/man1/$page.1.gz" ] || fail "no manual of $page"
done
# Alone in the root, without a library.
said=$(chroot "$root" /usr/bin/weir --version) || fail "weir does not run there"
[ "$said" = "weir $version" ] || fail "weir is $said, the package is $version"
chroot "$root" /usr/bin/weir agent --check /etc/weir/agent.toml >/dev/null || fail "the agent refuses its own policy file"
# What units start is in the package.
for unit in weir weir-agent; do
	program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$root/usr/lib/systemd/system/$unit.service")
	[ -x "$root$program" ] || fail "$unit.service starts $program, which is not there"
done
# The module's source is whole: what DKMS builds in is what this tree builds in.
source=$root/usr/src/weir-$version
grep -qx "PACKAGE_VERSION=\"$version\"" "$source/dkms.conf" || fail "dkms.conf is of another version"
for file in $(cd "$tree" && ls kmod/*.[ch] policy/*.[ch] kmod/Kbuild kmod/Makefile) kmod/policy; do
	[ -e "$source/$file" ] || fail "the module's source has no $file"
done
# An upgrade keeps what the host's owner wrote, and removing leaves nothing else.
in_root --query --configfiles weir | grep -qx /etc/weir/agent.toml || fail "agent.toml is no configuration file"
for package in weir weir-dkms; do
	in_root --query --scripts "$package" | sed '/scriptlet (using/d' | sh -n || fail "a script of $package is not sh"
	in_root --verify --nodeps --noscripts "$package" || fail "$package is not as it was packed"
done
echo "installed: $(in_root --query --all | sort | tr '\n' ' ')"
in_root --erase --nodeps --noscripts weir weir-dkms
left=$(find "$root" -path "$root/var" -prune -o \( -type f -o -type l \) -print)
[ -z "$left" ] || fail "removed, and left behind: $left"
echo "removed: nothing is left"
