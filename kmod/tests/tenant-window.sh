# SPDX-License-Identifier: GPL-2.0-only
# tenant-window.sh [ROUNDS [WINDOW...]]: what root waits for while a flusher is held by a window
# that a tenant set on itself, uid 1000 in a child of a cgroup that it owns, and that floods each
# mounted disk in turn.  The disks want 16 MB/s.  One CPU that counts instructions, and 1 GB.
#
# umount of an overlay, mv, rm, fsfreeze and its end, sync -f: each with a window may take 1.1 times
# what it takes without one in the same boot, the sum of ROUNDS of them.  A window of a page is
# refused: the least is 64K.  Then the tenant's own io.max keeps its window full for seconds: a
# remount, which waits for no page but for the flusher, takes a second at the most.  (Without a window
# it waits for s_umount for two minutes on 7.3.)
. /tap.sh
rounds=${1:-2}
[ $# -eq 0 ] || shift
windows=${*:-64K 512K 2M}
root=/sys/fs/cgroup
own=$root/u/t/flood

as_tenant() {
	su tenant -s /bin/sh -c "$1"
}

set_up() {
	echo "tenant:x:1000:1000::/:/bin/sh" >>/etc/passwd
	echo "+memory +io" >$root/cgroup.subtree_control
	mkdir -p $root/u/t
	echo "+memory +io" >$root/u/cgroup.subtree_control
	echo "+memory +io" >$root/u/t/cgroup.subtree_control
	chown -R 1000:1000 $root/u/t
	as_tenant "mkdir $own"
	modprobe overlay 2>/dev/null
	limits 67108864
}

# refused VALUE: the tenant may not set it
refused() {
	! as_tenant "echo $1 >$own/memory.writeback_bytes" && is "$(cat $own/memory.writeback_bytes)" max
}

hundredths() {
	awk '{ print int($1 * 100) }' /proc/uptime
}

# took ACT COMMAND...: adds how long it takes, and KiB that were to be written then, to /tmp/took
took() {
	act=$1
	shift
	due=$(awk '/^(Dirty|Writeback):/ { sum += $2 } END { print sum }' /proc/meminfo)
	begun=$(hundredths)
	"$@" || echo "$*" >>/tmp/failed
	echo "$act $(($(hundredths) - begun)) $due" >>/tmp/took
}

# lay_over AT: an overlay whose files are on the disk
lay_over() {
	mkdir -p "$1/lower" "$1/upper" "$1/work" /mnt.overlay
	mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" /mnt.overlay &&
		echo x >/mnt.overlay/file
}

# flood AT: appends as fast as it is let
flood() {
	in_cgroup u/t/flood su tenant -s /bin/sh -c "fio --name=flood --directory=$1/own --rw=write \
		--bs=64k --size=300m --fallocate=none --invalidate=0 --time_based --runtime=9999 \
		--output=/dev/null" 2>/dev/null &
}

is_empty() {
	! grep -q '^populated 1' $own/cgroup.events
}

stop_flood() {
	echo 1 >$own/cgroup.kill
	soon is_empty
	{ wait; } 2>/dev/null
}

# act AT: what root does beside the flood, ROUNDS times; hundredths of a second to /tmp/took
act() {
	: >/tmp/took
	for _ in $(seq "$rounds"); do
		flood "$1"
		sleep 6
		echo x >"$1/x"
		took mv mv "$1/x" "$1/y"
		took rm rm "$1/y"
		lay_over "$1"
		took umount umount /mnt.overlay
		sleep 3
		took sync sync -f "$1"
		sleep 3
		took freeze fsfreeze --freeze "$1"
		took thaw fsfreeze --unfreeze "$1"
		sleep 3
		stop_flood
		took unlink rm -f "$1/own/flood.0.0"
		sync
	done
}

# sum FILE ACT: the times, and the KiB
sum() {
	awk -v act="$2" '$1 == act { sum += $2; due += $3 } END { print sum + 0, due + 1 }' "$1"
}

# stick AT WINDOW: ten remounts beside a flusher whose pages io.max keeps in flight; hundredths of a
# second, the longest last, to /tmp/remounts
stick() {
	disk=$(basename "$(readlink -f "/dev/weir/$(basename "$1")")")
	as_tenant "echo $(cat "/sys/block/$disk/dev") wbps=8192 >$own/io.max" || return 1
	as_tenant "echo $2 >$own/memory.writeback_bytes"
	flood "$1"
	sleep 6
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		begun=$(hundredths)
		mount -o remount,rw "$1" || echo remount >>/tmp/failed
		echo $(($(hundredths) - begun))
		sleep 0.3
	done | sort -n >/tmp/remounts
	as_tenant "echo $(cat "/sys/block/$disk/dev") wbps=max >$own/io.max"
	as_tenant "echo max >$own/memory.writeback_bytes"
	stop_flood
	rm -f "$1/own/flood.0.0"
	sync
	echo "# $1, $2: remounts: $(xargs </tmp/remounts) hundredths of a second"
}

acts="mv rm umount sync freeze thaw unlink"
# judge NAME WINDOW: a tenth of a second is for the clock.  A freeze stops the flood and writes what
# is dirty, which is never the same: where there was more, it may take longer in proportion.
judge() {
	for i in $acts; do
		read -r with due <<-END
			$(sum /tmp/took "$i")
		END
		read -r without due_without <<-END
			$(sum /tmp/stock "$i")
		END
		echo "# $1 $2 $i: $with for $due KiB, $without for $due_without without, hundredths of a second"
		may=$((11 * without / 10 + 10))
		[ "$i" != freeze ] || [ "$due" -le "$due_without" ] || may=$((may * due / due_without))
		ok "$1, $2: $i takes as long as without" between 0 "$with" $may
	done
}

ok "loads" insmod /weir.ko tenants_arm=1
ok "set up" set_up
ok "a window of a page is refused" refused 4096
ok "and one below the least" refused 65535
for at in /mnt/*; do
	name=$(basename "$at")
	mkdir "$at/own"
	chown 1000:1000 "$at/own"
	act "$at"
	mv /tmp/took /tmp/stock
	for window in $windows; do
		as_tenant "echo $window >$own/memory.writeback_bytes"
		held=$(stat u/t/flood nr_writeback_held)
		act "$at"
		ok "$name, $window: its flusher was held" [ "$(stat u/t/flood nr_writeback_held)" -gt "${held:-0}" ]
		as_tenant "echo max >$own/memory.writeback_bytes"
		judge "$name" "$window"
	done
	stick "$at" 64K
	ok "$name: a flusher that io.max keeps at its window lets go" between 0 "$(tail -n 1 /tmp/remounts)" 100
done
ok "no act failed" [ ! -e /tmp/failed ] || cat /tmp/failed
ok "unloads" rmmod weir
finish
