# SPDX-License-Identifier: GPL-2.0-only
# owed.sh SHAPE...: stages a stall of known culprits while weir agent looks, and holds what it says
# against the kernel's own account of the victim's time (PSI), or fio's, and against who did it.
# SHAPEs are the functions stage_* below. Wants disks "d" of 1M/s and "e" of 4M/s, both ext4, one
# CPU (with more, PSI weighs what it counts), and MODULE=y to load weir.ko.
. /tap.sh
. /verdict.sh
cd /sys/fs/cgroup || exit 1
[ "$MODULE" != y ] || insmod /weir.ko || exit 1
ip link set lo up
seconds=${SECONDS_EACH:-20}
for disk in d e; do
	mount -o remount,noatime,commit=300 /mnt/$disk
done
weir agent --listen 127.0.0.1:9759 >/tmp/log 2>&1 &
agent=$!

# writes CGROUP FILE OPTION...: fio in the background, until its cgroup is killed
writes() {
	group=$1
	file=$2
	shift 2
	in_cgroup "$group" fio --name=job --filename="$file" --rw=write --bs=4k --size=512M \
		--fallocate=none --time_based --runtime=3000 "$@" >/tmp/fio.out 2>&1 &
}

scrape() { # FILE
	sleep 1.5 # one within a second of another gets the same
	wget -q -O "$1" http://127.0.0.1:9759/metrics
	# a series that is shown for the first time is at 0 for 15 s
	for again in 1 2 3 4; do
		grep -q '^weir_stall_seconds_total.* 0\.0$' "$1" || break
		sleep 16
		wget -q -O "$1" http://127.0.0.1:9759/metrics
	done
}

# psi FILE: microseconds of the victim's tasks
psi() {
	sed -n 's/^some.*total=//p' "$victim/$1"
}

# synced: microseconds in fsync, by fio; a wait for the journal is none for PSI
synced() {
	awk '/"sync" :/ { inside = 1 }
		inside && /"total_ios"/ { gsub(/[^0-9]/, ""); total = $0 }
		inside && /"mean"/ { gsub(/[^0-9.]/, ""); printf "%d", total * $0 / 1000; exit }' /tmp/fio.json
}

# until_held PAGES: so many of the host's are dirty or being written
until_held() {
	for try in $(seq 600); do
		held=$(awk '/^nr_(dirty|writeback) /{ n += $2 } END { print n }' /proc/vmstat)
		[ "$held" -lt "$1" ] || return 0
		sleep 0.1
	done
	echo "# no $1 pages are dirty"
}

# watch NAME PSI CULPRIT[,CULPRIT]... COMMAND...: the victim, which the command begins, stalls
# because of these
watch() {
	name=$1
	pressure=$2
	right=$3
	shift 3
	scrape /tmp/before
	began=0
	[ "$pressure" = fio ] || began=$(psi "$pressure")
	"$@"
	sleep "$seconds"
	# one that says itself what it lost has to end by itself
	[ "$pressure" != fio ] || while grep -q 'populated 1' "$victim/cgroup.events"; do
		sleep 0.1
	done
	# the victim first: what it loses while it is the only one left has no culprit
	for group in $groups; do
		echo 1 >"$group/cgroup.kill"
		while grep -q 'populated 1' "$group/cgroup.events"; do
			sleep 0.1
		done
	done
	if [ "$pressure" = fio ]; then later=$(synced); else later=$(psi "$pressure"); fi
	# what was lost is known at the end of a stretch, which lasts a minute at most
	sleep 65
	scrape /tmp/later
	compare "$right"
}

