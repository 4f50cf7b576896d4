# SPDX-License-Identifier: GPL-2.0-only
# flusher-gone.sh [ROUNDS [KIND...]]: what a held flusher stands on is removed while it sleeps.
#
# In every round a flusher of the cgroup p/v sleeps for room, and then there goes, by kind:
#   cgroup   the cgroup: its tasks are killed, then it is removed
#   task     its tasks are killed
#   tree     the same as cgroup, and its parent, which has the window or is the division
#   io       its wb: the io controller of its cgroup is switched off, on and off again
#   umount   its filesystem
#   device   the disk that it writes to, with its backing_dev_info
#   suspend  the disk's answers, for a second: a device mapper's table is suspended
#   module   weir: rmmod, then insmod
# window/KIND: held by the window of p, 64 KiB.  weight/KIND: p/v has a weight of 1 beside p/w with
# 10,000, so p is a division.
#
# A round counts if a flusher slept by weir right before the removal (by its stack, in
# weir_window_sleep(), and by the counter of its cgroup).  Each removal is to succeed, and after
# each round no flusher may be left that sleeps by weir, and no removed cgroup may stay.  What a
# flusher does to freed memory is for the kernel to report: boot with slub_debug=FZPU, or KASAN.
#
# Disks can be pulled where the guest does not count instructions, so "device" is no default.
#
# Wants a disk "d" and an empty one, "u", of 2 MB/s, the package dmsetup and the driver dm_mod.
. /tap.sh
rounds=${1:-2}
[ $# -eq 0 ] || shift
kinds=${*:-window/cgroup window/tree window/io window/umount window/suspend window/module
	weight/cgroup weight/tree weight/io weight/umount weight/suspend weight/module}
root=/sys/fs/cgroup
# of guest's time: rounds take a few seconds, and a wait of theirs that gives up takes a minute
ROUND_MOST_S=100
pulled=$(readlink -f "/sys/class/block/$(basename "$(readlink -f /dev/weir/u)")/device/..")

# of flushers alone: to walk all tasks' stacks takes seconds below KASAN
held() {
	for comm in $(grep -ls '^kworker/.*flush' /proc/[0-9]*/comm); do
		! grep -qs weir_window_sleep "${comm%comm}stack" || return 0
	done
	return 1
}
none_held() {
	! held
}
counted_by() { # KIND: calls that were held, as the cgroup counts them
	stat p/v "nr_$(expr "$1" : '\([a-z]*\)/' | sed s/window/writeback/)_held"
}
sleeps() { # KIND
	held && [ "$(counted_by "$1")" -gt 0 ]
}
gone() { # PID
	[ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}
end_writers() {
	for pid in $writers; do kill -9 "$pid" 2>/dev/null; done
	for pid in $writers; do
		soon gone "$pid" || return 1
		wait "$pid" 2>/dev/null
	done
	writers=
}
start() { # CGROUP FILE
	sh -c 'echo 0 >"$0/cgroup.procs" && exec dd if=/dev/zero of="$1" bs=64k count=20000 conv=notrunc' \
		"$root/$1" "$2" 2>/dev/null &
	writers="$writers $!"
}
remove_cgroup() { # CGROUP
	soon rmdir "$root/$1" 2>/dev/null
}
came_back() {
	ls "$pulled"/virtio*/block
}
load() {
	insmod /weir.ko || return 1
	soon sh -c "echo 512M >$root/keep/memory.dirty_bytes"
}
set_knobs() { # KIND
	case $1 in
	window/*) echo 64K >$root/p/memory.writeback_bytes ;;
	*)
		echo 1 >$root/p/v/memory.dirty_weight
		echo 10000 >$root/p/w/memory.dirty_weight
		;;
	esac
}
dying() {
	awk '$1 == "nr_dying_descendants" { print $2 }' $root/cgroup.stat
}

remove() { # KIND
	case ${1#*/} in
	task) end_writers ;;
	cgroup)
		end_writers
		remove_cgroup p/v
		;;
	tree)
		end_writers
		remove_cgroup p/v && remove_cgroup p/w && remove_cgroup p
		;;
	io)
		for how in - + -; do
			echo ${how}io >$root/p/cgroup.subtree_control || return 1
			usleep 100000
		done
		;;
	umount)
		end_writers
		umount /mnt/gone
		;;
	device) echo 1 >"$pulled/remove" ;;
	suspend)
		dmsetup suspend --noflush --nolockfs gone || return 1
		sleep 1
		dmsetup resume gone
		;;
	module) rmmod weir && load ;;
	esac
}

