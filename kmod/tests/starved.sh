# SPDX-License-Identifier: GPL-2.0-only
# starved.sh [ROUNDS]: tenants whose tasks hardly get a CPU, by cpu.max, by weight, as SCHED_IDLE,
# hold off a grace period of RCU-tasks for as long as they like.  The beat waits for none of them:
# weir stays in effect while root switches every parameter.  Loading and unloading wait for one or
# two, and another tracer for one, while ftrace_lock is held; the seconds are printed.
# Wants util-linux, counted instructions and one CPU.
. /tap.sh
rounds=${1:-2}
parameters=/sys/module/weir/parameters
trace=/sys/kernel/tracing
[ -e $trace/trace ] || mount -t tracefs tracefs $trace
cd /sys/fs/cgroup || exit 1
echo "+memory +cpu" >cgroup.subtree_control
limits $((64 << 20))
tenants=

# spin CGROUP [WRAPPER...]: a task of the tenant's that never sleeps
spin() {
	in_cgroup "$@" sh -c 'while :; do :; done' &
	tenants="$tenants $!"
}

starve() {
	mkdir limited light idle
	echo "1000 100000" >limited/cpu.max
	echo 1 >light/cpu.weight
	for i in 1 2 3 4 5 6 7 8; do
		spin limited
		spin light
		spin idle chrt -i 0
	done
}

now_ms() {
	awk '{ print int($1 * 1000) }' /proc/uptime
}

# seconds COMMAND...: it succeeds, and how long it took
seconds() {
	local begun=$(now_ms)
	"$@" || return
	took=$(($(now_ms) - begun))
	echo "# $* took $((took / 1000)).$(printf %03d $((took % 1000))) s"
}

# What is switched between two looks; each is on or off for half a second.
switch() {
	case $1 in
	0) echo 1 >$parameters/drain_tighten ;;
	1) echo 5 >$parameters/drain_seconds ;;
	2) echo 1 >$parameters/observe ;;
	3) echo 0 >$parameters/observe ;;
	4) echo 0 >$parameters/drain_tighten ;;
	5) echo 0 >$parameters/drain_seconds ;;
	esac
}

# Each parameter on and off, in the background: the look must not wait with the switch.
switching() {
	local round step
	for round in $(seq "$rounds"); do
		for step in 0 1 2 3 4 5; do
			switch $step
			sleep 0.5
		done
	done
}

# Looks ten times a second: the oldest beat, and how often it was not in effect.
watched() {
	local looks=0 oldest=0 out=0 age
	switching &
	local switches=$!
	while [ -e /proc/$switches/exe ] && [ "$looks" -lt 2000 ]; do
		age=$(cat /sys/kernel/weir/beat_age_ms)
		[ "$age" -le $oldest ] || oldest=$age
		[ "$(stat kept in_effect)" = 1 ] || out=$((out + 1))
		looks=$((looks + 1))
		sleep 0.1
	done
	wait $switches
	echo "# looked $looks times: the oldest beat $oldest ms, not in effect $out times"
	[ $looks -ge 20 ] && is $out 0 && between 0 $oldest 999
}

# how often PROBE was hit
hits() {
	awk -v probe="$1" '$1 == probe { sum = $2 } END { print sum + 0 }' $trace/kprobe_profile
}

# How often a grace period of RCU-tasks was waited for; 0 where the kernel has a plain one
grace_periods() {
	hits tasks
}

watch_grace_periods() {
	echo p:tasks synchronize_rcu_tasks >>$trace/kprobe_events 2>/dev/null &&
		echo 1 >$trace/events/kprobes/tasks/enable
}

# Another tracer begins while weir is unloaded: how long it waits.
tracer_waits() {
	sleep 0.3
	seconds sh -c "echo function >$trace/current_tracer"
	echo nop >$trace/current_tracer
}

starve
mkdir kept
echo p:events all_vm_events >$trace/kprobe_events || exit 1
echo 1 >$trace/events/kprobes/events/enable
watch_grace_periods || echo "# synchronize_rcu_tasks() is no function of this kernel"
before=$(grace_periods)
seconds insmod /weir.ko
ok "loads" test -e /sys/module/weir
ok "waits for one grace period at most, was $(($(grace_periods) - before))" \
	between 0 $(($(grace_periods) - before)) 1
# Another tracer of functions ends, again and again, and waits for a grace period with ftrace_lock.
tracing() {
	while [ -e /tmp/tracing ]; do
		echo function >$trace/instances/other/current_tracer
		echo nop >$trace/instances/other/current_tracer
	done
}
has_lock() {
	grep -q ftrace_shutdown "/proc/$tracer/stack" && grep -q synchronize_rcu_tasks "/proc/$tracer/stack"
}
# killed_in_time FILE VALUE: the writer of a first knob, which waits for that lock
killed_in_time() {
	until has_lock; do usleep 10000; done
	sh -c "echo $2 >$1" &
	local writer=$!
	usleep 100000
	kill -9 $writer
	usleep 100000
	! grep '^State:.*[DRS]' /proc/$writer/status || { echo "it is not killed"; return 1; }
	has_lock || { echo "the tracer does not wait any more"; return 1; }
}
mkdir $trace/instances/other
touch /tmp/tracing
tracing &
tracer=$!
ok "a first floor's writer can be killed" killed_in_time kept/memory.dirty_min 8M
ok "and a first window's" killed_in_time kept/memory.writeback_bytes 1M
rm /tmp/tracing
wait $tracer
rmdir $trace/instances/other
echo 8M >kept/memory.dirty_min
ok "in effect" is "$(state) $(stat kept in_effect)" "active 1"
ok "in effect throughout while root switches parameters" watched
grep '^# looked' /tmp/ok.out
ok "no beat takes the lock of CPU hotplug, by all_vm_events()" is "$(hits events)" 0
before=$(grace_periods)
tracer_waits >/tmp/tracer &
tracer=$!
seconds rmmod weir
after=$(grace_periods)
wait $tracer
cat /tmp/tracer
ok "unloaded" test ! -e /sys/module/weir
ok "waits for two grace periods at most, was $((after - before))" between 0 $((after - before)) 2
kill $tenants
finish
