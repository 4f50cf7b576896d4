# SPDX-License-Identifier: GPL-2.0-only
# What stalls the people who come: a database's fsync and a container's umount beside a flood, a copy-up
# of overlayfs, processes that live 50 ms, a client of FUSE. Each is explained, and what is printed is
# typed. Wants disk "d" of 8M/s (ext4, 1G), fuse-overlayfs, and MODULE=y to load weir.ko.
. /tap.sh
. /stacks.sh
. /verdict.sh
modprobe overlay
cd /sys/fs/cgroup || exit 1
[ "$MODULE" != y ] || insmod /weir.ko || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir flood db ctr copy ci fuse
limits 134217728

flood() {
	in_cgroup flood sh -c 'while :; do dd if=/dev/zero of=/mnt/d/flood bs=64k count=8000 conv=notrunc 2>/dev/null; done' &
	sleep 8
}

# stopped CGROUP: and nothing dirty is left
stopped() {
	echo 1 >"$1/cgroup.kill"
	sleep 1
	sync
}

# merged: a new overlay at /mnt/merged
merged() {
	mkdir -p /mnt/d/l /mnt/d/u /mnt/d/w /mnt/merged
	mount -t overlay overlay -o lowerdir=/mnt/d/l,upperdir=/mnt/d/u,workdir=/mnt/d/w /mnt/merged
}

# unmounted: the time that umount takes in /ctr, in hundredths of a second
unmounted() {
	echo x >/mnt/merged/f
	before=$(sed 's/[. ].*//' /proc/uptime)
	in_cgroup ctr umount /mnt/merged
	now=$(sed 's/[. ].*//' /proc/uptime)
	took=$((now - before))
	echo "# umount took $took s"
}

flood
victim=db
in_cgroup db fio --name=db --directory=/mnt/d --rw=write --bs=4k --size=8m --fsync=1 --time_based --runtime=900 --thinktime=50ms >/dev/null 2>&1 &
sleep 4
if [ "$MODULE" = y ]; then knob=memory.writeback_bytes; else knob=nr_requests; fi
explained fsync fsync_or_journal /flood $knob
# what the longest takes: an fsync that is shorter is made more often
p50() { sed -n 's/^ *"p50_ms": \([0-9]*\).*/\1/p' /tmp/verdict | head -n 1; }
before=$(p50)
ok "fsync: exact" is "$(first measured)" slept
typed fsync
sleep 10
explain
after=$(p50)
echo "# p50 $before ms before, $after ms after"
ok "fsync: the command brings the wait below a tenth" awk -v b="$before" -v a="$after" 'BEGIN { exit !(b > 0 && a * 10 < b) }'
stopped db
[ "$MODULE" != y ] || echo max >flood/memory.writeback_bytes
[ "$MODULE" = y ] || { echo 32 >/sys/block/weir0/queue/nr_requests; echo 128 >/sys/block/weir0/queue/max_sectors_kb; }

victim=ctr
merged
sleep 10
unmounted &
sleep 2
explained umount fsync_or_journal /flood
typed umount
wait $!
merged
sleep 20
unmounted
ok "umount: the command bounds it" test "$took" -le 8
stopped flood
# what was typed may have lowered it
limits 134217728

victim=copy
dd if=/dev/zero of=/mnt/d/l/g bs=1M count=32 2>/dev/null
sync
merged
(sleep 1; in_cgroup copy sh -c 'echo x >>/mnt/merged/g') &
explained copy-up fsync_or_journal
ok "copy-up: exact" is "$(first measured)" slept
ok "copy-up: not something else as well" is "$(lost '"something_else"')" 0
umount /mnt/merged

victim=ci
in_cgroup ci sh -c 'while :; do dd if=/dev/zero of=/mnt/d/x bs=4k count=8 conv=fsync 2>/dev/null; done' &
sleep 1
explained short-lived fsync_or_journal
all=$(lost fsync)
weir explain --for "${seconds}s" --json >/tmp/verdict
first=$(first cgroup)
ok "short-lived: the cgroup that lost most" is "$first" /ci
ok "short-lived: nearly all of it" awk -v one="$all" -v host="$(lost fsync)" 'BEGIN { exit !(one > 0 && host > 0.8 * one) }'
stopped ci

limits 33554432
stack fuse /mnt/d
victim=fuse
in_cgroup fuse dd if=/dev/zero of=/mnt/fuse/x bs=64k count=30000 2>/dev/null &
sleep 3
explained fuse host_limit /
ok "fuse: clients wait nearly all the time" awk -v lost="$(lost fuse)" -v s="$seconds" 'BEGIN { exit !(lost > 0.7 * s) }'
weir record /tmp/recorded --for "${seconds}s" >/dev/null
weir explain --from /tmp/recorded /fuse --json >/tmp/verdict
ok "fuse: and so does a recording tell it" is "$(first cause) $(first culprit)" "host_limit /"
stopped fuse
finish