# What is left of a round goes, so that the next begins alike.
clear_round() { # KIND
	end_writers
	case ${1#*/} in
	device)
		umount -l /mnt/gone
		sleep 1
		echo 1 >/sys/bus/pci/rescan
		soon came_back >/tmp/back || return 1
		ln -sf "/dev/$(cat /tmp/back)" /dev/weir/u
		;;
	umount) ;;
	*)
		rm -f /mnt/gone/v /mnt/gone/w
		umount /mnt/gone
		;;
	esac
	[ "${1#*/}" != suspend ] || dmsetup remove gone || return 1
	for group in p/v p/w p; do
		[ ! -d $root/$group ] || remove_cgroup $group || return 1
	done
	soon none_held && comes_to 0 dying
}

# round KIND: 0 if it counts, 1 if no flusher was held, 2 if it fails
round() {
	writers=
	mkdir -p $root/p/v $root/p/w
	echo "+memory +io" >$root/p/cgroup.subtree_control
	set_knobs "$1" || return 2
	node=$(readlink -f /dev/weir/u)
	if [ "${1#*/}" = suspend ]; then
		echo "0 $(cat /sys/class/block/"${node##*/}"/size) linear $node 0" |
			dmsetup create --noudevsync gone || return 2
		dmsetup mknodes gone
		node=/dev/mapper/gone
	fi
	mkfs.ext4 -q -F "$node" && mount "$node" /mnt/gone || return 2
	start p/v /mnt/gone/v
	start p/w /mnt/gone/w
	counts=1
	soon sleeps "$1" >/dev/null && counts=0
	remove "$1" || { echo "cannot remove"; clear_round "$1"; return 2; }
	clear_round "$1" || { echo "cannot clear"; return 2; }
	return $counts
}

# A round that does not end fails, and ends the guest with what each task stands in on its console:
# flushers that hang for good do not let it be cleared.  A lock in freed memory is spun on with
# interrupts off: then the guest is silent, unless it is below KASAN, and the run fails as
# inconclusive.  The last line that it has said is the round's.
exec 3>&1
begin_watch() { # ROUND
	echo "# $1" >&3
	(
		exec >/dev/console 2>&1
		sleep $ROUND_MOST_S
		echo "not ok - $1: not over after $ROUND_MOST_S s"
		echo w >/proc/sysrq-trigger
		echo c >/proc/sysrq-trigger
	) &
	watch=$!
}
end_watch() {
	kill $watch
	wait $watch 2>/dev/null
}

rounds_of() { # KIND
	counted=0
	for tried in $(seq "$rounds"); do
		begin_watch "$1, round $tried"
		round "$1"
		result=$?
		end_watch
		case $result in
		0) counted=$((counted + 1)) ;;
		2) echo "round $tried failed"; return 1 ;;
		esac
	done
	is $counted "$rounds"
}

# after an oops tasks hang: better an end now, with the report on the console
echo 1 >/proc/sys/kernel/panic_on_oops
echo -1 >/proc/sys/kernel/panic
for way in softlockup_panic panic_on_rcu_stall; do
	[ ! -e /proc/sys/kernel/$way ] || echo 1 >/proc/sys/kernel/$way
done
echo 1 >/proc/sys/kernel/sysrq
limits 8388608
echo 1048576 >/proc/sys/vm/dirty_background_bytes
modprobe dm_mod 2>/dev/null
mkdir -p $root/keep /mnt/gone
echo "+memory +io" >$root/cgroup.subtree_control
ok "loads" load
for kind in $kinds; do
	ok "$kind: removed in $rounds rounds while a flusher slept" rounds_of "$kind"
done
ok "unloads" rmmod weir
finish
