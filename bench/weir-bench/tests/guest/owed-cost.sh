# SPDX-License-Identifier: GPL-2.0-only
# owed-cost.sh [CGROUPS]: CPU time that weir agent takes to know who owes whom, among so many
# cgroups: at rest, beside one that holds up another, and beside a writer in each of them.
# Wants a disk "d" of 1M/s, ext4, and one CPU that counts instructions.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
limits 33554432
many=${1:-1000}
mkdir noisy victim many
echo "+memory +io" >many/cgroup.subtree_control
for i in $(seq "$many"); do
	mkdir "many/$i"
done
weir agent --listen 127.0.0.1:9759 --scan-every 60s >/tmp/log 2>&1 &
agent=$!

scrape() { # FILE
	sleep 1.5
	wget -q -O "$1" http://127.0.0.1:9759/metrics
	cut -d ' ' -f 1 /proc/uptime >"$1.at"
}
value() { # FILE METRIC
	awk -v name="$2" '$1 == name { print $2 }' "$1"
}

# costs NAME SECONDS: of a CPU, into $part, in percent
costs() {
	scrape /tmp/before
	sleep "$2"
	scrape /tmp/after
	part=$(awk -v a="$(value /tmp/before weir_stall_looking_seconds_total)" \
		-v b="$(value /tmp/after weir_stall_looking_seconds_total)" \
		-v from="$(cat /tmp/before.at)" -v to="$(cat /tmp/after.at)" \
		'BEGIN { printf "%.4f", (b - a) * 100 / (to - from) }')
	lost=$(awk '/^weir_stall_lost_seconds_total/ { if (FILENAME ~ /before/) n -= $2; else n += $2 }
		END { printf "%.1f", n }' /tmp/before /tmp/after)
	echo "# $1: $part % of a CPU, $lost s lost meanwhile, $(value /tmp/after weir_stall_series) series, \
$(value /tmp/after weir_stall_missed_events_total) events missed"
}
at_most() { # PERCENT
	awk -v part="$part" -v most="$1" 'BEGIN { exit !(part <= most) }'
}
writes() { # CGROUP OPTION...
	group=$1
	shift
	in_cgroup "$group" fio --name=job --filename="/mnt/d/$(basename "$group")" --rw=write --bs=4k --size=256M \
		--fallocate=none --time_based --runtime=3000 "$@" >/dev/null 2>&1 &
}

sleep 5
sed "s/^/# agent: /" /tmp/log
costs "at rest beside $many cgroups" 60
ok "at rest it takes at most 0.05 % of a CPU" at_most 0.05
writes noisy
sleep 10
writes victim --rate=500k
costs "one holds up another beside $many cgroups" 120
ok "while tasks stall it takes at most 0.5 % of a CPU" at_most 0.5
ok "and knows what was lost" awk -v lost="$lost" 'BEGIN { exit !(lost > 50) }'
if [ "$WRITERS" ]; then
	echo 1 >noisy/cgroup.kill
	echo 1 >victim/cgroup.kill
	for i in $(seq "$many"); do
		in_cgroup "many/$i" dd if=/dev/zero of="/mnt/d/$i" bs=4k count=1000000 2>/dev/null &
	done
	sleep 30
	costs "a writer in each of $many cgroups" 60
fi
kill $agent
ok "the agent ends" wait $agent
finish
