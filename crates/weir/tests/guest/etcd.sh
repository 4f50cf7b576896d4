# SPDX-License-Identifier: GPL-2.0-only
# etcd.sh [SECONDS [RATE [BOUNDS [CEILINGS]]]]: etcd beside a copy, alone, on stock Linux, with each of the ceilings on the
# copy, and with an objective of each of the bounds for etcd.  Wants the package etcd-server, and for the puts etcd's own
# tools/benchmark as /benchmark.
#
# The benchmark's ten clients ask for RATE puts a second, each of which ends with an fdatasync of the log; `cp` copies a file
# over and over.  Then comes the recipe by which etcd's users judge a disk, by fio: fdatasync's p99 below 10 ms.  A line
# `# of ...` says what each stretch of SECONDS gave; the objective's is the second, as the agent has to see calls of fsync
# before it looks for a limit.
. /tap.sh
seconds=${1:-30}
rate=${2:-20}
bounds=${3:-100ms}
ceilings=${4:-1M}

cd /sys/fs/cgroup || exit 1
mkdir etcd copy
limits 67108864
ip link set lo up
echo '127.0.0.1 localhost' >/etc/hosts
mkdir -p /mnt/d/etcd /mnt/d/recipe

in_cgroup etcd /usr/bin/etcd --data-dir /mnt/d/etcd --logger zap --log-level error >/tmp/etcd.log 2>&1 &
server=$!
answers() {
	wget -q -O - http://127.0.0.1:2379/health 2>/dev/null | grep -q true
}
ok "etcd starts" soon answers || { cat /tmp/etcd.log; exit 1; }
# the first puts make the log's file and the database's
! [ -x /benchmark ] || /benchmark put --rate=10 --total=20 --val-size=256 >/tmp/first 2>&1 || tail -n 3 /tmp/first
sync

written() {
	awk '{ print $7 * 512 }' "$(echo /sys/block/weir0/stat)"
}
# wrote BYTES MILLISECONDS: what the disk wrote since, in KiB a second
wrote() {
	echo $((($(written) - $1) / 1024 * 1000 / ($(milliseconds) - $2)))
}
milliseconds() {
	awk '{ printf "%d", $1 * 1000 }' /proc/uptime
}
# bench NAME: adds lines; thousandths of puts a second in rate_of, the longest fdatasync of fio, in us, in longest
bench() {
	if [ -x /benchmark ]; then
		before=$(written) began=$(milliseconds)
		/benchmark put --clients=10 --conns=10 --rate="$rate" --total=$((seconds * rate)) --val-size=256 --sequential-keys \
			--precise >/tmp/bench 2>/tmp/bench.err || tail -n 3 /tmp/bench.err
		disk=$(wrote "$before" "$began")
		rate_of=$(awk '/Requests\/sec/ { printf "%d", $2 * 1000 }' /tmp/bench)
		set -- "$1" $(awk '/ 50% in| 99% in/ { printf "%d ", $3 * 1e6 } /Slowest/ { last = $2 * 1e6 } END { printf "%d", last }' /tmp/bench)
		echo "# of $1: $((rate_of / 1000)).$((rate_of % 1000 / 100)) puts a second, p50 $2, p99 $3, longest $4 us, disk $disk KiB/s"
		grep -A 5 'Error distribution' /tmp/bench
	fi
	before=$(written) began=$(milliseconds)
	in_cgroup etcd fio --name=recipe --rw=write --ioengine=sync --fdatasync=1 --directory=/mnt/d/recipe --size=22m --bs=2300 \
		--runtime="$seconds" --output-format=json --output=/tmp/recipe 2>/dev/null || cat /tmp/recipe
	disk=$(wrote "$before" "$began")
	rm -f /mnt/d/recipe/*
	set -- "$1" $(awk '/"sync" :/ { sync = 1 } sync && /"(max|N|50.000000|99.000000)"/ {
			gsub(/[",]/, "")
			got[$1] = $3
		} sync && /"job_runtime"/ { exit } END { print got["N"], got["50.000000"], got["99.000000"], got["max"] }' /tmp/recipe)
	longest=$(($5 / 1000))
	echo "# of $1, fio: $2 calls in $(($(milliseconds) - began)) ms, p50 $(($3 / 1000)), p99 $(($4 / 1000)), longest $longest us, disk $disk KiB/s"
}
copy() {
	in_cgroup copy sh -c 'while :; do cp /tmp/source /mnt/d/copy && rm /mnt/d/copy; done' &
	copier=$!
	sleep 10
}
no_copy() {
	echo 1 >copy/cgroup.kill
	wait $copier 2>/dev/null
	rm -f /mnt/d/copy
	sync
}
dd if=/dev/zero of=/tmp/source bs=1M count=128 2>/dev/null

bench solo
solo=$rate_of

copy
bench stock
stock_longest=$longest
no_copy

insmod /weir.ko || exit 1
for ceiling in $ceilings; do
	echo "$ceiling" >copy/memory.dirty_bytes
	copy
	bench "a ceiling of $ceiling"
	no_copy
done
echo max >copy/memory.dirty_bytes

for bound in $bounds; do
	printf '[[objective]]\ncgroup = "/etcd"\nlimit = ["/copy"]\nfsync_p99 = "%s"\nfloor = "256K"\n' "$bound" >/tmp/agent.toml
	weir agent --listen none --policy /tmp/agent.toml >/tmp/agent.log 2>&1 &
	agent=$!
	copy
	bench "$bound, while the agent looks for a limit"
	bench "an objective of $bound"
	echo "# the copy's ceiling at the end: $(cat copy/memory.dirty_bytes)"
	sed 's/^/# /' /tmp/agent.log
	no_copy
	kill $agent
	wait $agent
done

[ -z "$solo" ] || ok "the objective keeps 0.9 of the puts" [ "$rate_of" -ge $((solo * 9 / 10)) ]
ok "and shortens the longest wait of the recipe" [ "$longest" -lt $((stock_longest / 2)) ]
kill $server
finish
