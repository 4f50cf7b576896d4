# SPDX-License-Identifier: GPL-2.0-only
# What explain says a lone writer slept, held against what fio waited in write()
# and against the kernel's own PSI.  MODULE=y: its cgroup has a ceiling, else the
# host's limit holds it.  Wants one CPU (PSI weighs by CPU) and a disk "d" of 1M/s:
# slow, so that nearly all of the wait is sleep.  What a writer is looked at takes CPU
# time too, and much of it under emulation: of 28 s on a disk of 8 MB/s, 1.4 without
# the module and 4.9 under a ceiling were not slept, neither by explain nor by PSI.
. /tap.sh
cd /sys/fs/cgroup || exit 1
mount -o remount,noatime,commit=300 /mnt/d
mkdir solo writer

# writes CGROUP SECONDS: prints how many, and the sum of their latencies in microseconds
writes() {
	in_cgroup "$1" fio --name="$1" --directory=/mnt/d --rw=write --bs=16k --size=12m --fallocate=none \
		--invalidate=0 --time_based --runtime="$2" --output-format=json >/tmp/fio.json || return
	awk '/"write" :/ { write = 1 }
		write && /"total_ios"/ { gsub(/[^0-9]/, ""); n = $0 }
		write && /"lat_ns"/ { latency = 1 }
		latency && /"mean"/ { gsub(/[^0-9.]/, ""); printf "%d %d\n", n, n * $0 / 1000; exit }' /tmp/fio.json
}

# near ONE OTHER: within 5 %
near() {
	between $(($2 * 95 / 100)) "$1" $(($2 * 105 / 100))
}

limits 1073741824
# shellcheck disable=SC2046 # two numbers
set -- $(writes solo 4)
ok "a solo run is measured" between 100 "$1" 100000000
solo_ns=$(($2 * 1000 / $1))
sync
limits 8388608
if [ "$MODULE" = y ]; then
	insmod /weir.ko || exit 1
	echo 4M >writer/memory.dirty_bytes
fi
weir explain writer --for 60s --json >/tmp/verdict &
explain=$!
sleep 5 # it looks from here on; what it sees before and after the run is nothing
# shellcheck disable=SC2046 # two numbers
set -- $(writes writer 30)
pressure=$(sed -n 's/^some .*total=//p' writer/io.pressure)
wait $explain
ok "explain ends well" is $? 0
slept() { # KIND, as a pattern: microseconds
	sed -n '/"seconds_by_kind"/,/}/p' /tmp/verdict | awk -F: -v kind="$1" \
		'$1 ~ kind && /[0-9]/ { sum += $2 } END { printf "%d\n", sum * 1000000 }'
}
waited=$(($2 - $1 * solo_ns / 1000))
echo "# $1 writes; in microseconds: fio's less solo's $waited, explain's $(slept throttle), with all else $(slept .), PSI $pressure"
ok "nothing was lost" grep -q '"lost_events": 0' /tmp/verdict
ok "what explain says was slept is what fio waited, less the solo run's" near "$(slept throttle)" $waited
ok "and with what it waited for otherwise, the PSI total" near "$(slept .)" "$pressure"
finish
