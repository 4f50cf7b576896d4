# SPDX-License-Identifier: GPL-2.0-only
# An objective is kept by a window on a neighbour's writeback, on a disk that goes on as on stock Linux:
# an etcd of 20 records of 4 KiB a second, each followed by fdatasync, beside a flood. The arguments are
# [BOUND_MS [SECONDS]]; stock and objective are side by side in one guest.
. /tap.sh
bound=${1:-30}
seconds=${2:-20}
cd /sys/fs/cgroup || exit 1
mkdir etcd flood
limits 67108864

flood() {
	in_cgroup flood fio --name=flood --directory=/mnt/d --rw=write --bs=64k --size=900m --fallocate=none \
		--overwrite=0 --time_based --runtime=10000 >/dev/null 2>&1 &
	flood=$!
	sleep 8
}
no_flood() {
	echo 1 >flood/cgroup.kill
	wait $flood 2>/dev/null
	rm -f /mnt/d/flood*
	sync
}
written() {
	awk '{ printf "%d", $7 * 512 }' /sys/block/weir0/stat
}
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}

# etcd NAME [SECONDS]: sets p99_us, iops and disk, in bytes a second
etcd() {
	for=${2:-$seconds}
	rm -f /mnt/d/etcd*
	before=$(written) began=$(milliseconds)
	in_cgroup etcd fio --name=etcd --directory=/mnt/d --rw=write --bs=4k --size=16m --rate_iops=20 --fdatasync=1 \
		--time_based --runtime="$for" --output-format=json --output=/tmp/etcd.json >/dev/null 2>&1
	disk=$((($(written) - before) / ($(milliseconds) - began) * 1000))
	# the first 99th percentile after "sync" is of fdatasync
	p99_us=$(awk '/"sync" :/ { s = 1 } s && /"99.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000); exit }' /tmp/etcd.json)
	iops=$(awk '/"write" :/ { w = 1 } w && /"iops" / { gsub(/,/, ""); print int($3 * 1000); exit }' /tmp/etcd.json)
	echo "# $1: fdatasync p99 $p99_us us, $iops thousandths a second, disk $disk bytes a second"
}
windowed() {
	[ "$(cat flood/memory.writeback_bytes)" != max ]
}

etcd alone
alone=$iops
flood
etcd stock
stock=$disk
ok "on stock it waits for the flood" test "$p99_us" -gt 400000
no_flood

insmod /weir.ko || exit 1
printf '[[objective]]\ncgroup = "/etcd"\nlimit = ["/flood"]\nfsync_p99 = "%sms"\n' "$bound" >/tmp/agent.toml
weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
agent=$!
flood
etcd "the first seconds, in which the agent finds a window" 5
ok "the flood has a window" windowed
etcd "an objective of $bound ms"
echo "# the window: $(cat flood/memory.writeback_bytes), the ceiling: $(cat flood/memory.dirty_bytes)"
grep -E '^(nr_writeback_held|writeback_held_usec|subtree_dirty|dirty) ' flood/memory.dirty_stat | sed 's/^/# /'
sed 's/^/# /' /tmp/log
ok "the bound is kept" test "$p99_us" -le $((bound * 1000))
ok "at the rate that it has alone" test "$iops" -ge $((alone * 99 / 100))
ok "by a disk that writes as on stock" test "$disk" -ge $((stock * 9 / 10))
ok "and without a ceiling" is "$(cat flood/memory.dirty_bytes)" max
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and puts the window back" is "$(cat flood/memory.writeback_bytes)" max
finish
