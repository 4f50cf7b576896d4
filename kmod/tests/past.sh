# SPDX-License-Identifier: GPL-2.0-only
# past.sh [WRITERS]: a full ceiling holds writers whose own wb has nothing dirty, too.
#
# The kernel lets such a writer past any limit after a tick.  It has nothing there
#   because its files are on the wb of another cgroup, which wrote to them first;
#   because +io was switched, and its files are on the wb from before;
#   or because its cgroup's pages are all on another, slow disk: then it is to go on.
# It looks at no limit of the cgroup's where a filesystem has no cgroup writeback, as vfat.
# A tenant that has a writer of its own files beside, or a small memory.max below, gets no more.
# What an owner sets itself holds no call, in which others may wait for it: only what comes after.
#
# Wants a slow disk "d", a very slow one "s", one "v" with vfat, and to count instructions.
. /tap.sh
writers=${1:-40}
ceiling=8
cd /sys/fs/cgroup || exit 1

# what CGROUP holds, in kilobytes
holds() {
	awk '$1 == "subtree_dirty" || $1 == "subtree_writeback" { n += $2 }
		END { print int(n / 1024) }' "$1/memory.dirty_stat"
}
# writer CGROUP FILE: as fast as it may, until killed; $! is the writer itself
writer() {
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" &&
		exec dd if=/dev/zero of="$1" bs=64k count=4000 conv=notrunc 2>/dev/null' "$1" "$2" &
	pids="$pids $!"
}
# writes CGROUP: as many writers as there are
writes() {
	for i in $(seq "$writers"); do
		writer "$1" "/mnt/d/$i"
	done
}
# the most that CGROUP holds in SECONDS, in kilobytes
most_in() {
	most=0
	for _ in $(seq $(($2 * 10))); do
		now=$(holds "$1")
		[ "$now" -le $most ] || most=$now
		usleep 100000
	done
	echo $most
}
# The ceiling, and for each writer 32 pages, which a new task dirties before its first pass, and a
# call of 64 KiB.
bound=$((ceiling * 1024 + writers * (128 + 64)))
settle() {
	kill $pids 2>/dev/null
	wait
	pids=
	rm -f /mnt/d/[0-9]*
	sync
}

# gone, or waiting for its parent to ask
ended() {
	[ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

pids=
limits 268435456
echo "+memory +io" >cgroup.subtree_control
mkdir tenant owner
echo "+memory +io" >tenant/cgroup.subtree_control
mkdir tenant/a
insmod /weir.ko || exit 1
echo ${ceiling}M >tenant/memory.dirty_bytes
sleep 1

# dirtied by all writers since they began, in kilobytes
dirtied() {
	for pid in $pids; do
		cat "/proc/$pid/io"
	done | awk '$1 == "write_bytes:" { n += $2 } END { print int(n / 1024) }'
}
# others TEXT: all write to files that are on the wb of the cgroup that wrote to them first
others() {
	for i in $(seq "$writers"); do
		in_cgroup owner dd if=/dev/zero of=/mnt/d/$i bs=4k count=1 2>/dev/null
	done
	writes tenant/a
	most=$(most_in tenant 3)
	before=$(dirtied)
	now=$(most_in tenant 2)
	[ "$now" -le "$most" ] || most=$now
	after=$(dirtied)
	ok "$1: held" between $((ceiling * 256)) "$most" $bound
	# 1 MiB a second, less what those that wait sleep beyond their turn
	ok "and they go on" between 256 $((after - before)) 100000000
	echo "# most held, of $((ceiling * 1024)) kB: $most; in the last two seconds they dirtied $((after - before)) kB"
}

others "files of another cgroup's"
settle

# new tasks, with what they dirty before their first pass
sh -c 'echo 0 >/sys/fs/cgroup/tenant/a/cgroup.procs
	while :; do dd if=/dev/zero of=/mnt/d/own bs=4k count=40 conv=notrunc 2>/dev/null; done' &
own=$!
others "the same beside one who writes its own"
kill $own
settle

echo 48M >tenant/a/memory.max
others "the same in little memory"
settle
echo max >tenant/a/memory.max

writes tenant/a
sleep 2
echo -io >tenant/cgroup.subtree_control
usleep 200000
echo +io >tenant/cgroup.subtree_control
most=$(most_in tenant 5)
ok "files on a wb that was replaced: held" between $((ceiling * 256)) "$most" $bound
echo "# most held: $most"
# a flusher that is not woken writes nothing for up to five seconds
before=$(stat tenant/a nr_passes)
sleep 2
ok "and written back" between $((before + 1)) "$(stat tenant/a nr_passes)" 100000000
settle

# Its passes come with the last of 32 pages, as a task's looks are powers of two apart.  With more
# such tasks the CPU's own count has passes begin elsewhere, too.
sh -c 'echo 0 >/sys/fs/cgroup/tenant/a/cgroup.procs && exec awk "$0"' 'BEGIN {
	page = sprintf("%4096s", "")
	for (n = 0; ; n = (n + 1) % 32) {
		file = n < 28 ? "/mnt/d/astray" : "/mnt/v/astray"
		printf "%s", page >file
		fflush(file)
	}
}' 2>/dev/null &
pids=$!
most=$(most_in tenant 4)
ok "passes on a disk without cgroup writeback: held" between $((ceiling * 256)) "$most" $bound
echo "# most held: $most"
settle
rm -f /mnt/v/*

writer tenant/a /mnt/s/slow
sleep 4
ok "a slow disk's pages fill it" between $((ceiling * 768)) "$(holds tenant)" $bound
writer tenant/a /mnt/d/other
other=$!
sleep 5
written=$(awk '$1 == "write_bytes:" { print int($2 / 1024) }' /proc/$other/io)
ok "who writes to another goes on" between 1024 "$written" 100000000
echo "# written there in 5 s: $written kB"
kill -9 $other
ok "a writer that waits can be killed" soon ended $other
settle

# those of the writers that sleep in a pass, in some looks
in_passes() {
	for _ in 1 2 3 4 5 6 7 8; do
		for pid in $pids; do
			cat "/proc/$pid/wchan" && echo
		done
		usleep 50000
	done 2>/dev/null | grep -c balance_dirty_pages
}
echo "owner:x:1000:1000::/:/bin/sh" >>/etc/passwd
chown -R 1000:1000 owner
su owner -s /bin/sh -c "echo ${ceiling}M >/sys/fs/cgroup/owner/memory.dirty_bytes"
writes owner
asleep=$(in_passes)
most=$(most_in owner 3)
ok "a ceiling of an owner's: held" between $((ceiling * 256)) "$most" $bound
ok "but no call" is "$asleep" 0
ok "what its writers wait is counted" between 1 "$(stat owner throttled_by_ceiling_usec)" 1000000000
echo "# most held: $most"
settle
ok "unloads" rmmod weir
finish
