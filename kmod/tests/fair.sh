# SPDX-License-Identifier: GPL-2.0-only
# Fair parts, with fair=1 and no knob: a cgroup that holds less than its part of what floors may take
# is not throttled for those that hold more.  fair.sh [CASE...] plays some.  The host's limit is 32 MiB.
#   alone    one writer has what it has on stock
#   victim   125 x 4 KiB a second beside a flood: as alone, no pause
#   tenant   uid 1000 with a hundred children, whose tasks go from one to the next: one part
#   foreign  new cgroups of a tenant, each with a part, rewrite the file of another's: one part
#   returns  a cgroup that writes every other second counts all the time, and no part moves
#   equal    four floods: the same to each, and the host swings no more than without
#   files    memory.dirty_min: what it says and takes, by set floors, ceilings, weights
#   switch   observe, and off and on while all write
# Wants --count-instructions, one CPU, and disks "d" of 4M/s and "s" of 256K/s with ext4.
. /tap.sh
limit=33554432
pool=$((limit / 4096 * 80 / 100 * 4096))
root=/sys/fs/cgroup
cases=" ${*:-alone victim tenant foreign returns equal files switch} "
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
echo "+memory +io" >$root/cgroup.subtree_control
# what ext4 commits every 5 s every writer may wait for
mount -o remount,commit=600 /mnt/d
mount -o remount,commit=600 /mnt/s
limits $limit

host() {
	awk '/^nr_(dirty|writeback) / { sum += $2 } END { print sum * 4096 }' /proc/vmstat
}
dirtied() {
	awk '/^nr_dirtied / { printf "%.0f\n", $2 * 4096 }' /proc/vmstat
}
# part CGROUP: bytes of its fair part, or nothing
part() {
	sed -n 's/^auto //p' "$root/$1/memory.dirty_min"
}
# is_part CGROUP BYTES: that, within a page or two of rounding
is_part() {
	between $(($2 - 12288)) "$(part "$1")" "$2"
}
# flood CGROUP FILE: until the cgroup is killed
flood() {
	mkdir -p "$root/$1"
	in_cgroup "$1" sh -c 'while :; do dd if=/dev/zero of="$0" bs=64k count=2048 conv=notrunc; done' \
		"$2" 2>/dev/null &
}
# steady CGROUP FILE SECONDS: 125 x 4 KiB a second; sets iops and p99, in ns
steady() {
	in_cgroup "$1" fio --name=steady --filename="$2" --rw=write --bs=4k --rate=500k --size=32m \
		--fallocate=none --time_based --runtime="$3" --output-format=json --output=/tmp/steady
	iops=$(awk '/"write" : / { seen = 1 } seen && $1 == "\"iops\"" { print int($3 * 100); exit }' /tmp/steady)
	p99=$(awk '/"write" : / { seen = 1 } seen && $1 == "\"99.000000\"" { print int($3); exit }' /tmp/steady)
}
plays() {
	case $cases in
	*[[:space:]]$1[[:space:]]*) mkdir -p $root/one $root/two ;;
	*) return 1 ;;
	esac
}
# end CGROUP...: all is written
end() {
	for group; do
		echo 1 >"$root/$group/cgroup.kill"
	done
	# shellcheck disable=SC2046 # the jobs
	wait $(jobs -p) 2>/dev/null
	limits 1073741824
	rm -rf /mnt/[ds]/[a-k]* /mnt/[ds]/[m-z]*
	sync
	for group; do
		find "$root/$group" -depth -type d -exec rmdir {} \;
	done
	limits $limit
	# a beat finds it
	usleep 700000
}
fair() {
	echo "$1" >/sys/module/weir/parameters/fair
}

if plays alone; then
	# alone WHAT: sets all, what a flood dirtied in 12 s
	alone() {
		mkdir -p $root/one
		flood one /mnt/d/one
		all=$(dirtied)
		usleep 12000000
		all=$(($(dirtied) - all))
		echo "# alone, $1: $((all >> 10)) KiB in 12 s, the host holds $(($(host) >> 10)) KiB"
	}
	alone stock
	stock=$all
	end one two
	insmod /weir.ko fair=1 || exit 1
	alone fair
	ok "one writer has no floor" is "$(cat $root/one/memory.dirty_min)" "auto 0"
	ok "and dirties what it does on stock" between $((stock / 100 * 98)) "$all" $((stock / 100 * 102))
	end one
else
	insmod /weir.ko fair=1 || exit 1
fi
ok "in effect without a knob" comes_to active state

