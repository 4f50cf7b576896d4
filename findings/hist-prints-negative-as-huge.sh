#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Linux 7.3.4: a hist trigger prints negative values of a signed field as numbers near 2^64, though
# it sorts and filters them as signed. fsync() of a file of /proc returns -22; the event's format
# says `long`, `signed:1`. A sum over such a field (the `pause` of balance_dirty_pages is negative
# in passes that need no sleep) is then no time at all.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

cat >work <<'END'
cd /sys/kernel/tracing/events/syscalls/sys_exit_fsync
sed -n 's/.*\(field:long ret\);.*\(signed:.\);/format: \1 \2/p' format
echo 'hist:keys=ret:sort=ret' >trigger
echo 'hist:name=filtered:keys=ret if ret < 0' >>trigger
echo 'hist:name=sums:keys=common_type:vals=ret' >>trigger
sync /mnt
sync /proc/self/mounts 2>/dev/null
sed -n 's/^{ \(.*\)/hist: \1/p' hist
END
run_in_guest 120

state_case "Linux $kernel" \
	"ret -22 in each of the three histograms, smallest first" \
	"events/syscalls/sys_exit_fsync/format (signed:1); Documentation/trace/histogram.rst: numeric fields are shown as base-10 integers"
seen=$(grep -E '^(format|hist): ' console | tr -s ' ' | sed 's/common_type: [0-9]*/common_type: N/')
conclude "$seen" "format: field:long ret signed:1
hist: ret: 18446744073709551594 } hitcount: 1
hist: ret: 0 } hitcount: 1
hist: ret: 18446744073709551594 } hitcount: 1
hist: common_type: N } hitcount: 2 ret: 18446744073709551594"
