#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs from the distribution what weir needs and this machine lacks; quick and quiet if nothing.
#   tools/setup.sh          to build, to run scenarios in guests
#   tools/setup.sh test     also to test: commits are read, what kernels are compressed with is made
#   tools/setup.sh kmod     also to build the module for the running kernel
#   tools/setup.sh fuzz     also to fuzz
#   tools/setup.sh deb      also to build Debian packages
#   tools/setup.sh rpm      also to build RPM packages
#   tools/setup.sh sysext   also to build a system extension
#   tools/setup.sh nix      also to evaluate the Nix expression
#   tools/setup.sh pages    also to look at report pages in a browser
#   tools/setup.sh system   also to make a Debian system for guests
#   tools/setup.sh dkms     also to run dkms in Debian systems
#   tools/setup.sh debug-kernel  also to build the debug kernel
#   tools/setup.sh go       also to build weir-nri, where the distribution's Go is new enough
#   tools/setup.sh arm64    also to build the command for arm64
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${HOME:-/root}/.cargo/bin
lacking=

fail() {
	echo "setup: $1" >&2
	exit 1
}

lack() {
	case " $lacking " in
	*" $1 "*) ;;
	*) lacking="$lacking $1" ;;
	esac
}

need_program() { # PROGRAM PACKAGE
	command -v "$1" >/dev/null || lack "$2"
}

# With a wildcard, because a library's package may carry a suffix (libelf1t64).
need_package() { # PACKAGE
	dpkg-query -W -f '${Status}\n' "$1*" 2>/dev/null | grep -q '^install ok installed' || lack "$1"
}

# The lab itself knows which programs and packages of the host it uses.
list=bench/lab/src/tool.rs
programs=$(sed -n '/HOST_TOOLS: /,/^];/s/^ *("\([^"]*\)", "\([^"]*\)"),$/\1 \2/p' "$list")
packages=$(sed -n '/HOST_LIBRARIES: /,/;$/p' "$list" | grep -o '"[^"]*"' | tr -d '"')
[ -n "$programs" ] && [ -n "$packages" ] || fail "$list lists no HOST_TOOLS or HOST_LIBRARIES any more"
while read -r program package; do
	need_program "$program" "$package"
done <<END
$programs
END
for package in $packages; do
	need_package "$package"
done

case ${1-} in
test)
	need_program git git
	need_program zstd zstd
	need_program lz4 lz4
	;;
kmod) [ -d "/lib/modules/$(uname -r)/build" ] || lack "linux-headers-$(uname -r)" ;;
fuzz)
	need_program clang clang
	need_program c++ g++
	;;
deb)
	need_program dh debhelper
	need_program dh_dkms dh-dkms
	need_program lintian lintian
	;;
rpm) need_program rpmbuild rpm ;;
sysext)
	need_program mke2fs e2fsprogs
	need_program systemd-sysext systemd
	;;
nix) need_program nix-instantiate nix-bin ;;
pages)
	command -v chromium >/dev/null || need_program chromium-headless-shell chromium-headless-shell
	need_program pip3 python3-venv
	need_package fonts-dejavu-core
	;;
system)
	need_program mmdebstrap mmdebstrap
	need_program mke2fs e2fsprogs
	need_program fakeroot fakeroot
	;;
dkms)
	need_program mmdebstrap mmdebstrap
	;;
go)
	need_program go golang-go
	need_program gcc gcc
	need_package libc6-dev
	;;
arm64)
	need_program aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	[ "$(uname -m)" = aarch64 ] || need_package libc6-dev-arm64-cross
	;;
debug-kernel)
	for program in flex bison bc; do
		need_program "$program" "$program"
	done
	need_package libelf-dev
	need_package libssl-dev
	;;
esac

oldest_rust=$(sed -n 's/^rust-version = "1\.\([0-9]*\)".*/\1/p' Cargo.toml)
rust_is_new_enough() {
	cargo --version 2>/dev/null | awk -v oldest="$oldest_rust" \
		'{ split($2, v, "."); new = v[1] > 1 || v[1] == 1 && v[2] >= oldest } END { exit !new }'
}
has_all_of_rust() {
	rust_is_new_enough && cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1
}
if ! has_all_of_rust; then
	! command -v rustup >/dev/null ||
		fail "Rust 1.$oldest_rust or newer with rustfmt and clippy is needed: run \`rustup update && rustup component add rustfmt clippy\`"
	lack RUST
fi

# Debian's own Rust has this for its own architecture only.
foreign_rust() {
	target=aarch64-unknown-linux-gnu
	[ -d "$(rustc --print target-libdir --target $target)" ] && return
	command -v rustup >/dev/null ||
		fail "Rust's standard library for $target is needed, which rustup installs: see https://rustup.rs"
	rustup target add $target
}
if [ "${1-}" = arm64 ]; then foreign_rust; fi

# Debian 13 has this Go, Debian 12 has not.
oldest_go=$(sed -n 's/^go 1\.\([0-9]*\).*/\1/p' cluster/nri/go.mod)
go_is_new_enough() {
	go env GOVERSION 2>/dev/null | awk -F '[go.]+' -v oldest="$oldest_go" '{ exit !($2 > 1 || $3 >= oldest) }'
}
if [ "${1-}" = go ] && command -v go >/dev/null && ! go_is_new_enough; then
	fail "Go 1.$oldest_go or newer is needed, and this is $(go env GOVERSION)"
fi

[ -n "$lacking" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || fail "not root and no sudo: as root, run \`$0 ${1-}\`"
	as_root="sudo"
fi
echo "setup: asking apt for$lacking" >&2
# Another apt, unattended-upgrades perhaps, may hold the locks. apt can wait for dpkg's, but not for
# that of its lists.
tries=60
until said=$($as_root apt-get update -qq 2>&1); do
	case $said in
	*"Could not get lock"*) ;;
	*) fail "apt-get update: $said" ;;
	esac
	[ $tries -gt 0 ] || fail "another apt has held its lists for ten minutes: $said"
	[ $tries -lt 60 ] || echo "setup: another apt holds its lists, waiting for ten minutes at most" >&2
	tries=$((tries - 1))
	sleep 10
done
case $lacking in
*RUST*)
	# Debian 12 has a newer Rust under names of its own, kept up to date for its browsers.
	if apt-cache show rustc-web >/dev/null 2>&1; then
		rust="rustc-web cargo-web rustfmt-web rust-web-clippy"
	else
		rust="rustc cargo rustfmt rust-clippy"
	fi
	lacking="${lacking% RUST} $rust"
	;;
esac
# shellcheck disable=SC2086 # a list of packages
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y -o DPkg::Lock::Timeout=600 --no-install-recommends $lacking >&2
[ "${1-}" != go ] || go_is_new_enough || fail "apt's Go is too old, 1.$oldest_go or newer is needed"
has_all_of_rust || fail "apt's Rust is too old, 1.$oldest_rust or newer with rustfmt and clippy is needed: install it with rustup"
