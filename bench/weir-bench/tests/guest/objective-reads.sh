# SPDX-License-Identifier: GPL-2.0-only
# A reader beside a flood: 50 random reads of 4 KiB a second of a file of its own. Alone, on stock Linux, with
# an objective that narrows the disk's queue, with windows on the flood set by hand, and with an objective that
# narrows one. The arguments are [BOUND [SECONDS [WINDOW...]]]; the arms are side by side in one guest, whose disk
# "d" is one of 16M/s.
. /tap.sh
bound=${1:-5ms}
seconds=${2:-20}
[ $# -lt 2 ] || shift 2
windows=${*:-128K}
cd /sys/fs/cgroup || exit 1
mkdir reader flood
limits 67108864
dd if=/dev/zero of=/mnt/d/own bs=1M count=200 conv=fsync 2>/dev/null
size=$(df -m /mnt/d | awk 'NR == 2 { printf "%dm", $4 * 7 / 8 }')

flood() {
	in_cgroup flood fio --name=flood --directory=/mnt/d --rw=write --bs=64k --size="$size" --fallocate=none \
		--overwrite=0 >/dev/null 2>&1 &
	sleep 8
}
all_gone() {
	! grep -q . flood/cgroup.procs
}
no_flood() {
	echo 1 >flood/cgroup.kill
	soon all_gone
	rm -f /mnt/d/flood*
	sync
}
written() {
	awk '{ printf "%d", $7 / 2 }' /sys/block/weir0/stat
}
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}
# reader NAME [SECONDS]: sets p99_us, iops, in thousandths, and disk, what it wrote in KiB a second
reader() {
	before=$(written) began=$(milliseconds)
	in_cgroup reader fio --name=reader --filename=/mnt/d/own --rw=randread --bs=4k --rate_iops=50 --time_based \
		--runtime="${2:-$seconds}" --output-format=json --output=/tmp/reader.json >/dev/null 2>&1
	disk=$((($(written) - before) * 1000 / ($(milliseconds) - began)))
	p99_us=$(awk '/"clat_ns" :/ { c = 1 } c && /"99.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000); exit }' /tmp/reader.json)
	p50_us=$(awk '/"clat_ns" :/ { c = 1 } c && /"50.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000); exit }' /tmp/reader.json)
	iops=$(awk '/"read" :/ { w = 1 } w && /"iops" / { gsub(/,/, ""); print int($3 * 1000); exit }' /tmp/reader.json)
	echo "# $1: read p50 $p50_us, p99 $p99_us us, $iops thousandths a second, disk $disk KiB/s, flood dirty $(awk '/^file_dirty/ { print $2 }' flood/memory.stat)"
}

policy() { # LINES: of the policy file above the objective
	printf '%s\n[[objective]]\ncgroup = "/reader"\nlimit = ["/flood"]\nread_p99 = "%s"\n' "$1" "$bound" >/tmp/agent.toml
}
agent() {
	weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
# judge NAME: of a stretch that begins when the agent has had ten seconds
judge() {
	flood
	reader "$1, the first seconds" 10
	reader "$1"
	echo "# queue $(queue), window $(cat flood/memory.writeback_bytes 2>/dev/null)," \
		"agent's CPU time $(awk '{ print $14 + $15 }' /proc/$agent/stat) ticks of $(cut -d ' ' -f 1 /proc/uptime) s"
	sed 's/^/# /' /tmp/log
	ok "$1: the bound is kept" test "$p99_us" -le "$bound_us"
	ok "$1: at the rate that it has alone" test "$iops" -ge $((alone_iops * 99 / 100))
	ok "$1: by a disk that writes as on stock" test "$disk" -ge $((stock * 95 / 100))
}
queue() {
	echo "$(cat /sys/block/weir0/queue/nr_requests) $(cat /sys/block/weir0/queue/max_sectors_kb)"
}
bound_us=$(echo "$bound" | sed 's/ms$/000/; s/us$//')

reader alone
alone=$p99_us alone_iops=$iops own=$(queue)
flood
reader stock
stock=$disk
no_flood
ok "on stock it waits for the flood" test "$p99_us" -gt 100000

policy '[stock]'
agent
judge "the disk's queue"
ok "it is narrower" [ "$(queue)" != "$own" ]
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and puts the queue back" is "$(queue)" "$own"
no_flood

insmod /weir.ko || exit 1
for window in $windows; do
	echo "$window" >flood/memory.writeback_bytes
	flood
	reader "a window of $window"
	no_flood
	ok "with a window of $window it waits twice as long as alone at most" test "$p99_us" -le $((2 * alone))
	ok "at the rate that it has alone" test "$iops" -ge $((alone_iops * 99 / 100))
	ok "by a disk that writes as on stock" test "$disk" -ge $((stock * 95 / 100))
done
echo max >flood/memory.writeback_bytes

policy ''
agent
judge "a window"
ok "it is set" [ "$(cat flood/memory.writeback_bytes)" != max ]
ok "and no ceiling" is "$(cat flood/memory.dirty_bytes)" max
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and puts the window back" is "$(cat flood/memory.writeback_bytes)" max
ok "its events are gone" [ ! -e /sys/kernel/tracing/instances/weir-${agent}r ]
finish
