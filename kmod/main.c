// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir: every cgroup its own control over dirty pages, on the running kernel.
 *
 * The kernel throttles writers in balance_dirty_pages() by two domains, the
 * host's and the cgroup's.  weir hooks two functions (hook.c), and with drain_tighten
 * a third (sync.c), and changes as little as it can:
 *
 *   memory.dirty_min (floor)       the writer's pass is left out while its
 *                                  cgroup holds less than its floor    pass.c
 *   memory.dirty_bytes, _ratio     the limit of the cgroup's own domain is
 *   (ceiling)                      lowered, with exact counts          limits.c
 *   memory.dirty_bandwidth         writers wait first for what the cgroup and
 *                                  all below may dirty in a second    bandwidth.c
 *
 * That, with what is counted of it, is the core.  Three parts can be left out of
 * a build (Kbuild), and do nothing unless they are switched on:
 *
 *   memory.writeback_bytes         the cgroup's flushers submit no more at once
 *   memory.dirty_weight            and in what order those that compete do
 *                                                           flusher.c, division.c
 *   drain_seconds                  the host's limit by what disks drain drain.c
 *   tiers                          what of a memory limit is for which tier of
 *                                  memory; the agent moves pages       tier.c
 *
 * What is decided lives in policy/, which knows no kernel; what may be amended,
 * for whom, is policy/pass.c.  Files here find what they need (symbols.c, btf.c,
 * layout.c), count (counts.c), keep what a cgroup was set to (record.c, files.c)
 * and check that all of it works, at load and as long as it is used (proof.c, beat.c).
 * None uses, at however many removes, one that uses it: node/weir/tests/house.rs.
 *
 * Nothing is compared by kernel version.  A kernel on which anything does not
 * fit is refused at load with a message that names it.  Where releases name the
 * same thing differently, compat/ has it.
 */
#include "weir.h"
#include <linux/module.h>
#include <linux/rcupdate.h>

/* Show that hooks work here before a knob relies on them. */
static int prove_at_load(void)
{
	u64 thresh, bg_thresh;
	int err;

	err = weir_hooks_arm();
	if (err == -EBUSY) {
		/* a livepatch that has one now may give it back */
		pr_warn("balance_dirty_pages() or domain_dirty_limits() is held by a livepatch or another exclusive user of ftrace; knobs are refused until that ends\n");
		err = 0;
	} else if (err) {
		pr_err("refusing to load: the throttle cannot be hooked (error %d)\n",
		       err);
	} else {
		err = weir_limits_prove(&thresh, &bg_thresh);
		if (err)
			pr_err("refusing to load: a hook on domain_dirty_limits() does not see what global_dirty_limits() returns (error %d); is kernel.ftrace_enabled 1?\n",
			       err);
	}
	weir_hooks_disarm();
	return err;
}

/* Nothing enters weir's code any more: see off tasks that are in it, then free. */
static void quiesce_module(void)
{
	/* proving at load let tasks in, too */
	weir_hooks_close();
	weir_hooks_quiesce(weir_events_log_waiting);
	weir_at_return_end();
	weir_hooks_remove();
	weir_flushers_end();
	weir_reserve_end();
	weir_records_drop_all();
	rcu_barrier();
	weir_counts_remove();
}

/* Everything but the directory in sysfs. */
static int start(void)
{
	unsigned long at[WEIR_FUNCTION_COUNT];
	int err;

	err = weir_symbols_find(at) ?:
	      weir_hooks_find(at, &weir_wrappers) ?:
	      weir_events_find() ?: weir_layout_read() ?: weir_counts_create();
	if (err)
		return err;
	weir_at_return_find();
	err = prove_at_load() ?: weir_beat_create();
	if (err)
		goto no_beat;
	if (weir_fault_files())
		weir_add_files(weir_fault_files());
	err = weir_files_create();
	if (err)
		goto no_files;
	err = weir_tier_create();
	if (err)
		goto no_tiers;
	err = weir_params_open(weir_hooks_needed());
	if (err)
		goto no_params;
	return 0;

no_params:
	weir_params_close();
	weir_tier_remove();
no_tiers:
	/* the files were there to be written to for a moment */
	weir_files_remove();
no_files:
	if (weir_fault_files())
		weir_remove_files(weir_fault_files());
	weir_beat_remove();
no_beat:
	quiesce_module();
	return err;
}

static int __init weir_init(void)
{
	int err;

	if (!cgroup_subsys_on_dfl(memory_cgrp_subsys)) {
		pr_err("refusing to load: the memory controller is not on cgroup v2 (disabled, or mounted as v1)\n");
		return -EOPNOTSUPP;
	}
	err = weir_status_create();
	if (err || weir_off)
		return err;
	err = start();
	if (err)
		weir_status_remove();
	return err;
}

static void __exit weir_exit(void)
{
	weir_status_remove();
	if (weir_off)
		return;
	weir_params_close();
	/* no lock is held here that a file's write takes: removal waits for them */
	weir_tier_remove();
	weir_files_remove();
	weir_beat_remove();
	quiesce_module();
}

module_init(weir_init);
module_exit(weir_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Per-cgroup control over dirty pages on an unmodified kernel");
