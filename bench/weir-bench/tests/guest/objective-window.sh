# SPDX-License-Identifier: GPL-2.0-only
# An objective is kept by a window on a neighbour's writeback, on a disk that goes on as on stock Linux:
# an etcd of 20 records of 4 KiB a second, each followed by fdatasync, beside a flood. The arguments are
# [BOUND_MS [SECONDS [FLOODS]]]; stock and objective are side by side in one guest.
. /tap.sh
bound=${1:-30}
seconds=${2:-20}
size=$(df -m /mnt/d | awk -v floods="${3:-1}" 'NR == 2 { printf "%dm", $4 * 3 / 4 / floods }')
cd /sys/fs/cgroup || exit 1
floods=$(seq "${3:-1}" | sed 's/^/flood/')
mkdir etcd $floods
limits 67108864

flood() {
	for flood in $floods; do
		in_cgroup $flood fio --name=$flood --directory=/mnt/d --rw=write --bs=64k --size="$size" --fallocate=none \
			--overwrite=0 --time_based --runtime=10000 >/dev/null 2>&1 &
	done
	sleep 8
}
no_flood() {
	for flood in $floods; do
		echo 1 >$flood/cgroup.kill
	done
	soon all_gone
	rm -f /mnt/d/flood*
	sync
}
all_gone() {
	! grep -q . flood*/cgroup.procs
}
written() {
	awk '{ printf "%d", $7 / 2 }' /sys/block/weir0/stat
}
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}

# etcd NAME [SECONDS]: sets p99_us, iops and disk, in KiB a second
etcd() {
	for=${2:-$seconds}
	rm -f /mnt/d/etcd*
	before=$(written) began=$(milliseconds)
	in_cgroup etcd fio --name=etcd --directory=/mnt/d --rw=write --bs=4k --size=16m --rate_iops=20 --fdatasync=1 \
		--time_based --runtime="$for" --output-format=json --output=/tmp/etcd.json >/dev/null 2>&1
	disk=$((($(written) - before) * 1000 / ($(milliseconds) - began)))
	# the first 99th percentile after "sync" is of fdatasync
	p99_us=$(awk '/"sync" :/ { s = 1 } s && /"99.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000); exit }' /tmp/etcd.json)
	iops=$(awk '/"write" :/ { w = 1 } w && /"iops" / { gsub(/,/, ""); print int($3 * 1000); exit }' /tmp/etcd.json)
	echo "# $1: fdatasync p99 $p99_us us, $iops thousandths a second, disk $disk KiB/s"
}
windowed() {
	! grep -q max flood*/memory.writeback_bytes
}

etcd alone
alone=$iops
flood
etcd stock
stock=$disk
ok "on stock it waits for the flood" test "$p99_us" -gt $((bound * 3000))
no_flood

insmod /weir.ko || exit 1
printf '[[objective]]\ncgroup = "/etcd"\nlimit = ["/flood*"]\nfsync_p99 = "%sms"\n' "$bound" >/tmp/agent.toml
weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
agent=$!
flood
etcd "the first seconds, in which the agent finds a window" 5
ok "each flood has a window" windowed
etcd "an objective of $bound ms"
for flood in $floods; do
	echo "# $flood: window $(cat $flood/memory.writeback_bytes), ceiling $(cat $flood/memory.dirty_bytes), dirty $(stat $flood dirty)," \
		"held for $(stat $flood writeback_held_usec) us"
done
sed 's/^/# /' /tmp/log
ok "the bound is kept" test "$p99_us" -le $((bound * 1000))
ok "at the rate that it has alone" test "$iops" -ge $((alone * 99 / 100))
ok "by a disk that writes as on stock" test "$disk" -ge $((stock * 9 / 10))
ok "and without a ceiling" is "$(cat flood*/memory.dirty_bytes | sort -u)" max
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and puts the windows back" is "$(cat flood*/memory.writeback_bytes | sort -u)" max
finish
