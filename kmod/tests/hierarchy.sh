# SPDX-License-Identifier: GPL-2.0-only
# hierarchy.sh [ROUNDS]: a ceiling bounds its whole subtree, whatever happens
# in it.  Three levels of ceilings, a floor that would not fit under them, two disks per cgroup, a writer eight
# levels down, a task that moves, a cgroup made and removed with dirty pages all the time, +io toggled.
# Wants disks "d" and "e".
. /tap.sh
rounds=${1:-6}
insmod /weir.ko || exit 1
limits 268435456
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir top
echo "+memory +io" >top/cgroup.subtree_control
mkdir top/mid top/aside
echo "+memory +io" >top/mid/cgroup.subtree_control
mkdir top/mid/one top/mid/two
deep=top/mid/deep
mkdir $deep
for level in 4 5 6 7 8; do
	echo +memory >$deep/cgroup.subtree_control
	deep=$deep/$level
	mkdir $deep
done

top=64 mid=40 one=16
echo ${top}M >top/memory.dirty_bytes
echo ${mid}M >top/mid/memory.dirty_bytes
echo ${one}M >top/mid/one/memory.dirty_bytes
# with mid's 40M more than top may hold: the ceiling wins
echo 60M >top/aside/memory.dirty_min
ok "a leaf is under the tightest on its path" is "$(stat top/mid/two ceiling)" $((mid << 20))
ok "no more of a floor is reserved than a ceiling lets it fill" is "$(stat top/aside floor)" $((top * 3 / 4 << 20))

# writes CGROUP FILE: as fast as it may, until killed
writes() {
	# not in_cgroup: the writer itself is to be moved and killed, no shell around it
	sh -c 'echo 0 >"/sys/fs/cgroup/$0/cgroup.procs" &&
		exec dd if=/dev/zero of="/mnt/$1" bs=64k count=14000 2>/dev/null' "$1" "$2" &
	writers="$writers $!"
}
for disk in d e; do
	writes top/mid/one $disk/one
	writes top/mid/two $disk/two
	writes top/aside $disk/aside
done
writes $deep e/deep
writes top/aside d/mover
mover=$!

# sum CGROUP: dirty + writeback of its subtree in megabytes, rounded up
sum() {
	awk '$1 == "subtree_dirty" || $1 == "subtree_writeback" { n += $2 }
		END { print int((n + 1048575) / 1048576) }' "$1/memory.dirty_stat"
}
max_top=0 max_mid=0 max_one=0
sample() {
	now=$(sum top)
	[ "$now" -le $max_top ] || max_top=$now
	now=$(sum top/mid)
	[ "$now" -le $max_mid ] || max_mid=$now
	now=$(sum top/mid/one)
	[ "$now" -le $max_one ] || max_one=$now
}

removed=0
until [ "$max_one" -gt 0 ]; do
	sample
done
# until it has seen a disk for a while the kernel takes it for 100 MB/s
begun=$(date +%s)
until [ "$(date +%s)" -gt $((begun + 2)) ]; do
	sample
done
first=$max_top
max_top=0 max_mid=0 max_one=0
while [ $removed -lt "$rounds" ]; do
	mkdir top/mid/brief
	dirty /mnt/d/brief$((removed % 4)) 2 top/mid/brief &
	brief=$!
	sample
	echo $mover >top/mid/two/cgroup.procs
	echo -io >top/mid/cgroup.subtree_control
	sample
	usleep 100000
	sample
	wait $brief
	rmdir top/mid/brief && removed=$((removed + 1))
	echo +io >top/mid/cgroup.subtree_control
	sample
	echo $mover >top/aside/cgroup.procs
	usleep 100000
	sample
done
kill $writers
wait
sample

# Well below that is right, too: writers are held before a ceiling, and who shares
# mid with two others has a third of it.  A quarter says that there was something to hold.
# 5 % and what may flow in within a beat of 200 ms: the disks' 2 x 32 MB/s
bound() {
	echo $(($1 + $1 / 20 + 13))
}
ok "top never held more than its ceiling by the pace of unknown disks" between 1 $first $((top + top / 20 + 40))
ok "nor, once they are known, by theirs" between $((top / 4)) $max_top "$(bound $top)"
ok "nor mid" between $((mid / 4)) $max_mid "$(bound $mid)"
ok "nor one" between $((one / 4)) $max_one "$(bound $one)"
ok "a floor below it was used" between 1 "$(stat top/aside nr_floor_admitted)" 100000000
ok "one was held" between 1 "$(stat top/mid/one nr_ceiling_held)" 100000000
ok "two was, by its ancestors" between 1 "$(stat top/mid/two nr_ceiling_held)" 100000000
ok "so was a cgroup eight levels down" between 1 "$(stat $deep nr_ceiling_held)" 100000000
echo "# most held, of MB allowed: top $first, then $max_top of $top, mid $max_mid of $mid, one $max_one of $one"

# Writers below a floor are not paced, so they look for each 512th of what is left of a ceiling, or
# of memory: by the pod's floor alone each of a crowd would dirty 128 pages, half a megabyte, until
# its next look.
mkdir pod
echo +memory >pod/cgroup.subtree_control
mkdir pod/ceiling pod/memory
echo 128M >pod/memory.dirty_min
echo 32M >pod/ceiling/memory.dirty_bytes
echo 32M >pod/memory/memory.max
echo 1G >pod/memory/memory.dirty_bytes # holds no writer: for a record of its own at once
dirty /mnt/e/ceiling 16 pod/ceiling
ok "below a floor, looks are as a ceiling asks" between 200 "$(stat pod/ceiling nr_floor_admitted)" 4096
dirty /mnt/e/memory 12 pod/memory
ok "or as memory.max does" between 150 "$(stat pod/memory nr_floor_admitted)" 3072
echo 0 >pod/memory.dirty_min
rmdir pod/ceiling pod/memory pod

rmdir top/mid/one
sync
ok "a removed cgroup's record is dropped once it is clean" comes_to 10 cat /sys/kernel/weir/groups
ok "the sums are back at nothing" comes_to 0 sum top
finish
