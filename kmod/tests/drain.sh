# SPDX-License-Identifier: GPL-2.0-only
# Seconds of drain: lifted while writers press, seen by no reader, withdrawn
# without a debt.  Wants a disk "d" that writes a known 8 MB/s: any writer, on
# however busy a machine, is faster.
. /tap.sh
seconds=/sys/module/weir/parameters/drain_seconds
host=/sys/kernel/weir
limit=$((8 << 20))
page=$(page_size)

vmstat() {
	awk -v key="$1" -v page="$page" '$1 == key { print $2 * page }' /proc/vmstat
}

held() {
	echo $(($(vmstat nr_dirty) + $(vmstat nr_writeback)))
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

# What is held is read first: it only shrinks, and the limit follows it down.  A
# machine too busy to look while there is a debt (the disk writes it in two
# seconds) has shown nothing: then it is built up again.
no_debt() {
	local held lifted
	for try in 1 2 3 4 5; do
		echo 0 >$seconds
		sleep 0.3
		held=$(held) lifted=$(cat $host/drain_limit_bytes)
		if [ "$held" -gt $((limit * 3 / 2)) ]; then
			[ "$lifted" -gt $((held * 3 / 4)) ] && return
			break
		fi
		echo 3 >$seconds
		soon above $((2 * limit)) || return
	done
	echo "held $held, then the limit was $lifted"
	return 1
}

# Between two beats the lifted limit stays: then the figures fit to the byte.
reserved() {
	local lifted=$(cat $host/drain_limit_bytes)
	local left=$(($(cat $host/limit_in_force_bytes) + $(cat $host/unused_bytes)))
	[ "$(cat $host/drain_limit_bytes)" = "$lifted" ] && is $left $lifted
}

insmod /weir.ko || exit 1
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
limits $limit
ok "off by default: nothing hooked" is "$(state) $(hooks)" "idle 0"
ok "more than an hour is refused" refuses $seconds 3601 "esult"
ok "words are refused" refuses $seconds soon "nvalid"
ok "a negative number is refused" refuses $seconds -1 "nvalid"
ok "seconds are taken" takes $seconds 3 3
ok "hooked for it" is "$(state) $(hooks)" "active 2"
ok "nothing is lifted before anything was seen" withdrawn

while :; do
	for file in 1 2 3 4; do dirty /mnt/d/$file 64 a; done
done &
writers=$!
ok "the drain is measured and the limit lifted" soon lifted
ok "the drain is what the disk does, within a factor of two" \
	between 4000000 "$(cat $host/drain_bytes_per_sec)" 17000000
ok "writers in a cgroup use the room" soon above $((2 * limit))
ok "readers see stock" is "$(vmstat nr_dirty_threshold)" $limit

echo 4M >/sys/fs/cgroup/b/memory.dirty_min
ok "a floor is taken out of the lifted limit" soon reserved
dirty /mnt/d/b 2 b
ok "who is below it is not throttled" is "$(stat b nr_throttled) $(stat b nr_throttled_below_floor)" "0 0"
echo 0 >/sys/fs/cgroup/b/memory.dirty_min

echo 1 >/sys/module/weir/parameters/observe
ok "observe: what is held falls back towards the kernel's limit" soon eval '! above $((limit * 3 / 2))'
echo 0 >/sys/module/weir/parameters/observe
ok "and rises again" soon above $((2 * limit))

ok "switched off: no limit far below what is held" no_debt
kill $writers
ok "withdrawn when what was held is written" soon withdrawn
ok "then no probe is left" comes_to idle state

echo 10 >$seconds
ok "unloads while on" rmmod weir
ok "loads with the parameter" insmod /weir.ko drain_seconds=10
ok "and is in effect" is "$(state)" active
rmmod weir
finish