# compare CULPRITS
compare() {
	awk -v victim="/$victim" -v right="$1" -v lost="$((later - began))" '
		function label(name) {
			if (!match($0, name "=\"[^\"]*\"")) return ""
			return substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3)
		}
		/^weir_stall_seconds_total/ && label("victim") == victim {
			at = label("culprit") " " label("limit")
			if (FILENAME == "/tmp/before") was[at] += $NF
			else now[at] += $NF
		}
		END {
			n = split(right, list, ",")
			for (i = 1; i <= n; i++) is[list[i]] = 1
			for (at in now) {
				owes = now[at] - was[at]
				if (owes <= 0) continue
				split(at, of, " ")
				printf "# %s owes %.2f s, to %s\n", of[1], owes, of[2]
				all += owes
				if (of[1] == "unknown" || of[1] == "other") continue
				told += owes
				if (of[1] in is) { good += owes; by[of[1]] += owes }
			}
			lost /= 1e6
			printf "%.2f %.2f %.2f %.2f", lost, all, told, good
			for (i = 1; i <= n; i++) printf " %.2f", by[list[i]]
			print ""
		}' /tmp/before /tmp/later >/tmp/compared
	grep '^#' /tmp/compared
	# shellcheck disable=SC2046 # a list of numbers
	set -- $(tail -n 1 /tmp/compared)
	echo "# $name: PSI says $1 s, $2 s are in the bill, $3 s of a known culprit, $4 s of the right one"
	lost=$1 all=$2 told=$3 good=$4
	shift 4
	parts=$*
	ok "$name: the victim stalls" awk -v lost="$lost" 'BEGIN { exit !(lost > 1) }'
	ok "$name: 95 % of what was lost are attributed" awk -v lost="$lost" -v told="$told" 'BEGIN { exit !(told >= 0.95 * lost) }'
	ok "$name: no more than was lost" awk -v lost="$lost" -v all="$all" 'BEGIN { exit !(all <= 1.05 * lost) }'
	ok "$name: at most 5 % to the wrong one" awk -v told="$told" -v good="$good" 'BEGIN { exit !(told - good <= 0.05 * told) }'
}

