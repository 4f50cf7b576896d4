# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps an objective on a real kernel: a neighbour's flood gets a window for the sake of an
# fsync writer, which is put back, survives SIGKILL, and yields to another program's; then it gets a
# ceiling.
. /tap.sh
cd /sys/fs/cgroup || exit 1
mkdir db flood calm
limits 67108864

# job CGROUP OPTION...: a process of fio in the cgroup until the script ends
job() {
	group=$1
	shift
	in_cgroup "$group" fio --name="$group" --directory=/mnt/d --bs=4k --time_based --runtime=10000 \
		"$@" >/dev/null 2>&1 &
}
policy() { # BOUND MODE
	printf '[[objective]]\ncgroup = "/db"\nlimit = ["/flood", "/calm"]\n%s\nmode = "%s"\n' "$1" "$2" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
agent() {
	weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
limited() { # FILE
	[ "$(cat "flood/$1")" != max ]
}
free() {
	is "$(cat flood/memory.writeback_bytes)" max && is "$(cat flood/memory.dirty_bytes)" max
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
limited_only() { # by a window
	limited memory.writeback_bytes && is "$(cat flood/memory.dirty_bytes)" max
}
small() { # the flood holds less than 8 MiB
	[ "$(stat flood dirty)" -lt 8388608 ]
}
fsync='fsync_p99 = "100ms"'

policy "$fsync" observe
agent
insmod /weir.ko || exit 1
job db --rw=write --size=16m --rate_iops=20 --fdatasync=1
job flood --rw=randwrite --size=96m --norandommap=1
ok "observing it says what it would set" soon says "each of 2 others would be allowed"
ok "and sets nothing" free
policy "$fsync" on
ok "then it limits the flood" soon limited memory.writeback_bytes
ok "and says so" soon says "/flood: memory.writeback_bytes = "
ok "what is set is noted" grep -q '"cgroup":"/flood"' /run/weir/objective-windows.json
ok "the flood keeps its dirty pages" limited_only

kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves the window" limited memory.writeback_bytes
policy "$fsync" off
agent
ok "the next one puts it back" soon free
ok "and says so" soon says "/flood: memory.writeback_bytes = max as before"
ok "and notes that" soon holds /run/weir/objective-windows.json '{"version":1,"entries":[]}'

policy "$fsync" on
ok "it is limited again" soon limited memory.writeback_bytes
echo 500M >flood/memory.writeback_bytes
ok "beside a window of another program it gets a ceiling" soon limited memory.dirty_bytes
ok "and comes to hold little" soon small
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and leaves a value that came meanwhile" holds flood/memory.writeback_bytes 524288000
ok "and puts the others back" holds calm/memory.writeback_bytes max
ok "the ceiling, too" holds flood/memory.dirty_bytes max
ok "its probes are gone" is "$(grep -c weir_ /sys/kernel/tracing/kprobe_events)" 0

echo max >flood/memory.writeback_bytes
policy 'io_pressure = "10%"' on
agent
ok "pressure is an objective, too" soon limited memory.writeback_bytes
kill $agent
ok "it ends cleanly" wait $agent
ok "and puts the limits back" free
finish
