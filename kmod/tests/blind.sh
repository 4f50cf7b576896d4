# SPDX-License-Identifier: GPL-2.0-only
# blind.sh: while the beat has not run for a second nothing is amended from what it last saw, and
# observing changes nothing of the host's.  Wants the module
# built with WEIR_FAULTS=y, and a disk "d".
. /tap.sh
trace=/sys/kernel/tracing
limits 268435456
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir a b

echo 4M >a/memory.dirty_bytes
ok "in effect" comes_to 1 stat a in_effect
dirty /mnt/d/a 6 a
ok "the ceiling holds" between 1 "$(stat a nr_ceiling_held)" 100000000
sync
echo 1 >/sys/module/weir/parameters/fault_stall
sleep 3
age=$(cat /sys/kernel/weir/beat_age_ms)
now=$(state)
held=$(stat a nr_ceiling_held)
in_cgroup a timeout 20 dd if=/dev/zero of=/mnt/d/b bs=64k count=512 2>/dev/null
wrote=$(($(wc -c </mnt/d/b) >> 20))
held=$(($(stat a nr_ceiling_held) - held))
echo 0 >/sys/module/weir/parameters/fault_stall
echo "# beat $age ms ago, state $now, $wrote MiB written, $held passes held"
ok "the beat was kept from running" between 1000 "$age" 60000
ok "blind, says the state then" is "$now" blind
ok "a ceiling that no beat brings up to date holds no writer" is $held 0
ok "a writer goes on as on stock" is "$wrote" 32
ok "active again when the beat is" comes_to active state
echo max >a/memory.dirty_bytes
sync

# ftrace off: no pass of the module's, and none again before it was proven
echo 4M >a/memory.dirty_bytes
ok "in effect again" comes_to 1 stat a in_effect
if silence_ftrace; then
	passes=$(stat a nr_passes)
	held=$(stat a nr_ceiling_held)
	dirty /mnt/d/c 16 a
	ok "with ftrace off no writer is held" is "$(stat a nr_ceiling_held)" "$held"
	ok "nor counted" is "$(stat a nr_passes)" "$passes"
	echo 1 >/proc/sys/kernel/ftrace_enabled
	ok "active once it is back" comes_to active state
else
	skip "with ftrace off no writer is held" "$no_switch"
fi
echo max >a/memory.dirty_bytes
rmmod weir
sync

# observing: the drain's limit would go below the host's, of which nothing may be seen
limits 67108864
echo 1 >$trace/events/writeback/global_dirty_state/enable
noisy() {
	in_cgroup b dd if=/dev/zero of=/mnt/d/noisy bs=64k count=100000 2>/dev/null &
	echo >$trace/trace
	sleep 12
	kill "$(pidof dd)"
	wait
	grep -o ' limit=[0-9]*' $trace/trace | cut -d= -f2 | sort -un >/tmp/limits
	sync
}
noisy
echo "# stock: dirty_limit $(tr '\n' ' ' </tmp/limits)"
stock=$(cat /tmp/limits)
insmod /weir.ko observe=1 drain_seconds=1 drain_tighten=1
ok "observing" comes_to observe state
noisy
echo "# observing: dirty_limit $(tr '\n' ' ' </tmp/limits), by drain $(cat /sys/kernel/weir/drain_limit_bytes) bytes"
ok "a limit by drain was worked out" between 1 "$(cat /sys/kernel/weir/drain_limit_bytes)" 67108863
ok "and the host's own limit left alone" is "$(cat /tmp/limits)" "$stock"
ok "its threshold too" is "$(awk '/^nr_dirty_threshold / { print $2 }' /proc/vmstat)" $((67108864 / $(page_size)))
rmmod weir
finish
