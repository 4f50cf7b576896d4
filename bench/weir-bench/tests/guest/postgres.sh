# SPDX-License-Identifier: GPL-2.0-only
# PostgreSQL beside a copy: see beside.sh. Wants the packages postgresql-15, postgresql-client-15,
# tzdata, util-linux.
#
# pgbench asks for RATE transactions a second, each of which ends with an fdatasync of the log; `cp`
# copies a file over and over.
. /beside.sh
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

# The rate is of transactions, the wait their p99.
bench() {
	rm -f /tmp/log.*
	before=$(written)
	(cd /tmp && as_postgres $bin/pgbench --client=2 --rate="$rate" --time="$seconds" --no-vacuum \
		--random-seed=1 --log --log-prefix=/tmp/log postgres >/tmp/bench 2>&1) || cat /tmp/bench
	rate_of=$(awk '/^tps/ { printf "%d", $3 * 1000 }' /tmp/bench)
	waits=$(cat /tmp/log.* | awk '{ print $3 - $7 }' | sort -n |
		awk '{ all[NR] = $1 } END { print all[int(NR / 2 + 0.5)], all[int(NR * 0.99 + 0.5)], all[NR] }')
	set -- "$1" $waits
	wait_us=$3
	count=$(cat /tmp/log.* | wc -l)
	wrote=$((($(written) - before) / 1048576))
	echo "# of $1: $count transactions, tps $((rate_of / 1000)).$((rate_of % 1000 / 100)), p50 $2, p99 $3, longest $4 us, disk wrote $wrote MiB"
}

stretches db
ok "stock keeps less of the rate than the objective does" [ "$rate_of" -gt "$stock_rate" ]
ok "the objective keeps 0.9 of it" [ "$rate_of" -ge $((solo_rate * 9 / 10)) ]
ok "and shortens the long waits" [ "$wait_us" -lt $((stock_wait_us / 2)) ]
finish
