# SPDX-License-Identifier: GPL-2.0-only
# 0034-fair.sh: the workload of scenarios/stutterp.toml for longer, under one remedy, with what the
# limits did each second.  docs/experiments/0034-fair-reclaim-in-motion.md has its figures.
#
#   ARM   stock, agent, high=200M (of hogs), low=64M (of light), wsf=200, ttl=1000, senpai, oomd
#   LRU   y or n: MGLRU
#   HOGS  how many hogs, of HOG MiB each, all from the first second on
#   COME  if set, each hog stays for so many seconds, goes for as many, and comes again, the hogs
#         spread evenly over that time; and the agent is killed in the end
#   FROM  seconds from the hogs' start until figures count, and FOR so many
. /tap.sh
cd /sys/fs/cgroup || exit 1
ARM=${ARM:-stock}
HOGS=${HOGS:-3}
HOG=${HOG:-200}
FROM=${FROM:-4}
FOR=${FOR:-30}
swap=$(awk 'NR == 2 { print $1 }' /proc/swaps)
[ -n "$swap" ] || exit 1
echo "${LRU:-y}" >/sys/kernel/mm/lru_gen/enabled
mkdir light hogs writers
echo 10000 >light/cpu.weight

# memory CGROUP OUT JSON BEFORE COUNTED: allocates for so many seconds, the last COUNTED count
memory() {
	(
		echo 0 >"$1/cgroup.procs"
		{
			sleep "$4"
			echo mark
			sleep "$5"
		} | exec weir-memory "$3" >"/tmp/$2"
	) &
	jobs="$jobs $!"
}
hog() { # NAME BEFORE COUNTED
	memory hogs "$1" "{\"size_bytes\": $((HOG << 20)), \"pattern\": \"churn\"}" "$2" "$3"
}
# a hog that comes after some seconds, and goes, over and over
visitor() { # NUMBER
	(
		sleep $((2 * COME * ($1 - 1) / HOGS))
		round=0
		while :; do
			round=$((round + 1))
			hog "visit$1.$round" 0 "$COME"
			wait
			sleep "$COME"
		done
	) &
	visitors="$visitors $!"
}
light() { # BEFORE COUNTED
	memory light light '{"size_bytes": 2097152, "pattern": "fault", "rate": 20}' "$1" "$2"
}
writers() {
	(
		echo 0 >writers/cgroup.procs
		exec fio --name=writers --directory=/mnt/data --rw=randwrite --bs=4k --size=50M \
			--numjobs=2 --norandommap=1 --randrepeat=0 --fallocate=none --group_reporting \
			--output-format=terse --terse-version=3 "$@"
	) >/tmp/writers 2>&1
}

# counter NAME, of /proc/vmstat
counters() {
	awk '{ c[$1] = $2 } END {
		for (name in c) if (name ~ /^allocstall/) stalls += c[name]
		print stalls, c["pgscan_direct"], c["pgscan_kswapd"], c["pswpin"], c["pswpout"],
			c["workingset_refault_anon"], c["oom_kill"] }' /proc/vmstat
}

# limit, usage and swap of hogs, limit and usage of writers, free memory, pages of CPUs' lists, boost and high
# watermarks in MiB; allocstall; each second
watch() {
	while :; do
		read -r high <hogs/memory.high
		read -r usage <hogs/memory.current
		read -r swapped <hogs/memory.swap.current
		read -r other <writers/memory.high
		read -r held <writers/memory.current
		read -r up rest </proc/uptime
		free=$(awk '/^MemFree/ { f = $2 } /^Shmem:/ { s = $2 } /^SwapTotal/ { t = $2 } /^SwapFree/ { t -= $2 }
			END { print int(f / 1024) " shmem " int(s / 1024) ", all swapped " int(t / 1024) }' /proc/meminfo)
		marks=$(awk '$1 == "boost" { b += $2 } $1 == "high" { h += $2 } $1 == "count:" { c += $2 }
			END { print int(c / 256) ", boost and high", int(b / 256), int(h / 256) }' \
			/proc/zoneinfo)
		over=$(awk '/^high / { print $2 }' hogs/memory.events)
		[ "$high" = max ] || high=$((high >> 20))
		[ "$other" = max ] || other=$((other >> 20))
		echo "# $up hogs $high of $((usage >> 20)) swapped $((swapped >> 20)) writers $other of" \
			"$((held >> 20)) free $free, on CPUs' lists $marks over $over: $(counters)"
		sleep 1
	done
}

stalled() { # us in which a task of hogs waited for memory
	awk '$1 == "some" { sub(".*=", "", $5); print $5 }' hogs/memory.pressure
}

# What senpai does with its defaults: each second it adds up how long a task of hogs waited for
# memory.  10 ms or more, and memory.high rises by (stalled / 200 ms)^2, to the double at most.
# Less in 6 s, and it falls by (1 ms / stalled)^2 percent, 1 at most; 100 MiB stay.
senpai() {
	read -r limit <hogs/memory.current
	[ "$limit" -gt $((100 << 20)) ] || limit=$((100 << 20))
	echo "$limit" >hogs/memory.high
	stalled=0 grace=6
	last=$(stalled)
	while sleep 1; do
		total=$(stalled)
		stalled=$((stalled + total - last)) last=$total
		if [ $stalled -le 10000 ] && [ $grace -gt 0 ]; then
			grace=$((grace - 1))
			continue
		fi
		limit=$(awk -v us=$stalled -v limit="$limit" 'BEGIN {
			by = us > 10000 ? us / 200000 : us > 1000 ? 1000 / us : 1
			by = by > 1 ? 1 : by * by
			limit += limit * (us > 10000 ? by : -by / 100)
			if (limit < 104857600) limit = 104857600
			printf "%d", limit }')
		echo "$limit" >hogs/memory.high
		stalled=0 grace=5
	done
}

# What systemd-oomd does with its defaults: kills the cgroup once its tasks have all waited for memory for 60 %
# of the time, by the mean of 10 s, for 30 s; or at 90 % of all swap.
oomd() {
	long=0
	while sleep 1; do
		full=$(awk '$1 == "full" { sub(".*=", "", $2); print int($2) }' hogs/memory.pressure)
		if [ "$full" -ge 60 ]; then long=$((long + 1)); else long=0; fi
		swapped=$(awk '/^SwapTotal/ { t = $2 } /^SwapFree/ { f = $2 } END { print int((t - f) * 100 / t) }' /proc/meminfo)
		if [ $long -ge 30 ] || [ "$swapped" -ge 90 ]; then
			read -r up rest </proc/uptime
			echo "# oomd kills hogs at $up: full $full, swapped $swapped %"
			echo 1 >hogs/cgroup.kill
			long=0
		fi
	done
}

case $ARM in
stock) ;;
agent)
	printf '[reclaim]\nmode = "on"\n' >/tmp/agent.toml
	weir agent --listen none --policy /tmp/agent.toml >/tmp/agent.log 2>&1 &
	agent=$!
	;;
