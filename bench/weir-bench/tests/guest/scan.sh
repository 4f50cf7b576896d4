# SPDX-License-Identifier: GPL-2.0-only
# scan.sh: what it takes kswapd to look at a page, in a guest that counts instructions (--count-instructions, --cpus 1), so that what else the
# machine does has no part in it. Wants a disk "sda" with ext4. Clean pages of a file that is a hole come into a cache that is full, 125 MiB of them; four times. Nothing is
# asked of the result but that kswapd did the work: it is what `scan` of the twin is held against (docs/experiments/0015-twin-accuracy.md).
. /tap.sh
truncate -s 8G /mnt/sda/hole
kswapd=$(grep -lx kswapd0 /proc/[0-9]*/comm | cut -d / -f 3)

# so_far: nanoseconds (instructions) of kswapd's, pages it has looked at, taken, and pages that tasks looked at
so_far() {
	awk 'FILENAME ~ /schedstat/ { ns = $1 } $1 == "pgscan_kswapd" { scan = $2 } $1 == "pgsteal_kswapd" { steal = $2 }
		$1 == "pgscan_direct" { direct = $2 } END { printf "%.0f %d %d %d\n", ns, scan, steal, direct }' "/proc/$kswapd/schedstat" /proc/vmstat
}

# The cache is filled first.
dd if=/mnt/sda/hole of=/dev/null bs=64k count=9000 2>/dev/null
for round in 1 2 3 4; do
	before=$(so_far)
	dd if=/mnt/sda/hole of=/dev/null bs=64k count=2000 skip=$((7000 + round * 2000)) 2>/dev/null
	after=$(so_far)
	# shellcheck disable=SC2086 # numbers
	set -- $before $after
	scanned=$(($6 - $2))
	ok "kswapd takes pages (round $round)" test "$scanned" -gt 10000
	echo "# kswapd: $scanned pages seen, $(($7 - $3)) taken, $((($5 - $1) / scanned)) instructions for each seen; tasks saw $(($8 - $4))"
done
finish
