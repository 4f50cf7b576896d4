# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps a ceiling in seconds on a real kernel: what a cgroup has dirty at any moment is on
# disk that many seconds later, alone and beside another that writes. Wants a disk "d" of 8 MB/s.
. /tap.sh
cd /sys/fs/cgroup || exit 1
mkdir flood more
limits 402653184

job() { # CGROUP: a process of fio that appends in it as fast as it is let
	in_cgroup "$1" fio --name="$1" --directory=/mnt/d --rw=write --bs=64k --size=2g --end_fsync=0 \
		--fallocate=none --time_based --runtime=10000 >/dev/null 2>&1 &
}
policy() { # VALUE
	printf '[[rule]]\ncgroup = ["/flood", "/more"]\nset = { "memory.dirty_bytes" = "%s" }\n' "$1" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
ceiling() {
	cat flood/memory.dirty_bytes
}
limited() {
	[ "$(ceiling)" != max ]
}
now_ms() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}
freeze() { # CGROUP 0|1
	echo "$2" >"$1/cgroup.freeze"
	sleep 0.2
}
# How long what the frozen flood has dirty takes to disk, three times: all of them in ms
drains() {
	for try in 1 2 3; do
		freeze flood 1
			held=$(($(stat flood dirty) + $(stat flood writeback)))
		began=$(now_ms)
		sync -f /mnt/d
		took=$(($(now_ms) - began))
		echo "# $held bytes in $took ms, ceiling $(ceiling)" >&2
		freeze flood 0
		echo $took
		sleep 7
	done
}
within() { # MOST: each of what drains() printed
	for took in $taken; do
		between 1 "$took" "$1" || return
	done
}
rate() { # in KiB/s over ten seconds
	before=$(sed 's/.*wbytes=\([0-9]*\).*/\1/' flood/io.stat)
	sleep 10
	echo $((($(sed 's/.*wbytes=\([0-9]*\).*/\1/' flood/io.stat) - before) / 10240))
}

insmod /weir.ko || exit 1
job flood
sleep 60
freeze flood 1
began=$(now_ms)
sync -f /mnt/d
stock=$(($(now_ms) - began))
echo "# without a ceiling: $stock ms"
ok "without a ceiling what is dirty takes long" between 15000 $stock 200000
freeze flood 0
stock_rate=$(rate)

policy 5s
weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
agent=$!
ok "a cgroup that was not seen to write gets the least there is" soon holds more/memory.dirty_bytes 4194304
sleep 60
own_rate=$(rate)
echo "# disk: $stock_rate KiB/s without, $own_rate with"
ok "the ceiling is what the disk writes in seconds" between 23000000 "$(ceiling)" 33000000
ok "the disk is as busy as before" between $((stock_rate * 95 / 100)) "$own_rate" 20000
taken=$(drains)
ok "what is dirty is on disk within them" within 5000
lines=$(grep -c /flood: /tmp/log)
sleep 30
ok "the ceiling rests while nothing changes" between 0 $(($(grep -c /flood: /tmp/log) - lines)) 2

job more
sleep 60
ok "beside another the ceiling is what is left for it" between 10000000 "$(ceiling)" 20000000
# It is frozen for as long: sync would wait for what it writes meanwhile.
taken=
for try in 1 2 3; do
	freeze flood 1
	freeze more 1
	began=$(now_ms)
	sync -f /mnt/d
	taken="$taken $(($(now_ms) - began))"
	freeze more 0
	freeze flood 0
	sleep 7
done
echo "# both: $taken ms"
ok "and what both have dirty is on disk within them" within 5000

policy 2s
ok "another number of seconds holds soon" soon says "/flood: memory.dirty_bytes = "
sleep 30
ok "with a ceiling of that" between 4194304 "$(ceiling)" 9000000
kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves a ceiling" between 4194304 "$(ceiling)" 9000000
printf '' >/tmp/agent.toml
weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
agent=$!
ok "the next one, without the rule, puts back what was there" soon holds flood/memory.dirty_bytes max

policy 5s
ok "the rule holds again" soon limited
echo -io >cgroup.subtree_control
ok "without an io.stat it says what is missing" soon says "IOAccounting=yes"
left=$(ceiling)
sleep 5
ok "and leaves the ceiling" holds flood/memory.dirty_bytes "$left"
ok "which is one" limited
kill $agent
ok "the agent ends cleanly" wait $agent
kill -KILL $(cat flood/cgroup.procs more/cgroup.procs)
finish
