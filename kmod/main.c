// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir: every cgroup its own control over dirty pages, on the running kernel.
 *
 * The kernel throttles writers in balance_dirty_pages() by two domains, the
 * host's and the cgroup's.  weir steers that with probes and changes as little
 * as it can:
 *
 *   memory.dirty_min (floor)       the writer's pass is left out while its
 *                                  cgroup holds less than its floor    pass.c
 *   memory.dirty_bytes, _ratio     the limit of the cgroup's own domain is
 *   (ceiling)                      lowered, with exact counts          limits.c
 *   memory.dirty_weight            a page costs the cgroup time, and its
 *                                  writers wait until it has passed    weight.c
 *
 * Beside that it shows what of a memory limit is for which tier of memory; pages
 * are moved by the agent, and nothing is probed for it               tier.c
 *
 * What is decided lives in policy/, which knows no kernel; what may be amended,
 * for whom, is policy/pass.c.  Files here find what they need (symbols.c, btf.c,
 * layout.c), count (counts.c), keep what a cgroup was told (group.c, files.c)
 * and check that all of it works, at load and as long as it is used (beat.c).
 *
 * Nothing is compared by kernel version.  A kernel on which anything does not
 * fit is refused at load with a message that names it.  So far, from 6.1 to
 * 6.12, no divergence needed code of its own beyond what BTF answers; the first
 * that does goes into compat/.
 */
#include "weir.h"
#include <linux/module.h>
#include <linux/rcupdate.h>

bool weir_off;
module_param_named(off, weir_off, bool, 0444);
MODULE_PARM_DESC(off, "keep the files but register no probe, whatever they say");

bool weir_observe;
module_param_named(observe, weir_observe, bool, 0644);
MODULE_PARM_DESC(observe, "count what each knob would have done, change nothing");

/* Show that both kinds of probe work here before anybody relies on them. */
static int prove(void)
{
	u64 thresh, bg_thresh;
	int err;

	mutex_lock(&weir_lock);
	err = weir_redirect_prove();
	if (err)
		pr_err("refusing to load: a probe cannot take over a function here (error %d); are kernel.ftrace_enabled and debugfs kprobes/enabled 1?\n",
		       err);
	weir_redirect_end();
	if (err)
		goto out;
	err = weir_limits_arm();
	if (!err)
		err = weir_limits_prove(&thresh, &bg_thresh);
	weir_limits_disarm();
	if (err)
		pr_err("refusing to load: a probe on domain_dirty_limits() does not see what global_dirty_limits() returns (error %d)\n",
		       err);
out:
	mutex_unlock(&weir_lock);
	return err;
}

/* A task may still be in code that a probe sent it to; groups may wait to be freed. */
static void settle(void)
{
	weir_weights_drain();
	rcu_barrier();
}

static int __init weir_init(void)
{
	int err;

	if (!cgroup_subsys_on_dfl(memory_cgrp_subsys)) {
		pr_err("refusing to load: the memory controller is not on cgroup v2 (disabled, or mounted as v1)\n");
		return -EOPNOTSUPP;
	}
	err = weir_symbols_find() ?: weir_events_find() ?:
	      weir_layout_read() ?: prove();
	if (err)
		return err;
	weir_livepatch_find();
	err = weir_beat_create();
	if (err)
		return err;
	err = weir_status_create();
	if (err)
		goto no_status;
	weir_fault_add_taken();
	err = weir_files_create();
	if (err)
		goto no_files;
	err = weir_tier_create();
	if (err)
		goto no_tiers;
	err = weir_drain_create();
	if (err)
		goto no_drain;
	return 0;

no_drain:
	weir_tier_remove();
no_tiers:
	/* the files were there to be written to for a moment */
	weir_files_remove();
no_files:
	weir_fault_remove_taken();
	weir_status_remove();
no_status:
	weir_beat_remove();
	settle();
	return err;
}

static void __exit weir_exit(void)
{
	/* no lock is held here that a file's write takes: removal waits for them */
	weir_tier_remove();
	weir_files_remove();
	weir_status_remove();
	weir_beat_remove();
	settle();
}

module_init(weir_init);
module_exit(weir_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Per-cgroup control over dirty pages on an unmodified kernel");
