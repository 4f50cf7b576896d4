# SPDX-License-Identifier: GPL-2.0-only
# weir agent keeps an objective on a real kernel: a neighbour's flood gets a ceiling for the sake of an
# fsync writer, which is put back, survives SIGKILL, and yields to another program's.
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
limited() {
	[ "$(cat flood/memory.dirty_bytes)" != max ]
}
free() {
	is "$(cat flood/memory.dirty_bytes)" max
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
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
ok "then it limits the flood" soon limited
ok "which comes to hold little" soon small
ok "and says so" soon says "/flood: memory.dirty_bytes = "
ok "what is set is noted" grep -q '"cgroup":"/flood"' /run/weir/objective.json

kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves the ceiling" limited
policy "$fsync" off
agent
ok "the next one puts it back" soon free
ok "and says so" soon says "/flood: memory.dirty_bytes = max as before"
ok "and notes that" soon holds /run/weir/objective.json '{"version":1,"entries":[]}'

echo 500M >flood/memory.dirty_bytes
policy "$fsync" on
sleep 5
ok "a value of another program stays" holds flood/memory.dirty_bytes 524288000
echo max >flood/memory.dirty_bytes
ok "without one it is limited" soon limited
echo 500M >flood/memory.dirty_bytes
kill $agent
ok "the agent ends cleanly" wait $agent
ok "and leaves a value that came meanwhile" holds flood/memory.dirty_bytes 524288000
ok "and puts the others back" holds calm/memory.dirty_bytes max
ok "its probes are gone" is "$(grep -c weir_ /sys/kernel/tracing/kprobe_events)" 0

echo max >flood/memory.dirty_bytes
policy 'io_pressure = "10%"' on
agent
ok "pressure is an objective, too" soon limited
kill $agent
ok "it ends cleanly" wait $agent
ok "and puts the ceiling back" free
finish
