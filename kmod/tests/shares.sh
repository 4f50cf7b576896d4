# SPDX-License-Identifier: GPL-2.0-only
# What each cgroup gets of a slow disk "d" without weights, then with: shares by
# io.stat, pauses and waits, throughput.  No verdict: docs/experiments/0009-weights.md has the table.
#
#   shares.sh SECONDS WINDOWS CGROUP:WEIGHT:TASKS...
. /tap.sh
seconds=$1 windows=$2
shift 2
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 16777216

# split SPEC: name, weight, tasks
split() {
	name=${1%%:*} tasks=${1##*:}
	weight=${1#*:} weight=${weight%:*}
}

# figures: of each cgroup, of the disk, the time
figures() {
	for spec in "$@"; do
		split "$spec"
		awk -v spec="$spec" '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
			END { printf "%s:%d:", spec, sum }' "$name/io.stat"
		echo "$(stat "$name" nr_throttled):$(stat "$name" throttled_usec):$(stat "$name" nr_weight_held):$(stat "$name" weight_held_usec)"
	done
	awk -v disk="$(basename "$(readlink /dev/weir/d)")" '$3 == disk { print "disk:" $10 * 512 }' /proc/diskstats
	awk '{ print "up:" $1 }' /proc/uptime
}

page=$(page_size)
# levels: the host's dirty + writeback in MiB, once a second: looking costs CPU time
levels() {
	while [ -e /tmp/sampling ]; do
		awk -v page="$page" '$1 == "nr_dirty" || $1 == "nr_writeback" { s += $2 }
			END { print s * page / 1048576 }' /proc/vmstat
		sleep 1
	done >/tmp/levels
}

# window SPEC...: what happens in that many seconds
window() {
	touch /tmp/sampling
	levels &
	sampler=$!
	figures "$@" >/tmp/before
	sleep "$seconds"
	figures "$@" >/tmp/after
	rm /tmp/sampling
	wait $sampler
	paste -d: /tmp/before /tmp/after | awk -F: '
		$1 == "disk" { disk = $4 - $2; next }
		$1 == "up" { time = $4 - $2; next }
		{
			n++; name[n] = $1; weight[n] = $2; tasks[n] = $3; sum += $2
			bytes[n] = $12 - $4; all += bytes[n]
			pauses[n] = $13 - $5; paused[n] = $14 - $6
			waits[n] = $15 - $7; waited[n] = $16 - $8
		}
		END {
			for (i = 1; i <= n; i++) {
				share = bytes[i] / all; due = weight[i] / sum
				printf "%s weight %d tasks %d: %.1f %% of %.1f, %.2f of due; pauses %d of %d ms, waits %d of %d ms\n",
					name[i], weight[i], tasks[i], 100 * share, 100 * due, share / due,
					pauses[i], pauses[i] ? paused[i] / pauses[i] / 1000 : 0,
					waits[i], waits[i] ? waited[i] / waits[i] / 1000 : 0
				if (i == 1 || share / due < least) least = share / due
				if (share / due > most) most = share / due
			}
			printf "least %.2f most %.2f, disk %.2f MB/s, %.1f s", least, most, disk / time / 1e6, time
		}'
	awk '{ sum += $1 } $1 > max { max = $1 } END { printf ", host %.1f MiB, max %.1f\n", sum / NR, max }' /tmp/levels
}

for spec in "$@"; do
	split "$spec"
	mkdir "$name"
	# shellcheck disable=SC2016 # the names are fio's
	in_cgroup "$name" fio --name="$name" --numjobs="$tasks" --filename_format='$jobname.$jobnum' --directory=/mnt/d \
		--rw=write --bs=64k --size=40m --invalidate=0 --fallocate=posix --time_based --runtime=9999 --output=/dev/null &
done
sleep 15
echo "# without weights"
window "$@"
for spec in "$@"; do
	split "$spec"
	echo "$weight" >"$name/memory.dirty_weight"
done
sleep 15
echo "# by weight"
for _ in $(seq "$windows"); do
	window "$@"
done
exit 0
