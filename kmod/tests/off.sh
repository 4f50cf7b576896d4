# SPDX-License-Identifier: GPL-2.0-only
# weir.off: the module is there and does nothing at all, not even while it loads.
. /tap.sh
trace=/sys/kernel/tracing
mkdir /sys/fs/cgroup/a
# functions that ftrace ever redirected since boot; listed by kernels from 6.5 on
touched() {
	if [ -e $trace/touched_functions ]; then
		awk '{ print $1 }' $trace/touched_functions | sort -u
	fi
}
registered() {
	grep -c 'register_k.*probe' $trace/trace
}
echo 'register_k*probe*' >$trace/set_ftrace_filter
echo function >$trace/current_tracer
dmesg -c >/dev/null
touched >/tmp/before
ok "loads" insmod /weir.ko off=1
ok "is off" is "$(state)" off
ok "registers no kprobe, not even while it loads" is "$(registered)" 0
ok "no kprobe is there" is "$(grep -c . /sys/kernel/debug/kprobes/list)" 0
touched >/tmp/after
ok "redirects no function" diff /tmp/before /tmp/after
ok "adds no file" test ! -e /sys/fs/cgroup/a/memory.dirty_min
ok "nor dirty_stat" test ! -e /sys/fs/cgroup/a/memory.dirty_stat
echo 10 >/sys/module/weir/parameters/drain_seconds
ok "takes no drain_seconds into effect" is "$(state)" off
ok "registers nothing for it" is "$(registered)" 0
echo nop >$trace/current_tracer

# open files through the unload: the directory goes, and comes again
exec 3</sys/kernel/weir/state
ok "unloads with a file open" rmmod weir
ok "an open file reads as gone" sh -c '! cat <&3 2>/dev/null | grep .'
exec 3<&-
ok "nothing is left in /sys/kernel" test ! -e /sys/kernel/weir
echo >$trace/trace
echo function >$trace/current_tracer
ok "loads again" insmod /weir.ko
control=$(registered)
echo nop >$trace/current_tracer
# what was not there above is seen if it is
touched >/tmp/loaded
echo "# not off: $control probes; redirected: $(grep -vxFf /tmp/before /tmp/loaded | tr '\n' ' ')"
ok "that load registers one, to be seen here" between 1 "$control" 9
ok "with a file it can read" is "$(state)" idle
ok "adds its files then" test -e /sys/fs/cgroup/a/memory.dirty_min
ok "unloads" rmmod weir
ok "without a message of sysfs or the kernel" sh -c '! dmesg | grep -iE "duplicate filename|BUG:|WARNING:"'

# off, where loading would be refused
if silence_ftrace; then
	ok "loads with ftrace off" insmod /weir.ko off=1
	ok "is off" is "$(state)" off
	rmmod weir
else
	skip "loads with ftrace off" "$no_switch"
fi
finish
