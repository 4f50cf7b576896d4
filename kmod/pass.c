// SPDX-License-Identifier: GPL-2.0-only
/*
 * A writer's pass: charged to a bandwidth, left out for a floor, charged to a
 * weight, timed for all.
 *
 * weir_pass() runs in the place of balance_dirty_pages(), in the writer's own
 * context (hook.c).  If the policy admits the writer, it leaves the task as a
 * free-running pass would (its dirtied pages taken off, its clock set, its next
 * look scheduled), starts the flusher if that is due, and returns.  The
 * kernel's limits are not touched, so there is nothing to undo.  All other
 * writers go through the kernel's function, whose limits limits.c amends.
 *
 * A task that is asleep in the throttle when a floor gets room for it is
 * let go after the step it is in, at most 200 ms: limits.c.
 *
 * Nothing here sleeps but the kernel's function: what a task is to wait for is noted,
 * and waited for when its call is over (at_return.c).
 *
 * Across a sleep only the writer's css is kept: the caller holds the wb, the wb
 * its css.  What is on the path is a stretch's (tree.c), found again after each sleep.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/writeback.h>

/*
 * Decide a pass on @wb by the floors of its path.  Apart from admit_below_floor():
 * compilers clear what is on the stack, and most passes need none of this.
 */
static noinline enum weir_floor_verdict decide_floored(const struct weir_stretch *stretch,
						       struct bdi_writeback *wb,
						       unsigned long pages_dirtied)
{
	struct weir_floor_pass pass = weir_floor_for_pass(stretch, wb);
	enum weir_floor_verdict verdict = weir_floor_decide(&pass);
	struct weir_record *record = stretch->record;
	bool admits = verdict == WEIR_FLOOR_ADMIT;
	bool observe = READ_ONCE(weir_observe);

	if (verdict == WEIR_FLOOR_NONE)
		return verdict;
	weir_device_charge(record, stretch->floored, wb, pages_dirtied, admits && !observe);
	if (!admits)
		return verdict;
	if (observe) {
		weir_count(record, would_admit);
		return verdict;
	}
	weir_count(record, floor_admitted);
	weir_events_admit(record, wb, &pass, pages_dirtied);
	current->dirty_paused_when = jiffies;
	current->nr_dirtied = 0;
	current->nr_dirtied_pause = weir_floor_poll(&pass);
	return verdict;
}

/* Before the kernel's function: true if the pass is left out. */
static bool admit_below_floor(struct bdi_writeback *wb, unsigned long pages_dirtied,
			      struct weir_pass_state *state)
{
	struct cgroup_subsys_state *css = wb->memcg_css;
	enum weir_floor_verdict verdict;
	struct weir_stretch stretch;
	struct weir_record *record;
	bool admitted = false;

	rcu_read_lock();
	record = weir_record_find(css) ?: weir_record_make_in_pass(css);
	/* before the walk: its first pass has a part already */
	if (record && record->css == css)
		weir_fair_note(record);
	stretch = weir_stretch_open(css, record, state);
	if (!record)
		goto out;
	weir_count(record, passes);
	if (!stretch.floored || weir_fault_loses())
		goto out;
	verdict = decide_floored(&stretch, wb, pages_dirtied);
	state->below_floor = verdict == WEIR_FLOOR_ADMIT ||
			    verdict == WEIR_FLOOR_HOST_FULL;
	admitted = verdict == WEIR_FLOOR_ADMIT && !READ_ONCE(weir_observe);
out:
	rcu_read_unlock();
	return admitted;
}

/*
 * Count anew for the task's next look; without @css, for its own cgroup.  Under a ceiling
 * many writers must not each dirty a large share of the room.
 */
static noinline void schedule_look(struct cgroup_subsys_state *css)
{
	struct weir_stretch stretch;
	struct weir_record *record;

	rcu_read_lock();
	if (!css)
		css = task_css(current, memory_cgrp_id);
	stretch = weir_stretch_open(css, weir_tree_nearest(css), NULL);
	record = stretch.capped ? stretch.record : NULL;
	if (record)
		weir_stretch_count(&stretch);
	for (; record; record = record->parent) {
		struct weir_counts counts = weir_tree_counts(record);

		if (weir_record_has_ceiling(record))
			current->nr_dirtied_pause =
				weir_ceiling_poll(weir_record_ceiling(record),
						  READ_ONCE(record->last_freerun), &counts,
						  current->nr_dirtied_pause);
	}
	rcu_read_unlock();
}

/*
 * Schedule the task's next look by its ceilings, as the limits found them; anew if it has
 * slept since, or the limits of a strictlimit device were none of a ceiling's.  After a pass
 * on a wb without cgroup writeback, which no ceiling holds: it clears the task's count of
 * pages of other devices, too, and the next of those is to have a pass of its own.
 */
static void schedule_next_look(struct weir_pass_state *state)
{
	if (READ_ONCE(weir_observe))
		return;
	if (!state->css->parent)
		schedule_look(NULL);
	else if (state->capped && (!weir_stretch_goes_on(state) || !state->poll))
		schedule_look(state->css);
	else if (state->poll)
		current->nr_dirtied_pause = min_t(u64, current->nr_dirtied_pause, state->poll);
}

/* The kernel's function; its task is listed, so that it can be let go. */
static int listed_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
			unsigned int flags, struct weir_pass_state *state)
{
	int ret;

	weir_events_list(state);
	ret = weir_kernel_pass(wb, pages_dirtied, flags);
	weir_events_unlist(state);
	if (!ret)
		weir_ceiling_pass(wb, pages_dirtied, state);
	if (!state->unwatched)
		schedule_next_look(state);
	/* the kernel let it go by the room of the host, which is not its own */
	if (state->released)
		current->nr_dirtied_pause = min_t(u64, current->nr_dirtied_pause,
						  state->released_poll);
	weir_passes_note(state, wb);
	return ret;
}

/* A pass, which is charged to what bandwidths there are. */
static int charged_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
			unsigned int flags)
{
	struct weir_pass_state state = {
		.css = wb->memcg_css,
		.async = flags & BDP_ASYNC,
	};

	if (!weir_acting()) {
		state.unwatched = true;
		return listed_pass(wb, pages_dirtied, flags, &state);
	}
	if (admit_below_floor(wb, pages_dirtied, &state)) {
		weir_wake_flusher(wb);
		return 0;
	}
	return listed_pass(wb, pages_dirtied, flags, &state);
}

/*
 * Make the record of the current task's cgroup, if it has none: a bandwidth is about the
 * task, also where a wb is not its cgroup's.
 */
static void make_own_record(void)
{
	struct cgroup_subsys_state *css;

	rcu_read_lock();
	css = task_css(current, memory_cgrp_id);
	if (!weir_record_find(css))
		weir_record_make_in_pass(css);
	rcu_read_unlock();
}

/* A pass where a bandwidth is set. */
static noinline int bounded_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
				 unsigned int flags)
{
	struct weir_bandwidth_hold hold = {};
	int ret;

	weir_bandwidth_pass(pages_dirtied, flags, &hold);
	/* there is a bound on its path */
	if (hold.number)
		make_own_record();
	ret = charged_pass(wb, pages_dirtied, flags);
	if (hold.least)
		current->nr_dirtied_pause =
			weir_bandwidth_poll(&hold, current->nr_dirtied_pause);
	return ret;
}

/* In the place of balance_dirty_pages(). */
int weir_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
	      unsigned int flags)
{
	if (weir_bandwidth_any() && weir_acting())
		return bounded_pass(wb, pages_dirtied, flags);
	return charged_pass(wb, pages_dirtied, flags);
}
