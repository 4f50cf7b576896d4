# SPDX-License-Identifier: GPL-2.0-only
# window.sh: memory.writeback_bytes.  Its forms; what it bounds, and what it leaves alone, beside a
# flood on a disk "d" with ext4 and 16 MB/s; who waits for a flusher that it holds.  Wants to count
# instructions, on one CPU, and 1 GB.
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
mkdir flood flood/a flood/b beside
echo "+memory +io" >flood/cgroup.subtree_control
disk=$(basename "$(readlink -f /dev/weir/d)")

ok "the default is max" is "$(cat flood/memory.writeback_bytes)" max
ok "writing the default hooks nothing" takes flood/memory.writeback_bytes max max
ok "nothing hooked, idle" is "$(cat /sys/kernel/weir/hooked) $(state)" "0 idle"
for value in 0 4K 65535 9223372036854775808; do
	ok "refuses $value" refuses flood/memory.writeback_bytes $value "result out of range"
done
for value in " " -1 1.5 1MB default 10% 10ms; do
	ok "refuses '$value'" refuses flood/memory.writeback_bytes "$value" "Invalid argument"
done
ok "takes the least" takes flood/memory.writeback_bytes 64K 65536
ok "hooked, but not in writers' passes" is "$(cat /sys/kernel/weir/hooked) $(hooks)" "1 0"
ok "active" comes_to active state
ok "which its cgroup says" comes_to 1 stat flood in_effect
if (echo 0 >/proc/sys/kernel/ftrace_enabled) 2>/dev/null; then
	ok "blind once ftrace is off" comes_to blind state
	ok "which its cgroup says, too" is "$(stat flood in_effect)" 0
	echo 1 >/proc/sys/kernel/ftrace_enabled
	ok "active again" comes_to active state
else
	skip "blind once ftrace is off" "this kernel does not switch it off"
fi
ok "takes max" takes flood/memory.writeback_bytes max max
ok "idle without one" is "$(state)" idle

# flood CGROUP NAME: appends as fast as it is let
flood() {
	in_cgroup "$1" fio --name="$2" --directory=/mnt/d --rw=write --bs=64k --size=300m --fallocate=none \
		--invalidate=0 --time_based --runtime=999 --output=/dev/null &
}
# sectors that the disk has written so far
sectors() {
	awk '{ print $7 }' "/sys/block/$disk/stat"
}
# calm: no flood any more, and a clean disk
calm() {
	echo 1 >flood/cgroup.kill
	soon grep -q '^populated 0' flood/cgroup.events
	rm -rf /mnt/d/flood* /mnt/d/log*
	sync
}
# measure NAME: for ten seconds, an append of 4 KiB with fdatasync twenty times a second; to /tmp/NAME: its
# p99 in ms, what the disk wrote in KiB/s, and the most that the flood had in flight, in KiB
measure() {
	before=$(sectors) begun=$(awk '{ print int($1 * 100) }' /proc/uptime)
	touch /tmp/sampling
	(
		most=0
		while [ -e /tmp/sampling ]; do
			now=$(awk '$1 == "file_writeback" { print $2 }' flood/memory.stat)
			[ "$now" -le $most ] || most=$now
			usleep 50000
		done
		echo $((most / 1024)) >/tmp/most
	) &
	in_cgroup beside fio --name=log --directory=/mnt/d --rw=write --bs=4k --rate=80k --size=16m --fdatasync=1 \
		--time_based --runtime=10 --output-format=json --output=/tmp/fio >/dev/null 2>&1
	rm /tmp/sampling
	p99=$(awk '/"sync"/ { sync = 1 } sync && /"99.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000000); exit }' /tmp/fio)
	written=$((($(sectors) - before) * 50 / ($(awk '{ print int($1 * 100) }' /proc/uptime) - begun)))
	usleep 200000
	echo "$p99 $written $(cat /tmp/most)" >"/tmp/$1"
	echo "# $1: p99 $(cut -d' ' -f1 "/tmp/$1") ms, disk $(cut -d' ' -f2 "/tmp/$1") KiB/s, in flight $(cut -d' ' -f3 "/tmp/$1") KiB at most"
}
field() { # NAME NUMBER
	cut -d' ' -f"$2" "/tmp/$1"
}

