# SPDX-License-Identifier: GPL-2.0-only
# bandwidth.sh [WRITERS WAY...]: memory.dirty_bandwidth.  With WRITERS (numbers, "1 8 64"), each
# number of writers on each filesystem (ext4 xfs nfs fuse) is held against the bound over ten
# seconds, and nothing else; without, 16 on ext4.  What was dirtied is what /proc/PID/io says of them.
# Wants a disk "d" with ext4; for xfs a disk "x"; for nfs and fuse what stacks.sh says.  On one CPU
# that counts instructions: figures are the guest's own.
. /tap.sh
. /stacks.sh
root=/sys/fs/cgroup
alone=$#
[ $# -gt 0 ] || set -- 16 ext4
counts=$1
shift
insmod /weir.ko || exit 1
cd $root || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 268435456
mkdir a p p/a p/b other
echo +memory >p/cgroup.subtree_control

ok "the default is max" is "$(cat a/memory.dirty_bandwidth)" max
ok "writing the default arms nothing" takes a/memory.dirty_bandwidth max max
ok "nothing hooked without a bound" is "$(hooks)" 0
for value in 0 65535 63K 9223372036854775808; do
	ok "refuses $value" refuses a/memory.dirty_bandwidth $value "result out of range"
done
for value in " " -1 1.5 1MB default 10%; do
	ok "refuses '$value'" refuses a/memory.dirty_bandwidth "$value" "Invalid argument"
done
ok "takes the least" takes a/memory.dirty_bandwidth 64K 65536
ok "hooked for a bound" is "$(hooks)" 2
ok "takes the most" takes a/memory.dirty_bandwidth 9223372036854775807 9223372036854775807
ok "and max" takes a/memory.dirty_bandwidth max max
ok "idle without one" is "$(state)" idle

# an unprivileged owner of a delegated subtree
mkdir -p q/own
echo +memory >q/cgroup.subtree_control
chown -R 1000:1000 q/own
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
su user -s /bin/sh -c "echo 1M >$root/q/own/memory.dirty_bandwidth"
ok "an owner may bound itself" is "$(cat q/own/memory.dirty_bandwidth)" 1048576
rmdir q/own q

# writers GROUP DIRECTORY NUMBER [BLOCKS]: each appends to a file of its own, for ever or 64 KiB so often
writers() {
	for i in $(seq "$3"); do
		in_cgroup "$1" dd if=/dev/zero of="$2/w.$(echo "$1" | tr / _).$i" bs=64k ${4:+count="$4"} 2>/dev/null &
	done
}
# stop GROUP DIRECTORY
stop() {
	echo 1 >"$1/cgroup.kill"
	soon sh -c "! grep -q . $1/cgroup.procs"
	rm -f "$2"/w.*
}
# dirtied GROUP...: hundredths of a second since boot, bytes that its tasks have dirtied
dirtied() {
	files=
	for pid in $(for group; do cat "$group/cgroup.procs"; done); do files="$files /proc/$pid/io"; done
	# shellcheck disable=SC2086 # one word each
	awk 'NR == 1 { now = $1 * 100 } $1 == "write_bytes:" { sum += $2 } END { printf "%d %d", now, sum }' \
		/proc/uptime $files
}
# thousandths BOUND SECONDS GROUP...: what they dirty in that time, of the bound
thousandths() {
	bound=$1 span=$2
	shift 2
	before=$(dirtied "$@")
	sleep "$span"
	after=$(dirtied "$@")
	echo "$before $after" | awk -v bound="$bound" '{ printf "%.0f", ($4 - $2) * 100000 / ($3 - $1) / bound }'
}
# kept TEXT BOUND GROUP...: within 3 % of it over ten seconds
kept() {
	text=$1 of=$2
	shift 2
	got=$(thousandths "$of" 10 "$@")
	echo "# $text: $got thousandths of $of bytes/s"
	ok "$text: the bound is kept" between 970 "$got" 1030
}

for way in "$@"; do
	bound=8388608
	case $way in
	ext4) at=/mnt/d ;;
	xfs) at=/mnt/x ;;
	# its daemon, in an emulated guest, and its one per cent of the host's limit
	fuse) stack fuse /mnt/d && at=/mnt/fuse bound=2097152 || { ok "fuse could be set up" false; continue; } ;;
	nfs) stack nfs /mnt/d && at=/mnt/nfs || { ok "nfs could be set up" false; continue; } ;;
	esac
	for count in $counts; do
		echo $bound >a/memory.dirty_bandwidth
		writers a $at "$count"
		# until what each dirties before it is first looked at is paid for
		sleep $((2 + count * 131072 / bound + (count > 8 ? count / 8 : 0)))
		kept "$way, $count writers" $bound a
		ok "$way, $count writers: held for it" between 1 "$(stat a nr_bandwidth_held)" 100000000
		stop a $at
	done
	[ "$way" != nfs ] || { umount /mnt/nfs; rpc.nfsd 0; }
	[ "$way" != fuse ] || umount /mnt/fuse
done

[ "$alone" -eq 0 ] || finish

# bounds nest: a's holds for it, the parent's for both
echo 8M >p/memory.dirty_bandwidth
echo 2M >p/a/memory.dirty_bandwidth
writers p/a /mnt/d 2
writers p/b /mnt/d 2
sleep 3
kept "a nested bound" 2097152 p/a
kept "and its parent's, of all below" 8388608 p/a p/b
echo 1M >p/memory.dirty_bandwidth
sleep 12
kept "a tighter parent's" 1048576 p/a p/b
stop p/a /mnt/d
stop p/b /mnt/d
echo max >p/memory.dirty_bandwidth
echo max >p/a/memory.dirty_bandwidth

