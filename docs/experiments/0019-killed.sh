# SPDX-License-Identifier: GPL-2.0-only
# 0019-killed.sh ROUNDS MEGABYTES WRITERS: how many of WRITERS are killed that write 5/3 of the
# memory.max that they share, without the module, with it, and below floors of all of it, turn about.
# docs/experiments/0019-floors-and-sync.md has its figures.  Wants a disk "d".
. /tap.sh
cd /sys/fs/cgroup || exit 1
limits 134217728
rounds=$1 megabytes=$2 writers=$3
for round in $(seq "$rounds"); do
	for arm in stock module floors; do
		[ $arm = stock ] || [ -d /sys/module/weir ] || insmod /weir.ko || exit 1
		mkdir all
		echo ${megabytes}M >all/memory.max
		echo +memory >all/cgroup.subtree_control
		pids=
		for writer in $(seq "$writers"); do
			mkdir all/$writer
			[ $arm != floors ] || echo max >all/$writer/memory.dirty_min
			in_cgroup all/$writer dd if=/dev/urandom of=/mnt/d/$writer bs=64k \
				count=$((megabytes * 80 / 3)) 2>/dev/null &
			pids="$pids $!"
		done
		# shellcheck disable=SC2086 # one word each
		wait $pids
		sync
		rm /mnt/d/[0-9]*
		echo "# $round, $arm: $(awk '/^oom_kill /{ print $2 }' all/memory.events) of $writers killed"
		rmdir all/[0-9]* all
	done
	rmmod weir
done
ok "all rounds were made" true
finish
