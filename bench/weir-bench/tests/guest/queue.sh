# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps an objective on fsync without the module: it narrows the queue of the disk that a
# flood fills, at the disk's full rate, and puts back what was there, killed or not.
# Wants a disk "d" of 16M/s.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
mkdir db flood calm
limits 67108864
disk=$(basename "$(readlink -f /dev/weir/d)")
queue=/sys/block/$disk/queue

policy() { # BOUND MODE
	cat >/tmp/new.toml <<-END
		[stock]
		[[objective]]
		cgroup = "/db"
		fsync_p99 = "$1"
		limit = ["/flood", "/calm"]
		mode = "$2"
	END
	mv /tmp/new.toml /tmp/agent.toml
}
agent() {
	weir agent --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
size() {
	echo "$(cat $queue/nr_requests) $(cat $queue/max_sectors_kb)"
}
in_flight() { # KiB that may be
	echo $(($(cat $queue/nr_requests) * $(cat $queue/max_sectors_kb)))
}
narrow() {
	[ "$(in_flight)" -lt $((own_kib / 8)) ] || { size; return 1; }
}
own() {
	is "$(size)" "$own"
}
sectors() {
	awk '{ print $7 }' "/sys/block/$disk/stat"
}
now() {
	cut -d ' ' -f 1 /proc/uptime
}
# fsyncs SECONDS: 20 a second; into p99 in microseconds, and rate, what the disk wrote, in KiB/s
fsyncs() {
	before=$(sectors)
	began=$(now)
	in_cgroup db fio --name=db --directory=/mnt/d --bs=4k --rw=write --size=16m --rate_iops=20 --fdatasync=1 \
		--time_based --runtime="$1" --output-format=json --output=/tmp/db.json >/dev/null 2>&1
	rate=$(awk -v from="$before" -v to="$(sectors)" -v began="$began" -v ended="$(now)" \
		'BEGIN { print int((to - from) / 2 / (ended - began)) }')
	p99=$(sed -n '/"sync"/,$p' /tmp/db.json | grep -m 1 '"99.000000"' | tr -dc '0-9. ' |
		awk '{ print int($NF / 1000) }')
	echo "# p99 $p99 us, disk $rate KiB/s, queue $(size)"
}

queue_is_told() { # a scrape may be of two seconds ago, when it was another
	wget -qO /tmp/metrics http://127.0.0.1:9759/metrics
	grep -q "weir_agent_stock_queue_bytes{disk=\"$disk\"} $(($(in_flight) * 1024))" /tmp/metrics
}

own=$(size)
own_kib=$(in_flight)
ok "the module is not loaded" test ! -e /sys/kernel/weir
in_cgroup flood fio --name=flood --directory=/mnt/d --bs=64k --rw=write --size=2600m --fallocate=none \
	--overwrite=0 >/dev/null 2>&1 &
flood=$!
sleep 8
fsyncs 15
stock_p99=$p99
stock_rate=$rate
ok "an fsync waits for the flood" test "$stock_p99" -gt 400000

policy 30ms observe
agent
fsyncs 6
ok "observing it says what the disk could have in flight" says "$disk could have"
ok "and sets nothing" own
policy 30ms on
fsyncs 15
ok "then it narrows the disk's queue" narrow
ok "and says so" says "/sys/block/$disk/queue/nr_requests = "
ok "and of which objective" says "$disk may have"
ok "no ceiling is set" holds flood/memory.high max
ok "what is set is noted" grep -q "sys/block/$disk/queue/max_sectors_kb" /run/weir/stock.json
fsyncs 15
ok "the p99 is a tenth of stock's at most" test $((p99 * 10)) -le "$stock_p99"
ok "the bound is kept, or nearly" test "$p99" -le 45000
ok "the disk writes as much" test $((rate * 100)) -ge $((stock_rate * 97))
ok "metrics have the queue" soon queue_is_told

kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves the queue" narrow
policy 30ms off
agent
ok "the next one puts it back" soon own
kill $agent
ok "it ends cleanly" wait $agent

policy 30ms on
agent
fsyncs 12
ok "it is narrowed again" narrow
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and puts the queue back" own

policy 30ms on
agent
fsyncs 12
ok "and again" narrow
echo 24 >$queue/nr_requests
ok "another program's value is seen" soon says "/sys/block/$disk/queue/nr_requests stays 24"
kill $agent
wait $agent
ok "and stays" is "$(size)" "24 ${own#* }"
kill $flood
finish
