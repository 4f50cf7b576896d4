# SPDX-License-Identifier: GPL-2.0-only
# What does not fit is named.  Wants the module built with WEIR_FAULTS=y.
. /tap.sh
mkdir /sys/fs/cgroup/a

# refuses_to_load WORDS PARAMETERS...
refuses_to_load() {
	words=$1
	shift
	dmesg -c >/dev/null
	if insmod /weir.ko "$@"; then
		rmmod weir
		echo "loaded"
		return 1
	fi
	dmesg | grep -q "weir: refusing to load: $words" || { dmesg; return 1; }
	[ ! -e /sys/kernel/weir ] && [ ! -e /sys/fs/cgroup/a/memory.dirty_stat ] &&
		! grep -q weir /proc/modules
}

for function in balance_dirty_pages domain_dirty_limits global_dirty_limits \
	cgroup_add_dfl_cftypes wb_start_background_writeback memcg_page_state; do
	ok "names $function if it is missing" \
		refuses_to_load "this kernel has no function $function" fault_hide=$function
done
for member in gdtc bg_thresh avail; do
	ok "names the member $member if it is missing" refuses_to_load \
		"struct dirty_throttle_control of this kernel has no member $member" fault_hide=$member
done
ok "leaves a kernel with a memory.dirty_min of its own alone" refuses_to_load \
	"this kernel has a memory.dirty_min of its own; use that one" fault_taken=1
umount /sys/kernel/debug
ok "loads without debugfs" insmod /weir.ko
rmmod weir
mount -t debugfs none /sys/kernel/debug
ok "loads when nothing is hidden" insmod /weir.ko
finish
