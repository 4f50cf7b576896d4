// SPDX-License-Identifier: GPL-2.0-only
/*
 * A full ceiling, where the kernel lets writers past it.
 *
 * balance_dirty_pages() ends a pass after one tick, whatever the limits say, if the
 * writer's wb has next to nothing dirty.  With files that are on another wb than their
 * writer's that is no bound (policy/ceiling.c): so the pass waits on here, until the
 * ceiling has room or lets it past.
 *
 * Who writes the pages meanwhile: flushers of wbs that the kernel sees no reason to wake.
 * One that +io has replaced, or a removed cgroup's, or one below its background level
 * would sleep until dirty_writeback_centisecs, so this wakes all that are below the
 * ceiling.  A wb of a cgroup elsewhere the kernel wakes (mem_cgroup_flush_foreign()).
 *
 * The wait is killable, in steps of 200 ms at most, and of WEIR_WAIT_MOST_MS at most, as that
 * for a bandwidth (bandwidth.c): a pass may be that of a fault, with a lock that others
 * take.  It keeps the wb and its css, which the caller holds; the group is looked up anew
 * after each step.
 */
#include "weir.h"
#include <linux/freezer.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* Of a device's wbs, those looked at; who is further back waits for its own time. */
#define WBS_LOOKED_AT	1024
/* Who waits is many: each looks again after some ticks, and they not all at once. */
#define STEP_LEAST_MS	8

/*
 * Write back what is dirty on @bdi below @group, whose ceiling is full; once in a beat,
 * whoever asks.  Under RCU.
 */
static void wake_below(struct weir_group *group, struct backing_dev_info *bdi)
{
	unsigned long woken = READ_ONCE(group->woken);
	struct bdi_writeback *wb;
	u32 looked_at = 0;

	if ((woken && time_before(jiffies, woken + msecs_to_jiffies(WEIR_BEAT_MS))) ||
	    cmpxchg(&group->woken, woken, jiffies ?: 1) != woken)
		return;
	list_for_each_entry_rcu(wb, &bdi->wb_list, bdi_node) {
		if (looked_at++ == WBS_LOOKED_AT)
			break;
		/* one that nobody holds any more is about to go, with its css */
		if (!wb_has_dirty_io(wb) || writeback_in_progress(wb) || !wb_tryget(wb))
			continue;
		if (cgroup_is_descendant(wb->memcg_css->cgroup, group->css->cgroup))
			weir_start_background(wb);
		wb_put(wb);
	}
}

/* The highest ceiling on the path of @group that is full: what it lets past binds all below. */
static struct weir_group *full_above(struct weir_group *group,
				     struct cgroup_subsys_state *css)
{
	struct weir_counts own = weir_tree_uncounted(group, css);
	struct weir_group *full = NULL;
	bool young = group->css != css;

	for (; group; group = group->parent) {
		struct weir_counts held;

		if (!weir_group_has_ceiling(group))
			continue;
		held = weir_tree_held(group, young, &own);
		if (weir_ceiling_full(weir_group_ceiling(group), &held))
			full = group;
	}
	return full;
}

/* For how long is a pass of @pages to wait still, in ms? */
static u64 still_full_ms(struct bdi_writeback *wb, u64 pages, struct weir_seen *seen)
{
	struct weir_group *group;
	u64 now_ns, wait_ms = 0;

	rcu_read_lock();
	group = weir_tree_nearest(seen->css);
	if (!group || !weir_tree_capped(group))
		goto out;
	weir_tree_fresh(group, seen);
	group = full_above(group, seen->css);
	if (!group)
		goto out;
	raw_spin_lock(&group->lock);
	now_ns = ktime_get_ns();
	if (!weir_ceiling_lets_past(&group->past_ns, now_ns, pages))
		wait_ms = div_u64(group->past_ns - now_ns, NSEC_PER_MSEC) + 1;
	raw_spin_unlock(&group->lock);
	if (wait_ms)
		wake_below(group, wb->bdi);
out:
	rcu_read_unlock();
	return wait_ms;
}

static bool may_wait(void)
{
	return weir_acting() && !READ_ONCE(weir_leaving) && !READ_ONCE(weir_observe) &&
	       !weir_task_urgent() && !(current->flags & PF_LOCAL_THROTTLE) &&
	       !fatal_signal_pending(current) && !freezing(current);
}

/*
 * After the kernel's pass of a writer on @wb, for @pages, in its context, with no lock
 * held.  Where the domain was at its limit when the kernel last looked, it lets go for
 * no other reason than that.
 */
void weir_ceiling_wait(struct bdi_writeback *wb, u64 pages, struct weir_seen *seen)
{
	u64 start_ns, wait_ms;

	if (!seen->cgroup_limits || seen->dirty < seen->thresh || seen->released || seen->async)
		return;
	start_ns = ktime_get_ns();
	while (may_wait() && seen->past_ns < WEIR_WAIT_MOST_MS * NSEC_PER_MSEC) {
		wait_ms = still_full_ms(wb, pages, seen);
		if (!wait_ms)
			return;
		wait_ms = clamp_t(u64, wait_ms,
				  STEP_LEAST_MS + task_pid_nr(current) % STEP_LEAST_MS,
				  WEIR_ROUND_MS);
		__set_current_state(TASK_KILLABLE);
		io_schedule_timeout(msecs_to_jiffies(wait_ms));
		seen->past_ns = ktime_get_ns() - start_ns;
	}
}
