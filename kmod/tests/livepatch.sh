# SPDX-License-Identifier: GPL-2.0-only
# A livepatch of balance_dirty_pages(): who hooks the function first has it alone,
# and the other is told.  Wants weir_livepatch.ko and a disk "d".
. /tap.sh
patch=/sys/kernel/livepatch/weir_livepatch
mkdir /sys/fs/cgroup/a
cd /sys/fs/cgroup/a || exit 1
limits 33554432

patched_passes() {
	cat /sys/module/weir_livepatch/parameters/passes
}

# Every task must have left the old function before the transition is over.
patched() {
	insmod /weir_livepatch.ko && comes_to 0 cat $patch/transition
}

reverted() {
	echo 0 >$patch/enabled && soon test ! -e $patch && rmmod weir_livepatch
}

patch_refused() {
	error=$(insmod /weir_livepatch.ko 2>&1) && { echo "it loaded"; return 1; }
	case $error in
	*"Device or resource busy"*) test ! -e $patch ;;
	*) echo "another error: $error"; return 1 ;;
	esac
}

# The patch has the function, weir is loaded.
patch_alone() { # TEXT
	ok "$1: a knob is refused" refuses memory.dirty_min 8M "busy"
	ok "$1: so is another" refuses memory.dirty_bytes 8M "busy"
	ok "$1: clearing the floor is not" takes memory.dirty_min 0 0
	ok "$1: nor the ceiling" takes memory.dirty_bytes max max
	ok "$1: idle" is "$(state)" idle
	ok "$1: not in effect" is "$(stat a in_effect)" 0
	before=$(patched_passes)
	dirty /mnt/d/patched 8 a
	ok "$1: passes are the patch's" between $((before + 1)) "$(patched_passes)" 1000000
	ok "$1: none is weir's" is "$(stat a nr_passes) $(stat a nr_floor_admitted)" "0 0"
	ok "$1: only the patch hooks" comes_to 1 hooks
	ok "$1: that is balance_dirty_pages" grep -q '^balance_dirty_pages ' \
		/sys/kernel/debug/tracing/enabled_functions
}

ok "weir first: loads" insmod /weir.ko
ok "weir first: takes a floor" takes memory.dirty_min 8M 8388608
ok "weir first: the patch is refused" patch_refused
ok "weir first: stays in effect" is "$(state) $(stat a in_effect)" "active 1"
ok "weir first: both functions stay hooked" is "$(hooks)" 2
dirty /mnt/d/before 16 a
ok "weir first: the floor admits" between 1 "$(stat a nr_floor_admitted)" 1000000
ok "weir first: refused again" patch_refused
rmmod weir
ok "weir gone: the patch loads" patched
ok "weir gone: only the patch hooks" is "$(hooks)" 1

ok "patch first: weir loads" insmod /weir.ko
ok "patch first: a warning names the function" sh -c \
	'dmesg | grep "weir: .*livepatch" | grep -q "balance_dirty_pages"'
patch_alone "patch first"
ok "patch first: can be reverted" reverted
# a failed attempt is not repeated within a second
ok "patch gone: takes the knob" soon takes memory.dirty_min 8M 8388608
ok "patch gone: in effect" is "$(state) $(stat a in_effect)" "active 1"
ok "patch gone: both functions are hooked" is "$(hooks)" 2
# what the patch let through still fills the floor
sync
dirty /mnt/d/after 16 a
ok "patch gone: the floor admits" between 1 "$(stat a nr_floor_admitted)" 1000000

ok "without a knob: cleared" takes memory.dirty_min 0 0
ok "without a knob: hooks stay, the patch is refused" patch_refused
rmmod weir
insmod /weir.ko
ok "never a knob: the patch loads beside weir" patched
patch_alone "never a knob"
ok "unloads beside the patch" rmmod weir
ok "the patch stays" is "$(hooks)" 1
ok "the patch can be reverted without weir" reverted
finish
