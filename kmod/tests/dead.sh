# SPDX-License-Identifier: GPL-2.0-only
# What tasks below a floor rewrite of another cgroup's file counts against the floor although they
# exit before their first pass; what those of a neighbour do does not.  Wants one CPU, and a disk
# "d".
. /tap.sh
insmod /weir.ko || exit 1
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
limits 268435456
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b /sys/fs/cgroup/c
echo 16M >/sys/fs/cgroup/b/memory.dirty_min
dirty /mnt/d/shared 16 a
sync

# rewrites CGROUP FILE: 100 tasks in it write 16 pages each and exit; after each a writer in b that
# stays writes 16 of its own, and the kernel lets it answer for both
rewrites() {
	in_cgroup b sh -c '
		exec 3>/mnt/d/own
		i=0
		while [ $i -lt 100 ]; do
			sh -c "echo 0 >/sys/fs/cgroup/$0/cgroup.procs &&
				exec dd if=/dev/zero of=/mnt/d/$1 bs=64k count=1 seek=$i conv=notrunc" 2>/dev/null
			printf "%65536s" x >&3
			i=$((i + 1))
		done' "$1" "$2"
	sync
}
foreign() {
	cat /sys/fs/cgroup/b/memory.dirty_stat | awk '$1 == "foreign" { print $2 }'
}
before=$(foreign)
rewrites c shared
after=$(foreign)
echo "# foreign: $before, $after after 6.5 MB of a neighbour's dead"
ok "a neighbour's are not the floor's" between 0 $((after - before)) 1000000
before=$after
rewrites b shared
after=$(foreign)
echo "# foreign: $before, $after after 6.5 MB of its own dead"
ok "its own are" between 5500000 $((after - before)) 7500000
before=$after
rewrites b mine
after=$(foreign)
echo "# foreign: $before, $after after 6.5 MB of its own dead in a file of its own"
ok "what they write to a file of its own is not foreign" between 0 $((after - before)) 300000

# pids that are used again within a moment: a task says what another has said before it
echo 700 >/proc/sys/kernel/pid_max
echo 64M >/sys/fs/cgroup/b/memory.dirty_min
rewrites b shared
before=$(foreign)
rewrites b shared
rewrites b shared
after=$(foreign)
echo "# foreign: $before, $after after 13 MB of its own dead, who share pids"
ok "its own dead are, whatever their pids" between 11000000 $((after - before)) 15000000
rmmod weir
finish
