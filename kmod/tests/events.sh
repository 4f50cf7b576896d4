# SPDX-License-Identifier: GPL-2.0-only
# Pauses are counted by who decided them, and can be followed at a tracepoint
# that tells a cgroup's cap from the host's limit.  Wants a disk "d".
. /tap.sh
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
mkdir own slice host floor
echo +memory >slice/cgroup.subtree_control
mkdir slice/leaf
trace=/sys/kernel/tracing
ok "the events are there" test -d $trace/events/weir/dirty_pause -a -d $trace/events/weir/dirty_admit
echo 1 >$trace/events/weir/enable

# slept CGROUP DECIDER
slept() {
	stat "$1" nr_throttled_by_"$2"
}
# only CGROUP DECIDER: it, and none of the others but a few
only() {
	all=$(stat "$1" nr_throttled)
	between 1 "$(slept "$1" "$2")" 100000000 &&
		between $((all - all / 5)) "$(slept "$1" "$2")" "$all" &&
		between 1 "$(stat "$1" throttled_by_"$2"_usec)" "$(stat "$1" throttled_usec)"
}
# traced CGROUP DECIDER: pauses of it at the tracepoint
traced() {
	id=$(ls -id "/sys/fs/cgroup/$1" | awk '{ print $1 }')
	between 1 "$(grep -c "dirty_pause: cgroup=$id bdi=.* by=$2 " $trace/trace)" 100000000
}

limits 536870912
echo 8M >own/memory.dirty_bytes
echo 8M >slice/memory.dirty_bytes
dirty /mnt/d/own 32 own
ok "its own ceiling" only own ceiling
ok "at the tracepoint, too" traced own ceiling
dirty /mnt/d/leaf 32 slice/leaf
ok "an ancestor's ceiling" only slice/leaf ancestor
ok "at the tracepoint, too" traced slice/leaf ancestor

# a writer alone meets the kernel's own limit for its cgroup, which is a share of
# the host's; among others it meets the host's
limits 16777216
cat host/memory.dirty_stat >/dev/null
dd if=/dev/zero of=/mnt/d/others bs=64k count=3200 2>/dev/null &
others=$!
dirty /mnt/d/host 32 host
kill $others
ok "the host's limit" between 1 "$(slept host host)" "$(stat host nr_throttled)"
ok "at the tracepoint, too" traced host host
echo 8M >floor/memory.dirty_min
dirty /mnt/d/floor 4 floor
ok "an admitted pass is an event" grep -q "dirty_admit: cgroup=.* floor=$((8388608 / $(page_size))) " $trace/trace
for group in own slice/leaf host floor; do
	ok "$group: every pause has a decider" between 0 "$(slept $group unknown)" 0
done
finish