flood flood/a flood
sleep 6
measure stock
echo 128K >flood/memory.writeback_bytes
sleep 2
measure window
ok "a neighbour's fdatasync takes a tenth of the time" between 0 $((10 * $(field window 1))) "$(field stock 1)"
ok "at 0.95 of the disk" between $((95 * $(field stock 2) / 100)) "$(field window 2)" $((2 * $(field stock 2)))
ok "no more is in flight than the window" between 1 "$(field window 3)" 128
ok "the flood keeps its dirty pages" between 41943040 "$(awk '$1 == "file_dirty" { print $2 }' flood/memory.stat)" 67108864
ok "what is held is counted" between 1 "$(stat flood/a nr_writeback_held)" 100000
echo Y >/sys/module/weir/parameters/observe
before=$(stat flood/a nr_writeback_held) would=$(stat flood/a nr_would_wait)
sleep 2
ok "observed, nothing is held but what was" between 0 $(($(stat flood/a nr_writeback_held) - before)) 1
ok "but counted" between 1 $(($(stat flood/a nr_would_wait) - would)) 100000
echo N >/sys/module/weir/parameters/observe
flood flood/b flood_b
sleep 5
measure two
ok "two below it share the window" between 1 "$(field two 3)" 192
echo 1M >flood/a/memory.writeback_bytes
measure nested
ok "a child's larger window changes nothing" between 1 "$(field nested 3)" 192
echo max >flood/a/memory.writeback_bytes

# acts PREFIX: hundredths of a second for what a neighbour does
took() {
	begun=$(awk '{ print int($1 * 100) }' /proc/uptime)
	"$@" >/dev/null 2>&1 || echo "# failed: $*"
	echo $(($(awk '{ print int($1 * 100) }' /proc/uptime) - begun))
}
overlay() {
	mkdir -p /mnt/d/l /mnt/d/u /mnt/d/w /mnt/o
	mount -t overlay overlay -o lowerdir=/mnt/d/l,upperdir=/mnt/d/u,workdir=/mnt/d/w /mnt/o && echo x >/mnt/o/f
}
modprobe overlay 2>/dev/null
acts() {
	# as much to be written in both
	calm
	flood flood/a flood
	sleep 6
	touch /mnt/d/x
	echo "mv $(took mv /mnt/d/x /mnt/d/y)"
	echo "mkdir $(took mkdir -p "/mnt/d/dir.$1")"
	echo "rm $(took rm /mnt/d/y)"
	# how much is dirty as it begins differs: five of each
	umounts=0 syncs=0
	for _ in 1 2 3 4 5; do
		overlay
		umounts=$((umounts + $(took umount /mnt/o)))
		sleep 3
		syncs=$((syncs + $(took sync -f /mnt/d)))
		sleep 3
	done
	echo "umount $umounts"
	echo "sync $syncs"
	echo 1 >flood/cgroup.kill
	echo "unlink $(took rm -f /mnt/d/flood.0.0)"
}
echo max >flood/memory.writeback_bytes
acts stock >/tmp/acts.stock
echo 64K >flood/memory.writeback_bytes
acts window >/tmp/acts.window
echo "# stock: $(xargs </tmp/acts.stock); least window: $(xargs </tmp/acts.window) hundredths of a second"
for act in mv mkdir rm umount sync unlink; do
	with=$(awk -v act=$act '$1 == act { print $2 }' /tmp/acts.window)
	without=$(awk -v act=$act '$1 == act { print $2 }' /tmp/acts.stock)
	ok "$act waits no longer for a held flusher: $with, $without" between 0 "$with" $((11 * without / 10 + 30))
done

calm
flood flood/a flood
sleep 4
echo 64K >flood/memory.writeback_bytes
sleep 1
ok "unloads while a flusher is held" rmmod weir
echo 1 >flood/cgroup.kill
{ wait; } 2>/dev/null
finish
