# SPDX-License-Identifier: GPL-2.0-only
# waits.sh [LOCK...] [MECHANISM...] [nfs|fuse] [many] [apart] [MIB|KIBK]: how long a neighbour waits
# because a tenant, uid 1000 without a capability, uses weir's knobs on itself.
#
# The tenant owns a cgroup, and holds a lock in system calls of MIB (16) that dirty pages (waits.c).
# Root needs that lock every 20 ms, in another cgroup; its longest wait with the knob may exceed by
# a second the longest without it, in the same boot.
#   LOCK        held by a tenant's                          root's act that waits
#   rename      write(), behind a rename of its file        rename between other directories
#   unlink      write(), behind an unlink in a 1777 folder  creat() and unlink() there
#   getdents    getdents64() into a shared mapping          creat() and unlink() there
#   readlog     read() of root's log into a shared mapping  append to the log; waits on xfs
#   append      write() to a file of mode 666               append to it
#   uring       the same, by a worker of io_uring           append to it
#   mmap        faults of a process that also maps          /proc/PID/cmdline, /proc/PID/maps
#   freeze      write()                                     FIFREEZE and FITHAW
#   sync        write()                                     syncfs()
#   suspend     every one of these                          sync() and a freeze, as suspend does
#   MECHANISM
#   bandwidth   memory.dirty_bandwidth of 64K
#   weight      1 beside a competitor with 10000, both the tenant's
#   window      memory.writeback_bytes of 64K, the least
#   ceiling     memory.dirty_bytes of two pages
#   memory      none of weir's: memory.max of 64M, by which the kernel bounds dirty pages itself
#   iomax       none of weir's: io.max of 64K on its own writers, by which the kernel throttles them,
#               for IOMAX_SECONDS (environment, 100)
#   drain       root's drain_seconds and drain_tighten, against vm.dirty_bytes of the same
# "nfs" and "fuse": the tenant is on such a filesystem on top of disk "d", its FUSE daemon in a
# cgroup of its own; root needs the locks of "d", which the NFS server's threads or the daemon take.
# "many" has a hundred such tasks, or COUNT (environment), instead of one, whose owner kills, moves
# and freezes them, and switches the knob, all the time.  "apart": each in a cgroup of its own, with the knob.
#
# Behind "memory", a ceiling may make a neighbour wait as long as that does: it is what a tenant
# does without weir, which has its pages written all the time, too.  Behind "iomax", so may a weight:
# the kernel's throttle holds a writer whose flusher is slow, whatever makes it slow.
#
# A wait of LIMIT seconds (10, environment) is left unfinished and printed as that much.  A case
# that takes as long without the knob is skipped: a larger LIMIT decides it.
#
# Wants /waits, and disks with a filesystem and 16 MB/s: each is tried.  On one CPU that counts
# instructions.  For nfs and fuse what stacks.sh says.
. /tap.sh
[ ! -e /stacks.sh ] || . /stacks.sh
root=/sys/fs/cgroup
limit=${LIMIT:-10}
mib=16
count=1
locks= mechanisms= on_top= apart=
for word; do
	case $word in
	bandwidth | weight | window | ceiling | memory | iomax | drain) mechanisms="$mechanisms $word" ;;
	many) count=${COUNT:-100} ;;
	apart) apart=apart ;;
	nfs | fuse) on_top=$word ;;
	[0-9]*) mib=$word ;;
	*) locks="$locks $word" ;;
	esac
done
locks=${locks:-rename unlink getdents readlog append uring mmap freeze sync suspend}
mechanisms=${mechanisms:-bandwidth weight window ceiling drain}

knob_groups=$root/u/t
[ -z "$apart" ] || knob_groups="$root/u/t/[0-9]*"

as_tenant() {
	su tenant -s /bin/sh -c "$1"
}

