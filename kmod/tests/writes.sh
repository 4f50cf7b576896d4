# SPDX-License-Identifier: GPL-2.0-only
# writes.sh [ROUNDS]: what a write to a knob does, and what it must not.  A cgroup is removed while
# a write to its knob fails; the first ratio of a cgroup with a writer; writing the default value
# while weir has no effect.  Wants slub_debug=FZPU and a disk "d".
. /tap.sh
rounds=${1:-16}
ftrace=/proc/sys/kernel/ftrace_enabled
insmod /weir.ko || exit 1
cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control

# The last knob of the host goes with the cgroup while the drain keeps the beat: evaluating the
# write takes the hooks away, waits for RCU, and fails as ftrace is off.
echo 10 >/sys/module/weir/parameters/drain_seconds
busy() { # other users of the lock, until the cgroup is gone
	while [ -d "$1" ]; do
		cat /sys/kernel/weir/state
	done >/dev/null
}
write_until_gone() {
	while [ -d "$1" ]; do
		echo 1M >"$1/memory.dirty_min"
	done 2>/dev/null
}
round=0
if silence_ftrace; then
	echo 1 >$ftrace
else
	skip "$rounds removals during a failing write" "$no_switch"
	rounds=0
fi
while [ $round -lt "$rounds" ]; do
	echo 1 >$ftrace
	mkdir v
	# what has just failed may fail once more
	soon sh -c 'echo 1M >v/memory.dirty_min' 2>/dev/null || exit 1
	echo 0 >$ftrace
	busy v &
	busy v &
	write_until_gone v &
	writer=$!
	usleep $((20000 + 7000 * (round % 5)))
	rmdir v
	wait $writer
	wait
	round=$((round + 1))
done
echo 1 >$ftrace
echo 0 >/sys/module/weir/parameters/drain_seconds
for validate in /sys/kernel/slab/*/validate; do
	echo 1 >"$validate"
done
ok "slabs are checked for writes after the free" grep -q 1 /sys/kernel/slab/kmalloc-2k/poison
unharmed() {
	! dmesg | grep -E '[^e]BUG|Poison overwritten|use-after|general protection|Oops'
}
none_left() {
	soon test_none
}
test_none() {
	[ "$(cat /sys/kernel/weir/groups)" = 0 ]
}
ok "$rounds removals during a failing write: nothing written into freed memory" unharmed
ok "no record is left of them" none_left

# first ratio: no pass may see a ceiling that is not worked out yet.  A knob above
# 1,000 cgroups keeps hooks placed, and made a write take its time.
limits 402653184
mkdir crowd
echo "+memory" >crowd/cgroup.subtree_control
i=0
while [ $i -lt 1000 ]; do
	mkdir crowd/$i
	i=$((i + 1))
done
echo 256M >crowd/memory.dirty_bytes
least=
waiting() {
	[ "$(cat /sys/kernel/weir/groups)" -ge 1001 ]
}
ok "1,000 others have records" soon waiting
held=0
paused=0
i=0
while [ $i -lt 12 ]; do
	mkdir r$i
	for file in 1 2 3; do
		in_cgroup r$i dd if=/dev/zero of=/mnt/d/ratio$file bs=4k count=4000 2>/dev/null &
	done
	usleep $((30000 + 5000 * i))
	echo 50 >r$i/memory.dirty_ratio
	now=$(stat r$i ceiling)
	[ "$now" != max ] || now=0
	{ [ -n "$least" ] && [ "$least" -le "$now" ]; } || least=$now
	wait
	held=$((held + $(stat r$i nr_ceiling_held)))
	paused=$((paused + $(stat r$i nr_throttled)))
	i=$((i + 1))
done
# half of what a guest of 1 GiB can cache is some 400 MB
ok "a first ratio of 50 shows a ceiling of its order at once" between 100000000 "$least" 1000000000
ok "and holds no writer that was under way" is "$held" 0
ok "nor puts one to sleep" is "$paused" 0
rmdir r? r??
echo max >crowd/memory.dirty_bytes
rmdir crowd/* 2>/dev/null
rmdir crowd
sync

# clearing: while ftrace is off, and when the beat has noticed
mkdir a b
knobs() {
	echo 8M >a/memory.dirty_min && echo 64M >a/memory.dirty_bytes &&
		echo 50 >a/memory.dirty_ratio && echo 300 >a/memory.dirty_weight
}
clears() { # WORDS: one by one, the others still set
	ok "$1: dirty_weight can be cleared" takes a/memory.dirty_weight 100 100
	ok "$1: dirty_ratio can be cleared" takes a/memory.dirty_ratio 0 0
	ok "$1: dirty_bytes can be cleared" takes a/memory.dirty_bytes max max
	ok "$1: dirty_min can be cleared" takes a/memory.dirty_min 0 0
}
# refused or not, the value says which: what is set is shown, what is refused is not
sets_or_refuses() {
	error=$(sh -c 'echo 9M >b/memory.dirty_min' 2>&1) &&
		{ is "$(cat b/memory.dirty_min)" 9437184; return; }
	case $error in
	*"No data available"* | *"busy"*) is "$(cat b/memory.dirty_min)" 0 ;;
	*) echo "another error: $error"; return 1 ;;
	esac
}
ok "knobs are set" soon knobs
if silence_ftrace; then
	clears "ftrace off"
	ok "ftrace off: a write is refused with a documented error, or shown" sets_or_refuses
	echo 0 >b/memory.dirty_min
	echo 1 >$ftrace
	ok "knobs are set again" soon knobs
	echo 0 >$ftrace
	ok "blind, says the state" comes_to blind state
	clears "blind"
	echo 1 >$ftrace
else
	skip "knobs are cleared while ftrace is off" "$no_switch"
	clears "in effect"
fi
ok "a write is taken once ftrace is on" soon takes a/memory.dirty_min 8M 8388608
ok "and in effect" comes_to 1 stat a in_effect
echo 0 >a/memory.dirty_min
rmdir a b
ok "no record is left" none_left
ok "no kernel message but weir's" unharmed
rmmod weir
finish
