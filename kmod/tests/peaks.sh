# SPDX-License-Identifier: GPL-2.0-only
# What the host holds at most, beside floors and ceilings: floods, rates that are offered, floors that
# sum up to more than the limit, files of another cgroup, a tenant, an idle floor.  The host's limit
# is 32 MiB; each case is judged by its peak, seen 20 times a second.  peaks.sh [CASE...] plays some.
# Wants one CPU that counts instructions and a disk "d" of 4M/s with ext4.
. /tap.sh
limit=33554432
echo "user:x:1000:1000::/:/bin/sh" >>/etc/passwd
insmod /weir.ko || exit 1
limits $limit
root=/sys/fs/cgroup
echo "+memory +io" >$root/cgroup.subtree_control
cases=" ${*:-flood-4 flood-16 flood-64 four-floors offers-5 offers-100 foreign dead-foreign young-foreign
	mixed-foreign tenant idle-floor ceiling ceiling-above} "

# watch FILE: the most that the host has held, in KiB, until FILE is removed
watch() {
	touch "$1"
	(
		peak=0
		while [ -e "$1" ]; do
			now=$(awk '/^nr_(dirty|writeback) / { sum += $2 } END { print sum * 4 }' /proc/vmstat)
			[ "$now" -le "$peak" ] || { peak=$now; echo "$peak" >"$1.peak"; }
			usleep 50000
		done
	) &
	watcher=$!
}
# seen FILE: sets peak and ends the watch
seen() {
	rm "$1"
	wait $watcher
	peak=$(cat "$1.peak")
	rm "$1.peak"
}

# rewrite CGROUP FILE MIB: writes it again and again, until the cgroup is killed
rewrite() {
	in_cgroup "$1" sh -c 'while :; do dd if=/dev/zero of="$0" bs=64k count=$1 conv=notrunc; done' \
		"/mnt/d/$2" $(($3 * 16)) 2>/dev/null &
}
# offer CGROUP FILE MIB: so much a second
offer() {
	in_cgroup "$1" fio --name=offer --filename="/mnt/d/$2" --rw=write --bs=64k --size=256m \
		--fallocate=none --time_based --runtime=600 --rate="$3m" --output=/dev/null &
}

