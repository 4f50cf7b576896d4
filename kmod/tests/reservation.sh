# SPDX-License-Identifier: GPL-2.0-only
# reservation.sh [HOLDERS] [SECONDS] [KIND]: floors that sum to their cap, all
# flat out on a slow disk, unreserved writers too.  The host stays within 1.05 x
# its limit, and no owner is throttled below its floor.
#   1  the floors are there before the first write: after convergence, and the
#      most held from the first page on is printed
#   2  the limit is halved and doubled live: after convergence
#   3  the floors come when the others hold the whole limit: after convergence
# The time convergence takes is measured and printed; what has to be written
# back meanwhile is the others' share, through the others' share of the disk.
# Wants disks "d" for the holders and "o" for the others, who write to a stack of
# the given KIND (stacks.sh) if there is one.
. /tap.sh
holders=${1:-8}
seconds=${2:-10}
kind=$3
# what a hundred writers dirty between two looks is to be small beside it
limit=$(((32 + 2 * holders) << 20))
page=$(page_size)
begun=$(date +%s)
cd /sys/fs/cgroup || exit 1
insmod /weir.ko || exit 1
limits $limit
mkdir other
where=/mnt/o
if [ -n "$kind" ]; then
	. /stacks.sh
	ok "the others write to $kind" stack "$kind" /mnt/o
	where=/mnt/$kind
fi

# writer CGROUP FILE MIB: never stops, in a file of that size
writer() {
	# not in_cgroup: this shell itself is to be killed, or it starts the next dd
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs"
		while :; do dd if=/dev/zero of="$1" bs=64k count=$(($2 * 16)) conv=notrunc 2>/dev/null; done' "$@" &
	writers="$writers $!"
}

# in files twice the limit: a page that is dirty already asks for nothing
others_write() {
	writer other $where/other $((limit >> 19))
	writer . $where/root $((limit >> 19))
}

each_holder() {
	i=0
	while [ $i -lt "$holders" ]; do
		"$@" $i
		i=$((i + 1))
	done
}

make_holder() {
	mkdir -p h"$1"
}

reserve() {
	echo $((limit / 10 * 8 / holders)) >h"$1"/memory.dirty_min
}

release() {
	echo 0 >h"$1"/memory.dirty_min
}

hold() {
	writer h"$1" /mnt/d/h"$1" 64
}

# all_stop: with nothing left to write back
all_stop() {
	kill $writers
	wait $writers 2>/dev/null
	writers=
	while killall dd 2>/dev/null; do
		usleep 100000
	done
	rm -f /mnt/d/h* $where/other $where/root
	sync
}

# every 50 ms: dirty + writeback in thousandths of the limit, and the uptime; flushes nothing
sample() {
	awk -v out=/tmp/samples -v page="$page" '
	function of(file,  line) { getline line <file; close(file); return line }
	BEGIN {
		for (;;) {
			pages = 0
			while ((getline line <"/proc/vmstat") > 0)
				if (split(line, f, " ") && (f[1] == "nr_dirty" || f[1] == "nr_writeback"))
					pages += f[2]
			close("/proc/vmstat")
			split(of("/proc/uptime"), up, " ")
			print up[1], int(pages * page * 1000 / of("/proc/sys/vm/dirty_bytes")) >out
			fflush(out)
			system("usleep 40000")
		}
	}' &
	sampler=$!
}

now() {
	cut -d' ' -f1 /proc/uptime
}

# most SINCE: the most the host held since then
most() {
	awk -v since="$1" '$1 >= since && $2 > max { max = $2 } END { print max + 0 }' /tmp/samples
}

# last_above SINCE: seconds from then to the last sample beyond 1.05 x the limit
last_above() {
	awk -v since="$1" '$1 >= since && $2 > 1050 { last = $1 - since } END { printf "%.1f\n", last }' /tmp/samples
}

# within_for SINCE: how long, in whole seconds, the host has been within 1.05 x the limit
within_for() {
	echo "$(now) $1 $(last_above "$1")" | awk '{ print int($1 - $2 - $3) }'
}

# converges TEXT: the host comes within 1.05 x the limit and stays there for $seconds
converges() {
	since=$(now)
	within=0
	until [ "$within" -ge "$seconds" ] || [ $(($(date +%s) - begun)) -gt 250 ]; do
		[ "$within" -gt 0 ] || converged=$(throttled_below)
		sleep 1
		within=$(within_for "$since")
	done
	ok "$1: within 1.05 x the limit $(last_above "$since") s later, and then for $seconds s" \
		between "$seconds" "$within" 100000
	ok "no owner was throttled below its floor in those" is "$(throttled_below)" "$converged"
}

throttled_below() {
	awk '$1 == "nr_throttled_below_floor" { n += $2 } END { print n + 0 }' h*/memory.dirty_stat
}

# idle: holders that no pass was left out for
idle() {
	awk '$1 == "nr_floor_admitted" && !$2 { print FILENAME }' h*/memory.dirty_stat
}

each_holder make_holder
each_holder reserve
rounded=$(((holders + 2) * page))
ok "all is unused while no owner writes" between $((limit / 10 * 8 - rounded)) "$(cat /sys/kernel/weir/unused_bytes)" $((limit / 10 * 8))
ok "the others' limit is what is left" between $((limit / 10 * 2)) "$(cat /sys/kernel/weir/limit_in_force_bytes)" $((limit / 10 * 2 + rounded))
ok "readers of the limits see stock" is "$(awk '/^nr_dirty_threshold/{ print $2 }' /proc/vmstat)" $((limit / page))
sample
others_write
since=$(now)
sleep 4
alone=250
# the kernel does not hold the server's threads to the host's limit (PF_LOCAL_THROTTLE)
[ "$kind" != nfs ] || alone=350
ok "the others alone stay within what is left" between 50 "$(most "$since")" $alone
each_holder hold
until [ -z "$(idle)" ] && [ "$(most "$since")" -gt 700 ] || [ $(($(date +%s) - begun)) -gt 100 ]; do
	sleep 1
done
echo "# most held from the first page on: $(most "$since") thousandths of the limit"
converges "all together"
ok "every floor was used" is "$(idle)" ""
ok "no owner was throttled below its floor" is "$(throttled_below)" 0

limits $((limit / 2))
converges "the limit halved"
limits $limit
converges "and doubled again"
all_stop

each_holder release
others_write
since=$(now)
full=850
# FUSE has a limit of its own, and its daemon writes no more than that lets pass
[ "$kind" != fuse ] || full=650
until [ "$(most "$since")" -gt $full ] || [ $(($(date +%s) - begun)) -gt 250 ]; do
	sleep 1
done
ok "without floors the others hold the limit" between $full "$(most "$since")" 1050
each_holder reserve
each_holder hold
converges "floors made then"
kill $sampler
echo "# $(wc -l </tmp/samples) samples; $(awk '{ n[int($2 / 50)]++ } END { for (i = 0; i < 60; i++) if (n[i]) printf "%d%%:%d ", i * 5, n[i] }' /tmp/samples)"
all_stop
finish