if plays victim; then
	steady two /mnt/s/two 8
	alone=$iops alone_p99=$p99
	sync
	flood one /mnt/s/one
	usleep 8000000
	ok "a flood fills the limit" between $((limit / 10 * 9)) "$(host)" $((limit / 10 * 11))
	steady two /mnt/s/two 16
	echo "# alone $alone hundredths of an IOPS, p99 $alone_p99 ns; beside a flood $iops, $p99; the host holds $(($(host) >> 10)) KiB"
	ok "the victim keeps its rate" between $((alone / 100 * 99)) "$iops" 13000
	ok "a write takes what it took" between 1 "$p99" $((2 * alone_p99))
	ok "no pause of its own" is "$(stat two nr_throttled)" 0
	ok "both have half" is_part two $((pool / 2))
	ok "as much again as it holds is kept" between 1 "$(stat two floor_unused)" \
		$(($(stat two subtree_dirty) + $(stat two subtree_writeback) + 262144))
	ok "the flood is throttled" between 1 "$(stat one nr_throttled)" 100000
	end one two
fi

if plays tenant; then
	mkdir -p $root/tenant
	echo "+memory +io" >$root/tenant/cgroup.subtree_control
	for i in $(seq 100); do
		mkdir $root/tenant/$i
	done
	chown -R 1000:1000 $root/tenant
	mkdir /mnt/d/tenant
	chown 1000:1000 /mnt/d/tenant
	flood one /mnt/d/one
	# in_cgroup takes root to come from outside; from there on it is the tenant's affair
	for i in $(seq 16); do
		in_cgroup tenant/$i su user -s /bin/sh -c "i=$i"'
			while :; do
				dd if=/dev/zero of=/mnt/d/tenant/'$i' bs=64k count=8 conv=notrunc 2>/dev/null
				i=$((i % 100 + 1))
				echo 0 >/sys/fs/cgroup/tenant/$i/cgroup.procs
				usleep 200000
			done' &
	done
	usleep 9000000
	sum=$(cat $root/tenant/*/memory.dirty_min | awk '{ sum += $2 } END { printf "%.0f\n", sum }')
	count=$(grep -lv "auto 0" $root/tenant/*/memory.dirty_min | wc -l)
	echo "# $count of the tenant's cgroups write, with $sum bytes; one beside it $(part one), of $pool"
	ok "more than one of the tenant's cgroups write" between 2 "$count" 100
	ok "together they have half, and no more" between $((pool / 10 * 4)) "$sum" $((pool / 2))
	ok "and the one beside them the other half" is_part one $((pool / 2))
	steady two /mnt/d/two 6
	echo "# beside both: $iops hundredths of an IOPS, p99 $p99 ns"
	ok "a neighbour below its part is not throttled for them" is "$(stat two nr_throttled)" 0
	ok "nor slower" between 12300 "$iops" 13000
	denied() {
		! su user -s /bin/sh -c "echo $2 >$1" 2>/dev/null
	}
	ok "the tenant sets no floor" denied $root/tenant/1/memory.dirty_min 1M
	echo 200 >$root/tenant/2/memory.dirty_weight # the first takes root
	ok "its weights are its own affair" su user -s /bin/sh -c "echo 10000 >$root/tenant/1/memory.dirty_weight"
	usleep 2500000
	ok "and take nothing from others" is_part one $((pool / 2))
	end one two tenant
fi

