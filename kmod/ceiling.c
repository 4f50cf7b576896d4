// SPDX-License-Identifier: GPL-2.0-only
/*
 * A full ceiling, where the kernel lets writers past it.
 *
 * balance_dirty_pages() ends a pass after one tick, whatever the limits say, if the
 * writer's wb has next to nothing dirty.  With files that are on another wb than their
 * writer's that is no bound (policy/ceiling.c): so the pass waits on here, until the
 * ceiling has room or lets it past.
 *
 * Who writes to the pages meanwhile: those on another cgroup's wb the kernel wakes by
 * itself (mem_cgroup_flush_foreign()).  Those on a wb that +io has replaced nobody wakes
 * before dirty_writeback_centisecs, so this does.
 *
 * The wait is killable, in steps of 200 ms at most, and ends early for what ends that for
 * a bandwidth (bandwidth.c).  It keeps the wb and its css, which the caller holds; the group is
 * looked up anew after each step.
 */
#include "weir.h"
#include <linux/freezer.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* Of a device's wbs, those looked at; who is further back waits for its own time. */
#define WBS_LOOKED_AT	1024

/* The exit that the kernel takes: as there, within the error of the counts. */
static bool has_next_to_nothing(struct bdi_writeback *wb)
{
	return weir_count_wb(wb, WEIR_UNLIMITED) <= wb_stat_error();
}

/* Write back what the cgroup has dirty on wbs that @wb has replaced. */
static void wake_replaced(struct bdi_writeback *wb)
{
	struct bdi_writeback *other;
	u32 looked_at = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(other, &wb->bdi->wb_list, bdi_node) {
		if (looked_at++ == WBS_LOOKED_AT)
			break;
		if (other->memcg_css != wb->memcg_css || !wb_dying(other) ||
		    !wb_tryget(other))
			continue;
		if (wb_has_dirty_io(other) && !writeback_in_progress(other))
			weir_start_background(other);
		wb_put(other);
	}
	rcu_read_unlock();
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
static u64 still_full_ms(u64 pages, struct weir_seen *seen)
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

/* After the kernel's pass of a writer on @wb, for @pages, in its context, with no lock held. */
void weir_ceiling_wait(struct bdi_writeback *wb, u64 pages, struct weir_seen *seen)
{
	u64 wait_ms;

	while (has_next_to_nothing(wb) && may_wait()) {
		wait_ms = still_full_ms(pages, seen);
		if (!wait_ms)
			return;
		wake_replaced(wb);
		__set_current_state(TASK_KILLABLE);
		io_schedule_timeout(msecs_to_jiffies(min(wait_ms, WEIR_ROUND_MS)));
	}
}
