#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Installs weir-dkms and kernel headers in Debian systems, as an operator does, and looks at what
# dkms itself made of it: a module for each kernel of tools/matrix.sh, without a compiler warning.
#   tools/dkms.sh PACKAGE LOGS [PLACE...]
# PACKAGE is weir-dkms_VERSION_all.deb.  LOGS is a new directory for what apt and make said.  A PLACE
# is bookworm, trixie (with its backports), bookworm:arm64 or trixie:arm64; all of them if none is
# named.  mmdebstrap makes each in a temporary directory, which is gone at the end.  arm64's programs
# are emulated.
# Prints a table.  Exit status: 0 all is as it must be, 1 something is not, 2 it could not be tried.
set -euo pipefail

# Kernels of a place, SERIES:FLAVOUR; the first is installed together with the package.  A `-` before
# it: no module can be built, which the package must say, and nothing may fail.
declare -A kernels=(
	[bookworm]="6.1:cloud 6.1:generic 6.1:rt 6.12:cloud 6.12:generic 6.12:rt"
	[trixie]="6.12:cloud 6.12:generic 6.12:rt 7.2:cloud 7.2:generic 7.2:rt 7.3:cloud 7.3:generic 7.3:rt"
	[bookworm:arm64]="-6.1:cloud 6.12:cloud"
	[trixie:arm64]="6.12:cloud 7.3:cloud"
)
# arm64 by name alone: for its programs the machine's own kernel must be told of qemu-user
places=(bookworm trixie)
weir=/root/weir # in a place: the package, this script, and what was found

die() {
	echo "dkms.sh: $1" >&2
	exit 2
}

uri() { # ARCHIVE: this host's mirror of it
	# shellcheck disable=SC2016 # apt's own variable
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | grep -m 1 "/$1/\$" ||
		die "no archive '$1' among this host's apt sources: add Debian's to /etc/apt"
}

# --- in a place ---

newest() { # SERIES FLAVOUR: the release of the newest kernel with headers
	local flavour=$2-
	[ "$2" != generic ] || flavour=
	apt-cache pkgnames "linux-headers-$1." | sed 's/^linux-headers-//' |
		grep -xE "${1/./\\.}\.[0-9.]+[-+][a-z0-9.]+-$flavour$(dpkg --print-architecture)" |
		sort -V | tail -n 1
}

# Headers of newer kernels bring the kernel itself along; here nothing boots it.
quiet_install() { # LOG PACKAGE...
	local log=$1
	shift
	INITRD=No DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null
}

row() { # KERNEL COMPILER BUILT WARNINGS SECONDS
	printf '| %s | %s | %s | %s | %s |\n' "$@" >>"$weir/found/rows"
}

wrong() { # RELEASE PROBLEM
	echo "$1: $2" >>"$weir/found/wrong"
}

# What is there for a kernel after its headers were installed.
look() { # RELEASE must|cannot
	local release=$1 module log warnings seconds compiler vermagic
	module=$(find "/lib/modules/$release/updates/dkms" -name 'weir.ko*' 2>/dev/null || true)
	log=$(find /var/lib/dkms/weir -path "*/$release/*/log/make.log")
	[ -z "$log" ] || cp "$log" "$weir/found/$release.make"
	if [ "$2" = cannot ]; then
		[ -z "$module" ] || wrong "$release" "a module was built, and cannot work: $module"
		[ -z "$log" ] || wrong "$release" "dkms tried to build a module: dkms.conf should tell it that it cannot"
		grep -q "weir-dkms: Linux $release gets no weir.ko: " "$weir/found/$release.apt" ||
			wrong "$release" "the package does not say why there is no module"
		row "$release" "" "no, as it must be" "" ""
		return
	fi
	if [ -z "$module" ]; then
		wrong "$release" "no module in /lib/modules/$release/updates/dkms: see $release.apt and $release.make"
		row "$release" "" "**no**" "" ""
		return
	fi
	vermagic=$(modinfo -F vermagic "$module")
	[ "${vermagic%% *}" = "$release" ] || wrong "$release" "the module is of another kernel: vermagic '$vermagic'"
	case $module in
	*.xz) xz -dc "$module" >/tmp/weir.ko ;;
	*) cp "$module" /tmp/weir.ko ;;
	esac
	compiler=$(readelf -p .comment /tmp/weir.ko | sed -n 's/^ *\[ *[0-9a-f]*\] *//p' | sort -u | paste -sd ';')
	grep -q '^CONFIG_CC_IS_GCC=y' "/lib/modules/$release/build/.config" ||
		compiler="$compiler, the kernel with another"
	warnings=$(grep -ci warning "$log" || true)
	[ "$warnings" -eq 0 ] || wrong "$release" "$warnings warnings: see $release.make"
	# dkms writes when it begins into the log's second line.
	seconds=$(($(stat -c %Y "$log") - $(date +%s -d "$(sed -n 2p "$log")")))
	row "$release" "$compiler" yes "$warnings" "$seconds"
}