high=*) echo "${ARM#*=}" >hogs/memory.high ;;
low=*) echo "${ARM#*=}" >light/memory.low ;;
senpai | oomd) ;; # once the hogs run
wsf=*) echo "${ARM#*=}" >/proc/sys/vm/watermark_scale_factor ;;
ttl=*) echo "${ARM#*=}" >/sys/kernel/mm/lru_gen/min_ttl_ms ;;
*) exit 2 ;;
esac

writers --create_only=1
sync
echo 3 >/proc/sys/vm/drop_caches
writers --time_based --runtime=$((FROM + FOR)) &
jobs=
light "$FROM" "$FOR"
watch &
watch=$!
before=$(counters)
visitors=
for hog in $(seq "$HOGS"); do
	if [ -n "$COME" ]; then visitor "$hog"; else hog "hog$hog" "$FROM" "$FOR"; fi
done
remedy=
case $ARM in
senpai | oomd)
	$ARM &
	remedy=$!
	;;
esac
# shellcheck disable=SC2086 # a list of processes
wait $jobs
after=$(counters)
kill $watch
[ -z "$remedy" ] || kill "$remedy"
if [ -n "$COME" ]; then
	# shellcheck disable=SC2086 # a list of processes
	kill $visitors
	if [ "$ARM" = agent ]; then
		kill -9 "$agent" || exit 1
		echo "# the agent is killed: hogs $(cat hogs/memory.high) writers $(cat writers/memory.high)"
		weir agent --listen none --policy /tmp/agent.toml >/tmp/second.log 2>&1 &
		agent=$!
		sleep 3
		kill $agent
		wait $agent
		echo "# another one has begun and ended: hogs $(cat hogs/memory.high) writers $(cat writers/memory.high)"
	fi
	echo 1 >hogs/cgroup.kill
fi

mib() { # OUT: MiB touched a second
	sed 's/.*"ops":\([0-9]*\),"elapsed_ns":\([0-9]*\).*/\1 \2/' "$1" |
		awk '{ n += $1 / 256 / ($2 / 1e9) } END { printf "%.1f\n", n }'
}
[ -n "$COME" ] || tail -qn 1 /tmp/hog* >/tmp/all
tail -n 1 /tmp/light >/tmp/one
[ "$ARM" != agent ] || sed 's/^/# /' /tmp/agent.log
sleep 2
echo "# light: $(cat /tmp/one)"
echo "# writers: $(awk -F';' '{ printf "%.1f MiB/s", $48 / 1024 }' /tmp/writers)"
if [ -n "$COME" ]; then
	# of visits that ended
	tail -qn 1 /tmp/visit* | sed -n 's/.*"ops":\([0-9]*\),.*/\1/p' |
		awk '{ n += $1 / 256 } END { printf "# hogs: %d MiB touched in %d visits\n", n, NR }'
else
	echo "# hogs: $(mib /tmp/all) MiB/s; each $(for hog in /tmp/hog*; do tail -n 1 "$hog" >/tmp/h; mib /tmp/h; done | tr '\n' ' ')"
fi
echo "$before $after" | awk '{ split("allocstall pgscan_direct pgscan_kswapd pswpin pswpout refault_anon oom_kill", name, " ")
	for (i = 1; i <= 7; i++) printf "# %s %d\n", name[i], $(i + 7) - $i }'
