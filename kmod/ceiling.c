// SPDX-License-Identifier: GPL-2.0-only
/*
 * A full ceiling, where a pass lets its writer past it.
 *
 * balance_dirty_pages() ends a pass after one tick, whatever the limits say, if the
 * writer's wb has next to nothing dirty.  With files that are on another wb than their
 * writer's that is no bound (policy/ceiling.c).  And a ceiling that an unprivileged owner
 * has set holds no call (limits.c): others may wait for what it has locked.  So the task
 * waits when its call is over (at_return.c), until the ceiling has room or lets it past.
 *
 * The flushers that write the pages meanwhile may be of wbs that the kernel sees no reason to
 * wake.  One that +io has replaced, or a removed cgroup's, or one below its background level
 * would sleep until dirty_writeback_centisecs, so this wakes all that are below the
 * ceiling.  A wb of a cgroup elsewhere the kernel wakes (mem_cgroup_flush_foreign()).
 *
 * The wait keeps the number of the device; the rest is looked up anew after each step.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/writeback.h>

/* Of a device's wbs, those looked at; who is further back waits for its own time. */
#define WBS_LOOKED_AT	1024
/* Many tasks wait: each looks again after some ticks, and they not all at once. */
#define STEP_LEAST_MS	8ULL

/*
 * Write back what is dirty on @bdi below @record, whose ceiling is full; once in a beat,
 * however many ask.  Under RCU.
 */
static void wake_below(struct weir_record *record, struct backing_dev_info *bdi)
{
	unsigned long woken = READ_ONCE(record->woken);
	struct bdi_writeback *wb;
	u32 looked_at = 0;

	if ((woken && time_before(jiffies, woken + msecs_to_jiffies(WEIR_BEAT_MS))) ||
	    cmpxchg(&record->woken, woken, jiffies ?: 1) != woken)
		return;
	list_for_each_entry_rcu(wb, &bdi->wb_list, bdi_node) {
		if (looked_at++ == WBS_LOOKED_AT)
			break;
		/*
		 * One that is not held any more is about to go, with its css.  Before "writeback,
		 * cgroup: fix null-ptr-deref write in bdi_split_work_to_wbs" (6.3, 6.1.26) what
		 * counts its holders is freed without a grace period; but one passes between
		 * that it is dying and that.
		 */
		if (!wb_has_dirty_io(wb) || writeback_in_progress(wb) || wb_dying(wb) ||
		    !wb_tryget(wb))
			continue;
		if (cgroup_is_descendant(wb->memcg_css->cgroup, record->css->cgroup))
			weir_start_background(wb);
		wb_put(wb);
	}
}

/* The highest ceiling on the path of @record that is full: what it lets past binds all below. */
static struct weir_record *full_above(struct weir_record *record)
{
	struct weir_record *full = NULL;

	for (; record; record = record->parent) {
		struct weir_counts held;

		if (!weir_record_has_ceiling(record))
			continue;
		held = weir_tree_counts(record);
		if (weir_ceiling_full(weir_record_ceiling(record), &held))
			full = record;
	}
	return full;
}

/* For how long is the current task to wait still, whose call dirtied @pages, in ms? */
static u64 still_full_ms(struct backing_dev_info *bdi, u64 pages)
{
	struct cgroup_subsys_state *css;
	struct weir_record *record;
	u64 now_ns, wait_ms = 0;

	rcu_read_lock();
	css = task_css(current, memory_cgrp_id);
	record = weir_tree_nearest(css);
	if (!record)
		goto out;
	weir_tree_update(record);
	record = full_above(record);
	if (!record)
		goto out;
	raw_spin_lock(&record->lock);
	now_ns = ktime_get_ns();
	if (!weir_ceiling_lets_past(&record->past_ns, now_ns, pages))
		wait_ms = div_u64(record->past_ns - now_ns, NSEC_PER_MSEC) + 1;
	raw_spin_unlock(&record->lock);
	if (wait_ms)
		wake_below(record, bdi);
out:
	rcu_read_unlock();
	return wait_ms;
}

/* A step of a wait counts as a pause of the kernel's does. */
static void count_step(u64 slept_ns)
{
	struct cgroup_subsys_state *css;
	enum weir_pause_by by = WEIR_BY_ANCESTOR;
	struct weir_record *record;

	rcu_read_lock();
	css = task_css(current, memory_cgrp_id);
	record = weir_tree_nearest(css);
	if (record) {
		if (record->css == css && weir_record_has_ceiling(record))
			by = WEIR_BY_CEILING;
		this_cpu_inc(record->stats->by[by].pauses);
		this_cpu_add(record->stats->by[by].ns, slept_ns);
	}
	rcu_read_unlock();
}

/* A step of a wait; for how long is the next to be, in ms? */
static u64 ceiling_due_ms(struct weir_call *call, u64 slept_ns)
{
	struct backing_dev_info *bdi = weir_bdi_of(call->owed[WEIR_DEBT_CEILING].bdi_id);
	u64 wait_ms;

	if (slept_ns)
		count_step(slept_ns);
	if (!bdi)
		return 0;
	wait_ms = still_full_ms(bdi, call->owed[WEIR_DEBT_CEILING].pages);
	bdi_put(bdi);
	return wait_ms ? max(wait_ms, STEP_LEAST_MS + task_pid_nr(current) % STEP_LEAST_MS) : 0;
}

/* Its name is what /proc/PID/wchan says of a task that waits: weir explain looks there. */
static noinline void weir_ceiling_sleep(long timeout)
{
	__set_current_state(TASK_KILLABLE);
	io_schedule_timeout(timeout);
	/* not a tail call */
	barrier();
}

static const struct weir_debt ceiling_debt = {
	.due_ms = ceiling_due_ms,
	.sleep = weir_ceiling_sleep,
};

/* The current task was let past a full ceiling in a pass on @wb, for @pages. */
void weir_ceiling_past(struct bdi_writeback *wb, u64 pages)
{
	struct weir_call *call;

	if (weir_task_urgent() || current->flags & PF_LOCAL_THROTTLE || READ_ONCE(weir_observe))
		return;
	call = weir_call_get();
	if (!call)
		return;
	/* of one call, all that went past */
	if (!call->debts[WEIR_DEBT_CEILING])
		call->owed[WEIR_DEBT_CEILING].pages = 0;
	call->debts[WEIR_DEBT_CEILING] = &ceiling_debt;
	call->owed[WEIR_DEBT_CEILING].bdi_id = wb->bdi->id;
	call->owed[WEIR_DEBT_CEILING].pages += pages;
}
