# SPDX-License-Identifier: GPL-2.0-only
# hostile.sh [SECONDS] [SEED] [tiers] [steady] [without ROOT'S|stock...]: the unprivileged owner of a delegated
# cgroup does what harm it can (hostile/), root's cgroups with floors, weights and ceilings beside
# it; then nothing may be left of it.
#
# First without the module, for a quarter of the time: that shows stock's own overshoot of the
# host's dirty limit, and warms up what the kernel never gives back.  Then with it, for SECONDS.
# It goes on until all that it can do has happened; "steady", it ends on time: a kernel with KASAN
# is too slow for a script to meet a task asleep.  "without stock" leaves the first part out.
# Meanwhile root removes disks that are being written to ("devices": loop, null_blk, dm) and loads
# the module anew ("reload").
#
# The kernel's own reports fail the guest.  Wants a disk "d" with ext4, slower than its writers, and
# /hostile; the package dmsetup; the drivers loop, null_blk, dm_mod.  "tiers" wants two nodes.
. /tap.sh
seconds=${1:-20}
seed=${2:-$(($(od -An -N3 -tu4 /dev/urandom)))}
root=/sys/fs/cgroup
limit=8388608
parameters=
case " $* " in *" tiers "*) parameters='tiers=0;1' ;; esac
how=
case " $* " in *" steady "*) how=steady ;; esac
cd $root || exit 1

without() {
	case " $arguments " in *" without $1 "*) return 0 ;; esac
	return 1
}
arguments=$*

# Root's cgroups, their knobs, and what these must read whatever the tenant does.
knobs() {
	cat <<-KNOBS
		floor memory.dirty_min 4194304
		ceiling memory.dirty_bytes 8388608
		weight memory.dirty_weight 300
		neighbour memory.dirty_min 2097152
		tenant memory.dirty_weight 100
		tenant memory.dirty_min 0
		tenant memory.dirty_bytes max
	KNOBS
}
set_knobs() {
	knobs | while read -r group file value; do
		echo "$value" >$root/$group/$file || return 1
	done
}
read_knobs() {
	knobs | while read -r group file value; do
		echo "$group $file $(cat $root/$group/$file)"
	done
}
load() {
	# shellcheck disable=SC2086 # none or one
	insmod /weir.ko $parameters && set_knobs
}

delegate() {
	mkdir -p $root/tenant || return 1
	for file in . cgroup.procs cgroup.threads cgroup.subtree_control; do
		chown 1000:1000 $root/tenant/$file || return 1
	done
}
# as long as /tmp/going is there: NAME COMMAND...
repeat() {
	(
		rounds=0
		while [ -e /tmp/going ]; do
			"$@" >>/tmp/log.$1 2>&1 && rounds=$((rounds + 1))
			echo $rounds >/tmp/rounds.$1
		done
	) &
	loops="$loops $!"
}

# The host's dirty pages, in KiB, at most; in one process, since the tenant forks fast.
levels() {
	awk -v page="$(page_size)" 'BEGIN {
		while (1) {
			if ((getline line <"/tmp/going") < 0)
				exit
			close("/tmp/going")
			sum = 0
			while ((getline line <"/proc/vmstat") > 0) {
				split(line, word, " ")
				if (word[1] == "nr_dirty" || word[1] == "nr_writeback")
					sum += word[2]
			}
			close("/proc/vmstat")
			if (sum > most) {
				most = sum
				print page / 1024 * most >"/tmp/most"
				close("/tmp/most")
			}
			system("usleep 100000")
		}
	}'
}

# Those of root's own that write, each at its pace.
write_as() { # CGROUP
	dirty /mnt/d/of.$1 4 "$1"
	rm -f /mnt/d/of.$1
	usleep 300000
}

number() {
	echo $(($(od -An -N2 -tu2 /dev/urandom) % $1))
}
nullb=/sys/kernel/config/nullb/gone
mkfs_and_mount() { # NODE
	mkfs.ext4 -q -F "$1" && mount "$1" /mnt/gone && mkdir /mnt/gone/tenant &&
		chown 1000:1000 /mnt/gone/tenant && sleep $((1 + $(number 3)))
}
clear_loop() {
	losetup -d "$1"
	soon sh -c "! losetup | grep -q '$1:'"
}
# a disk that goes while it is written to, in one of three ways
devices() {
	kind=$(number 3)
	[ $kind -eq 1 ] || {
		truncate -s 64M /tmp/gone.image
		loop=$(losetup -f)
		losetup "$loop" /tmp/gone.image || return 1
	}
	case $kind in
	0)
		mkfs_and_mount "$loop"
		umount -l /mnt/gone
		clear_loop "$loop"
		;;
	1)
		mkdir $nullb || return 1
		echo 64 >$nullb/size
		echo 1 >$nullb/memory_backed
		echo 1 >$nullb/power
		# named as its directory, by its index on older kernels
		node=/dev/gone
		[ -b $node ] || node=/dev/nullb$(cat $nullb/index)
		mkfs_and_mount $node
		echo 0 >$nullb/power
		umount -l /mnt/gone
		soon rmdir $nullb
		;;
	2)
		dmsetup create gone --table "0 131072 linear $loop 0"
		dmsetup mknodes gone
		mkfs_and_mount /dev/mapper/gone
		# busy: all I/O fails from now on, and it stays
		dmsetup remove --force gone
		umount -l /mnt/gone
		soon sh -c '! dmsetup info gone >/dev/null 2>&1 || dmsetup remove gone'
		clear_loop "$loop"
		;;
	esac
}

