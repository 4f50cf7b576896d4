# SPDX-License-Identifier: GPL-2.0-only
# record-cost.sh WRITERS [PAIRS [SECONDS]]: what `weir record` costs, in a guest that counts instructions
# (--count-instructions, --cpus 1: a second of CPU time is a billion of them), with a disk in memory (--driver brd),
# because what a real one takes is not counted (and 5 GiB of memory for that):
#   free  no limit is near, all write on: the instructions, of all the machine's, that are added to a write of 4 KiB
#   held  a limit holds all, and each pause is recorded: the writes that they lose, and the instructions of a pause
# Stretches with and without a recording take turns in one boot; one with is held against the mean of the two beside it.
. /tap.sh
writers=$1
pairs=${2:-3}
seconds=${3:-1}
cd /sys/fs/cgroup || exit 1
# Without it a thousand writers have a thousand shares of the CPU, and who looks at them one.
echo +cpu +memory +io >cgroup.subtree_control
mkdir writers recorder /tmp/disk
modprobe brd rd_nr=1 rd_size=2097152 && mkfs.ext4 -q -O ^has_journal /dev/ram0 &&
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

# write_on SIZE: all do, round and round a file of that size; fio is process $fio
write_on() {
	begin writers fio --name=w --directory=/tmp/disk --numjobs="$writers" --thread --group_reporting --rw=write --bs=4k \
		--size="$1" --fallocate=none --invalidate=0 --time_based --runtime=1000000 >/tmp/fio.out 2>&1
	fio=$!
}

# so_far: nanoseconds of CPU time (instructions, that is), the recorder's own microseconds of it, writes made, seconds passed
so_far() {
	awk '/^cpu0/ { busy = $8 } /^usage_usec/ { own = $2 } /^syscw/ { writes = $2 } FILENAME == "/proc/uptime" { passed = $1 }
		END { printf "%.0f %d %d %.2f\n", busy, own, writes, passed }' \
		/proc/schedstat recorder/cpu.stat "/proc/$fio/io" /proc/uptime
}

# below A B: numbers, of which there are two
below() {
	[ "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'
}

# made_by_each: of each thread of fio, how many writes
made_by_each() {
	awk '/^syscw/ { print FILENAME, $2 }' /proc/$fio/task/*/io
}

# until_each_wrote WRITES more; says how many have meanwhile, who says nothing is taken for dead
until_each_wrote() {
	made_by_each >/tmp/made
	while wrote=$(made_by_each | awk -v more="$1" 'NR == FNR { made[$1] = $2; next } $2 - made[$1] >= more { n++ }
		END { print n + 0 }' /tmp/made -) && [ "$wrote" -lt "$writers" ]; do
		[ -e /proc/$fio/exe ] || { cat /tmp/fio.out; exit 1; }
		echo "# $wrote of $writers wrote"
		sleep 0.5
	done
}

# stretch NAME: a line of what it took
stretch() {
	before=$(so_far)
	sleep "$seconds"
	echo "$1 $before $(so_far)" | tee -a /tmp/stretches | sed 's/^/# /'
}

# compared WHAT: a line for each pair, the least first: by how many percent WHAT (for awk, of i instructions and w writes
# a second) is more with a recording
compared() {
	awk '
		{ s = $9 - $5; i = ($6 - $2) / s; o = ($7 - $3) * 1000 / s; w = ($8 - $4) / s
		  busy[NR] = i; own[NR] = o; rate[NR] = w; each[NR] = '"$1"' }
		END { for (n = 2; n < NR; n += 2)
			printf "%.2f: %.0f without, %.0f with, %.0f without; a second: %.0f writes, %.0f million instructions, %.1f more with, %.1f of them the recorder'\''s own\n",
				(each[n] * 2 / (each[n - 1] + each[n + 1]) - 1) * 100, each[n - 1], each[n], each[n + 1],
				rate[n], busy[n] / 1e6, (busy[n] - (busy[n - 1] + busy[n + 1]) / 2) / 1e6, own[n] / 1e6 }' /tmp/stretches |
		sort -n >/tmp/compared
	sed 's/^/# percent more: /' /tmp/compared
	median=$(sed -n "$(((pairs + 1) / 2))s/:.*//p" /tmp/compared)
	echo "# median $median %, $(sed -n '1s/:.*//p' /tmp/compared)..$(sed -n '$s/:.*//p' /tmp/compared), N = $pairs"
}

# in_turns: stretches into /tmp/stretches; events and lost ones of the recordings into /tmp/events and /tmp/lost
in_turns() {
	rm -f /tmp/stretches /tmp/events /tmp/lost
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
		sed -n 's/^ *"events": \([0-9]*\).*/\1/p' /tmp/record.json >>/tmp/events
		sed -n 's/^ *"lost_events": \([0-9]*\).*/\1/p' /tmp/record.json >>/tmp/lost
		rm /tmp/r.weir
		stretch without
	done
}

write_on 128k
# all of its file, and once more
until_each_wrote 64
in_turns
compared 'i / w'
ok "free: a recording adds at most a hundredth to what a write costs" below "$median" 1

kill $fio
wait $fio
rm /tmp/disk/w.*
# A writer of pages that are dirty already is not held, so here no writer comes round its file.
echo 100 >/proc/sys/vm/dirty_writeback_centisecs
echo "1:0 wbps=25165824" >writers/io.max
limits $((writers * 65536))
write_on 64M
until_each_wrote 16
seconds=$((seconds * 5))
in_turns
ok "held: each pause is recorded" below 10000 "$(sort -n /tmp/events | head -n 1)"
ok "and none is lost" is "$(sort -nu /tmp/lost)" 0
compared w
# What they get in a few seconds varies by some percent without a recording, too.
ok "held: a recording takes no twentieth of their writes" below -5 "$median"
finish
