# SPDX-License-Identifier: GPL-2.0-only
# Figures of the series' changelogs, one line each; measure.sh [CASE...] plays some.
#   alone    one flood for 12 s: what it dirties
#   victim   125 x 4 KiB a second for 24 s beside a flood that was there first
#   equal    two floods, then ten: what the host holds, and what each gets
#   tenant   the victim beside a flood and a tenant of a hundred cgroups
#   foreign  new cgroups rewrite the file of another
#   memory   a flood in a cgroup of 128 MiB, on a host with its default ratios
#   floor    the victim of "victim" with memory.dirty_min of 16M, its own and its parent's
#   owners   floods beyond their own memory.dirty_min: one of 4M, of 16M, of 64M; four of 16M
#   tenant-floor  uid 1000 sets memory.dirty_min in a delegated subtree, and floods
#   foreign-floor  the owner of a floor rewrites another's file
# Wants --count-instructions, one CPU, and disks "d" of 4M/s and "s" of 256K/s with ext4. The host's
# limit is 32 MiB. On a kernel without the patches, the same lines are stock's.
. /tap.sh
limit=33554432
root=/sys/fs/cgroup
cases=" ${*:-alone victim equal tenant foreign memory floor owners tenant-floor foreign-floor} "
echo "+memory +io" >$root/cgroup.subtree_control
# what ext4 commits every 5 s every writer may wait for
mount -o remount,commit=600 /mnt/d
mount -o remount,commit=600 /mnt/s
limits $limit

plays() {
	case $cases in
	*[[:space:]]$1[[:space:]]*) ;;
	*) return 1 ;;
	esac
}
host() {
	awk '/^nr_(dirty|writeback) / { sum += $2 } END { print sum * 4 }' /proc/vmstat
}
# watch FILE: while that exists, what the host holds, in KiB, 20 times a second
watch() {
	touch "$1"
	while [ -e "$1" ]; do
		held=0
		while read -r key value; do
			case $key in
			nr_dirty | nr_writeback) held=$((held + value * 4)) ;;
			esac
		done </proc/vmstat
		echo $held
		usleep 50000
	done >"$1.held"
}
# held FILE: median and most of what was watched, in MiB
held() {
	rm "$1"
	usleep 200000
	sort -n "$1.held" | awk '{ held[NR] = $1 } END {
		printf "host %.1f, at most %.1f MiB", held[int((NR + 1) / 2)] / 1024, held[NR] / 1024 }'
}
# flood CGROUP FILE: until the cgroup is killed
flood() {
	mkdir -p "$root/$1"
	in_cgroup "$1" sh -c 'while :; do dd if=/dev/zero of="$0" bs=64k count=2048 conv=notrunc; done' \
		"$2" 2>/dev/null &
}
# scatter CGROUP FILE: a flood of 4 KiB at random; Linux 7.3 counts pages of a large folio as written
# once all of its request is, which on the slow disk takes half a minute
scatter() {
	mkdir -p "$root/$1"
	in_cgroup "$1" fio --name=scatter --filename="$2" --rw=randwrite --bs=4k --size=256m \
		--fallocate=posix --time_based --runtime=1000 --output=/dev/null &
}
# steady CGROUP FILE SECONDS: 125 x 4 KiB a second; says IOPS, 99th percentile and longest write
steady() {
	mkdir -p "$root/$1"
	in_cgroup "$1" fio --name=steady --filename="$2" --rw=write --bs=4k --rate=500k --size=32m \
		--fallocate=none --time_based --runtime="$3" --output-format=json --output=/tmp/steady
	awk '/"write" : / { seen = 1 } seen && $1 == "\"iops\"" { iops = $3 }
		seen && $1 == "\"clat_ns\"" { lat = 1 } lat && $1 == "\"max\"" { longest = $3; lat = 0 }
		seen && $1 == "\"99.000000\"" { printf "%.1f IOPS, p99 %.3f ms, longest %.1f ms\n", iops, $3 / 1e6, longest / 1e6; exit }' /tmp/steady
}
dirtied() {
	awk '/^nr_dirtied / { printf "%.1f\n", $2 / 256 }' /proc/vmstat
}
# end CGROUP...: all is written
end() {
	for group; do
		echo 1 >"$root/$group/cgroup.kill"
	done
	# shellcheck disable=SC2046 # the jobs
	wait $(jobs -p) 2>/dev/null # "Killed" of a flood is no failure
	limits 1073741824
	rm -rf /mnt/[ds]/[a-k]* /mnt/[ds]/[m-z]*
	sync
	for group; do
		find "$root/$group" -depth -type d -exec rmdir {} \;
	done
	limits $limit
}

uname -r
floors=
mkdir $root/probe
[ ! -e $root/probe/memory.dirty_min ] || floors=yes
rmdir $root/probe
if plays alone; then
	watch /tmp/alone &
	flood a /mnt/d/a
	before=$(dirtied)
	usleep 12000000
	echo "alone: a flood dirties $(echo "$before $(dirtied)" | awk '{ print $2 - $1 }') MiB; $(held /tmp/alone)"
	end a
fi
if plays victim; then
	echo "victim, alone: $(steady v /mnt/s/v 8)"
	end v
	scatter a /mnt/s/a
	usleep 8000000
	watch /tmp/victim &
	before=$(dirtied)
	says=$(steady v /mnt/s/v 24)
	echo "victim, beside a flood: $says; both dirty $(echo "$before $(dirtied)" | awk '{ print $2 - $1 }') MiB; $(held /tmp/victim)"
	end a v
