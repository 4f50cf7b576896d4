# SPDX-License-Identifier: GPL-2.0-only
# assist.sh STAGE...: where one flusher cannot feed a disk, the agent starts writeback of what one process
# writes. The disk could do 20M/s, a CPU submits 8 of them. Counts what reaches the disk, and the time
# in which all of the process waited (PSI's IO full), side by side with the kernel alone.
# Wants a disk "d" of 20M/s, /weir_submit.ko, dm_mod and four CPUs; no module of weir's.
. /tap.sh
cd /sys/fs/cgroup || exit 1
ip link set lo up
seconds=${SECONDS_EACH:-20}
disk=$(readlink -f /dev/weir/d)
# The same filesystem, through a target that takes CPU time of who submits.
umount /mnt/d
modprobe dm_mod
insmod /weir_submit.ko || exit 1
echo 1 >/sys/module/weir_submit/parameters/free
echo "0 $(cat "/sys/class/block/${disk##*/}/size") weir_submit $disk 8388608" |
	dmsetup create --noudevsync slow || exit 1
mount /dev/dm-0 /mnt/d || exit 1
mkdir writer
limits 33554432
in_cgroup writer fio --name=job --directory=/mnt/d --rw=write --bs=1m --size=40m --numjobs=8 \
	--thread --end_fsync=1 >/dev/null 2>&1
echo 0 >/sys/module/weir_submit/parameters/free

sectors() {
	awk '{ print $7 }' "/sys/class/block/${disk##*/}/stat"
}
full() {
	sed -n 's/^full.*total=//p' writer/io.pressure
}
policy() { # TEXT
	printf '%s\n' "$@" >/tmp/new.toml
	mv /tmp/new.toml /tmp/agent.toml
}
# drain NAME RATE: one process with eight threads writes; into rate, KiB/s, and full, permille
drain() {
	in_cgroup writer fio --name=job --directory=/mnt/d --rw=randwrite --bs=128k --size=40m \
		--numjobs=8 --thread --time_based --runtime=3000 --rate="$2" >/dev/null 2>&1 &
	sleep 12
	from=$(sectors)
	waited=$(full)
	sleep "$seconds"
	rate=$((($(sectors) - from) / 2 / seconds))
	full=$((($(full) - waited) / seconds / 1000))
	echo "# $1: $rate KiB/s, IO full $full permille"
	echo 1 >writer/cgroup.kill
	wait $!
	sync
}
# both RATE: with the kernel alone, assisted, and alone again
both() {
	drain "alone, $1 for each of eight" "$1"
	alone=$rate alone_full=$full
	policy '[assist]' 'cpus = 2'
	weir agent --policy /tmp/agent.toml --listen 127.0.0.1:9759 >/tmp/log 2>&1 &
	agent=$!
	drain "assisted" "$1"
	assisted=$rate assisted_full=$full
	wget -q -O /tmp/metrics http://127.0.0.1:9759/metrics
	grep '^weir_agent_assist' /tmp/metrics | sed 's/^/# /'
	kill $agent
	ok "the agent ends" wait $agent
	sed 's/^/# agent: /' /tmp/log
	drain "alone again" "$1"
	alone=$(((alone + rate) / 2)) alone_full=$(((alone_full + full) / 2))
}

# more than the disk can do
stage_flood() {
	both 0
	ok "flood: what reaches the disk is 1.7 times as much at least" [ $((assisted * 10)) -ge $((alone * 17)) ]
	ok "flood: the agent says so" grep -q 'assist: .*threads\? starts\? writeback' /tmp/log
	ok "flood: and counts it" grep -q '^weir_agent_assist_threads{device="[0-9:]*"} [12]' /tmp/metrics
}

# less than that, and more than one flusher can submit
stage_paced() {
	both 1700k
	ok "paced: writers wait for half of the time at most" [ $((assisted_full * 2)) -le "$alone_full" ]
}

for stage in "$@"; do
	"stage_$stage"
done
finish
