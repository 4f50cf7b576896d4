# SPDX-License-Identifier: GPL-2.0-only
# New cgroups hold no more together than their parent's floor or ceiling: 50 are made at once, and
# each writes 1 MiB before a beat has seen it.  A first pass makes the record, also of a cgroup
# whose memory is full.  1,500 without one do not keep the walk from what comes after them.
# Wants one CPU that counts instructions, and a slow disk "d".
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
# each task may dirty 32 pages before its first pass, whatever the host holds
flood stock memory.dirty_min 0
stock=$peak
flood floor memory.dirty_min 16M
ok "below a floor of 16 MiB they pass the host's limit of 24 MiB as far as without" \
	between 8192 "$peak" $((stock + stock / 10))
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

# first passes make records: nothing else does while the beat stalls
limits 268435456
mkdir $root/late
echo "+memory +io" >$root/late/cgroup.subtree_control
echo 8M >$root/late/memory.dirty_min
usleep 900000
records=$(cat /sys/kernel/weir/groups)
echo 1 >/sys/module/weir/parameters/fault_stall
for child in $(seq $children); do
	mkdir $root/late/$child
	echo 1M >$root/late/$child/memory.max
	in_cgroup late/$child dd if=/dev/zero of=/mnt/d/late-$child bs=64k count=4 2>/dev/null
done
records=$(($(cat /sys/kernel/weir/groups) - records))
echo 0 >/sys/module/weir/parameters/fault_stall
ok "$children cgroups have records after their first passes" is $records $children
rm /mnt/d/late-*
for child in $(seq $children); do
	rmdir $root/late/$child
done

# beside what fills the host's limit, and an unused floor
limits 67108864
mkdir $root/unused
echo 24M >$root/unused/memory.dirty_min
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
admitted=0
for child in 1 2 3 4; do
	admitted=$((admitted + $(stat late/$child nr_floor_admitted)))
done
ok "a floor lets new cgroups past beside what fills the limit" between 50 $admitted 100000
echo 1 >$root/late/cgroup.kill

# a container of 16 MiB below a pod's floor, on a host that is full; the writer's own cgroup has no
# limit
limits 50331648
mkdir $root/unused/box
echo "+memory +io" >$root/unused/cgroup.subtree_control
echo "+memory +io" >$root/unused/box/cgroup.subtree_control
echo 16M >$root/unused/box/memory.max
mkdir $root/unused/box/inner
in_cgroup unused/box/inner dd if=/dev/zero of=/mnt/d/inner bs=4k count=32768 2>/dev/null &
usleep 8000000
held=$(awk '/^file_(dirty|writeback) / { sum += $2 } END { print sum }' $root/unused/box/memory.stat)
echo "# box: $((held >> 10)) KiB, $(stat unused/box/inner nr_floor_admitted) passes admitted" >&2
ok "a container's memory bounds what a cgroup within it may hold" between 4194304 "$held" 9437184
echo 1 >$root/unused/cgroup.kill
kill $filling
wait

# 24, 16 and 8 MiB of floors, scaled to 80 % of what the limit becomes: none has less meanwhile
limits 67108864
usleep 500000
limits 33554432
least=100
for look in $(seq 40); do
	parts=$(for group in unused floor late; do
		echo $(($(stat $group floor) * 100 / $(cat $root/$group/memory.dirty_min)))
	done | sort -n)
	[ "${parts%%[!0-9]*}" -ge $least ] || least=${parts%%[!0-9]*}
	usleep 10000
done
ok "a limit that falls leaves each floor its part at all times" between 53 "$least" 53
rmmod weir
finish