# The module is there for as long as it takes to unload, beside such a tenant minutes of a slow
# kernel: what is not there is not attacked.
rest=0
[ "$how" != steady ] || rest=$((seconds / 2))
# slowest removal, in seconds
reload() {
	for _ in $(seq $((2 + $(number 6) + rest))); do
		[ -e /tmp/going ] || return 0
		sleep 1
	done
	is "$(read_knobs)" "$(knobs)" || touch /tmp/changed
	started=$(date +%s)
	rmmod weir || { touch /tmp/stuck; return 1; }
	took=$(($(date +%s) - started))
	rest=$took
	[ $took -le "$(cat /tmp/slowest)" ] || echo $took >/tmp/slowest
	load
}

dying() {
	awk '$1 == "nr_dying_descendants" { print $2 }' $root/cgroup.stat
}
memory() { # KEY
	awk -v key="$1:" '$1 == key { print $2 }' /proc/meminfo
}
at_most() { # COMMAND... LIMIT
	between 0 "$("$1")" "$2"
}
shrink() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}
dying_at_most() {
	shrink
	between 0 "$(dying)" "$1"
}
groups() {
	cat /sys/kernel/weir/groups
}
# Slabs and per-CPU memory, as they are once nothing moves.
settled() {
	for _ in 1 2 3; do
		shrink
		sleep 1
	done
	echo "$(memory SUnreclaim) $(memory Percpu)"
}
grew_at_most() { # BEFORE AFTER KIB
	between 0 $(($2 > $1 ? $2 - $1 : 0)) "$3"
}
leaks() {
	for _ in 1 2 3; do
		echo scan >/sys/kernel/debug/kmemleak
		sleep 6
	done
	cat /sys/kernel/debug/kmemleak
}

# phase SECONDS [once]: the tenant, root's writers, the sampler, and whatever else is in $root_does
phase() {
	touch /tmp/going
	echo 0 >/tmp/most
	loops=
	levels &
	loops=$!
	for actor in "write_as floor" "write_as ceiling" "write_as weight" $root_does; do
		# shellcheck disable=SC2086 # a function and its argument
		repeat $actor
	done
	/hostile $root/tenant /mnt/d/tenant:/mnt/gone/tenant "$1" "$seed" $2 >/tmp/played 2>&1
	status=$?
	rm /tmp/going
	# shellcheck disable=SC2086 # a list
	wait $loops
	return $status
}

# as comments, four to a line
played() {
	sed -n 's/^# //p' /tmp/played | sed 's/^/# /'
	sed '/^#/d' /tmp/played | xargs -n 12 echo '#'
}

set_up() {
	echo "+memory +io" >$root/cgroup.subtree_control
	mkdir floor ceiling weight neighbour || return 1
	delegate || return 1
	mkdir -p /mnt/d/tenant /mnt/gone
	chown 1000:1000 /mnt/d/tenant
	modprobe loop
	modprobe null_blk nr_devices=0
	modprobe dm_mod
	mount -t configfs configfs /sys/kernel/config 2>/dev/null
	echo 0 >/tmp/slowest
	limits $limit
}

# after an oops tasks hang: better an end now, with the report on the console
echo 1 >/proc/sys/kernel/panic_on_oops
echo -1 >/proc/sys/kernel/panic
echo "# seed $seed"
ok "set up" set_up
[ ! -e /sys/kernel/debug/kmemleak ] || echo clear >/sys/kernel/debug/kmemleak

root_does=
without devices || root_does="devices"
stock=0
if ! without stock; then
	ok "played without the module" phase $((seconds / 4 > 10 ? seconds / 4 : 10)) once
	played
	stock=$(cat /tmp/most)
	delegate
fi
# the kernel alone keeps some: 12 and more were seen
ok "dying cgroups went" soon dying_at_most 32
dying=$(dying)
before=$(settled)

ok "loads" load
without reload || root_does="$root_does reload"
ok "played with it" phase "$seconds" $how
played
with=$(cat /tmp/most)
for rounds in /tmp/rounds.*; do
	echo "# ${rounds#/tmp/rounds.}: $(cat "$rounds") rounds"
done
[ -e /sys/kernel/weir ] || load

# What stock lets through under the same attack, and what its 24 writers may dirty at once before
# the kernel looks at them for the first time: 32 pages each.  That depends on how many are new at a
# time: without the module 10 s showed 9.0 to 10.4 MiB for 8 MiB.
allowed=$(((stock > limit / 1024 ? stock : limit / 1024) + 24 * 128))
ok "host's dirty pages: $with KiB at most, $stock without the module, limit $((limit / 1024))" \
	between 1 "$with" $allowed
ok "root's knobs are as root set them" test ! -e /tmp/changed
[ ! -e /tmp/changed ] || sed 's/^/# /' /tmp/log.reload
ok "and still are" is "$(read_knobs)" "$(knobs)"
ok "the module could always be unloaded, in $(cat /tmp/slowest) s at most" test ! -e /tmp/stuck
rm -rf /mnt/d/tenant
rmdir tenant/base tenant
# Hundreds a minute came and went.  The kernel itself keeps some, by stacks, dentries and inodes in
# its caches, some of disks that are gone.
ok "dying cgroups went: all but $dying before, some more now" soon dying_at_most $((dying + 32))
ok "weir keeps a record of root's cgroups alone" soon at_most groups 5
ok "in effect" is "$(state)" active
rmmod weir
after=$(settled)
echo "# SUnreclaim and Percpu in KiB: $before before, $after after"
# KASAN keeps what was freed for a while: there kmemleak tells
[ -e /sys/kernel/debug/kmemleak ] ||
	ok "slabs as before" grew_at_most "${before% *}" "${after% *}" 8192
ok "per-CPU memory as before" grew_at_most "${before#* }" "${after#* }" 1024
[ ! -e /sys/kernel/debug/kmemleak ] || ok "nothing leaked" is "$(leaks)" ""
finish