if plays foreign; then
	# rewrites: beside a flood; sets peak, the most that the host holds
	rewrites() {
		mkdir -p $root/tenant $root/other $root/one
		echo "+memory +io" >$root/tenant/cgroup.subtree_control
		limits 1073741824
		in_cgroup other dd if=/dev/zero of=/mnt/d/other bs=1M count=128 2>/dev/null
		sync
		limits $limit
		usleep 700000
		flood one /mnt/d/one
		usleep 4000000
		before=$(host) peak=0
		for i in $(seq 64); do
			mkdir $root/tenant/$i
			in_cgroup tenant/$i dd if=/dev/zero of=/mnt/d/other bs=64k count=32 seek=$((i * 32)) \
				conv=notrunc 2>/dev/null &
			usleep 100000
			rmdir $root/tenant/* 2>/dev/null
			now=$(host)
			[ "$now" -le "$peak" ] || peak=$now
		done
		echo "# foreign, fair $(cat /sys/module/weir/parameters/fair): the host holds $((before >> 10)) KiB, then $((peak >> 10)) at most"
		end one other tenant
	}
	fair 0
	rewrites
	without=$peak
	fair 1
	rewrites
	ok "new cgroups that rewrite another's file have one part" between 0 "$peak" $((without + pool / 2))
	end two
fi

if plays returns; then
	flood one /mnt/d/one
	# pages that are dirty already make no pass
	in_cgroup two sh -c 'i=0; while :; do dd if=/dev/zero of=/mnt/d/two bs=64k count=4 seek=$i conv=notrunc
		i=$((i + 4)); sleep 1.6; done' 2>/dev/null &
	usleep 3000000
	for i in $(seq 40); do
		part one
		usleep 200000
	done | sort | uniq -c >/tmp/parts
	sed 's/^/# part of one: /' /tmp/parts
	ok "the part of the one beside it does not move" is "$(wc -l </tmp/parts)" 1
	echo 1 >$root/two/cgroup.kill
	ok "until it has ceased to write" comes_to 0 part one
	ok "it has no part then" is "$(part two)" 0
	end one two
fi

if plays equal; then
	# floods: four, for 26 s; sets least and most, what the host holds in the last six.  Fair parts
	# are floors, of which four have it peak at up to 117 hundredths of its limit (peaks.sh).
	floods() {
		for group in a b c e; do
			flood $group /mnt/d/$group
		done
		usleep 20000000
		for i in $(seq 60); do
			host
			usleep 100000
		done | sort -n >/tmp/held
		least=$(head -n 1 /tmp/held) most=$(tail -n 1 /tmp/held)
		echo "# equal, fair $(cat /sys/module/weir/parameters/fair): the host holds $((least >> 10)) to $((most >> 10)) KiB"
	}
	fair 0
	floods
	swing=$((most - least))
	end a b c e
	fair 1
	floods
	for group in a b c e; do
		echo "# $group holds $(stat $group dirty) + $(stat $group writeback), part $(part $group)"
		ok "$group has a quarter" is_part $group $((pool / 4))
	done
	ok "the host holds no more than with four floors" between 0 "$most" $((limit / 100 * 117))
	ok "and swings no more" between 0 $((most - least)) $((swing + limit / 20))
	end a b c e one two
fi

if plays files; then
	mkdir -p $root/three
	echo "+memory +io" >$root/three/cgroup.subtree_control
	mkdir $root/three/in
	flood one /mnt/d/one
	flood two /mnt/d/two
	ok "an empty host, and two that write" comes_to $((pool / 2 / 4096)) \
		sh -c "echo \$((\$(sed -n 's/^auto //p' $root/two/memory.dirty_min) / 4096))"
	ok "a cgroup that does not write has no part" is "$(cat $root/three/memory.dirty_min)" "auto 0"
	ok "a number replaces it" takes $root/one/memory.dirty_min 8M 8388608
	settle() {
		comes_to "$2" sh -c "echo \$((\$(sed -n 's/^auto //p' $root/$1/memory.dirty_min) / 4096))"
	}
	ok "and comes first" settle two 0
	flood three/in /mnt/d/three
	ok "the rest is for the others" settle two $(((pool - 8388608) / 2 / 4096))
	ok "auto gives it back" sh -c "echo auto >$root/one/memory.dirty_min"
	ok "with a part" settle one $((pool / 3 / 4096))
	ok "a weight is of the part" takes $root/two/memory.dirty_weight 200 200
	ok "twice as much" settle two $((pool / 4096 / 2))
	ok "a ceiling bounds it" takes $root/two/memory.dirty_bytes 1M 1048576
	ok "at three quarters" settle two 192
	ok "what is set above replaces it too" takes $root/three/memory.dirty_min 4M 4194304
	ok "for all below" settle three/in 0
	ok "what it says may be written back" sh -c "cat $root/one/memory.dirty_min >/tmp/said; cat /tmp/said >$root/one/memory.dirty_min"
	refuses_auto() {
		refuses $root/one/memory.dirty_min autox "nvalid argument" &&
			refuses $root/one/memory.dirty_bytes auto "nvalid argument"
	}
	echo 8M >$root/one/memory.dirty_min
	ok "nothing else like it may" refuses_auto
	end one two three
fi

if plays switch; then
	echo 1 >/sys/module/weir/parameters/observe
	flood one /mnt/d/one
	usleep 6000000
	# at OFFSET: 2 MiB there
	at() {
		in_cgroup two dd if=/dev/zero of=/mnt/d/two bs=64k count=32 seek=$1 conv=notrunc 2>/dev/null
	}
	at 0
	ok "observe counts" between 1 "$(stat two nr_would_admit)" 100000
	ok "and admits none" is "$(stat two nr_floor_admitted)" 0
	echo 0 >/sys/module/weir/parameters/observe
	at 32
	ok "without it the same is admitted" between 1 "$(stat two nr_floor_admitted)" 100000
	for i in 1 2 3; do
		ok "off" fair 0
		ok "no part is left" comes_to 0 sh -c "awk '\$1 == \"floor\" { print \$2 }' $root/one/memory.dirty_stat"
		ok "the file says nothing of it" is "$(cat $root/two/memory.dirty_min)" 0
		ok "idle" comes_to idle state
		ok "nothing is kept" is "$(cat /sys/kernel/weir/unused_bytes)" 0
		ok "on" fair 1
		at $((32 * i + 32))
		ok "parts are back" settle two $((pool / 2 / 4096))
	done
	flood two /mnt/d/two
	usleep 1000000
	ok "unloads while all write" rmmod weir
	end one two
else
	rmmod weir
fi
finish
