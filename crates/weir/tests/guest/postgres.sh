# SPDX-License-Identifier: GPL-2.0-only
# postgres.sh [SECONDS [RATE [BOUNDS [CEILINGS]]]]: PostgreSQL beside a copy, alone, on stock Linux, with each of the
# ceilings on the copy, and with an objective of each of the bounds for the database.  Wants the packages postgresql-15,
# postgresql-client-15, tzdata, util-linux.
#
# pgbench asks for RATE transactions a second, each of which ends with an fdatasync of the log; `cp` copies a file over and
# over.  A line `# of ...` says what each stretch of SECONDS gave; the objective's is the second, as the agent has to see
# calls of fsync before it looks for a limit.
. /tap.sh
seconds=${1:-30}
rate=${2:-20}
bounds=${3:-100ms}
ceilings=${4:-1M}
bin=/usr/lib/postgresql/15/bin
data=/mnt/d/data

echo 'postgres:x:70:70:postgres:/tmp:/bin/sh' >>/etc/passwd
echo 'postgres:x:70:' >>/etc/group
as_postgres() {
	/usr/bin/setpriv --reuid 70 --regid 70 --clear-groups "$@"
}
export LC_ALL=C PGHOST=/tmp PGUSER=postgres
cd /sys/fs/cgroup || exit 1
mkdir db copy
limits 67108864

mkdir -p $data /run/postgresql /dev/shm
mount -t tmpfs shm /dev/shm
chown 70:70 $data
as_postgres $bin/initdb --no-locale --encoding=SQL_ASCII --no-sync --auth=trust -D $data >/tmp/initdb 2>&1 ||
	cat /tmp/initdb
# Checkpoints and vacuuming by themselves would come at another time in each stretch.
cat >>$data/postgresql.conf <<END
listen_addresses = ''
unix_socket_directories = '/tmp'
shared_buffers = 32MB
jit = off
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 1GB
wal_recycle = off
wal_init_zero = off
END
in_cgroup db /usr/bin/setpriv --reuid 70 --regid 70 --clear-groups $bin/postgres -D $data >/tmp/postgres.log 2>&1 &
answers() {
	as_postgres $bin/psql -qAtc 'select 1' postgres >/dev/null 2>&1
}
ok "the database starts" soon answers || { cat /tmp/postgres.log; exit 1; }
as_postgres $bin/pgbench --initialize --scale=1 --quiet postgres >/tmp/init 2>&1 || cat /tmp/init
sync

# bench NAME: adds what pgbench says to a line; transactions a second in tps, thousands; p99 in us
bench() {
	rm -f /tmp/log.*
	(cd /tmp && as_postgres $bin/pgbench --client=2 --rate="$rate" --time="$seconds" --no-vacuum \
		--random-seed=1 --log --log-prefix=/tmp/log postgres >/tmp/bench 2>&1) || cat /tmp/bench
	tps=$(awk '/^tps/ { printf "%d", $3 * 1000 }' /tmp/bench)
	waits=$(cat /tmp/log.* | awk '{ print $3 - $7 }' | sort -n |
		awk '{ all[NR] = $1 } END { print all[int(NR / 2 + 0.5)], all[int(NR * 0.99 + 0.5)], all[NR] }')
	set -- "$1" $waits
	p99=$3
	count=$(cat /tmp/log.* | wc -l)
	wrote=$((($(written) - before) / 1048576))
	echo "# of $1: $count transactions, tps $((tps / 1000)).$((tps % 1000 / 100)), p50 $2, p99 $3, longest $4 us, disk wrote $wrote MiB"
}
written() {
	awk '{ print $7 * 512 }' "$(echo /sys/block/weir0/stat)"
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

before=$(written)
bench solo
solo=$tps solo_p99=$p99

copy
before=$(written)
bench stock
stock=$tps stock_p99=$p99
no_copy

insmod /weir.ko || exit 1
for ceiling in $ceilings; do
	echo "$ceiling" >copy/memory.dirty_bytes
	copy
	before=$(written)
	bench "a ceiling of $ceiling"
	no_copy
done
echo max >copy/memory.dirty_bytes

for bound in $bounds; do
	printf '[[objective]]\ncgroup = "/db"\nlimit = ["/copy"]\nfsync_p99 = "%s"\nfloor = "256K"\n' "$bound" >/tmp/agent.toml
	weir agent --listen none --policy /tmp/agent.toml >/tmp/agent.log 2>&1 &
	agent=$!
	copy
	before=$(written)
	bench "$bound, while the agent looks for a limit"
	before=$(written)
	bench "an objective of $bound"
	echo "# the copy's ceiling at the end: $(cat copy/memory.dirty_bytes)"
	sed 's/^/# /' /tmp/agent.log
	no_copy
	kill $agent
	wait $agent
done

ok "stock keeps less of the rate than the objective does" [ "$tps" -gt "$stock" ]
ok "the objective keeps 0.9 of it" [ "$tps" -ge $((solo * 9 / 10)) ]
ok "and shortens the long waits" [ "$p99" -lt $((stock_p99 / 2)) ]
finish
