# SPDX-License-Identifier: GPL-2.0-only
# Seconds of drain: lifted while writers press, seen by no reader, withdrawn
# without a debt.  Wants a disk "d" that writes a known 32 MB/s.
. /tap.sh
seconds=/sys/module/weir/parameters/drain_seconds
host=/sys/kernel/weir
limit=$((16 << 20))

vmstat() {
	awk -v key="$1" '$1 == key { print $2 * 4096 }' /proc/vmstat
}

held() {
	echo $(($(vmstat nr_dirty) + $(vmstat nr_writeback)))
}

# soon COMMAND...: within ten seconds
soon() {
	for try in $(seq 100); do
		"$@" && return
		sleep 0.1
	done
	echo "not within ten seconds: $*"
	return 1
}

lifted() {
	[ "$(cat $host/drain_limit_bytes)" -gt $((4 * limit)) ]
}

withdrawn() {
	[ "$(cat $host/drain_limit_bytes)" -eq 0 ]
}

above() {
	[ "$(held)" -gt "$1" ]
}

idle() {
	[ "$(state)" = idle ]
}

insmod /weir.ko || exit 1
mkdir /sys/fs/cgroup/a
limits $limit
ok "off by default: no probe" is "$(state) $(probes)" "idle 0"
ok "more than an hour is refused" refuses $seconds 3601 "esult"
ok "words are refused" refuses $seconds soon "nvalid"
ok "a negative number is refused" refuses $seconds -1 "nvalid"
ok "seconds are taken" takes $seconds 3 3
ok "a probe for it, none for passes" is "$(state) $(probes)" "active 1"
ok "nothing is lifted before anything was seen" withdrawn

while :; do
	for file in 1 2 3 4; do dirty /mnt/d/$file 64 a; done
done &
writers=$!
ok "the drain is measured and the limit lifted" soon lifted
ok "the drain is what the disk does, within a factor of two" \
	between 16000000 "$(cat $host/drain_bytes_per_sec)" 68000000
ok "writers in a cgroup use the room" soon above $((2 * limit))
ok "readers see stock" is "$(vmstat nr_dirty_threshold)" $limit

echo 1 >/sys/module/weir/parameters/observe
ok "observe: what is held falls back to the kernel's limit" soon eval '! above $limit'
echo 0 >/sys/module/weir/parameters/observe
ok "and rises again" soon above $((2 * limit))

echo 0 >$seconds
ok "switched off: no limit below what is held at once" \
	above $(($(cat $host/drain_limit_bytes) * 3 / 4))
kill $writers
ok "withdrawn when what was held is written" soon withdrawn
ok "then no probe is left" soon idle
ok "none at all" is "$(probes)" 0

echo 10 >$seconds
ok "unloads while on" rmmod weir
ok "loads with the parameter" insmod /weir.ko drain_seconds=10
ok "and is in effect" is "$(state)" active
rmmod weir
finish
