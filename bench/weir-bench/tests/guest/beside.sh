# SPDX-License-Identifier: GPL-2.0-only
# Sourced by etcd.sh and postgres.sh: a service on a disk beside a copy, with each limit on the copy.
#
# Their arguments are [SECONDS [RATE [BOUNDS [CEILINGS]]]]: how long each stretch is, what is asked for
# a second, the bounds of the objectives and the ceilings, of which each gets a stretch. They define
# bench NAME, which prints a line `# of NAME` and sets rate_of, thousandths of what is done in a second,
# and wait_us, the longest wait of a writer.
. /tap.sh
seconds=${1:-30}
rate=${2:-20}
bounds=${3:-100ms}
ceilings=${4:-1M}

milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}
written() {
	awk '{ print $7 * 512 }' /sys/block/weir0/stat
}
copy() {
	in_cgroup copy sh -c 'while :; do cp /tmp/source /mnt/d/copy && rm /mnt/d/copy; done' &
	copier=$!
	sleep 10
}
no_copy() {
	echo 1 >copy/cgroup.kill
	wait $copier 2>/dev/null
	rm -f /mnt/d/copy
	sync
}

# stretches CGROUP: of the service in CGROUP alone, on stock Linux, with each ceiling on the copy, and
# with an objective of each bound. Of an objective it is the second: the agent has to see calls of
# fsync before it looks for a limit. Sets solo_rate, stock_rate, stock_wait_us; the last objective's
# are bench's.
stretches() {
	dd if=/dev/zero of=/tmp/source bs=1M count=128 2>/dev/null
	bench solo
	solo_rate=$rate_of
	copy
	bench stock
	stock_rate=$rate_of stock_wait_us=$wait_us
	no_copy

	insmod /weir.ko || exit 1
	for ceiling in $ceilings; do
		echo "$ceiling" >copy/memory.dirty_bytes
		copy
		bench "a ceiling of $ceiling"
		no_copy
	done
	echo max >copy/memory.dirty_bytes

	for bound in $bounds; do
		printf '[[objective]]\ncgroup = "/%s"\nlimit = ["/copy"]\nfsync_p99 = "%s"\nfloor = "256K"\n' "$1" "$bound" >/tmp/agent.toml
		weir agent --listen none --policy /tmp/agent.toml >/tmp/agent.log 2>&1 &
		agent=$!
		copy
		bench "$bound, while the agent looks for a limit"
		bench "an objective of $bound"
		echo "# the copy at the end: window $(cat copy/memory.writeback_bytes), ceiling $(cat copy/memory.dirty_bytes)"
		sed 's/^/# /' /tmp/agent.log
		no_copy
		kill $agent
		wait $agent
	done
}
