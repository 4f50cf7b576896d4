# SPDX-License-Identifier: GPL-2.0-only
# Cgroups that have no record yet hold no more together than their parent's floor or ceiling: 50
# are made at once, and each writes 1 MiB before a beat has seen it.  1,500 that all want a record
# do not keep the walk from what comes after them.  Wants one CPU that counts instructions, and a
# slow disk "d".
. /tap.sh
children=50
insmod /weir.ko || exit 1
# nothing is written back by itself while we count
echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
# freerun ends at 18 MiB; a floor's passes are left out up to the limit and all floors
limits 25165824
root=/sys/fs/cgroup

# What the host holds, in KiB.  A look at memory.stat would fold it.
holds() {
	awk '/^(Dirty|Writeback):/ { sum += $2 } END { print sum }' /proc/meminfo
}

# flood PARENT KNOB VALUE: $peak is the most that the host holds, in KiB, while all have a turn
flood() {
	mkdir "$root/$1"
	echo "+memory +io" >"$root/$1/cgroup.subtree_control"
	echo "$3" >"$root/$1/$2"
	# the parent's own record has been counted
	usleep 900000
	mkfifo /tmp/go
	for child in $(seq $children); do
		sh -c '
			read -r line <"/tmp/go"
			mkdir "$0" && echo 0 >"$0/cgroup.procs"
			exec dd if=/dev/zero of="$1" bs=64k count=16' \
			"$root/$1/$child" "/mnt/d/$1-$child" 2>/dev/null &
	done
	usleep 500000
	exec 5<>/tmp/go
	for child in $(seq $children); do
		echo >&5
	done
	peak=0
	for look in $(seq 40); do
		now=$(holds)
		[ "$now" -le "$peak" ] || peak=$now
		usleep 10000
	done
	exec 5>&-
	rm /tmp/go
	echo 100000000 >/proc/sys/vm/dirty_bytes
	wait
	sync
	limits 25165824
	echo "# $1: $peak KiB at most" >&2
}
flood floor memory.dirty_min 16M
ok "below a floor of 16 MiB they stay near the host's limit of 24 MiB" between 8192 "$peak" 26500
flood ceiling memory.dirty_bytes 8M
# each dirties 32 pages before its first pass, 6400 KiB in all
ok "below a ceiling of 8 MiB they hold little more" between 4096 "$peak" 14592

# the floor of a removed cgroup ends with the walk, which comes by the tenant's first
mkdir $root/tenant $root/gone
echo "+memory" >$root/tenant/cgroup.subtree_control
seq 1500 | sed "s,^,$root/tenant/," | xargs mkdir
echo 16M >$root/gone/memory.dirty_min
floors=$(cat /sys/kernel/weir/floors_wanted_bytes)
sleep 1
echo 512M >$root/tenant/memory.dirty_bytes
rmdir $root/gone
usleep 1000000
ok "many new cgroups of a tenant do not keep a removed cgroup's floor" \
	is $((floors - $(cat /sys/kernel/weir/floors_wanted_bytes))) 16777216
echo "# $(cat /sys/kernel/weir/groups) records" >&2

# below a ceiling nothing else writes back what they hold, on a host that has room
echo 1 >/sys/module/weir/parameters/fault_young
limits 268435456
mkdir $root/tight
echo "+memory +io" >$root/tight/cgroup.subtree_control
echo 16M >$root/tight/memory.dirty_bytes
usleep 900000
# burst MIB NAME: each of four writes as much at once
burst() {
	writers=
	for child in 1 2 3 4; do
		[ -d $root/tight/$child ] || mkdir $root/tight/$child
		in_cgroup tight/$child dd if=/dev/zero of=/mnt/d/tight-$child-$2 bs=64k \
			count=$(($1 * 16)) 2>/dev/null &
		writers="$writers $!"
	done
	# shellcheck disable=SC2086
	wait $writers
}
burst 1 first
sync
# each time until the kernel has folded what they hold
burst 2 second
usleep 4000000
began=$(date +%s)
burst 1 third
took=$(($(date +%s) - began))
ok "cgroups that stay without a record are not held for a page twice" between 0 $took 3
usleep 4000000
began=$(date +%s)
burst 3 fourth &
usleep 1000000
held=$(holds)
going=$(awk '/^Writeback:/ { print $2 }' /proc/meminfo)
wait $!
took=$(($(date +%s) - began))
echo "# tight: held $held KiB, the last 12 MiB took $took s" >&2
ok "they hold no more than their ceiling" between 8192 "$held" 16384
ok "what they hold is on its way at once" between 1024 "$going" 16384
# 8 to 13 MiB have to go first, at 1 MiB a second
ok "and makes room as fast as the disk is" between 5 $took 20
rm /mnt/d/tight-*

# beside what fills the host's limit, and a floor that nobody uses
limits 67108864
mkdir $root/unused $root/late
echo "+memory +io" >$root/late/cgroup.subtree_control
echo 24M >$root/unused/memory.dirty_min
echo 8M >$root/late/memory.dirty_min
usleep 900000
dd if=/dev/zero of=/mnt/d/fill bs=1M count=64 2>/dev/null &
filling=$!
usleep 2000000
for child in 1 2 3 4; do
	mkdir $root/late/$child
	in_cgroup late/$child fio --name=$child --directory=/mnt/d --rw=write --bs=4k --size=128m \
		--rate=2m --output=/dev/null &
done
usleep 25000000
# one look, as it folds what they hold
held=$(awk '/^file_(dirty|writeback) / { sum += $2 } END { print sum }' $root/late/memory.stat)
echo "# late: $((held >> 10)) KiB, $(stat late nr_floor_admitted) passes admitted" >&2
# of 8 MiB: as much again until the kernel folds it
ok "below a floor they hold no more than twice that" between 0 "$held" 16777216
ok "and it lets them past" between 50 "$(stat late nr_floor_admitted)" 100000
echo 1 >$root/late/cgroup.kill

# a container of 16 MiB below a pod's floor; the writer's own cgroup has no limit
echo 24M >$root/unused/memory.dirty_min
mkdir $root/unused/box
echo "+memory +io" >$root/unused/cgroup.subtree_control
echo "+memory +io" >$root/unused/box/cgroup.subtree_control
echo 16M >$root/unused/box/memory.max
mkdir $root/unused/box/inner
in_cgroup unused/box/inner dd if=/dev/zero of=/mnt/d/inner bs=4k count=32768 2>/dev/null &
usleep 8000000
held=$(awk '/^file_(dirty|writeback) / { sum += $2 } END { print sum }' $root/unused/box/memory.stat)
echo "# box: $((held >> 10)) KiB, $(stat unused nr_floor_admitted) passes admitted" >&2
ok "a container's memory bounds what a cgroup within it may hold" between 4194304 "$held" 9437184
echo 1 >$root/unused/cgroup.kill
kill $filling
wait
rmmod weir
finish
