# SPDX-License-Identifier: GPL-2.0-only
# held.sh [SECONDS]: pages that io.max holds above the device take no window of a sibling.
#
# p has a window of 256 KiB.  Its tenant "a" has children whose io.max holds what they write,
# first one, then eight more, and changes it all the time.  Its tenant "b" floods the disk, and is
# to go on nearly as it did alone beside the first, and at 40 % beside the nine, who may write a
# quarter of the disk and are to get a fifth of that.  What p has under writeback is bounded: by the
# window alone, and by five of them beside the nine.
#
# Wants a disk "d" with ext4 and 16 MB/s, one CPU, 1 GB, and to count instructions.
. /tap.sh
seconds=${1:-10}
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
echo 1048576 >/proc/sys/vm/dirty_background_bytes
mkdir p
echo "+memory +io" >p/cgroup.subtree_control
device=$(awk '$5 == "/mnt/d" { print $3 }' /proc/self/mountinfo)
mkdir p/a p/b
echo "+memory +io" >p/a/cgroup.subtree_control
echo 256K >p/memory.writeback_bytes

# throttled NAME WBPS: a child of a that writes more than its io.max lets through
throttled() {
	mkdir p/a/"$1"
	echo "$device wbps=$2" >p/a/"$1"/io.max
	# no more than 1 MiB dirty: else they would fill the host's limit, too
	in_cgroup p/a/"$1" sh -c 'while :; do
		dd if=/dev/zero of=/mnt/d/"$0" bs=64k count=16 conv=notrunc; sleep 0.2; done' \
		"$1" 2>/dev/null &
}
written() { # TENANT
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' p/"$1"/io.stat
}
# KiB of b, and of a, that were written in the time
rates() {
	of_b=$(written b) of_a=$(written a)
	sleep "$seconds"
	echo $(($(written b) - of_b)) $(($(written a) - of_a))
}
# KiB below p under writeback, the most of one look each 50 ms
peak() {
	most=0
	for look in $(seq $((seconds * 20))); do
		now=$(awk '$1 == "file_writeback" { print $2 / 1024 }' p/memory.stat)
		[ "$now" -le "$most" ] || most=$now
		sleep 0.05
	done
	echo "$most"
}
few_in_flight() {
	[ "$(awk '$1 == "file_writeback" { print $2 / 1024 }' p/memory.stat)" -le 384 ]
}

in_cgroup p/b sh -c 'while :; do
	dd if=/dev/zero of=/mnt/d/b bs=64k count=4096 conv=notrunc; done' 2>/dev/null &
sleep 5
alone=$(rates)
alone=${alone% *}
in_flight=$(peak)
throttled slow 8192
sleep 5
beside=$(rates)
beside=${beside% *}
for i in 1 2 3 4; do throttled "slow$i" 8192; throttled "fast$i" 1048576; done
sleep 5
many=$(rates)
bounded=${many#* }
many=${many% *}
many_in_flight=$(peak)
while :; do
	for child in p/a/*/; do
		echo "$device wbps=max" >"$child"/io.max
		sleep 0.2
		echo "$device wbps=8192" >"$child"/io.max
	done
done &
toggles=$!
sleep 2
toggled=$(rates)
toggled=${toggled% *}
toggled_in_flight=$(peak)
kill $toggles
wait $toggles 2>/dev/null
for child in p/a/*/; do echo "$device wbps=max" >"$child"/io.max; done
echo "# b, KiB in $seconds s: alone $alone, beside one $beside, beside nine $many, toggled $toggled"
echo "# the nine: $bounded"
echo "# under writeback, KiB: alone $in_flight, beside nine $many_in_flight, toggled $toggled_in_flight"
ok "beside one whose pages are held" between $((alone * 9 / 10)) "$beside" 1000000
# four of them may write 1 MiB/s each, a quarter of the disk
ok "beside nine" between $((alone * 4 / 10)) "$many" 1000000
ok "the nine go on, too" between $((768 * seconds)) "$bounded" 1000000
ok "beside nine whose io.max changes" between $((alone / 4)) "$toggled" 1000000
ok "alone the window holds" between 64 "$in_flight" 384
ok "beside nine no more than five windows are held" between 64 "$many_in_flight" 1280
ok "and beside nine whose io.max changes" between 64 "$toggled_in_flight" 1280
ok "what was held is written, and the window holds again" soon few_in_flight
echo 1 >p/cgroup.kill
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
