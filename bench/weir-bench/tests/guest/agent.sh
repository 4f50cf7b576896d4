# SPDX-License-Identifier: GPL-2.0-only
# weir agent on a real kernel: cgroups appear, vanish and belong to others, the
# module comes and goes, the policy changes.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
limits 268435456
mkdir pods delegated
chown 1000 delegated
echo +memory >pods/cgroup.subtree_control
echo +memory >delegated/cgroup.subtree_control

policy() { # BYTES: of all pods' floors
	cat >/tmp/new.toml <<-END
		[[rule]]
		cgroup = ["/pods/*", "/delegated/*"]
		set = { "memory.dirty_min" = "$1" }
		[[rule]]
		cgroup = "/pods/capped"
		set = { "memory.dirty_bytes" = "64M" }
		[[rule]]
		cgroup = "/pods/part"
		set = { "memory.dirty_bytes" = "7%" }
	END
	mv /tmp/new.toml /tmp/agent.toml
}

# finally COMMAND...: succeeds in the end, however slow the machine is
finally() {
	for try in $(seq 300); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	"$@"
}
holds() { # FILE VALUE
	is "$(cat "$1")" "$2"
}
says() { # WORDS
	grep -qF -- "$1" /tmp/log || { cat /tmp/log; return 1; }
}
metric() { # LINE
	wget -q -O /tmp/metrics http://127.0.0.1:9759/metrics
	grep -qxF -- "$1" /tmp/metrics || { grep -F "${1%%[ \{]*}" /tmp/metrics; return 1; }
}

policy 16M
mkdir pods/early delegated/own
weir agent --policy /tmp/agent.toml --scan-every 2s >/tmp/log 2>&1 &
agent=$!
ok "without the module it waits" finally says "waiting for 1 files that are not there, as in /pods/early"
ok "and shows that" finally metric 'weir_agent_knobs{state="waiting"} 1'
insmod /weir.ko || exit 1
ok "with the module the floor is set" finally holds pods/early/memory.dirty_min 16777216
ok "and nothing that others may name" holds delegated/own/memory.dirty_min 0

began=$(cut -d ' ' -f 1 /proc/uptime)
mkdir pods/capped
ok "a cgroup that appears gets its floor" finally holds pods/capped/memory.dirty_min 16777216
echo "# made at $began s, seen at $(cut -d ' ' -f 1 /proc/uptime) s"
ok "and its ceiling" finally holds pods/capped/memory.dirty_bytes 67108864
mkdir pods/part
echo 33M >pods/part/memory.max
page=$(page_size)
ok "a part of a limit is of whole pages" finally holds pods/part/memory.dirty_bytes \
	$((33 * 1048576 / 4096 * 7 / 100 * 4096 / page * page))
cp /tmp/agent.toml /tmp/small.toml
printf '[[rule]]\ncgroup = "/pods/small"\nset = { "memory.dirty_bytes" = "%d" }\n' $((2 * page - 1)) >>/tmp/small.toml
ok "a ceiling of less than two pages is refused" sh -c '! weir agent --check /tmp/small.toml >/tmp/small 2>&1'
ok "with the least that this kernel takes" grep -q "at least $((2 * page))," /tmp/small
sleep 1 # a scrape within a second of another gets the same
ok "the module's state is in metrics" finally metric 'weir_module_state{state="active"} 1'
ok "and the floor in effect" finally metric 'weir_cgroup_floor_bytes{cgroup="/pods/capped"} 16777216'
ok "and the ceiling in effect" finally metric 'weir_cgroup_ceiling_bytes{cgroup="/pods/capped"} 67108864'
# counted by the kernel in pages, of 16 KiB on some
ok "and the host's limit" finally metric 'weir_host_dirty_limit_bytes 268435456'
resident=$(($(awk '/^VmRSS:/ { print $2 }' /proc/$agent/status) * 1024))
ok "and the agent's own memory" between $((resident / 2)) \
	"$(sed -n 's/^process_resident_memory_bytes //p' /tmp/metrics)" $((resident * 2))
ok "and who decided pauses" finally metric 'weir_cgroup_pauses_total{cgroup="/pods/early",by="host"} 0'
ok "and nothing of a cgroup without knobs" sh -c '! grep -q "^weir_cgroup_passes.*delegated" /tmp/metrics'
sed -n 's/^\(process_\|weir_agent_last\)/# &/p' /tmp/metrics

for round in $(seq 20); do
	mkdir "pods/brief$round"
	rmdir "pods/brief$round"
done
policy 8M
ok "a changed policy is in effect" finally holds pods/early/memory.dirty_min 8388608
ok "also where another rule is for another knob" finally holds pods/capped/memory.dirty_min 8388608
echo 1M >pods/early/memory.dirty_min
ok "what is changed by hand is set again" finally holds pods/early/memory.dirty_min 8388608
ok "no cgroup that vanished was an error" sh -c '! grep error /tmp/log'

rmmod weir
insmod /weir.ko
ok "after the module was loaded anew the floor is set again" finally holds pods/early/memory.dirty_min 8388608
kill $agent
wait $agent
ok "it ends well" is $? 0
ok "and leaves knobs as they are" holds pods/early/memory.dirty_min 8388608
echo >/tmp/agent.toml
weir agent --policy /tmp/agent.toml >>/tmp/log 2>&1 &
agent=$!
ok "a later run puts back what no rule wants any more" finally holds pods/early/memory.dirty_min 0
ok "all of it" finally holds pods/capped/memory.dirty_bytes max
kill $agent
wait $agent
sed 's/^/# /' /tmp/log
echo "1..$n"
