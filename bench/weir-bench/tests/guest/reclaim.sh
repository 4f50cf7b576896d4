# SPDX-License-Identifier: GPL-2.0-only
# weir agent limits a cgroup that allocates without end, on a kernel without the module:
# its limit follows, is put back, survives SIGKILL, and yields to another program's.
. /tap.sh
cd /sys/fs/cgroup || exit 1
grep -q partition /proc/swaps || exit 1
mkdir hogs writers light pinned idle

# job CGROUP JSON: allocates in the cgroup until the script ends
job() {
	(
		echo 0 >"$1/cgroup.procs"
		sleep 100000 | exec weir-memory "$2" >/dev/null
	) &
}
policy() { # MODE
	printf '[reclaim]\nmode = "%s"\n' "$1" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
agent() {
	weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
# below CGROUP BYTES: its memory.high is lower
below() {
	high=$(cat "$1/memory.high")
	[ "$high" != max ] && [ "$high" -lt "$2" ]
}
limited() { # CGROUP
	[ "$(cat "$1/memory.high")" != max ]
}
free() {
	[ "$(cat "$1/memory.high")" = max ]
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}

is_swapped() {
	[ "$(cat idle/memory.swap.current)" -gt $((40 << 20)) ]
}

policy observe
agent
job hogs '{"size_bytes": 629145600, "pattern": "churn"}'
job light '{"size_bytes": 2097152, "pattern": "fault", "rate": 20}'
ok "observing it says what it would set" soon says "/hogs: memory.high would be "
ok "and sets nothing" free hogs
policy on
ok "then it limits the hog" soon limited hogs
ok "and not the light one" free light
before=$(cat hogs/memory.high)
changed() {
	[ "$(cat hogs/memory.high)" != "$before" ]
}
ok "the limit follows" soon changed
ok "it said so once" is "$(grep -c 'hogs: memory.high = ' /tmp/log)" 1
# Unused pages, charged to idle: written now, as kswapd took it before there were limits.
(
	echo 0 >idle/cgroup.procs
	exec dd if=/dev/zero of=/tmp/idle bs=1M count=60 2>/dev/null
)
ok "it has the kernel reclaim what is idle" soon is_swapped
ok "and says that" soon says "reclaim: has the kernel reclaim what is idle on the host, 4 MiB"
ok "what is set is noted" grep -q '"cgroup":"/hogs"' /run/weir/reclaim.json

kill -KILL $agent
wait $agent 2>/dev/null
ok "killed it leaves the limit" limited hogs
policy off
agent
ok "the next one puts it back" soon free hogs
ok "and says so" soon says "/hogs: memory.high = max as before"
ok "and notes that" soon holds /run/weir/reclaim.json '{"version":1,"entries":[]}'

policy on
ok "it is limited again" soon limited hogs
echo 524288000 >hogs/memory.high
ok "the agent's limit stands below another program's" soon below hogs 524288000
sleep 3
kill $agent
wait $agent
ok "which comes back when the agent ends" holds hogs/memory.high 524288000
echo max >hogs/memory.high
agent
ok "the next agent limits it" soon limited hogs
echo max >hogs/memory.high
ok "taken away it is set again" soon limited hogs
echo 0 >pinned/memory.swap.max
job pinned '{"size_bytes": 209715200, "pattern": "churn"}'
sleep 5
ok "what has no swap to go to is not limited" free pinned
kill $agent
ok "ends cleanly" wait $agent
ok "and puts it back" free hogs
finish
