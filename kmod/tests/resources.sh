# SPDX-License-Identifier: GPL-2.0-only
# resources.sh [CGROUPS]: what cgroups cost that only look, who pays for those that write, and
# whether a knob that goes on and off takes the hooks along.
. /tap.sh
many=${1:-500}
functions=/sys/kernel/tracing/enabled_functions
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo +memory >cgroup.subtree_control
mkdir pod
echo +memory >pod/cgroup.subtree_control
groups() {
	cat /sys/kernel/weir/groups
}
make() { # DIRECTORY COUNT
	i=0
	while [ $i -lt "$2" ]; do
		mkdir "$1/$i" || return 1
		i=$((i + 1))
	done
}
# what of the pod's kernel memory weir could have taken, in bytes
charged() {
	awk '$1 == "percpu" || $1 == "slab" { n += $2 } END { print n }' pod/memory.stat
}
host_percpu() {
	awk '/^Percpu:/ { print $2 }' /proc/meminfo
}

# reading
make pod "$many"
before=$(host_percpu)
i=0
while [ $i -lt "$many" ]; do
	read -r _ <pod/$i/memory.dirty_stat
	i=$((i + 1))
done
ok "reading dirty_stat of $many cgroups makes no record" is "$(groups)" 0
ok "and takes no per-CPU memory" between 0 "$(host_percpu)" $((before + 64))

# writing: 200 records, charged to the cgroup that has the file
before=$(charged)
i=0
while [ $i -lt 200 ]; do
	echo 512M >pod/$i/memory.dirty_bytes
	i=$((i + 1))
done
ok "200 cgroups with a knob have records" between 200 "$(groups)" 202
after=$(charged)
echo "# charged: $before bytes before, $after after 200 knobs"
ok "their memory is charged to the pod" between $((before + 200 * 512)) "$after" $((before + 200 * 16384))

# as many as its limit has room for
echo $(($(cat pod/memory.current) + 131072)) >pod/memory.max
set_all() {
	made=0
	refused=0
	i=200
	while [ $i -lt "$many" ]; do
		if (echo 512M >pod/$i/memory.dirty_bytes) 2>/tmp/error; then
			made=$((made + 1))
		else
			refused=$((refused + 1))
		fi
		i=$((i + 1))
	done
}
set_all
echo "# room of 128 KiB: $made made, $refused refused"
ok "a limit on the pod bounds them" between 1 $refused "$many"
ok "with ENOMEM" grep -q "Cannot allocate memory" /tmp/error
ok "what was refused left no record" between 0 "$(groups)" $((202 + made))
echo max >pod/memory.max
i=0
while [ $i -lt "$many" ]; do
	rmdir pod/$i
	i=$((i + 1))
done
fewer() {
	[ "$(groups)" -le 1 ]
}
ok "no record is left of removed ones" soon fewer
less() {
	[ "$(charged)" -lt $((before + 100 * 512)) ]
}
ok "nor anything charged" soon less

# of a hundred that have no memory left when a knob above wants their records
make pod 100
i=0
while [ $i -lt 100 ]; do
	echo 0 >pod/$i/memory.max
	i=$((i + 1))
done
before=$(charged)
echo 512M >pod/memory.dirty_bytes
more() {
	[ "$(groups)" -ge 101 ]
}
ok "cgroups without memory have records, too" soon more
after=$(charged)
echo "# charged: $before bytes before, $after with 100 records"
ok "which are charged all the same" between $((before + 100 * 2048)) "$after" $((before + 100 * 16384))
echo max >pod/memory.dirty_bytes
i=0
while [ $i -lt 100 ]; do
	rmdir pod/$i
	i=$((i + 1))
done

# on and off
mkdir toggle
hooked() {
	grep -c -w balance_dirty_pages $functions
}
dmesg -c >/dev/null
changes=0
was=1
i=0
while [ $i -lt 200 ]; do
	echo 64M >toggle/memory.dirty_bytes
	[ "$(hooked)" = $was ] || { changes=$((changes + 1)); was=$(hooked); }
	echo max >toggle/memory.dirty_bytes
	[ "$(hooked)" = $was ] || { changes=$((changes + 1)); was=$(hooked); }
	i=$((i + 1))
done
ok "200 times on and off do not place hooks and take them away" between 0 $changes 1
ok "they are told once" between 0 "$(dmesg | grep -c 'in effect')" 1
ok "and fill no log" between 0 "$(dmesg | wc -l)" 4
rmdir toggle

rmmod weir
finish
