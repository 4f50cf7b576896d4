# SPDX-License-Identifier: GPL-2.0-only
# storm.sh [ROUNDS] [CGROUPS]: load, set, create/set/remove cgroups, unload,
# again and again, under fio; then stock behaviour.  Wants a disk "d".
. /tap.sh
rounds=${1:-3}
cgroups=${2:-200}
cd /sys/fs/cgroup || exit 1
mkdir load
limits 67108864

in_cgroup load fio --name=load --directory=/mnt/d --rw=randwrite --bs=4k --size=64m --numjobs=4 \
	--thread --time_based --runtime=3600 --output=/dev/null &
fio=$!

cycle() {
	insmod /weir.ko tiers=0 || return 1
	echo 16M >load/memory.dirty_min
	echo 32M >load/memory.dirty_bytes
	echo 1 >load/memory.dirty_weight
	i=0
	while [ $i -lt "$cgroups" ]; do
		mkdir storm || return 1
		echo 1M >storm/memory.dirty_min || return 1
		echo 8M >storm/memory.dirty_bytes || return 1
		echo 50 >storm/memory.toptier_ratio || return 1
		[ $((i % 50)) -ne 0 ] || cat storm/memory.tier_stat >/dev/null || return 1
		[ $((i % 50)) -ne 0 ] || dirty /mnt/d/storm 1 storm
		rmdir storm || return 1
		i=$((i + 1))
	done
	rmmod weir
}

# slab of a kind of object the module makes, after everything has settled
settled_kmalloc() {
	sync
	sleep 2
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^Percpu:/{ print $2 }' /proc/meminfo
}

cycle
before=$(settled_kmalloc)
round=1
while [ $round -le "$rounds" ]; do
	ok "round $round: $cgroups cgroups" cycle
	round=$((round + 1))
done
after=$(settled_kmalloc)
ok "per-cpu memory as before ($before kB before, $after kB after)" between 0 "$after" $((before + 512))
ok "no hook left" is "$(hooks)" 0
ok "no file left" test ! -e load/memory.dirty_min -a ! -e load/memory.tier_stat
kill $fio
wait $fio
finish
