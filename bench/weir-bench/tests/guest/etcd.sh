# SPDX-License-Identifier: GPL-2.0-only
# etcd beside a copy: see beside.sh. Wants the package etcd-server, and for the puts etcd's own
# tools/benchmark as /benchmark.
#
# The benchmark's ten clients ask for RATE puts a second, each of which ends with an fdatasync of the
# log; `cp` copies a file over and over. Then comes the recipe by which etcd's users judge a disk, by
# fio: fdatasync's p99 below 10 ms.
. /beside.sh

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

# wrote BYTES MILLISECONDS: what the disk wrote since, in KiB a second
wrote() {
	echo $((($(written) - $1) / 1024 * 1000 / ($(milliseconds) - $2)))
}
# The rate is of puts, the wait the longest fdatasync of fio.
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
	wait_us=$(($5 / 1000))
	echo "# of $1, fio: $2 calls in $(($(milliseconds) - began)) ms, p50 $(($3 / 1000)), p99 $(($4 / 1000)), longest $wait_us us, disk $disk KiB/s"
}

stretches etcd
[ -z "$solo_rate" ] || ok "the objective keeps 0.9 of the puts" [ "$rate_of" -ge $((solo_rate * 9 / 10)) ]
ok "and shortens the longest wait of the recipe" [ "$wait_us" -lt $((stock_wait_us / 2)) ]
kill $server
finish
