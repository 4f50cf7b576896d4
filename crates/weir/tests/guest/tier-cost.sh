# SPDX-License-Identifier: GPL-2.0-only
# What the agent costs while all are at their shares: CPU time of its process, with 4
# and with 400 cgroups. tier-cost.sh SECONDS. In a guest that counts instructions
# (--count-instructions, one CPU) a hundredth of a second is 10 million of them.
. /tap.sh
cd /sys/fs/cgroup || exit 1
seconds=${1:-60}
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1
weir tier on >/dev/null || exit 1

# spent: hundredths of a second of CPU that the agent has used
spent() {
	awk '{ print $14 + $15 }' "/proc/$agent/stat"
}

made=0
for groups in 4 400; do
	while [ $made -lt $groups ]; do
		mkdir "g$made"
		echo 64M >"g$made/memory.max"
		in_cgroup "g$made" sleep 100000 &
		made=$((made + 1))
	done
	printf '[tier]\n' >/tmp/agent.toml
	weir agent --policy /tmp/agent.toml --listen none >/tmp/log 2>&1 &
	agent=$!
	rests() { weir tier status | grep -q 'at rest'; }
	ok "with $groups cgroups it comes to rest" soon rests
	sleep 5
	before=$(spent)
	sleep "$seconds"
	used=$(($(spent) - before))
	echo "# $groups cgroups: $used hundredths of a second of CPU in $seconds s at rest"
	ok "that is less than a hundredth of one CPU" [ $used -lt "$seconds" ]
	kill $agent
	wait $agent
done
finish
