#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# reservation.sh [N]: kmod/tests/reservation.sh at full length, N times (default 5)
# each: 1, 8 and 100 cgroups, and every kind of filesystem the others may write to.
set -e
cd "$(dirname "$0")/.."
times=${1:-5}
failed=0

# run KERNEL FILESYSTEM HOLDERS [KIND [OPTION...]]
run() {
	kernel=$1 filesystem=$2 holders=$3 kind=$4
	shift 3
	[ $# -eq 0 ] || shift
	echo "# $kernel, $holders floors, the others on $filesystem${kind:+ below $kind}"
	i=0
	while [ $i -lt "$times" ]; do
		./weir exec --kernel "$kernel" --memory 2G \
			--file kmod/tests/tap.sh:/tap.sh --file kmod/tests/stacks.sh:/stacks.sh \
			--disk d=3G,ext4,16M/s --disk "o=2G,$filesystem,16M/s" "$@" \
			kmod/tests/reservation.sh "$holders" 10 "$kind" || failed=$((failed + 1))
		i=$((i + 1))
	done
}

for holders in 1 8 100; do
	run debian:6.12 ext4 $holders
done
run debian:6.1 ext4 8
run debian:6.12 xfs 8
run debian:6.12 ext4 8 loop --driver loop
run debian:6.12 ext4 8 fuse --package fuse-overlayfs
run debian:6.12 ext4 8 nfs --package nfs-kernel-server --package nfs-common --driver nfsd --driver nfsv4
echo "# $failed runs failed"
test $failed -eq 0
