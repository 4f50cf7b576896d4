# SPDX-License-Identifier: GPL-2.0-only
# record-cost.sh WRITERS [PAIRS [SECONDS]]: the instructions that `weir record` adds to a write of 4 KiB, of all the
# machine's. In a guest that counts instructions (--count-instructions, --cpus 1: a second of CPU time is a billion of
# them), with a disk in memory (--driver brd), because what a real one takes is not counted:
#   free  no limit is near, everybody writes on
#   held  a limit of 64 KiB a writer holds them all, and each pause is recorded; the disk would be too fast for
#         that, so io.max makes it slow
# Stretches with and without a recording take turns in one boot; one with is held against the mean of the two beside it.
. /tap.sh
writers=$1
pairs=${2:-3}
seconds=${3:-1}
cd /sys/fs/cgroup || exit 1
# Without it a thousand writers have a thousand shares of the CPU, and who looks at them one.
echo +cpu +memory +io >cgroup.subtree_control
mkdir writers recorder /tmp/disk
modprobe brd rd_nr=1 rd_size=1048576 && mkfs.ext4 -q -O ^has_journal /dev/ram0 &&
	mount -t ext4 -o noatime /dev/ram0 /tmp/disk || exit 1
# Nothing is written back because it is old.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
limits 1073741824

# begin CGROUP COMMAND...: in the background, as process $!
begin() {
	group=$1
	shift
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" && exec "$@"' "$group" "$@" &
}

begin writers fio --name=w --directory=/tmp/disk --numjobs="$writers" --thread --group_reporting --rw=write --bs=4k \
	--size=128k --fallocate=none --create_on_open=1 --invalidate=0 --time_based --runtime=1000000 >/tmp/fio.out 2>&1
fio=$!

# so_far: nanoseconds of CPU time (instructions, that is), the recorder's own microseconds of it, writes made, seconds passed
so_far() {
	awk '/^cpu0/ { busy = $8 } /^usage_usec/ { own = $2 } /^syscw/ { writes = $2 } FILENAME == "/proc/uptime" { passed = $1 }
		END { printf "%.0f %d %d %.2f\n", busy, own, writes, passed }' \
		/proc/schedstat recorder/cpu.stat "/proc/$fio/io" /proc/uptime
}

# until_written WRITES: each has made so many more; says so meanwhile, who says nothing is taken for dead
until_written() {
	wanted=$(($(so_far | cut -d' ' -f3) + $1 * writers))
	while writes=$(so_far | cut -d' ' -f3) && [ "$writes" -lt $wanted ]; do
		[ -e /proc/$fio/exe ] || { cat /tmp/fio.out; exit 1; }
		echo "# $writes of $wanted writes"
		sleep 0.2
	done
}

# stretch NAME: a line of what it took
stretch() {
	before=$(so_far)
	sleep "$seconds"
	echo "$1 $before $(so_far)" | tee -a /tmp/stretches | sed 's/^/# /'
}

# added REGIME: a line for each pair, the least added first
added() {
	awk -v regime="$1" '
		{ each[NR] = ($6 - $2) / ($8 - $4); own[NR] = ($7 - $3) * 100000 / ($6 - $2)
		  busy[NR] = ($6 - $2) / ($9 - $5) / 1e7; rate[NR] = ($8 - $4) / ($9 - $5) }
		END { for (i = 2; i < NR; i += 2)
			printf "%.2f %s: instructions a write %.0f without, %.0f with, %.0f without; %.2f %% are the recorder'\''s own; %.0f writes a second, CPU busy %.0f %%\n",
				(each[i] * 2 / (each[i - 1] + each[i + 1]) - 1) * 100, regime, each[i - 1], each[i], each[i + 1],
				own[i], rate[i], busy[i] }' /tmp/stretches | sort -n
}

# all of its file, and once more
until_written 64
for regime in free held; do
	if [ $regime = held ]; then
		# Who only writes what is dirty already dirties nothing, and who dirties nothing is not held.
		echo 100 >/proc/sys/vm/dirty_writeback_centisecs
		echo "1:0 wbps=33554432" >writers/io.max
		limits $((writers * 65536))
		until_written 64
	fi
	rm -f /tmp/stretches
	stretch without
	for pair in $(seq "$pairs"); do
		begin recorder weir record /tmp/r.weir --for 600m --json >/tmp/record.json 2>&1
		recorder=$!
		# a second later it has looked around and is at its rounds
		until [ -s /tmp/r.weir ]; do
			[ -e /proc/$recorder/exe ] || { cat /tmp/record.json; exit 1; }
			sleep 0.1
		done
		sleep 1
		stretch with
		kill $recorder
		wait $recorder
		echo "# $(tr -d '\n' </tmp/record.json)"
		events=$(sed -n 's/^ *"events": \([0-9]*\).*/\1/p' /tmp/record.json)
		rm /tmp/r.weir
		stretch without
	done
	# else it was the other regime again
	[ $regime = free ] || ok "held: pauses were recorded" between 1000 "$events" 100000000
	added $regime >/tmp/added
	sed 's/^/# percent added: /' /tmp/added
	median=$(sed -n "$(((pairs + 1) / 2))p" /tmp/added | cut -d' ' -f1)
	echo "# $regime: median $median %, $(sed -n '1s/ .*//p' /tmp/added)..$(sed -n '$s/ .*//p' /tmp/added), N = $pairs"
	ok "$regime: a recording adds at most a hundredth to what a write costs" \
		awk -v median="$median" 'BEGIN { exit !(median != "" && median <= 1) }'
done
finish
