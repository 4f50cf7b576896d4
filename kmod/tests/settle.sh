# SPDX-License-Identifier: GPL-2.0-only
# A load that is refused lets go of the writers that came in while it proved that hooks work,
# although the host is far above its limit and stays there.  Wants the module built with
# WEIR_FAULTS=y, and a slow disk "d".
. /tap.sh
mkdir /sys/fs/cgroup/a
limits 268435456
for i in 1 2 3; do
	dd if=/dev/zero of=/mnt/d/$i bs=64k count=512 2>/dev/null
done
limits 8388608

# each new writer looks after 32 pages for the first time: one of them does whenever hooks are there
touch /tmp/going
(
	i=0
	while [ -e /tmp/going ]; do
		i=$((i + 1))
		[ "$(pidof dd | wc -w)" -lt 100 ] &&
			dd if=/dev/zero of=/mnt/d/w$((i % 100)) bs=64k count=3 2>/dev/null &
		usleep 10000
	done
) &
usleep 500000
host_pages() {
	awk '/^nr_(dirty|writeback) / { sum += $2 } END { print sum }' /proc/vmstat
}
before=$(host_pages)
started=$(date +%s)
insmod /weir.ko fault_taken=1 2>/dev/null
status=$?
took=$(($(date +%s) - started))
after=$(host_pages)
inside=$(dmesg | grep -c 'unloading waits for task')
rm /tmp/going
echo "# refused in $took s; host's dirty pages: $before before, $after after, limit 2048"
ok "the load is refused" between 1 $status 255
ok "before its writers could leave by themselves" between 4096 "$after" 100000000
ok "without waiting for any" between 0 $took 60
ok "no cgroup had to be named" is "$inside" 0
# shellcheck disable=SC2046 # a list
kill -9 $(pidof dd)
limits 268435456
ok "loads afterwards" insmod /weir.ko
ok "unloads" rmmod weir
finish