# begin CGROUP...: with files of 256 MiB, of their own: who writes a file that another's wb owns has
# nothing dirty in its own, and the kernel lets such a task past any limit, a page in each tick
begin() {
	groups=$*
	for group in "$@"; do
		mkdir -p $root/$group
		in_cgroup "$group" fallocate -l 268435456 "/mnt/d/$(basename "$group")"
	done
	usleep 700000
}
# end CASE PERCENT: it is judged, and all is written
end() {
	for group in $groups; do
		echo 1 >$root/$group/cgroup.kill
	done
	echo "# peak $1: $peak KiB, $((peak * 100 / (limit / 1024))) hundredths of the limit"
	ok "$1: the host holds at most $2 hundredths of its limit" between 0 $((peak * 100)) $((limit / 1024 * $2))
	# shellcheck disable=SC2046 # the jobs
	wait $(jobs -p)
	limits 1073741824
	rm -rf /mnt/d/*
	sync
	for group in $groups; do
		[ ! -d $root/$group ] || rmdir $root/$group/* $root/$group 2>/dev/null
	done
	limits $limit
	usleep 700000
}
plays() {
	case $cases in
	*[[:space:]]$1[[:space:]]*) return 0 ;;
	esac
	return 1
}

# floods FLOOR: the floor's owner beside a noisy one
floods() {
	begin owner noisy
	echo "$1" >$root/owner/memory.dirty_min
	usleep 400000
	watch /tmp/watch
	rewrite noisy noisy 256
	usleep 4000000
	rewrite owner owner 256
	usleep 12000000
	seen /tmp/watch
}
for floor in 4 16 64; do
	plays flood-$floor || continue
	floods ${floor}M
	end flood-$floor 112
done

# five floods at once, of which four below floors of $1
five_floods() {
	begin one two three four noisy
	for group in one two three four; do
		echo "$1" >$root/$group/memory.dirty_min
	done
	usleep 400000
	watch /tmp/watch
	for group in $groups; do
		rewrite $group $group 256
	done
	usleep 20000000
	seen /tmp/watch
}
if plays four-floors; then
	five_floods 0
	end no-floors 117
	five_floods 16M
	end four-floors 117
fi

for rate in 5 100; do
	plays offers-$rate || continue
	begin owner noisy
	echo 16M >$root/owner/memory.dirty_min
	usleep 400000
	watch /tmp/watch
	rewrite noisy noisy 256
	usleep 2000000
	offer owner owner $rate
	usleep 12000000
	seen /tmp/watch
	end offers-$rate 112
done

# An owner with a small floor, beside another whose floor is large and idle, rewrites a file that
# another cgroup has in its cache: foreign HOW
foreign() {
	begin owner idle other
	echo 1M >$root/owner/memory.dirty_min
	echo 20M >$root/idle/memory.dirty_min
	limits 1073741824
	in_cgroup other dd if=/dev/zero of=/mnt/d/other bs=1M count=192 conv=notrunc 2>/dev/null
	sync
	limits $limit
	usleep 700000
	watch /tmp/watch
	$1
	seen /tmp/watch
}
one_task() {
	in_cgroup owner dd if=/dev/zero of=/mnt/d/other bs=64k count=3072 conv=notrunc 2>/dev/null &
	usleep 12000000
}
# tasks that exit before they look, beside one that writes a file of its own
many_dead() {
	in_cgroup owner sh -c '
		exec 3>/mnt/d/owner
		i=0
		while [ $i -lt 2000 ]; do
			dd if=/dev/zero of=/mnt/d/other bs=64k count=1 seek=$i conv=notrunc 2>/dev/null
			printf "%65536s" x >&3
			[ $((i % 16)) != 0 ] || exec 3>/mnt/d/owner
			i=$((i + 1))
		done' &
	usleep 12000000
}
# from cgroups below the floor that come and go
many_young() {
	echo "+memory +io" >$root/owner/cgroup.subtree_control
	for i in $(seq 96); do
		[ -d $root/owner/$i ] || mkdir $root/owner/$i
		in_cgroup owner/$i dd if=/dev/zero of=/mnt/d/other bs=64k count=32 \
			seek=$((i * 32)) conv=notrunc 2>/dev/null &
	done
	usleep 12000000
}
# for each few pages of another's, one of its own that is truncated again
mixed() {
	in_cgroup owner sh -c '
		i=0
		exec 4<>/mnt/d/other
		while [ $i -lt 8000 ]; do
			printf "%65536s" x >&4
			printf "%4096s" x >/mnt/d/owner
			i=$((i + 1))
		done' 2>/dev/null &
	usleep 12000000
}
for how in foreign:one_task dead-foreign:many_dead young-foreign:many_young mixed-foreign:mixed; do
	plays ${how%:*} || continue
	foreign ${how#*:}
	end ${how%:*} 112
done

# denied FILE VALUE: uid 1000 may not write it
denied() {
	! su user -s /bin/sh -c "echo $2 >$1" && is "$(cat "$1")" 0
}
# uid 1000, who has a subtree of its own, makes a child with a floor
if plays tenant; then
	begin tenant
	echo "+memory +io" >$root/tenant/cgroup.subtree_control
	chown -R 1000:1000 $root/tenant
	watch /tmp/watch
	mkdir $root/tenant/child
	chown -R 1000:1000 $root/tenant/child
	ok "a tenant gives itself no floor" denied $root/tenant/child/memory.dirty_min 512M
	rewrite tenant/child tenant 256
	usleep 6000000
	seen /tmp/watch
	end tenant 112
fi

if plays idle-floor; then
	begin owner noisy
	echo 16M >$root/owner/memory.dirty_min
	usleep 400000
	watch /tmp/watch
	rewrite noisy noisy 256
	usleep 12000000
	began=$(date +%s)
	in_cgroup owner dd if=/dev/zero of=/mnt/d/owner bs=64k count=192 conv=notrunc 2>/dev/null
	ok "idle-floor: a burst of 12 MiB is not delayed" between 0 $(($(date +%s) - began)) 1
	usleep 8000000
	seen /tmp/watch
	end idle-floor 112
fi

# capped CGROUP WRITER: a tenth of 200 MiB, on a host with room; what is seen is that of the host
capped() {
	limits 536870912
	mkdir -p $root/$1
	begin "${2%%/*}"
	echo 200M >$root/$1/memory.max
	echo 10 >$root/$1/memory.dirty_ratio
	if [ "$1" != "$2" ]; then
		echo "+memory +io" >$root/$1/cgroup.subtree_control
		mkdir $root/$2
	fi
	usleep 400000
	watch /tmp/watch
	rewrite "$2" "$1" 256
	usleep 12000000
	seen /tmp/watch
	limit=20971520
}
if plays ceiling; then
	capped capped capped
	end ceiling 100
	limit=33554432
fi
if plays ceiling-above; then
	capped capped capped/child
	end ceiling-above 100
	limit=33554432
fi
rmmod weir
finish
