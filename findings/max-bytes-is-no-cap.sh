#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Linux 7.3.4: `max_bytes` of a backing device does not cap what the device holds. With max_bytes of
# 8 MiB, one writer fills the whole dirty limit of 64 MiB with pages of that device; the file reads
# back 8388608 all the while. The kernel only weighs the value against the device's measured speed
# and lets a lone writer go on below the host's own limit, unless `strict_limit` is 1 as well.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

cat >work <<'END'
device=/sys/class/bdi/$(cat /sys/block/vda/dev)
echo 67108864 >/proc/sys/vm/dirty_bytes
echo 33554432 >/proc/sys/vm/dirty_background_bytes
echo 8388608 >"$device/max_bytes"

watch_writer() { # FILE: the most that is dirty or under writeback, in MiB, once the writer is paced
	dd if=/dev/zero of="/mnt/$1" bs=64k count=8192 2>/dev/null &
	writer=$!
	sleep 3
	most=0
	for second in 1 2 3 4 5 6 7 8 9 10 11 12; do
		sleep 1
		now=$(awk '/^(Dirty|Writeback):/ { sum += $2 } END { print int(sum / 1024) }' /proc/meminfo)
		[ "$now" -le "$most" ] || most=$now
	done
	kill $writer
	wait $writer 2>/dev/null
	rm "/mnt/$1"
	sync
}

watch_writer first
echo "case: strict_limit $(cat "$device/strict_limit"), max_bytes $(cat "$device/max_bytes"), most held: $most MiB"
echo 1 >"$device/strict_limit"
watch_writer second
echo "case: strict_limit $(cat "$device/strict_limit"), max_bytes $(cat "$device/max_bytes"), most held: $most MiB"
END
run_in_guest 240

state_case "Linux $kernel, ext4, a disk of 8 MiB/s, vm.dirty_bytes 64 MiB" \
	"at most 8 MiB of dirty pages with max_bytes 8388608" \
	"Documentation/ABI/testing/sysfs-class-bdi: max_bytes lets a device use no more than that of the write-back cache"
grep '^case: ' console
# Amounts differ from run to run: more than four times the cap, or at most one and a half times.
seen=$(sed -n 's/^case: //p' console | awk '{ print $1, $2, ($(NF - 1) > 32 ? "over 32 MiB" : $(NF - 1) <= 12 ? "at most 12 MiB" : "between") }')
conclude "$seen" "strict_limit 0, over 32 MiB
strict_limit 1, at most 12 MiB"