# changed while writers sleep: 8 x 32 pages take 16 s of the least bound
echo 64K >a/memory.dirty_bandwidth
writers a /mnt/d 8
in_cgroup other sh -c 'while :; do dd if=/dev/zero of=/mnt/d/other bs=64k count=4; sleep 0.2; done' 2>/dev/null &
sleep 3
ok "at the least bound writers sleep" between 0 "$(thousandths 65536 2 a)" 1100
echo 4M >a/memory.dirty_bandwidth
sleep 1
ok "raised, it holds at once" between 900 "$(thousandths 4194304 2 a)" 1100
kept "raised" 4194304 a
echo 1M >a/memory.dirty_bandwidth
sleep 5
kept "lowered" 1048576 a
ok "no other cgroup is held" is "$(stat other nr_bandwidth_held)" 0
stop other /mnt/d

# who is idle saves nothing up
for pid in $(cat a/cgroup.procs); do kill -STOP "$pid"; done
sleep 8
for pid in $(cat a/cgroup.procs); do kill -CONT "$pid"; done
got=$(thousandths 1048576 10 a)
echo "# after idling: $got thousandths"
ok "idle time is not made up for" between 0 "$got" 1030

# a task that is moved away, and one that is killed, sleep no longer
echo 64K >a/memory.dirty_bandwidth
sleep 3
moved=$(head -n 1 a/cgroup.procs)
wrote() {
	awk '$1 == "write_bytes:" { print $2 }' "/proc/$moved/io"
}
before=$(wrote)
# held, the first MiB alone would take two minutes
freed() {
	[ "$(wrote)" -ge $((before + 1048576)) ]
}
echo "$moved" >other/cgroup.procs
ok "a task that is moved away is let go" soon freed
kill -9 "$moved"
start=$(date +%s)
stop a /mnt/d
ok "a fatal signal ends a wait" between 0 $(($(date +%s) - start)) 1

# the wait is at the return to user mode; a signal that kills or a freeze ends it
echo 64K >a/memory.dirty_bandwidth
for i in $(seq 12); do
	in_cgroup a dd if=/dev/zero of=/mnt/d/w.$i bs=4k 2>/dev/null &
done
at_return() {
	for pid in $(cat a/cgroup.procs); do
		grep -q task_work_run "/proc/$pid/stack" && echo "$pid" && return
	done
	return 1
}
ok "a task waits at its return to user mode" soon at_return
pid=$(soon at_return)
start=$(date +%s)
kill "$pid"
dead() {
	[ ! -e "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status"
}
ok "a signal ends that" soon dead
echo 1 >a/cgroup.freeze
frozen() {
	grep -q '^frozen 1' a/cgroup.events
}
ok "and so does a freeze" soon frozen
ok "both within three seconds" between 0 $(($(date +%s) - start)) 3
echo 0 >a/cgroup.freeze
stop a /mnt/d

# hundredths of a second since boot
hundredths() {
	awk '{ print int($1 * 100) }' /proc/uptime
}
# one that the kernel gives way to is charged, and does not wait
if command -v chrt >/dev/null; then
	echo 1M >a/memory.dirty_bandwidth
	start=$(hundredths)
	in_cgroup a chrt -f 1 dd if=/dev/zero of=/mnt/d/w.rt bs=64k count=64 2>/dev/null
	ok "a real-time task does not wait" between 0 $(($(hundredths) - start)) 90
	held=$(stat a bandwidth_held_usec)
	start=$(date +%s)
	in_cgroup a dd if=/dev/zero of=/mnt/d/w.1 bs=64k count=4 2>/dev/null
	ok "others wait for what it dirtied" between 2 $(($(date +%s) - start)) 6
	ok "and are counted" between 2000000 $(($(stat a bandwidth_held_usec) - held)) 6000000
	rm /mnt/d/w.*
fi

# what tasks dirty that exit before they are looked at is charged, too
echo 1M >a/memory.dirty_bandwidth
sleep 1
start=$(date +%s)
in_cgroup a sh -c 'for i in $(seq 64); do dd if=/dev/zero of=/mnt/d/w.$i bs=64k count=1 2>/dev/null; done'
in_cgroup a dd if=/dev/zero of=/mnt/d/w.65 bs=64k count=2 2>/dev/null
ok "the dead are charged" between 3 $(($(date +%s) - start)) 9
rm /mnt/d/w.*

# a new cgroup below a bound, which has no record yet
echo 1M >p/memory.dirty_bandwidth
mkdir p/new
writers p/new /mnt/d 2
sleep 3
kept "a new cgroup below a bound" 1048576 p/new
ok "which has a record by now" between 1 "$(stat p/new nr_bandwidth_held)" 1000000
stop p/new /mnt/d
rmdir p/new
echo max >p/memory.dirty_bandwidth

echo Y >/sys/module/weir/parameters/observe
held=$(stat a nr_bandwidth_held)
writers a /mnt/d 2
ok "observed, no writer is held" between 2000 "$(thousandths 1048576 0.2 a)" 1000000
ok "nor counted as held" is "$(stat a nr_bandwidth_held)" "$held"
ok "but counted" between 1 "$(stat a nr_would_pace)" 1000000
echo N >/sys/module/weir/parameters/observe
sleep 2
kept "held once more" 1048576 a
stop a /mnt/d
echo 64K >a/memory.dirty_bandwidth
writers a /mnt/d 2 64
sleep 2
ok "unloads while tasks sleep" rmmod weir
stop a /mnt/d
{ wait; } 2>/dev/null
finish
