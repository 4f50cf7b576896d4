# SPDX-License-Identifier: GPL-2.0-only
# dd-clock.sh FS N LEARN SECONDS: dd.sh on a machine as regular as a clock. An instruction takes a nanosecond (--count-instructions, --cpus 1), and the
# disk is null_blk's: 20 MB/s in requests of 64 KiB, what is due every 20 ms at once. Wants --driver null_blk --driver xfs --file .../dd.sh:/dd.sh.
#
# While they learn it looks in what order dd of one tick wake that had slept since one tick.
fs=$1
shift
modprobe null_blk nr_devices=0 && mount -t configfs none /sys/kernel/config
[ "$fs" = xfs ] && modprobe xfs
disk=/sys/kernel/config/nullb/n0
mkdir $disk /mnt/sda
echo 1 >$disk/memory_backed
echo 12000 >$disk/size
echo 20 >$disk/mbps
echo 128 >$disk/max_sectors
echo 32 >$disk/hw_queue_depth
echo 4096 >$disk/blocksize
echo 1 >$disk/power
"mkfs.$fs" -q /dev/n0 && mount -t "$fs" /dev/n0 /mnt/sda || exit 1

mount -t tracefs none /sys/kernel/tracing 2>/dev/null
look() {
	sleep "$1"
	cd /sys/kernel/tracing || exit 1
	echo 40000 >buffer_size_kb
	echo 1 >events/writeback/balance_dirty_pages/enable
	sleep 5
	echo 0 >events/writeback/balance_dirty_pages/enable
	awk '/balance_dirty_pages:/ {
			for (i = 1; i <= NF; i++) {
				if ($i ~ /^[0-9]+\.[0-9]+:$/) tick = int($i * 250)
				if ($i ~ /^pause=/) pause = substr($i, 7)
			}
			if (pause + 0 <= 0) next
			if (tick == last_tick && slept_at[$1] && slept_at[$1] == before_at) {
				if (place[$1] < before) reversed++; else same++
			}
			before_at = slept_at[$1]; before = place[$1]; last_tick = tick
			slept_at[$1] = tick; place[$1] = ++n
		}
		END { printf "# of neighbours in a tick that had slept since one tick %d passed in the opposite order, %d in the same\n", reversed, same }' trace
	echo 0 >trace
}
look $(($2 / 2)) &
. /dd.sh