# set_knob MECHANISM: as the tenant
set_knob() {
	case $1 in
	bandwidth) as_tenant "for i in $knob_groups; do echo 64K >\$i/memory.dirty_bandwidth; done" ;;
	weight) as_tenant "for i in a b daemon; do echo 1 >$root/u/t/\$i/memory.dirty_weight; done;
		echo 10000 >$root/u/t/rival/memory.dirty_weight" ;;
	window) as_tenant "for i in $knob_groups; do echo 64K >\$i/memory.writeback_bytes; done" ;;
	ceiling) as_tenant "for i in $knob_groups; do echo 8K >\$i/memory.dirty_bytes; done" ;;
	memory) as_tenant "echo 64M >$root/u/t/memory.max" ;;
	iomax) as_tenant "echo $disk wbps=65536 >$root/u/t/a/io.max" ;;
	drain)
		echo 1 >/sys/module/weir/parameters/drain_tighten
		echo 1 >/sys/module/weir/parameters/drain_seconds
		;;
	esac
}
reset_knob() {
	case $1 in
	bandwidth) for i in $knob_groups; do echo max >$i/memory.dirty_bandwidth; done ;;
	weight) for i in a b daemon rival; do echo 100 >$root/u/t/$i/memory.dirty_weight; done ;;
	window) for i in $knob_groups; do echo max >$i/memory.writeback_bytes; done ;;
	ceiling) for i in $knob_groups; do echo max >$i/memory.dirty_bytes; done ;;
	memory) echo max >$root/u/t/memory.max ;;
	iomax) echo "$disk wbps=max" >$root/u/t/a/io.max ;;
	drain)
		echo 0 >/sys/module/weir/parameters/drain_seconds
		echo 0 >/sys/module/weir/parameters/drain_tighten
		;;
	esac
}
# torment MECHANISM: KNOB VALUE OTHER for waits.c
torment() {
	case $1 in
	bandwidth) echo memory.dirty_bandwidth 64K max ;;
	weight) echo a/memory.dirty_weight 1 100 ;;
	window) echo memory.writeback_bytes 64K max ;;
	ceiling) echo memory.dirty_bytes 8K max ;;
	memory) echo memory.max 64M max ;;
	esac
}

# What the host has while a mechanism is tried, with its knob and without.
set_host() { # MECHANISM
	case $1 in
	weight | window | iomax | drain) limits 16777216 ;;
	*) limits 268435456 ;;
	esac
}

is_empty() { # CGROUP
	! grep -q '^populated 1' "$root/$1/cgroup.events"
}

# Where the tenant is whose neighbour is at AT.
tenant_at() { # AT
	echo "${on_top:+/mnt/}${on_top:-$1}"
}

