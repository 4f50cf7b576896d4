# SPDX-License-Identifier: GPL-2.0-only
# fork-cost.sh [FORKS [ROUNDS]]: instructions of all the machine for each process that is made and ends, alone, beside
# `weir explain` and beside `weir agent` with an objective, which both listen to births and moves of tasks. In turn, in a
# guest that counts instructions with one CPU: a second of CPU time is a billion of them. Wants disk "d" (ext4).
. /tap.sh
forks=${1:-2000}
rounds=${2:-3}
cd /sys/fs/cgroup || exit 1
ip link set lo up
echo "+memory +io" >cgroup.subtree_control
mkdir db batch

# used: nanoseconds that the CPU ran tasks
used() {
	awk '/^cpu0/ { printf "%.0f\n", $8 }' /proc/schedstat
}
# spent COMMAND...: instructions meanwhile
spent() {
	from=$(used)
	"$@"
	echo $(($(used) - from))
}
fork() {
	i=0
	while [ $((i += 1)) -le "$forks" ]; do
		(:)
	done
}
# at_once NAME: for each fork, as fast as they can be made
at_once() {
	echo "# $1: $(($(spent fork) / forks)) instructions a fork"
}
# at_rest NAME: in a second in which nothing is forked
at_rest() {
	rest=$(($(spent sleep 5) / 5))
	echo "# $1: $rest instructions a second at rest"
}
printf '[[objective]]\ncgroup = "/db"\nfsync_p99 = "20ms"\nlimit = ["/batch"]\n[stock]\nmode = "on"\n' >/tmp/agent.toml

round=0
while [ $((round += 1)) -le "$rounds" ]; do
	at_rest alone
	alone_rest=$rest
	alone=$(($(spent fork) / forks))
	echo "# alone: $alone instructions a fork"

	weir explain /db --for 1h >/dev/null 2>&1 &
	look=$!
	sleep 3
	at_rest explain
	at_once explain
	kill $look
	wait $look

	weir agent --policy /tmp/agent.toml >/tmp/log 2>&1 &
	agent=$!
	sleep 3
	at_rest agent
	listening=$(($(spent fork) / forks))
	echo "# agent: $listening instructions a fork"
	kill $agent
	wait $agent
	# a record of the kernel, and what the agent does with it
	ok "a fork costs 1 % more beside the agent, at most" [ $((listening - alone)) -le $((alone / 100)) ]
done
finish
