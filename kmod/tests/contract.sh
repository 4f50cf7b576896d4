# SPDX-License-Identifier: GPL-2.0-only
# The pass contract under injected faults, on the real throttle: with one
# decision in three lost, floors and ceilings changed all the time and a tight
# memory.max, the global dirty limit never exceeds what stock would reach.
# Since 6.15 the tracepoint prints the limit of the domain that decided, and a
# cgroup's own may be above the host's on stock, too (8284 of 8192 pages on 7.3):
# so a third writer, in the root cgroup, which has no domain of its own, tells.
# Wants the module built with WEIR_FAULTS=y, and a disk "d".
. /tap.sh
limits 33554432
stock_limit=$((33554432 / $(page_size)))

# the smoothed global limit, as the throttle's own tracepoint prints it
cd /sys/kernel/tracing || exit 1
echo 16384 >buffer_size_kb
echo 1 >events/writeback/balance_dirty_pages/enable

insmod /weir.ko fault_one_in=3 || exit 1
cd /sys/fs/cgroup || exit 1
mkdir victim noisy
echo 64M >victim/memory.max

in_cgroup noisy fio --name=noisy --directory=/mnt/d --rw=write --bs=64k --size=128m --numjobs=2 --thread \
	--time_based --runtime=300 --output=/dev/null &
noisy=$!
in_cgroup victim fio --name=victim --directory=/mnt/d --rw=write --bs=4k --size=48m --rate=4m \
	--time_based --runtime=300 --output=/dev/null &
victim=$!
fio --name=root --directory=/mnt/d --rw=write --bs=64k --size=64m --rate=1m --thread \
	--time_based --runtime=300 --output=/dev/null &
root=$!
# 20 s, and longer where the guest gets little of its machine
enough() {
	[ $i -ge 200 ] && [ $((i % 50)) -eq 0 ] && [ "$(grep -c ' limit=' /sys/kernel/tracing/trace)" -ge 200 ]
}
i=0
until enough || ! kill -0 $victim 2>/dev/null; do
	i=$((i + 1))
	case $((i % 10)) in
	0) echo 16M >victim/memory.dirty_min ;;
	1) echo 4M >noisy/memory.dirty_bytes ;;
	4) echo 0 >victim/memory.dirty_min ;;
	5) echo max >victim/memory.dirty_min ;;
	8) echo max >noisy/memory.dirty_bytes ;;
	esac
	usleep 100000
done
echo 1 >victim/cgroup.kill
echo 1 >noisy/cgroup.kill
kill $root
wait $victim $noisy $root
admitted=$(stat victim nr_floor_admitted)
held=$(stat noisy nr_ceiling_held)
# CGROUP LIMIT; the root's inode is 1
sed -n 's/.* limit=\([0-9]*\) .* cgroup_ino=\([0-9]*\).*/\2 \1/p' /sys/kernel/tracing/trace >/tmp/passes
sed -n 's/^1 //p' /tmp/passes | sort -n >/tmp/limits

ok "knobs were changed under way" between 50 $i 100000
ok "the floor admitted passes" between 10 "$admitted" 100000000
ok "the ceiling held passes" between 10 "$held" 100000000
ok "stock throttled passes were seen" between 100 "$(wc -l </tmp/passes)" 100000000
ok "of the root cgroup, too" between 10 "$(wc -l </tmp/limits)" 100000000
ok "the global limit never exceeded stock's" between 1 "$(tail -n 1 /tmp/limits)" $stock_limit
ok "no memcg OOM kill" is "$(awk '/^oom_kill /{ print $2 }' victim/memory.events)" 0
finish
