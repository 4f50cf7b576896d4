# SPDX-License-Identifier: GPL-2.0-only
# scale.sh LIVE GONE [EVERY]: what the beat and the recount take with LIVE cgroups and GONE that were
# removed while they held a cached page, one of EVERY a dirty one.
# Wants --count-instructions, one CPU, /scale (scale.c) and disks "d" of ext4 and "v" of vfat; --possible-cpus
# says over how many CPUs a sum goes.  Prints "scale POSSIBLE LIVE GONE WHEN PER_SECOND LONGEST TURNS",
# instructions, of which a second of a CPU has 1,000,000,000 here, and "scale-seen POSSIBLE LIVE GONE
# MS", how long a floor's room is not seen that became free without a pass.
# A floor, a ceiling and a weight are set on ancestors.  The times are those of weir's work items, by
# the kernel's workqueue events.
. /tap.sh
live=${1:-1000}
gone=${2:-1000}
every=${3:-100}
# 1 % of a CPU, and one tick at 250 Hz
share=${SHARE:-10000000}
turn=${TURN:-4000000}
cpus=$(($(sed 's/.*-//' /sys/devices/system/cpu/possible) + 1))
tracing=/sys/kernel/tracing
[ -e $tracing/trace ] || mount -t tracefs none $tracing

# entering a cgroup is quick with it, or waits for RCU
mount -t cgroup2 -o remount,favordynmods none /sys/fs/cgroup || exit 1
# what is dirty stays so
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
limits 1073741824
cd /sys/fs/cgroup || exit 1
mkdir s
echo "+memory +io" >s/cgroup.subtree_control
made=$(cut -d' ' -f1 /proc/uptime)
# not by ok: it says how far it is
/scale /sys/fs/cgroup/s "$live" "$gone" "$every"
ok "$live cgroups, and $gone removed" is $? 0
echo "# made in $made to $(cut -d' ' -f1 /proc/uptime) s"
# the last of them are on their way
sleep 5
dying=$(awk '/^nr_dying_descendants/{ print $2 }' s/cgroup.stat)
ok "the removed hold their page ($dying)" between $((gone * 99 / 100)) "$dying" "$gone"
grep -E '^(MemFree|Percpu|Slab|Dirty)' /proc/meminfo | sed 's/^/# /'

# follow SECONDS WHEN: prints the figures of that time, sets per_second and longest
follow() {
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
	from=$(cut -d' ' -f1 /proc/uptime)
	sleep "$1"
	to=$(cut -d' ' -f1 /proc/uptime)
	echo 0 >$tracing/tracing_on
	# shellcheck disable=SC2046 # a list
	set -- "$2" $(awk -v took="$(echo "$to $from" | awk '{ print $1 - $2 }')" '
		{ for (at = 1; $at !~ /^workqueue_execute_/; at++) if (at == NF) next }
		{ now = $(at - 1); sub(":", "", now); work = $(at + 3) }
		$at ~ /start/ && /\[weir\]/ { began[work] = now; next }
		$at ~ /end/ && work in began {
			spent = now - began[work]
			delete began[work]
			all += spent
			turns++
			if (spent > longest) longest = spent
		}
		# one that did not end has taken the rest
		{ last = now }
		END {
			for (work in began) {
				spent = last - began[work]
				all += spent
				if (spent > longest) longest = spent
			}
			printf "%d %d %d\n", all / took * 1e9, longest * 1e9, turns
		}' $tracing/trace)
	echo "scale $cpus $live $gone $*"
	per_second=$2
	longest=$3
	turns=$4
}

# follow, and hold it against what is allowed
holds() { # SECONDS WHEN
	follow "$1" "$2"
	ok "$2: there are turns ($turns)" [ "$turns" -gt 0 ]
	ok "$2: at most 1 % of a CPU" between 0 "$per_second" "$share"
	ok "$2: no turn of more than a tick" between 0 "$longest" "$turn"
}

echo 32768 >$tracing/buffer_size_kb
echo 1 >$tracing/events/workqueue/workqueue_execute_start/enable
echo 1 >$tracing/events/workqueue/workqueue_execute_end/enable
insmod /weir.ko tiers=0 || exit 1
: >/tmp/knobs
for knob in s/memory.dirty_bytes=512M s/memory.dirty_min=16M s/0/memory.dirty_weight=400 \
	s/1/memory.dirty_min=4M s/2/memory.dirty_ratio=20; do
	took=$(/scale - "${knob%=*}" "${knob#*=}")
	echo "scale-write $cpus $live $gone ${knob%=*} $took"
	echo "$took" >>/tmp/knobs
done
ok "no write of a knob takes longer than 100 ms" between 0 "$(sort -n /tmp/knobs | tail -n 1)" 100000000
ok "in effect" comes_to active state
holds 5 setting-out
sleep 20
cat /sys/kernel/weir/groups | sed 's/^/# groups: /'
holds 5 beat
# the dirty pages are beyond the background limit: floors are counted anew
echo 4096 >/proc/sys/vm/dirty_background_bytes
holds 5 recount

unused() {
	cat /sys/kernel/weir/unused_bytes
}
# seen_after FILE: what no pass tells: pages below a floor are truncated; in ms, until they are not
# counted any more
seen_after() {
	before=$(unused)
	from=$(cut -d' ' -f1 /proc/uptime)
	: >"$1"
	for _ in $(seq 1000); do
		[ "$(unused)" -lt $((before + 3 * 1048576)) ] || break
		usleep 5000
	done
	echo "$from $(cut -d' ' -f1 /proc/uptime)" | awk '{ print int(($2 - $1) * 1000 + 0.5) }'
}
# kswapd writes what is dirty, too: there must be memory enough that it sleeps
scanned() {
	awk '/^pgscan_(kswapd|direct) /{ all += $2 } END { print all }' /proc/vmstat
}
scanned=$(scanned)
mkdir fresh
echo 8M >fresh/memory.dirty_min
longest=0
for try in 1 2 3 4 5 6 7 8 9 10; do
	# the last try's file is seen to go with 3 of its 6 MiB: the others are to be counted, too
	sleep 1
	clean=$(unused)
	# below the background limit no flusher takes them, nor ext4 those of a new file
	echo 536870912 >/proc/sys/vm/dirty_background_bytes
	in_cgroup fresh dd if=/dev/zero of=/mnt/d/fresh.$try bs=64k count=96 2>/dev/null
	echo 4096 >/proc/sys/vm/dirty_background_bytes
	sleep 2
	held=$((clean - $(unused)))
	# of 6; the kernel's counts of a cgroup may be late, by 1.1 MiB at most so far
	[ $held -ge $((4 * 1048576)) ] || ok "try $try: 4 MiB are held below the floor ($held)" false
	took=$(seen_after /mnt/d/fresh.$try)
	echo "scale-seen $cpus $live $gone $took $held"
	[ "$took" -le "$longest" ] || longest=$took
done
ok "memory is enough: no task has reclaimed" is "$(scanned)" "$scanned"
ok "a floor's room is seen in time, in ms" between 0 "$longest" "${SEEN:-300}"
echo "# dirty: $(awk '/^nr_dirty /{ print $2 }' /proc/vmstat) pages"
echo 536870912 >/proc/sys/vm/dirty_background_bytes
ok "unloads" rmmod weir
finish
