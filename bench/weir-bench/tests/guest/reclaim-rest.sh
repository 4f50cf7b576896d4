# SPDX-License-Identifier: GPL-2.0-only
# reclaim-rest.sh: what the agent's [reclaim] costs on a host with 1,000 cgroups where no task has to
# reclaim, in a guest that counts instructions, one a nanosecond.
. /tap.sh
cd /sys/fs/cgroup || exit 1
for tens in $(seq 100); do
	mkdir -p "slice$tens"
	echo +memory >"slice$tens/cgroup.subtree_control"
	mkdir "slice$tens/0" "slice$tens/1" "slice$tens/2" "slice$tens/3" "slice$tens/4" \
		"slice$tens/5" "slice$tens/6" "slice$tens/7" "slice$tens/8"
done
made=$(($(find . -type d | wc -l) - 1))
ok "there are 1,000 cgroups" test "$made" -ge 1000

# spent: ns on a CPU of all threads of the agent's
spent() {
	cat /proc/$agent/task/*/schedstat | awk '{ ns += $1 } END { printf "%.0f\n", ns }'
}
# costs POLICY: into cost, instructions a second over a minute, once it has settled
costs() {
	printf '%s' "$1" >/tmp/agent.toml
	weir agent --listen none --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
	sleep 20
	before=$(spent)
	sleep 60
	cost=$((($(spent) - before) / 60))
	kill $agent
	wait $agent
}
costs ''
without=$cost
costs '[reclaim]
'
echo "# $made cgroups: $cost instructions a second, $without without [reclaim]"
ok "at rest it takes a thousandth of a CPU of 10^9 instructions a second at most" \
	test $((cost - without)) -le 1000000
finish
