# SPDX-License-Identifier: GPL-2.0-only
# 0029-victim.sh [SECONDS [WRITERS [WAY...]]]: what a victim's write() waits beside WRITERS, a list of
# numbers, on each filesystem (ext4 xfs nfs fuse), on stock Linux, with memory.dirty_bandwidth and
# with a ceiling.  Wants disks "d" with ext4 and "x" with xfs; for nfs and fuse what
# kmod/tests/stacks.sh says.
#
# The victim writes 4 KiB a hundred times a second, in a file of its own.  The writers append, of
# which they are allowed half of what a disk of 16 MB/s takes.
. /tap.sh
. /stacks.sh
seconds=${1:-15}
counts=${2:-8}
shift 2
[ $# -gt 0 ] || set -- ext4
cd /sys/fs/cgroup || exit 1
limits 134217728
mkdir victim noisy

# p99 and the longest, in us, of fio's writes; calls
victim() {
	in_cgroup victim fio --name=victim --rw=write --bs=4k --size=16m --rate_iops=100 --time_based --runtime="$seconds" \
		--filename="$at/victim" --fallocate=none --output-format=json --output=/tmp/fio 2>/dev/null || cat /tmp/fio
	awk '/"write" :/ { write = 1 } /"clat_ns" :/ { clat = write } write && /"total_ios"/ { gsub(/,/, ""); ios = $3 }
		clat && /"(max|99.000000)"/ { gsub(/[",]/, ""); got[$1] = int($3 / 1000) }
		clat && /"iops"|"bw_min"/ { exit } END { print ios, got["99.000000"], got["max"] }' /tmp/fio
}
dirtied() {
	files=
	for pid in $(cat noisy/cgroup.procs); do files="$files /proc/$pid/io"; done
	# shellcheck disable=SC2086 # one word each
	awk 'NR == 1 { now = $1 * 100 } $1 == "write_bytes:" { sum += $2 } END { printf "%d %d", now, sum }' /proc/uptime $files
}
# beside NAME COUNT
beside() {
	for i in $(seq "$2"); do
		in_cgroup noisy dd if=/dev/zero of=$at/noisy.$i bs=64k 2>/dev/null &
	done
	sleep $((12 + $2 / 8))
	before=$(dirtied)
	waits=$(victim)
	rate=$(echo "$before $(dirtied)" | awk '{ printf "%d", ($4 - $2) * 100 / ($3 - $1) / 1024 }')
	# shellcheck disable=SC2086 # one word each
	set -- "$1" "$2" $waits
	echo "# of $1, $way, $2 writers: $3 calls, p99 $4, longest $5 us; writers $rate KiB/s"
	p99=$4
	echo 1 >noisy/cgroup.kill
	soon sh -c '! grep -q . noisy/cgroup.procs'
	wait
	rm -f $at/noisy.* $at/victim
	sync
}

for way in "$@"; do
	case $way in
	ext4) at=/mnt/d ;;
	xfs) at=/mnt/x ;;
	*) stack "$way" /mnt/d && at=/mnt/$way || { ok "$way could be set up" false; continue; } ;;
	esac
	# shellcheck disable=SC2046 # one word each
	set -- $(victim)
	echo "# of no writer, $way, 0 writers: $1 calls, p99 $2, longest $3 us"
	rm $at/victim
	for count in $counts; do
		[ ! -d /sys/module/weir ] || rmmod weir
		beside stock "$count"
		insmod /weir.ko || exit 1
		echo 8M >noisy/memory.dirty_bandwidth
		beside "a bandwidth of 8M" "$count"
		bound_p99=$p99
		echo max >noisy/memory.dirty_bandwidth
		echo 4M >noisy/memory.dirty_bytes
		beside "a ceiling of 4M" "$count"
		echo max >noisy/memory.dirty_bytes
		ok "$way, $count writers: a bandwidth is as good for the victim" [ "$bound_p99" -le $((p99 * 11 / 10 + 100)) ]
	done
	case $way in
	nfs) umount /mnt/nfs; rpc.nfsd 0 ;;
	fuse) umount /mnt/fuse ;;
	esac
done
finish
