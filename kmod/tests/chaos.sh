# SPDX-License-Identifier: GPL-2.0-only
# chaos.sh [SECONDS] [without ACTOR...]: everything at once for so long, then stock
# behaviour, no leak and no lost byte.
#
# Actors run side by side, each a loop over something that hosts go through:
# weir loaded and unloaded, cgroups created and removed, a task moved between
# cgroups, knobs written at random, files written and compared, disks that
# vanish, a disk that fails on and off (dm-flakey), NFS from this very host,
# memory pressure with OOM kills.  An actor may fail at what the others take from
# under it; what it must not do is warn, crash, lose data that a sync confirmed,
# or get stuck.  The kernel's own reports fail the guest, and kmemleak is asked at the
# end where there is one.
#
# Wants the disks "d" (ext4, slower than a writer), "x" (xfs), "b" (btrfs) and a blank one "u"; the packages dmsetup,
# nfs-kernel-server, nfs-common; the drivers null_blk, dm-flakey, nfsd, nfsv4.
. /tap.sh
. /stacks.sh
seconds=${1:-60}
root=/sys/fs/cgroup
cd $root || exit 1
limits 67108864
mkdir one two two/deep verify oom

random() { # BELOW
	echo $(($(od -An -N2 -tu2 /dev/urandom) % $1))
}

# actor NAME: runs actor_NAME again and again until /tmp/stop; counts its rounds
actor() {
	(
		rounds=0
		while [ ! -e /tmp/stop ]; do
			"actor_$1" >/tmp/last.$1 2>&1
			rounds=$((rounds + 1))
			echo $rounds >/tmp/rounds.$1
		done
	) &
	actors="$actors $1"
	pids="$pids $!"
}

actor_load() {
	insmod /weir.ko || return
	echo 8M >one/memory.dirty_min
	echo 16M >two/memory.dirty_bytes
	sleep "$(random 6)"
	echo $(($(cat /tmp/admitted) + $(stat one nr_floor_admitted))) >/tmp/admitted
	rmmod weir || touch /tmp/stuck
}

actor_cgroups() {
	name=storm.$(random 1000)
	mkdir $name $name/child || return
	echo 1M >$name/memory.dirty_min
	echo 8M >$name/child/memory.dirty_bytes
	dirty /mnt/d/$name 1 $name/child
	rmdir $name/child $name
	rm -f /mnt/d/$name
}

# one long writer, from cgroup to cgroup
actor_move() {
	dd if=/dev/zero of=/mnt/d/moved bs=16k count=4096 conv=notrunc 2>/dev/null &
	moved=$!
	while kill -0 $moved 2>/dev/null; do
		for group in one two/deep two verify; do
			echo $moved >$group/cgroup.procs
			usleep 50000
		done
	done
	wait $moved
}

actor_knobs() {
	for value in 0 1M 16M max 4096 8192 64K 30 100 nonsense; do
		for group in one two two/deep verify; do
			case $(random 4) in
			0) echo $value >$group/memory.dirty_min ;;
			1) echo $value >$group/memory.dirty_bytes ;;
			2) echo $value >$group/memory.dirty_ratio ;;
			3) cat $group/memory.dirty_stat ;;
			esac
		done
	done
	echo "$(random 2)" >/sys/module/weir/parameters/observe
}

# Written anew, synced, dropped from the cache, read back.
kept() { # FILE CGROUP
	pattern=/tmp/pattern.$(echo "$1" | tr / .)
	head -c 4194304 /dev/urandom >"$pattern"
	in_cgroup "$2" dd if="$pattern" of="$1" bs=64k conv=notrunc,fsync 2>/dev/null || return 1
	echo 1 >/proc/sys/vm/drop_caches
	cmp "$pattern" "$1" || echo "$1" >>/tmp/lost
}

actor_verify() {
	case $(random 4) in
	0) place=d ;;
	1) place=x ;;
	2) place=b ;;
	3) place=loop ;;
	esac
	kept /mnt/$place/kept verify && echo . >>/tmp/kept
}

actor_nfs() {
	kept /mnt/nfs/kept-nfs one && echo . >>/tmp/kept
}

# many small random writes, read back and verified by fio itself
actor_fio() {
	in_cgroup two/deep fio --name=v --directory=/mnt/x --rw=randwrite --bs=4k --size=8m --verify=crc32c \
		--end_fsync=1 --invalidate=1 --output=/tmp/fio.out && return
	grep -q 'verify:' /tmp/fio.out && cp /tmp/fio.out /tmp/lost
}

# a disk that is gone while a file on it is written
actor_removal() {
	disk=/sys/kernel/config/nullb/gone
	mkdir $disk || return
	echo 64 >$disk/size
	echo 1 >$disk/memory_backed
	echo 1 >$disk/power
	node=/dev/nullb$(cat $disk/index)
	mkfs.ext4 -q -F "$node" && mount "$node" /mnt/gone
	dirty /mnt/gone/file 32 one &
	sleep 1
	echo 0 >$disk/power
	wait $!
	umount -l /mnt/gone
	rmdir $disk
}

