# SPDX-License-Identifier: GPL-2.0-only
# killed.sh [RUNS [MEGABYTES [SECONDS [FILESYSTEMS]]]]: a writer faster than its disk is killed for memory on stock Linux,
# and not under the agent's rule of 75 % of memory.max.  Wants the drivers brd and dm_delay, and dmsetup.
#
# Each run is a new cgroup that writes 3/2 of its memory.max to a disk that answers after so many seconds, and syncs it:
# first without the module, then under the agent's rule.  That stock kills holds for kernels up to 7.1: of 24 runs on disks
# of 0.2 to 1 s 6.12 kills 16, 7.2 and 7.3, whose MGLRU waits for writeback, none; those kill at 10 s, 9 of 16.  Limits, latencies and filesystems are lists; each combination is a
# line `# of ...`.  Stock has to kill somewhere: a disk without latency shows what the rule costs where it does not, as does
# `-` in the place of a latency: the disk "d" of the guest, which has a bandwidth instead.
. /tap.sh
runs=${1:-3}
limits=${2:-32}
latencies=${3:-3}
filesystems=${4:-ext4}

# slow FILESYSTEM SECONDS: at /mnt/slow, in memory
slow() {
	if [ "$2" = - ]; then
		mount --bind /mnt/d /mnt/slow
		return
	fi
	case $1 in
	xfs) mkfs.xfs -q -f -K /dev/ram0 ;;
	*) "mkfs.$1" -q -F -E nodiscard /dev/ram0 ;;
	esac
	sectors=$(cat /sys/class/block/ram0/size)
	dmsetup create slow --noudevrules --noudevsync --table \
		"0 $sectors delay /dev/ram0 0 0 /dev/ram0 0 $(echo "$2" | awk '{ print $1 * 1000 }')" || return 1
	dmsetup mknodes
	mount -t "$1" /dev/mapper/slow /mnt/slow
}
fast_again() {
	umount /mnt/slow && { ! dmsetup info slow >/dev/null 2>&1 || dmsetup remove slow; }
}
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}
ruled() { # CGROUP
	[ "$(cat "$1/memory.dirty_bytes")" = $((limit * 786432 / 4096 * 4096)) ]
}
# one CGROUP: adds to runs, killed and took what a writer in the new cgroup did
one() {
	mkdir "$1"
	echo "${limit}M" >"$1/memory.max"
	case $1 in
	ruled*) soon ruled "$1" || return 1 ;;
	esac
	began=$(milliseconds)
	in_cgroup "$1" dd if=/dev/zero of=/mnt/slow/f bs=64k count=$((limit * 24)) conv=fsync 2>/dev/null
	written=$?
	took=$((took + $(milliseconds) - began))
	case $written in
	0) written_all=$((written_all + 1)) ;;
	137) ;;
	*) echo "dd ended with $written" >&2 ;;
	esac
	killed=$((killed + $(awk '/^oom_kill /{ print $2 }' "$1/memory.events")))
	rm -f /mnt/slow/f
	sync
	rmdir "$1"
}
# each NAME: so many runs of it for each combination; the sums are in killed_of_all, written_of_all
each() {
	killed_of_all=0 written_of_all=0
	for filesystem in $filesystems; do
		for latency in $latencies; do
			slow "$filesystem" "$latency" || exit 1
			for limit in $limits; do
				killed=0 took=0 written_all=0 i=0
				while [ $((i += 1)) -le "$runs" ]; do
					one "$1$i"
				done
				echo "# of $1: $filesystem, $latency s, $limit MiB: $killed killed, $written_all of $runs wrote all, $((took / runs)) ms"
				killed_of_all=$((killed_of_all + killed))
				written_of_all=$((written_of_all + written_all))
			done
			fast_again || exit 1
		done
	done
}

cd /sys/fs/cgroup || exit 1
largest=0 all=0
for limit in $limits; do
	[ "$limit" -gt $largest ] && largest=$limit
	for combined in $latencies; do
		for filesystem in $filesystems; do
			all=$((all + runs))
		done
	done
done
# xfs takes no less than 300 MiB
modprobe brd rd_nr=1 rd_size=$(((largest * 2 > 320 ? largest * 2 : 320) * 1024)) || exit 1
modprobe dm_delay || exit 1
mkdir -p /mnt/slow
each stock
ok "stock Linux kills writers that are faster than their disk" between 1 $killed_of_all $all

insmod /weir.ko || exit 1
printf '[[rule]]\ncgroup = "/ruled*"\nset = { "memory.dirty_bytes" = "75%%" }\n' >/tmp/agent.toml
weir agent --listen none --policy /tmp/agent.toml --scan-every 1s >/tmp/log 2>&1 &
agent=$!
each ruled
ok "the agent's rule leaves each of them alive" is $killed_of_all 0
ok "and all that they wrote is written" is $written_of_all $all
kill $agent
wait $agent
finish
