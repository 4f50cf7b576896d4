# SPDX-License-Identifier: GPL-2.0-only
# weir's tracepoints as their users reach them: trace-cmd and bpftrace, as the
# distribution ships them.  Wants a disk "d" slower than a writer, and the
# packages trace-cmd and bpftrace.
. /tap.sh
limits $((64 << 20))
cd /sys/fs/cgroup || exit 1
mkdir a
insmod /weir.ko || exit 1
echo 8M >a/memory.dirty_bytes
id=$(ls -id a | awk '{ print $1 }')
cat >/tmp/write <<'END'
#!/bin/sh
echo 0 >/sys/fs/cgroup/a/cgroup.procs
exec dd if=/dev/zero of=/mnt/d/a bs=64k count=512 conv=notrunc
END
chmod +x /tmp/write

one_event() { # FILE PATTERN
	grep -qE "$2" "$1" || { tail -n 5 "$1"; return 1; }
}

ok "trace-cmd records" trace-cmd record -q -o /tmp/trace.dat -e weir:dirty_pause /tmp/write
ok "and reports" sh -c 'trace-cmd report -i /tmp/trace.dat >/tmp/report'
ok "who was paused, and by what" one_event /tmp/report "dirty_pause:.*by=ceiling"

ok "bpftrace follows" bpftrace -o /tmp/bpf -c "/bin/sh /tmp/write" \
	-e 'tracepoint:weir:dirty_pause { @ms[args->cgroup, args->by] = sum(args->pause_ms); }'
ok "bpftrace sums the pauses of the cgroup by what decided them, 3 for its ceiling" one_event /tmp/bpf "@ms\\[$id, 3\\]: [1-9]"
rmmod weir
finish
