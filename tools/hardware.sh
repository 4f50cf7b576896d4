#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs scenarios/hardware/ on this host and a real disk, stock beside weir, and puts all that was
# measured, with what this host is, into one archive. As root:
#   tools/hardware.sh DIRECTORY [ARCHIVE [SCENARIO...]]
# DIRECTORY lies on the disk, on ext4, xfs or btrfs, and has 12 GiB free; the scenarios take its
# filesystem.  SCENARIO is one of its names, as in floor; without, all run.
#   WEIR=PROGRAM        the command (default: ./weir of this tree, else `weir`)
#   WEIR_MODULE=FILE    the module, where none is installed
#   WEIR_REPEAT=N       runs of each (default 3)
set -eu
tree=$(dirname "$(readlink -f "$0")")/..

fail() {
	echo "hardware.sh: $1" >&2
	exit 2
}

[ $# -ge 1 ] || fail "expected DIRECTORY [ARCHIVE [SCENARIO...]]"
[ -d "$1" ] || fail "$1 is no directory"
[ "$(id -u)" -eq 0 ] || fail "scenarios change sysctls and cgroups: run it as root"
directory=$(readlink -f "$1")
archive=${2:-weir-hardware-$(date +%Y%m%d-%H%M%S).tar.gz}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- ceiling floor fsync reader weight
for name; do
	[ -e "$tree/scenarios/hardware/$name.toml" ] || fail "there is no scenario $name: expected ceiling, floor, fsync, reader or weight"
done
if [ -z "${WEIR:-}" ]; then
	WEIR=$tree/weir
	[ -x "$WEIR" ] || WEIR=weir
fi

# of the mount that DIRECTORY is on: the longest that it begins with
mount=$(awk -v at="$directory/" '{
	point = $2 == "/" ? "/" : $2 "/"
	if (index(at, point) == 1 && length(point) >= best) { best = length(point); line = $0 }
} END { print line }' /proc/self/mounts)
filesystem=$(echo "$mount" | cut -d ' ' -f 3)
case $filesystem in
ext4 | xfs | btrfs) ;;
*) fail "$directory is on $filesystem: expected ext4, xfs or btrfs" ;;
esac

out=$(mktemp -d "${TMPDIR:-/var/tmp}/weir-hardware.XXXXXX")
trap 'rm -rf "$out"' EXIT
trap 'exit 130' HUP INT TERM

device=$(basename "$(readlink -f "$(echo "$mount" | cut -d ' ' -f 1)")")
{
	echo "kernel: $(uname -r) $(uname -m)"
	echo "weir: $("$WEIR" --version)"
	echo "CPUs: $(nproc)"
	grep '^MemTotal' /proc/meminfo
	echo "mount: $mount"
	grep . /proc/sys/vm/dirty_*
	# of the disk itself where DIRECTORY is on a partition
	for queue in /sys/class/block/"$device"/queue /sys/class/block/"$device"/../queue; do
		[ -d "$queue" ] || continue
		grep -s . "$queue"/rotational "$queue"/scheduler "$queue"/nr_requests "$queue"/max_sectors_kb \
			"$queue"/write_cache "$queue"/fua "$queue"/../device/model || true
		break
	done
} >"$out/host.txt" 2>&1

worst=0
for name; do
	scenario=$tree/scenarios/hardware/$name.toml
	echo "hardware.sh: $name" >&2
	sed "s/^filesystem = .*/filesystem = \"$filesystem\"/" "$scenario" >"$out/$name.toml"
	ended=0
	"$WEIR" run "$out/$name.toml" --on host --yes --disk "d=$directory" --repeat "${WEIR_REPEAT:-3}" \
		${WEIR_MODULE:+--module "$WEIR_MODULE"} --out "$out/$name" >"$out/$name.txt" 2>"$out/$name.err" || ended=$?
	cat "$out/$name.txt"
	# 1: an expectation is not met, which is a result; 2: there is none
	[ $ended -le 1 ] || tail -n 5 "$out/$name.err" >&2
	[ $ended -le $worst ] || worst=$ended
done
tar -C "$out" -czf "$archive" .
echo "hardware.sh: all that was measured is in $archive; host.txt has what this host is" >&2
exit "$worst"