# a PCI disk that is pulled and comes back
actor_unplug() {
	node=$(readlink -f /dev/weir/u)
	mount -t ext4 "$node" /mnt/u || return
	dirty /mnt/u/file 16 two/deep &
	usleep 500000
	echo 1 >"$pulled/remove"
	wait $!
	umount -l /mnt/u
	sleep 1
	echo 1 >/sys/bus/pci/rescan
	sleep 1
	ln -sf "/dev/$(ls "$pulled"/virtio*/block)" /dev/weir/u
	mkfs.ext4 -q -F "$(readlink -f /dev/weir/u)"
}

# three seconds of a working disk, one of errors
actor_flaky() {
	mount /dev/mapper/flaky /mnt/flaky || { mkfs.ext4 -q -F /dev/mapper/flaky; return; }
	dirty /mnt/flaky/file 24 two
	sync -f /mnt/flaky
	umount /mnt/flaky || umount -l /mnt/flaky
}

actor_oom() {
	in_cgroup oom sh -c 'dd if=/dev/zero of=/mnt/d/oom bs=64k count=512 conv=notrunc & tail /dev/zero; wait'
}

actor_pressure() {
	# what is left but 48 MiB, for two seconds
	room=$(($(awk '/^MemAvailable:/{ print $2 }' /proc/meminfo) - 49152))
	# each its own end: what a killed shell leaves behind would fill memory for good
	[ $room -gt 0 ] && timeout -s KILL 2 head -c ${room}k /dev/zero | timeout -s KILL 2 tail
	sleep 8
}

set_up() {
	echo 0 >/tmp/admitted
	: >/tmp/kept
	stack loop /mnt/b
	stack nfs /mnt/d
	modprobe null_blk nr_devices=0
	mount -t configfs configfs /sys/kernel/config 2>/dev/null
	mkdir -p /mnt/gone /mnt/flaky /mnt/u
	modprobe dm-flakey
	truncate -s 96M /tmp/flaky.image
	flaky=$(losetup -f)
	losetup "$flaky" /tmp/flaky.image
	dmsetup create flaky --table "0 196608 flakey $flaky 0 3 1 1 error_writes"
	# the node is made by hand: there is no udev here
	dmsetup mknodes flaky
	pulled=$(readlink -f "/sys/class/block/$(basename "$(readlink -f /dev/weir/u)")/device/..")
	mkfs.ext4 -q -F "$(readlink -f /dev/weir/u)"
	echo 32M >oom/memory.max
	echo 128M >verify/memory.max
}

# What the throttle's own tracepoint says of pauses in the root cgroup that are not
# stock's: it aims midway between the freerun level, 3072 pages here, and the
# smoothed limit, which comes down to 4096 slowly.
not_stock() {
	cd /sys/kernel/tracing || return
	limits 16777216
	: >trace
	echo 1 >events/writeback/balance_dirty_pages/enable
	dd if=/dev/zero of=/mnt/d/stock bs=64k count=1536 2>/dev/null
	echo 0 >events/writeback/balance_dirty_pages/enable
	grep -o ' limit=[0-9]* setpoint=[0-9]*' trace | tr '=' ' ' >/tmp/pauses
	[ -s /tmp/pauses ] || echo "no pause"
	awk '$2 < 4096 || $4 != int(($2 + 3072) / 2)' /tmp/pauses | sort | uniq -c
	cd $root || exit 1
	rm /mnt/d/stock
}

leaks() {
	for i in 1 2 3; do
		echo scan >/sys/kernel/debug/kmemleak
		sleep 6
	done
	cat /sys/kernel/debug/kmemleak
}

ok "set up" set_up
[ ! -e /sys/kernel/debug/kmemleak ] || echo clear >/sys/kernel/debug/kmemleak
for name in load cgroups move knobs verify nfs fio removal unplug flaky oom pressure; do
	case " $* " in
	*" without $name "* | *" $name "*) ;;
	*) actor $name ;;
	esac
done
i=0
while [ $i -lt "$seconds" ]; do
	sleep 10
	i=$((i + 10))
	[ $((i % 60)) -ne 0 ] || echo "# $i s: $(grep -H . /tmp/rounds.* | sed 's/.*rounds.//' | tr '\n' ' ')"
done
touch /tmp/stop
# shellcheck disable=SC2086 # a list
wait $pids
rmmod weir 2>/dev/null
for name in $actors; do
	ok "$name: $(cat /tmp/rounds.$name) rounds" between 1 "$(cat /tmp/rounds.$name)" 100000000
done
ok "files read back as written: $(wc -l </tmp/kept), and none otherwise" test ! -e /tmp/lost
ok "some were" between 1 "$(wc -l </tmp/kept)" 100000000
ok "weir worked in between: $(cat /tmp/admitted) passes admitted" between 1 "$(cat /tmp/admitted)" 1000000000
ok "there were OOM kills" between 1 "$(awk '/^oom_kill /{ print $2 }' oom/memory.events)" 1000000
ok "weir could always be unloaded" test ! -e /tmp/stuck
ok "no hook left" is "$(hooks)" 0
ok "no file left" test ! -e one/memory.dirty_min
ok "pauses are stock's again" is "$(not_stock)" ""
[ ! -e /sys/kernel/debug/kmemleak ] || ok "nothing leaked" is "$(leaks)" ""
finish