fi
if plays equal; then
	for count in 2 10; do
		groups=
		for i in $(seq $count); do
			flood e$i /mnt/d/e$i
			groups="$groups e$i"
		done
		usleep 8000000
		watch /tmp/equal &
		before=$(dirtied)
		usleep 16000000
		says="they dirty $(echo "$before $(dirtied)" | awk '{ print $2 - $1 }') MiB"
		parts=
		for i in $(seq $count); do
			parts="$parts $(awk '/^file_(dirty|writeback) / { sum += $2 } END { printf "%.1f", sum / 1048576 }' $root/e$i/memory.stat)"
		done
		echo "equal, $count floods: $says in 16 s; hold$parts MiB; $(held /tmp/equal)"
		# shellcheck disable=SC2086 # words
		end $groups
	done
fi
if plays tenant; then
	mkdir -p $root/tenant
	echo "+memory +io" >$root/tenant/cgroup.subtree_control
	flood a /mnt/d/a
	for i in $(seq 100); do
		flood tenant/$i /mnt/d/t$i
	done
	usleep 8000000
	watch /tmp/tenant &
	says=$(steady v /mnt/d/v 8)
	echo "tenant of 100 and a flood: $says; $(held /tmp/tenant)"
	end a v tenant
fi
if plays foreign; then
	mkdir -p $root/other $root/tenant
	echo "+memory +io" >$root/tenant/cgroup.subtree_control
	limits 1073741824
	in_cgroup other dd if=/dev/zero of=/mnt/d/other bs=1M count=128 2>/dev/null
	sync
	limits $limit
	flood a /mnt/d/a
	usleep 4000000
	watch /tmp/foreign &
	for i in $(seq 64); do
		mkdir $root/tenant/$i
		in_cgroup tenant/$i dd if=/dev/zero of=/mnt/d/other bs=64k count=32 seek=$((i * 32)) \
			conv=notrunc 2>/dev/null &
		usleep 100000
	done
	echo "foreign: $(held /tmp/foreign)"
	end a other tenant
fi
if plays memory; then
	echo 20 >/proc/sys/vm/dirty_ratio
	echo 10 >/proc/sys/vm/dirty_background_ratio
	mkdir -p $root/m
	echo 128M >$root/m/memory.max
	watch /tmp/memory &
	flood m /mnt/d/m
	usleep 16000000
	echo "memory, 128 MiB: $(held /tmp/memory); killed $(awk '$1 == "oom_kill" { print $2 }' $root/m/memory.events)"
	end m
fi
[ "$floors" ] || exit 0

if plays floor; then
	for floored in v p/v; do
		mkdir -p $root/$floored
		parent=${floored%/v}
		[ "$parent" = v ] || echo "+memory +io" >$root/$parent/cgroup.subtree_control
		echo 16M >$root/$parent/memory.dirty_min
		scatter a /mnt/s/a
		usleep 8000000
		watch /tmp/floor &
		before=$(dirtied)
		says=$(steady $floored /mnt/s/v 24)
		echo "floor of $parent, writer in $floored: $says; both dirty $(echo "$before $(dirtied)" | awk '{ print $2 - $1 }') MiB; $(held /tmp/floor)"
		end a "$parent"
	done
fi
if plays owners; then
	for floor in 4M 16M 64M; do
		mkdir $root/o
		echo $floor >$root/o/memory.dirty_min
		watch /tmp/owners &
		flood o /mnt/d/o
		usleep 8000000
		echo "owner of $floor floods: $(held /tmp/owners)"
		end o
	done
	for i in 1 2 3 4; do
		mkdir $root/o$i
		echo 16M >$root/o$i/memory.dirty_min
	done
	watch /tmp/owners &
	flood a /mnt/d/a
	for i in 1 2 3 4; do
		flood o$i /mnt/d/o$i
	done
	usleep 12000000
	echo "four owners of 16M, and a flood: $(held /tmp/owners)"
	end a o1 o2 o3 o4
fi
if plays tenant-floor; then
	mkdir -p $root/tenant /mnt/d/tenant
	echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
	echo "+memory +io" >$root/tenant/cgroup.subtree_control
	chown 1000:1000 $root/tenant $root/tenant/cgroup.procs $root/tenant/cgroup.subtree_control /mnt/d/tenant
	su user -s /bin/sh -c "mkdir $root/tenant/own; echo 512M >$root/tenant/own/memory.dirty_min"
	su user -s /bin/sh -c "echo 512M >$root/tenant/memory.dirty_min" 2>/dev/null && echo "its own: taken"
	watch /tmp/tenant-floor &
	flood a /mnt/d/a
	in_cgroup tenant/own su user -s /bin/sh -c \
		'while :; do dd if=/dev/zero of=/mnt/d/tenant/own bs=64k count=2048 conv=notrunc; done' 2>/dev/null &
	usleep 8000000
	echo "tenant asks for $(cat $root/tenant/own/memory.dirty_min): $(held /tmp/tenant-floor)"
	end a tenant
fi
if plays foreign-floor; then
	mkdir -p $root/other $root/o
	echo 1M >$root/o/memory.dirty_min
	limits 1073741824
	in_cgroup other dd if=/dev/zero of=/mnt/d/other bs=1M count=128 2>/dev/null
	sync
	limits $limit
	watch /tmp/foreign-floor &
	in_cgroup o sh -c 'while :; do dd if=/dev/zero of=/mnt/d/other bs=64k count=2048 conv=notrunc; done' 2>/dev/null &
	usleep 8000000
	echo "owner of 1M rewrites another's file: $(held /tmp/foreign-floor)"
	end o other
fi
