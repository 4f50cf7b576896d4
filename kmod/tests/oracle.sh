# SPDX-License-Identifier: GPL-2.0-only
# oracle.sh: `weir doctor --btf` and the module judge one kernel alike, as it is and with one name in
# its BTF called something else.  Wants the module built with WEIR_FAULTS=y, which renames likewise.
. /tap.sh
cp /sys/kernel/btf/vmlinux /tmp/btf
strings -t d -n 3 /tmp/btf >/tmp/names

# put CHARACTER OFFSET: into the copy
put() {
	printf %s "$1" | dd of=/tmp/btf bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# module_says NAME: nothing if it loads
module_says() {
	dmesg -c >/dev/null
	if insmod /weir.ko fault_hide="$1" 2>/dev/null; then
		rmmod weir
	else
		dmesg | sed -n 's/.*weir: refusing to load: //p'
	fi
}

# agree NAME WORDS: both refuse a kernel without the name, with these words, or neither does
agree() {
	at=$(awk -v name="$1" '$2 == name { print $1; exit }' /tmp/names)
	[ -n "$at" ] || { echo "no $1 in BTF"; return 1; }
	put '?' "$at"
	weir doctor --btf /tmp/btf >/tmp/said 2>&1
	code=$?
	put "$(printf %.1s "$1")" "$at"
	said=$(module_says "$1")
	echo "module: ${said:-loads}"
	cat /tmp/said
	if [ -z "$said" ]; then
		is $code 2 # of symbols, BTF alone does not tell
	else
		is $code 1 && grep -q "^FAIL .*$2" /tmp/said && case $said in *"$2"*) ;; *) return 1 ;; esac
	fi
}

as_it_is() {
	weir doctor --btf /tmp/btf >/tmp/said
	is $? 2 && ! grep FAIL /tmp/said && is "$(module_says nothing)" ""
}
ok "as it is: nothing is in the way" as_it_is
for function in balance_dirty_pages domain_dirty_limits memcg_page_state wb_get_lookup; do
	ok "without $function" agree $function $function
done
for member in gdtc bg_thresh avail; do
	ok "without $member" agree $member \
		"struct dirty_throttle_control of this kernel has no member $member"
done
ok "without wb_domain" agree wb_domain "no struct wb_domain"
ok "with another memcg_vmstats_percpu" agree memcg_vmstats_percpu \
	"struct memcg_vmstats_percpu of this kernel has no member state"
ok "with another cgroup_subsys_state" agree cgroup_subsys_state \
	"wb_get_lookup() has other arguments than weir knows"
ok "without the tracepoint" agree btf_trace_balance_dirty_pages \
	"tracepoint balance_dirty_pages is missing"
ok "without state_pending" agree state_pending \
	"struct memcg_vmstats of this kernel has no member state_pending"
ok "without what weir does not need" agree kmem_cache loads
finish