# measure AT LOCK MECHANISM SECONDS [with]: the neighbour's longest wait in ms, to /tmp/ms; fails if
# anything is stuck
measure() {
	knob=
	[ "$5" != with ] || knob=$(torment "$3")
	case $3 in
	weight | iomax) in_cgroup u/t/rival su tenant -s /bin/sh -c "
		while :; do dd if=/dev/zero of=$1/own/rival bs=64k count=1024; done" 2>/dev/null & ;;
	esac
	in_cgroup u/t/a /waits tenant "$2" $count "$mib" $apart "$(tenant_at "$1")" 2>/tmp/complaints &
	# shellcheck disable=SC2086 # words
	[ $count -eq 1 ] || in_cgroup u/t/rest /waits torment $root/u/t $knob &
	sleep 1
	in_cgroup neighbour /waits neighbour "$2" "$4" "$limit" "$1" >/tmp/ms 2>>/tmp/complaints
	for i in a b; do echo 0 >$root/u/t/$i/cgroup.freeze; done
	# a writer that the block layer throttles is not killable
	[ "$3" != iomax ] || reset_knob iomax
	for i in a b rest rival $(ls $root/u/t | grep '^[0-9]'); do
		echo 1 >$root/u/t/$i/cgroup.kill
		soon is_empty u/t/$i || return 1
	done
	soon is_empty neighbour || return 1
	{ wait; } 2>/dev/null
	(
		cd "$(tenant_at "$1")" && rm -f own/rival own/*/* shared/[0-9] shared/[0-9][0-9]
		: >root/public
	)
	sync
	! grep ^waits: /tmp/complaints && [ -s /tmp/ms ]
}

seconds_of() { # MS
	awk -v ms="$1" -v limit="$limit" 'BEGIN {
		printf "%s%.2f s", (ms >= 1000 * limit) ? "over " : "", ms / 1000 }'
}

try() { # AT LOCK MECHANISM
	case=$(basename "$1")-$2-$3
	set_host "$3"
	disk=$(awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo)
	# the bound and the ceiling have the same without
	without=/tmp/without.$(basename "$1").$2.$(echo "$3" | sed 's/bandwidth\|ceiling/alone/; s/iomax/weight/')
	if [ ! -e "$without" ]; then
		ok "$case: without the knob" measure "$@" 4 && mv /tmp/ms "$without"
	fi
	set_knob "$3" || { ok "$case: the knob can be set" false; return; }
	# the call that holds the lock begins once one before it is over, a minute later
	seconds=6
	[ "$3" != iomax ] || seconds=${IOMAX_SECONDS:-100}
	ok "$case: with the knob" measure "$@" $seconds with
	reset_knob "$3"
	with=$(cat /tmp/ms) without=$(cat "$without")
	echo "# $2 $3 on $(basename "$1"): $(seconds_of "$with"), $(seconds_of "$without")"
	stock=/tmp/stock.$(basename "$1").$2.$(echo "$3" | sed 's/ceiling/memory/; s/weight/iomax/')
	case $3 in
	memory | iomax) echo "$with" >"$stock" && return ;;
	ceiling | weight) [ ! -e "$stock" ] || [ "$(cat "$stock")" -le "$without" ] || without=$(cat "$stock") ;;
	esac
	if [ "$without" -ge $((limit * 1000)) ]; then
		skip "$case: a neighbour waits for at most a second longer" \
			"over $limit s without the knob"
	else
		ok "$case: a neighbour waits for at most a second longer" \
			between 0 "$with" $((without + 1000))
	fi
	[ "$2" != suspend ] || judge_freezes "$case"
}

# The freeze without the sync before it, by the kernel's log.
judge_freezes() { # CASE
	dmesg -c | sed -n 's/.*Freezing user space processes.*\(elapsed\|after\) \([0-9.]*\) sec.*/\2/p' |
		sort -n >/tmp/freezes
	echo "# $(wc -l </tmp/freezes) freezes, the longest of $(tail -n 1 /tmp/freezes) s"
	ok "$1: user space freezes within 2 s" \
		awk '{ longest = $1; print } END { exit NR == 0 || longest > 2 }' /tmp/freezes
}

set_up() {
	echo "tenant:x:1000:1000::/:/bin/sh" >>/etc/passwd
	echo "+memory +io" >$root/cgroup.subtree_control
	mkdir -p $root/neighbour $root/u/t
	echo "+memory +io" >$root/u/cgroup.subtree_control
	echo "+memory +io" >$root/u/t/cgroup.subtree_control
	for i in a b rest rival daemon; do mkdir $root/u/t/$i || return 1; done
	[ -z "$apart" ] || for i in $(seq 0 $((count - 1))); do mkdir $root/u/t/$i || return 1; done
	chown -R 1000:1000 $root/u/t
	places=$(echo /mnt/*)
	case $on_top in
	nfs) stack nfs /mnt/d && places=/mnt/d || return 1 ;;
	fuse)
		in_cgroup u/t/daemon sh -c ". /stacks.sh; stack fuse /mnt/d" || return 1
		places=/mnt/d/upper
		;;
	esac
	for at in $places; do
		/waits prepare "$(tenant_at "$at")" "$mib" || return 1
	done
	sync
}

ok "loads" insmod /weir.ko tenants_arm=1
ok "set up" set_up
for at in $places; do
	for mechanism in $mechanisms; do
		for lock in $locks; do
			try "$at" "$lock" "$mechanism"
		done
	done
done
case $on_top in
nfs) umount /mnt/nfs && rpc.nfsd 0 ;;
fuse) umount /mnt/fuse ;;
esac
ok "unloads" rmmod weir
finish
