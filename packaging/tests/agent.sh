# SPDX-License-Identifier: GPL-2.0-only
# The agent under systemd, with all that its unit takes away from it: a service that appears
# gets its knob, scrapes are answered, and a crash loses nothing.
. ./containers.sh

policy=/etc/weir/agent.toml
kept=/sys/fs/cgroup/system.slice/kept.service/memory.dirty_bytes

main_pid() {
	systemctl show --value -p MainPID weir-agent
}
another_pid() { # PID
	now=$(main_pid)
	[ "$now" -gt 0 ] && [ "$now" != "$1" ]
}

ok "the package brought a policy that is valid" weir agent --check $policy
cat >$policy <<END
[[rule]]
cgroup = "/system.slice/kept.service"
set = { "memory.dirty_bytes" = "64M" }
[reclaim]
END
ok "starts" systemctl enable --now weir-agent
ok "a service" systemd-run --quiet --unit kept sleep infinity
ok "that appears gets its knob" comes_to 67108864 cat $kept
ok "a scrape is answered" soon scrapes 'weir_cgroup_ceiling_bytes{cgroup="/system.slice/kept.service"} 67108864'
ok "and [reclaim] has its trigger" scrapes 'weir_agent_reclaim_active 0'

pid=$(main_pid)
kill -9 "$pid"
sed -i s/64M/32M/ $policy
ok "killed, systemd starts it again" soon another_pid "$pid"
ok "and it goes on with what the policy says by then" comes_to 33554432 cat $kept
echo >$policy
ok "a policy without rules is read" systemctl reload weir-agent
ok "and what the first of them wrote over is put back" comes_to max cat $kept
ok "stops" systemctl stop weir-agent
ok "cleanly" is "$(systemctl show --value -p Result weir-agent)" success
ok "and was kept from nothing it wanted" sh -c \
	'! journalctl --no-pager -b -u weir-agent | grep -i "permi\|denied\|not allowed\|read-only\|error"'
journalctl --no-pager -b -u weir-agent -o cat | tail -n 20 | sed 's/^/# /'
echo "# exposure: $(systemd-analyze security weir-agent --no-pager 2>/dev/null | tail -n 1)"
systemctl stop kept
systemctl disable --quiet weir-agent
finish
