# SPDX-License-Identifier: GPL-2.0-only
# Whatever a cgroup's memory is: page cache that no process maps, memory that two
# map, huge pages, small ones. All of it comes to its share, going down and going up, or
# the status says what stays. tier-kinds.sh ENGINE, as in a policy; wants
# --disk cache=256M,ext4. Every state is waited for.
. /tap.sh
. /shares.sh
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
insmod /weir.ko || exit 1
weir tier on --ratio 40 >/dev/null || exit 1

down="cache shared huge small"
up=$down
stay=
case $1 in
move_pages)
	down="huge small" up=$down stay="cache shared"
	;;
reclaim)
	# Up go what move_pages finds.
	up="huge small"
	echo 1 >/sys/kernel/mm/numa/demotion_enabled
	;;
esac
huge() { # CGROUP: bytes in huge pages
	awk '$1 == "anon_thp" { print $2 }' "$1/memory.stat"
}
cached() { # MEGABYTES: the cache's cgroup has; what the kernel dropped to make huge pages is read again
	in_cgroup cache dd if=/mnt/cache/file of=/dev/null bs=1M 2>/dev/null
	has cache "$1"
}
tells() { # CGROUP: what stays of it, and why
	case $1 in
	cache) shows '^/cache: .*page cache that none maps stays' ;;
	shared) shows '^/shared: [0-9]+ pages are shared by several processes .* stay' ;;
	esac
}

for group in cache shared huge small; do limit $group 126; done
hold cache 24
in_cgroup cache dd if=/dev/zero of=/mnt/cache/file bs=1M count=90 conv=fsync 2>/dev/null
mkdir /shm
mount -t tmpfs none /shm
in_cgroup shared fio --name=shared --filename=/shm/file --size=110M --ioengine=mmap --rw=randread --norandommap \
	--bs=64k --io_size=100T --rate_iops=300 --numjobs=2 >/tmp/fio 2>&1 &
thp=/sys/kernel/mm/transparent_hugepage/enabled
echo never >$thp
hold small 120
ok "small has its memory" finally has small 119
echo always >$thp
hold huge 120
ok "huge has its memory" finally has huge 119
ok "cache has its memory" finally cached 110
ok "shared has its memory" finally has shared 109
ok "huge has huge pages" [ "$(huge huge)" -ge 104857600 ]
ok "and small has none" is "$(huge small)" 0

began=$(cut -d . -f 1 /proc/uptime)
policy "engine = \"$1\"\nlook = \"1s\"\n"
agent
ok "pages are moved by $1" finally says "pages are moved by $1"
for group in $down; do ok "$group comes down to its share" finally share $group; done
took "$1: down"
for group in $stay; do ok "the status tells what stays of $group" finally tells $group; done
weir tier status | sed 's/^/# /'
weir tier on --ratio 0 >/dev/null
for group in $up; do ok "$group comes up to its share" finally share $group; done
took "$1: up"
ok "huge pages are still huge" [ "$(huge huge)" -ge 94371840 ]
[ "$stay" ] || ok "all rest there" finally rests
ok "at their shares" shares $up
weir tier status | sed 's/^/# /'
kill $agent
wait $agent
finish
