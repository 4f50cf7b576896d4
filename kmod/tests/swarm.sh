# SPDX-License-Identifier: GPL-2.0-only
# swarm.sh [CGROUPS]: a tenant with more flushers than may be held at a time.  All of its CGROUPS
# write under one window of 256 KiB; beside it "flood" writes under a window of its own, and "beside"
# appends with fdatasync.  Neither window is without effect, the flood goes on, and flushers of the
# swarm take neither all workers of the kernel's queue nor the CPU.
#
# Wants a disk "d" with ext4, 16 MB/s, one CPU, 1 GB, and to count instructions.
. /tap.sh
cgroups=${1:-60}
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
limits 67108864
mkdir swarm flood beside
echo "+memory +io" >swarm/cgroup.subtree_control
disk=$(basename "$(readlink -f /dev/weir/d)")

writes() { # CGROUP FILE
	in_cgroup "$1" dd if=/dev/zero of="/mnt/d/$2" bs=64k count=20000 conv=notrunc 2>/dev/null &
}
in_flight() { # CGROUP: KiB
	awk '$1 == "file_writeback" { print int($2 / 1024) }' "$1"/memory.stat
}
# KiB that its flushers have written so far
written() { # CGROUP
	awk '{ for (i = 2; i <= NF; i++) if (sub("^wbytes=", "", $i)) sum += $i }
		END { printf "%d\n", sum / 1024 }' "$1"/io.stat
}
system() { # hundredths of a second
	awk '$1 == "cpu" { print $4 }' /proc/stat
}
# most of SAMPLES of both cgroups' pages in flight, and of held flushers, to /tmp/most
sample() {
	swarm=0 flood=0 held=0
	while [ -e /tmp/sampling ]; do
		now=$(in_flight swarm) && [ "$now" -le $swarm ] || swarm=$now
		now=$(in_flight flood) && [ "$now" -le $flood ] || flood=$now
		now=$(grep -l weir_window_sleep /proc/[0-9]*/stack 2>/dev/null | wc -l)
		[ "$now" -le $held ] || held=$now
		usleep 500000
	done
	echo "$swarm $flood $held" >/tmp/most
}
field() { # NUMBER
	cut -d' ' -f"$1" /tmp/most
}

echo 128K >flood/memory.writeback_bytes
echo 256K >swarm/memory.writeback_bytes
writes flood flood
sleep 5
before=$(written flood)
sleep 10
alone=$((($(written flood) - before) / 10))
for i in $(seq "$cgroups"); do
	mkdir swarm/"$i" && writes swarm/"$i" s"$i"
done
sleep 20
touch /tmp/sampling
sample &
sampler=$!
before=$(written flood) of_swarm=$(written swarm) busy=$(system) begun=$(awk '{ print int($1 * 100) }' /proc/uptime)
in_cgroup beside fio --name=log --directory=/mnt/d --rw=write --bs=4k --rate=80k --size=16m --fdatasync=1 \
	--time_based --runtime=20 --output-format=json --output=/tmp/fio >/dev/null 2>&1
took=$(($(awk '{ print int($1 * 100) }' /proc/uptime) - begun))
flood=$((($(written flood) - before) * 100 / took)) swarm=$((($(written swarm) - of_swarm) * 100 / took))
busy=$((($(system) - busy) * 1000 / took))
rm /tmp/sampling
wait $sampler
p99=$(awk '/"sync"/ { sync = 1 } sync && /"99.000000"/ { gsub(/[^0-9]/, "", $3); print int($3 / 1000000); exit }' /tmp/fio)
echo "# flood $flood KiB/s, alone $alone; swarm $swarm KiB/s; in flight at most: swarm $(field 1), flood $(field 2) KiB"
echo "# fdatasync p99 $p99 ms; held flushers $(field 3); system $busy of 1,000"
ok "no more of the swarm is in flight than its window and a part" between 1 "$(field 1)" 384
ok "nor of the flood" between 1 "$(field 2)" 256
ok "a neighbour's fdatasync waits for no more" between 0 "$p99" 100
ok "the flood goes on" between $((alone / 20)) "$flood" 1000000
ok "so does the swarm" between $((alone / 4)) "$swarm" 1000000
ok "of the kernel's 256 workers most are free" between 1 "$(field 3)" 150
ok "and so is the CPU" between 0 "$busy" 400
for name in flood swarm; do
	echo 1 >$name/cgroup.kill
done
{ wait; } 2>/dev/null
ok "unloads" rmmod weir
finish
