#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Linux 7.3.4: `write_bytes` of /proc/PID/io counts whole folios. One write() of one byte into a
# file that was written in one call of 4 MiB adds 2 MiB to it, while the disk gets one block of
# 4 KiB; into a file written in one call of 64 KiB, it adds 64 KiB. A byte's price depends on how
# another program filled the page cache. iotop, pidstat and psutil print this counter as bytes
# written to disk.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

cat >work <<'END'
read_written() { # bytes that the disk got since boot
	awk '$3 == "vda" { printf "%d\n", $10 * 512 }' /proc/diskstats
}
for size in 4k 64k 1M 4M; do
	dd if=/dev/zero of=/mnt/file bs=$size count=1 2>/dev/null
	sync
	sleep 1
	before=$(read_written)
	billed=$(sh -c 'exec 3<>/mnt/file; printf x >&3; grep ^write_bytes: /proc/$$/io')
	sync -d /mnt/file
	echo "case: file of one write of $size, then 1 byte: $billed, disk $(($(read_written) - before))"
done
END
run_in_guest 120

state_case "Linux $kernel, ext4 with blocks of 4 KiB" \
	"write_bytes 4096 in each case, as the disk gets: the block that the byte is in" \
	"Documentation/filesystems/proc.rst 3.3 and proc_pid_io(5): the bytes that this process caused to be sent to the storage layer"
conclude "$(sed -n 's/^case: //p' console)" "file of one write of 4k, then 1 byte: write_bytes: 4096, disk 4096
file of one write of 64k, then 1 byte: write_bytes: 65536, disk 4096
file of one write of 1M, then 1 byte: write_bytes: 1048576, disk 4096
file of one write of 4M, then 1 byte: write_bytes: 2097152, disk 4096"
