# SPDX-License-Identifier: GPL-2.0-only
# A wait for a weight ends: no write() takes much longer than a second for it,
# though real-time tasks, and others' writers of the same files, dirty pages of the
# waiting cgroup all the time.  Wants a slow disk "d", and chrt (Debian: util-linux).
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 16777216
mkdir light heavy
echo 1 >light/memory.dirty_weight
echo 10000 >heavy/memory.dirty_weight

# writer CGROUP NAME OPTION...: unlimited, on a file of its cgroup's
writer() {
	cgroup=$1 name=$2
	shift 2
	in_cgroup "$cgroup" fio --name="$name" --filename="/mnt/d/$name" --rw=write --bs=4k --size=40m --invalidate=0 \
		--fallocate=posix --time_based --output-format=terse --output="/tmp/$name" "$@"
}
# the longest write() in milliseconds
longest() {
	awk -F';' '{ print int($56 / 1000) }' "/tmp/$1"
}
# writes CGROUP NAME: a line of what fio found
said() {
	echo "# $1: writes of $(awk -F';' '{ print int($57 / 1000) " ms on average, " int($56 / 1000) " at most, " $48 " KiB/s" }' "/tmp/$1")"
}

writer heavy heavy --runtime=999 &
writer light own --runtime=10
# what a real-time task of the cgroup and the root's rewriter dirty is light's to pay
writer light own --runtime=40 &
sleep 2
# fio starts at once: the file is there
in_cgroup light chrt -f 1 fio --name=rt --filename=/mnt/d/rt --rw=write --bs=64k --size=40m --rate=1m --invalidate=0 \
	--fallocate=posix --time_based --runtime=40 --output-format=terse --output=/tmp/rt &
fio --name=rewriter --filename=/mnt/d/own --rw=randwrite --bs=4k --size=40m --rate=1m --invalidate=0 --fallocate=none \
	--time_based --runtime=40 --output=/dev/null &
sleep 15
ok "a weight of 1 is held" between 1 "$(stat light nr_weight_held)" 1000000
sleep 25
soon test -s /tmp/own
soon test -s /tmp/rt
said own
said rt
waits=$(stat light nr_weight_held)
ok "a wait is a second at most" between 1 $(($(stat light weight_held_usec) / waits / 1000)) 1010
# and the kernel's own pause, the journal, the CPU
ok "no write takes much longer" between 1 "$(longest own)" 2500
ok "a real-time task does not wait" between 0 "$(longest rt)" 900

# a task that is killed is gone at once
writer light killed --runtime=999 &
sleep 5
start=$(date +%s)
echo 1 >light/cgroup.kill
soon sh -c '! grep -q . /sys/fs/cgroup/light/cgroup.procs'
ok "a fatal signal ends a wait" between 0 $(($(date +%s) - start)) 1

# a floor that has room ends a wait, though it is deeper than the sixteen levels that pay
mkdir low
echo 1 >low/memory.dirty_weight
deep=low
for level in $(seq 2 18); do
	echo "+memory +io" >$deep/cgroup.subtree_control
	deep=$deep/$level
	mkdir $deep
done
echo 64K >${deep%/18}/memory.dirty_min # floors count from the next beat on
in_cgroup $deep dd if=/dev/zero of=/mnt/d/deep bs=64k count=100000 conv=notrunc 2>/dev/null &
soon grep -q . $deep/cgroup.procs
writer=$(cat $deep/cgroup.procs)
held_by_weir() {
	awk '/schedule/ { next } { exit !/[[]weir[]]/ }' "/proc/$writer/stack"
}
dirtied() {
	awk '$1 == "write_bytes:" { print $2 }' "/proc/$writer/io"
}
now_ms() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}
# until_it_writes: milliseconds from where the floor, now of $1 MiB, has room
until_it_writes() {
	for _ in $(seq 6000); do # a minute; as soon as it is
		! held_by_weir || break
		sleep 0.01
	done
	so_far=$(dirtied) from=$(now_ms)
	echo "$1M" >${deep%/18}/memory.dirty_min
	while [ "$(dirtied)" = "$so_far" ]; do sleep 0.01; done
	echo $(($(now_ms) - from))
}
took=
for floor in 3 5 7 9; do
	took="$took $(until_it_writes $floor)"
done
echo "# after it has room:$took ms"
# Of the first the floor may hold less than there is by then: three of four are to end.
ok "a floor of any depth ends a wait" between 0 "$(echo "$took" | tr ' ' '\n' | grep . | sort -n | sed -n 3p)" 450
echo 1 >low/cgroup.kill
echo 1 >heavy/cgroup.kill
{ wait; } 2>/dev/null

# who owed let the kernel look at its tasks after 8 pages: not for ever
rmmod weir
limits 268435456
sync
cd /sys/kernel/tracing || exit 1
echo p:looks balance_dirty_pages >kprobe_events
echo 1 >events/kprobes/looks/enable
in_cgroup light dd if=/dev/zero of=/mnt/d/own bs=64k count=256 conv=notrunc 2>/dev/null
looks=$(awk '$1 == "looks" { print $2 }' kprobe_profile)
echo 0 >events/kprobes/looks/enable
echo >kprobe_events
ok "unloaded, of 4,096 pages the kernel looks as seldom as ever" between 1 "$looks" 250
finish