begin() {
	victim=$1
	limits 33554432
	for group in "$@"; do
		mkdir -p "$group"
		# every cgroup above has to give its children controllers
		above=${group%/*}
		while [ "$above" != "$group" ] && [ -n "$above" ]; do
			parents="$above $parents"
			[ "${above%/*}" != "$above" ] || break
			above=${above%/*}
		done
		for above in $parents; do
			echo "+memory +io" >"$above/cgroup.subtree_control"
		done
		parents=
		mkdir -p "$group"
	done
	groups=$*
}

end() {
	for group in $groups; do
		echo 1 >"$group/cgroup.kill"
		while grep -q 'populated 1' "$group/cgroup.events"; do
			sleep 0.1
		done
	done
	rm -rf /mnt/d/* /mnt/e/*
	for group in $groups; do
		while [ "$group" != "${group%/*}" ]; do
			rmdir "$group" 2>/dev/null
			group=${group%/*}
		done
		rmdir "$group" 2>/dev/null
	done
}

# the host's limit, filled by one
stage_host() {
	begin victim noisy
	writes noisy /mnt/d/noisy
	until_held 6500
	watch host io.pressure /noisy writes victim /mnt/d/victim --rate=500k
	end
}

# the host's limit, filled by two
stage_two() {
	begin victim one two
	writes one /mnt/d/one
	writes two /mnt/d/two
	until_held 6500
	watch two io.pressure /one,/two writes victim /mnt/d/victim --rate=300k
	# shellcheck disable=SC2086 # a list of numbers
	set -- $parts
	ok "two: each of them owes a third at least" awk -v a="$1" -v b="$2" -v all="$told" \
		'BEGIN { exit !(a >= all / 3 && b >= all / 3) }'
	end
}

# one file: its pages are charged to who wrote it first, another one overwrites it
stage_shared() {
	begin victim noisy owner
	dirty /mnt/d/shared 64 owner &
	wait $!
	sync /mnt/d/shared
	writes noisy /mnt/d/shared --rw=randwrite --size=64M --norandommap=1
	until_held 6500
	# more than half of the disk, which is what the kernel leaves a writer of two
	watch shared io.pressure /noisy writes victim /mnt/d/victim --rate=900k
	end
}

# deep in a tenant that has a quiet neighbour of its own; the victim is deep in another one
stage_nested() {
	begin other/x/victim tenant/a/noisy tenant/b/quiet
	writes tenant/a/noisy /mnt/d/noisy
	until_held 6500
	writes tenant/b/quiet /mnt/d/quiet --rate=20k
	watch nested io.pressure /tenant/a/noisy writes other/x/victim /mnt/d/victim --rate=500k
	end
}

# filled by one that has ended since
stage_burst() {
	begin victim burst
	dirty /mnt/d/burst 40 burst
	seconds=8
	watch burst io.pressure /burst writes victim /mnt/d/victim --rate=500k
	seconds=${SECONDS_EACH:-20}
	end
}

# its own limit: a byte setting scaled down to a small cgroup
stage_own() {
	begin victim calm
	echo 48M >victim/memory.max
	writes calm /mnt/e/calm --rate=100k
	watch own io.pressure /victim writes victim /mnt/d/victim --rate=1300k
	end
}

# a cgroup above: its ceiling, or without weir its memory, taken up by another one below it
stage_ancestor() {
	begin above/victim above/hog
	if [ "$MODULE" = y ]; then
		echo 2M >above/memory.dirty_bytes
		writes above/hog /mnt/d/hog
		rate=200k
	else
		echo 64M >above/memory.max
		mkdir -p /tmp/tmpfs
		mount -t tmpfs tmpfs /tmp/tmpfs
		in_cgroup above/hog dd if=/dev/zero of=/tmp/tmpfs/hog bs=1M count=44 2>/dev/null
		rate=1300k
	fi
	sleep 5
	watch ancestor io.pressure /above/hog writes above/victim /mnt/d/victim --rate=$rate
	[ "$MODULE" = y ] || umount /tmp/tmpfs
	end
}

# io.max of another one, which so holds what the host may hold
stage_iomax() {
	begin victim slow
	device=$(awk '$5 == "/mnt/e" { print $3 }' /proc/self/mountinfo)
	echo "$device wbps=262144" >slow/io.max
	writes slow /mnt/e/slow
	until_held 6000
	watch iomax io.pressure /slow writes victim /mnt/e/victim --rate=1m
	end
}

# fsync behind another one's data
stage_fsync() {
	begin victim noisy
	limits 268435456
	writes noisy /mnt/d/noisy --rate=3m
	until_held 1500
	watch fsync fio /noisy writes victim /mnt/d/victim --rate=100k --fsync=1 \
		"--runtime=$seconds" --output=/tmp/fio.json --output-format=json
	end
}

# processes of 50 ms that sync and end, so that no look meets one twice: nearly all of their time is fsync
stage_short() {
	begin victim
	scrape /tmp/before
	began=$(uptime_cs)
	syncs='dd if=/dev/zero of=/mnt/e/x bs=4k count=40 conv=fsync 2>/dev/null'
	in_cgroup victim sh -c "for i in \$(seq 200); do $syncs; done"
	took=$(($(uptime_cs) - began))
	sleep 65
	scrape /tmp/later
	awk -v took="$took" '
		/^weir_stall_seconds_total/ {
			change = FILENAME == "/tmp/before" ? -$NF : $NF
			all += change
			if (/victim="\/victim"/) good += change
		}
		END {
			printf "# short: 200 processes took %.2f s; the bill has %.2f s, %.2f s of it of their cgroup\n", took / 100, all, good
			exit !(took > 800 && good >= 0.009 * took && good <= 0.0105 * took && good >= 0.9 * all)
		}' /tmp/before /tmp/later >/tmp/compared
	billed=$?
	cat /tmp/compared
	ok "short: nine tenths of what they lost is billed to their cgroup" test $billed = 0
	in_cgroup victim sh -c "while :; do $syncs; done" &
	sleep 1
	weir explain --for 10s --json >/tmp/verdict
	told=$(sed -n '/"lost": {/,/}/s/^ *"seconds": \([0-9.]*\),$/\1/p' /tmp/verdict | head -n 1)
	echo "# short: explain tells $told s in 10 s, of $(first cgroup)"
	ok "short: explain tells their cgroup" is "$(first cgroup)" /victim
	ok "short: and nine tenths of what they lost" awk -v told="$told" 'BEGIN { exit !(told >= 9 && told <= 10.1) }'
	end
}
uptime_cs() { sed 's/ .*//; s/[.]//' /proc/uptime; }

for shape in "$@"; do
	"stage_$shape"
done
scrape /tmp/end
ok "the sum over culprits is what was lost" awk '
	/^weir_stall_seconds_total/ { owed += $NF }
	/^weir_stall_lost_seconds_total/ { lost += $NF }
	END { print owed, lost; exit !(lost > 0 && owed > 0.999 * lost && owed < 1.001 * lost) }' /tmp/end
grep '^weir_stall_\(lost\|series\|missed\|looking\)' /tmp/end | sed 's/^/# /'
grep -v '^started' /tmp/log | sed 's/^/# agent: /'
kill $agent
ok "the agent ends" wait $agent
ok "its probes are gone" is "$(grep -c weir_ /sys/kernel/tracing/kprobe_events)" 0
finish
