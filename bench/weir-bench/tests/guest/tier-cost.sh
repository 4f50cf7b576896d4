# SPDX-License-Identifier: GPL-2.0-only
# What the agent costs while all are at their shares: CPU time of its process, with 4
# and with 400 cgroups that hold next to nothing; and with four that hold 120 MB each in two
# tiers, where DAMON looks how hot that is, all CPU time of the host. tier-cost.sh SECONDS. In a
# guest that counts instructions (--count-instructions, one CPU) a hundredth of a second is 10
# million of them.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
seconds=${1:-60}
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1
weir tier on >/dev/null || exit 1

# spent: hundredths of a second of CPU that the agent has used
spent() {
	awk '{ print $14 + $15 }' "/proc/$agent/stat"
}
# busy: hundredths of a second that the CPU was not idle
busy() {
	awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
}

for group in a b c d; do
	limit $group 126
	hold $group 120
done
for group in a b c d; do ok "$group has its memory" finally has $group 119; done
sleep 5
before=$(busy)
sleep "$seconds"
alone=$(($(busy) - before))
policy ''
agent
ok "pages are moved by DAMON" finally says "DAMON tells cold pages from hot ones"
ok "all come to their shares" finally shares a b c d
ok "and rest" finally rests
sleep 5
before=$(busy)
sleep "$seconds"
used=$(($(busy) - before - alone))
echo "# 4 cgroups of 120 MB: the host was busy for $alone hundredths of a second in $seconds s without an agent, $used more at rest with one"
ok "that is less than a hundredth of one CPU" [ $used -lt "$seconds" ]
kill $agent
wait $agent
for group in a b c d; do echo 1 >$group/cgroup.kill; done

made=0
for groups in 4 400; do
	while [ $made -lt $groups ]; do
		mkdir "g$made"
		echo 64M >"g$made/memory.max"
		in_cgroup "g$made" sleep 100000 &
		made=$((made + 1))
	done
	printf '[tier]\n' >/tmp/agent.toml
	agent
	ok "with $groups cgroups it comes to rest" finally rests
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
