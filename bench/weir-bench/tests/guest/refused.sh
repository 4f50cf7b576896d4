# SPDX-License-Identifier: GPL-2.0-only
# refused.sh refused WORDS: the module refuses this kernel in these words, and leaves nothing.
# refused.sh loads all|none: it loads, and sees the limits of all of a writer's passes, or of none,
# which it notices.
# That wants a disk "d".
. /tap.sh
does=$1
words=$2

refused() {
	dmesg -c >/dev/null
	if insmod /weir.ko; then
		echo "loaded"
		return 1
	fi
	dmesg | grep "weir: refusing to load: " >/tmp/why
	grep -qF "weir: refusing to load: $words" /tmp/why || { dmesg; return 1; }
	[ ! -e /sys/kernel/weir ] && [ ! -e /sys/fs/cgroup/a/memory.dirty_stat ] &&
		! grep -q weir /proc/modules
}

missed() {
	cat /sys/kernel/weir/missed
}

cd /sys/fs/cgroup || exit 1
echo "+memory +io" >cgroup.subtree_control
mkdir a
if [ "$does" = refused ]; then
	ok "refused" refused
	sed 's/^/# /' /tmp/why
	finish
fi
limits 268435456
ok "loads" insmod /weir.ko
echo 4M >a/memory.dirty_bytes
ok "in effect" comes_to 1 stat a in_effect
dirty /mnt/d/a 16 a
passes=$(stat a nr_passes)
held=$(stat a nr_ceiling_held)
echo "# $passes passes, $held held by the ceiling, $(missed) missed, state $(state)"
ok "the writer's passes are seen" between 1 "$passes" 100000000
if [ "$words" = all ]; then
	ok "none is missed" is "$(missed)" 0
	ok "the ceiling holds" between 1 "$held" 100000000
else
	ok "their limits are missed, and that is counted" between 1 "$(missed)" 100000000
	ok "the ceiling holds no writer" is "$held" 0
	ok "the module says so" comes_to blind state
	ok "and why" sh -c 'dmesg | grep -qF "writers run an inlined copy of domain_dirty_limits()"'
	ok "what would not hold is refused" refuses a/memory.dirty_bytes 8M "not supported"
fi
echo max >a/memory.dirty_bytes
ok "unloads" rmmod weir
ok "the kernel's functions are its own again" is "$(hooks)" 0
finish