# A kernel that lacks what the module needs must break nothing.  amd64 has none: one is made to lack it.
lack() { # RELEASE
	local log=$weir/found/lacking headers=/lib/modules/$1/build
	dkms unbuild "weir/$(dpkg-query -f '${Version}' -W weir-dkms)" -k "$1" >"$log" 2>&1 || true
	sed -i '/^CONFIG_DYNAMIC_FTRACE_WITH_ARGS=/d' "$headers/.config" "$headers/include/config/auto.conf"
	run-parts --exit-on-error --arg="$1" /etc/kernel/header_postinst.d >>"$log" 2>&1 ||
		wrong "$1" "without an option that the module needs, hooks fail, and apt with them: see lacking"
	[ -z "$(find "/lib/modules/$1/updates" -name 'weir.ko*' 2>/dev/null)" ] ||
		wrong "$1" "a module was built without an option that it needs: see lacking"
	grep -q "weir-dkms: Linux $1 gets no weir.ko: .* CONFIG_DYNAMIC_FTRACE_WITH_ARGS" "$log" ||
		wrong "$1" "the package does not say which option is lacking: see lacking"
}

inside() { # KERNEL...
	local kernel release what packages=$weir/weir-dkms.deb rest
	: >"$weir/found/rows"
	for kernel in "$@"; do
		what=must
		[ "$kernel" = "${kernel#-}" ] || what=cannot
		kernel=${kernel#-}
		release=$(newest "${kernel%:*}" "${kernel#*:}") || true
		if [ -z "$release" ]; then
			wrong "$kernel" "the archive has no headers of such a kernel: change the list in tools/dkms.sh"
			continue
		fi
		echo "dkms.sh: $release" >&2
		# The first comes with the package, the others to a host that has it.
		# shellcheck disable=SC2086 # a list
		quiet_install "$weir/found/$release.apt" $packages "linux-headers-$release" ||
			wrong "$release" "apt failed: see $release.apt"
		packages=
		look "$release" "$what"
	done
	dkms status >"$weir/found/status" 2>&1
	[ -z "$release" ] || lack "$release"
	DEBIAN_FRONTEND=noninteractive apt-get purge -y weir-dkms >"$weir/found/purge" 2>&1 </dev/null ||
		wrong purge "apt failed: see purge"
	rest=$(find /lib/modules /usr/src /var/lib/dkms -name 'weir*')
	[ -z "$rest" ] || wrong purge "left behind: $rest"
}

if [ "${1-}" = --inside ]; then
	shift
	# Whatever happens: what was found until then is wanted.
	trap 'exit 0' EXIT
	inside "$@" >&2
	touch "$weir/found/done"
	exit 0
fi

# --- here ---

[ $# -ge 2 ] || die "usage: tools/dkms.sh PACKAGE LOGS [PLACE...]"
package=$1 logs=$2
shift 2
[ -f "$package" ] || die "$package: no such package: run \`make test-dkms\`"
[ $# -eq 0 ] || places=("$@")
for place in "${places[@]}"; do
	[ -n "${kernels[$place]-}" ] || die "no place called '$place'; known: ${!kernels[*]}"
	case $place in
	*:arm64) arch-test arm64 >/dev/null || die "arm64's programs do not run here: qemu-user-static, arch-test and binfmt-support \
must be installed, and where no init does it, as root: \
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && update-binfmts --enable qemu-aarch64" ;;
	esac
done
debian=$(uri debian)
security=$(uri debian-security)
mkdir -p "$logs"
script=$(readlink -f "$0")
work=$(mktemp -d "${TMPDIR:-/var/tmp}/weir-dkms.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 2' HUP INT TERM
mkdir "$work/weir" "$work/weir/found"
cp "$package" "$work/weir/weir-dkms.deb"
cp "$script" "$work/weir/dkms.sh"
chmod -R a+rX "$work"

# As root mmdebstrap mounts /proc and others into a place: no other process shall see them.
apart=(unshare --mount)
[ "$(id -u)" -eq 0 ] || apart=()
status=0
for place in "${places[@]}"; do
	suite=${place%:*} arch=amd64
	[ "$place" = "$suite" ] || arch=${place#*:}
	found=$logs/$suite-$arch
	[ ! -e "$found" ] || die "$found: exists: name a new directory"
	backports="deb $debian $suite-backports main"
	[ "$suite" = trixie ] || backports=
	echo "dkms.sh: making Debian's $suite of $arch" >&2
	# Not all that it mounts can always be unmounted at once: what was found decides.
	TMPDIR=$work "${apart[@]}" mmdebstrap --quiet --format=null --variant=minbase --architectures="$arch" \
		--aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--include=dkms,openssl,xz-utils \
		--customize-hook="copy-in $work/weir /root" \
		--customize-hook="chroot \"\$1\" bash $weir/dkms.sh --inside ${kernels[$place]}" \
		--customize-hook="copy-out $weir/found $work" \
		"$suite" - "deb $debian $suite main" "deb $debian $suite-updates main" \
		"deb $security $suite-security main" ${backports:+"$backports"} >&2 ||
		[ -e "$work/found" ] || die "no $suite of $arch could be made: mmdebstrap says why above"
	mv "$work/found" "$found"
	[ -e "$found/done" ] || echo "$place: it ended before all was tried" >>"$found/wrong"
	printf '\n%s:\n\n| kernel | compiler | built | warnings | seconds |\n| --- | --- | --- | --- | --- |\n' "$place"
	cat "$found/rows"
	[ -s "$found/wrong" ] || continue
	status=1
	sed "s/^/dkms.sh: $suite: /" "$found/wrong" >&2
	echo "dkms.sh: the logs are in $found" >&2
done
exit $status
