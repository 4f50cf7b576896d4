# SPDX-License-Identifier: GPL-2.0-only
# fork-cost.sh [FORKS]: the instructions that `weir explain` adds to a fork with exec and exit, in a guest that
# counts them on one CPU (a second of CPU time is a billion). What it takes by the second, while nothing forks,
# is taken off.
. /tap.sh
forks=${1:-2000}
busy() { awk '/^cpu0/ { print $8 }' /proc/schedstat; }
now() { awk '{ print $1 * 100 }' /proc/uptime; }
# fork_on: busy nanoseconds of so many forks, and how long they took, in seconds
fork_on() {
	from=$(busy)
	began=$(now)
	i=0
	while [ $((i += 1)) -le "$forks" ]; do /bin/true; done
	echo "$(($(busy) - from)) $(($(now) - began))"
}
echo 1 >/proc/sys/kernel/sched_schedstats
fork_on >/dev/null
set -- $(fork_on)
alone=$1
weir explain --for 60s --json >/tmp/said &
explain=$!
sleep 5
from=$(busy)
sleep 10
resting=$((($(busy) - from) / 10))
set -- $(fork_on)
cost=$((($1 - alone - resting * $2 / 100) / forks))
echo "# $((alone / forks)) instructions a fork alone; explain adds $cost, and $resting a second while nothing forks"
kill $explain
ok "a fork costs less than a tenth more" test $((cost * 10 * forks)) -le "$alone"
finish
