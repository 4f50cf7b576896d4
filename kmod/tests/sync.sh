# SPDX-License-Identifier: GPL-2.0-only
# Sync beside a flood, with drain_tighten: it ends in time, and what it was called for
# is on disk by then.  Wants a disk "d" that writes a known 8 MB/s, debugfs, which
# reads a file's blocks past its page cache, a disk "x" with xfs, whose folios are large,
# and a fast disk "s" to swap to.
. /tap.sh
parameters=/sys/module/weir/parameters

wait_hooks() {
	grep -c '^filemap_fdatawait_keep_errors ' \
		/sys/kernel/debug/tracing/enabled_functions
}

learned() {
	[ "$(cat /sys/kernel/weir/drain_limit_bytes)" -gt $((4 << 20)) ] &&
		[ "$(cat /sys/kernel/weir/drain_limit_bytes)" -lt $((16 << 20)) ]
}

# What a cgroup swaps out, as fast as memory, is no drain of the disk that is flooded.
swapping_is_no_drain() {
	local swapped=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat) rate most=0
	local end=$(($(date +%s) + 12))
	while [ "$(date +%s)" -lt $end ]; do
		in_cgroup c dd if=/dev/urandom of=/dev/null bs=64M count=1 2>/dev/null
		rate=$(cat /sys/kernel/weir/drain_bytes_per_sec)
		[ "$rate" -le $most ] || most=$rate
	done
	swapped=$(($(awk '$1 == "pswpout" { print $2 }' /proc/vmstat) - swapped))
	between $((200 * 256)) $swapped 100000000 && between 4000000 $most 17000000
}

# own FILE MEGABYTES
own() {
	dd if=/dev/urandom of="/mnt/d/$1" bs=64k count=$(($2 * 16)) 2>/dev/null
}

# What changes while debugfs reads it, an inode or the superblock, it may refuse by its checksum.
on_disk() {
	local try
	for try in 1 2 3; do
		debugfs -R "cat /$1" /dev/weir/d 2>/tmp/debugfs >/tmp/own
		[ ! -s /tmp/own ] || break
	done
	md5sum </tmp/own
}

# Twice two seconds; each call has a file of its own to write.  What debugfs has read
# ahead of the last one must not be taken for it.
syncs_in_time() {
	local try begin took most=0
	for try in 1 2 3 4 5 6 7 8; do
		echo 1 >/proc/sys/vm/drop_caches
		own own$try 1
		begin=$(cut -d. -f1 /proc/uptime)
		sync -f /mnt/d
		on_disk own$try >/tmp/disk
		took=$(($(cut -d. -f1 /proc/uptime) - begin))
		is "$try $(cat /tmp/disk)" "$try $(md5sum </mnt/d/own$try)" ||
			{ cat /tmp/debugfs; return 1; }
		[ $took -le $most ] || most=$took
	done
	# whole seconds, begun ones counted
	[ $most -le 5 ] || { echo "took $most s"; return 1; }
}

syncs_on_xfs() {
	local try
	for try in 1 2 3 4 5 6; do
		sync -f /mnt/x || return
	done
}

# A task in the wait leaves weir's code by itself.
unloads_under_sync() {
	sync -f /mnt/d &
	sleep 0.7
	rmmod weir && wait $!
}

insmod /weir.ko drain_seconds=2 || exit 1
mkdir /sys/fs/cgroup/a
limits $((64 << 20))
ok "not hooked without drain_tighten" is "$(wait_hooks)" 0
echo 1 >$parameters/drain_tighten
ok "hooked with it" comes_to 1 wait_hooks
own before 24
sync -f /mnt/d
ok "without a flood, all is written" is "$(on_disk before)" "$(md5sum </mnt/d/before)"

while :; do
	dirty /mnt/d/flood 700 a
done &
flood=$!
ok "the limit is what drains in less than two seconds" soon learned
mkdir /sys/fs/cgroup/c
echo 16M >/sys/fs/cgroup/c/memory.max
mkswap /dev/weir/s >/dev/null && swapon /dev/weir/s || exit 1
ok "what is swapped out is not drained" swapping_is_no_drain
ok "beside a flood it takes 4 s, and the caller's file is on disk" syncs_in_time
while :; do
	dirty /mnt/x/flood 300 a
done &
other=$!
ok "among large folios it ends" syncs_on_xfs
kill $other
echo 0 >$parameters/drain_tighten
sleep 1
ok "stays hooked without it: to unhook waits for tenants" is "$(wait_hooks)" 1
echo 1 >$parameters/drain_tighten
ok "unloads while a sync waits" unloads_under_sync
ok "then nothing is hooked" is "$(wait_hooks)" 0
kill $flood
finish
