// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of a subtree, known in time to decide by them.
 *
 * A ceiling or a floor of a cgroup is about its whole subtree, but exact counts
 * are of one cgroup each (counts.c), and a probe cannot visit a thousand of
 * them.  So every cgroup at or below one with a knob has a group, every group
 * remembers what it last reported of its own pages, and each of its passes, writer's
 * or flusher's, adds what has changed since to the sums of all its ancestors.
 * The beat does the same for every group, five times a second: 200 ms is the
 * aggregation period, and what a sum can miss is what flows in meanwhile from
 * cgroups that make no pass.
 *
 * Cgroups never move, so the path of groups up to the root is fixed when a
 * group is made, and a sum cannot come apart (policy/subtree.c).  Each level is
 * changed under its lock, one at a time.
 *
 * A removed cgroup keeps its group until it is clean, or until its pages have
 * become its parent's (counts.c): they are still the subtree's.  A new cgroup gets its
 * group in the first pass of one of its tasks (group.c).
 *
 * Example.  A (ceiling 64M) has children B and C.  B reported 3,000 pages, C 5,000:
 * A's sum is 8,000.  A writer of B makes a pass and B now holds 3,400: 400 go
 * to B's and A's sum.  Cost: one exact count, and a lock and three additions per
 * level.
 */
#include "weir.h"

/*
 * Add @change to the sums of @group, under its lock.  What is left in it is for
 * the parent.
 */
static void add_change(struct weir_group *group, struct weir_tally *change)
{
	u64 floor = READ_ONCE(group->floor);
	u64 unused = weir_subtree_add(&group->subtree, change, floor,
				      floor ? weir_group_foreign(group) : 0);

	if (floor || atomic64_read(&group->unused))
		weir_reserve_note(group, unused);
}

/* Report to the path that @group holds @own. */
static void tree_report(struct weir_group *group, const struct weir_counts *own,
			bool leaves)
{
	struct weir_tally change = {};

	raw_spin_lock(&group->lock);
	if (!group->detached) {
		change = weir_subtree_change(&group->reported, own);
		/* read without the lock by recount_some() */
		WRITE_ONCE(group->reported.dirty, own->dirty);
		WRITE_ONCE(group->reported.writeback, own->writeback);
		group->detached = leaves;
		add_change(group, &change);
	}
	raw_spin_unlock(&group->lock);
	while ((group = group->parent) &&
	       (change.dirty || change.writeback || change.claim)) {
		raw_spin_lock(&group->lock);
		add_change(group, &change);
		raw_spin_unlock(&group->lock);
	}
}

/* Of what no count shows and floors are charged with, some has come or gone. */
void weir_tree_review(struct weir_group *group)
{
	struct weir_tally change = {};

	do {
		raw_spin_lock(&group->lock);
		add_change(group, &change);
		raw_spin_unlock(&group->lock);
	} while ((group = group->parent) && change.claim);
}

/* Report changes to the path; returns the cgroup's own pages. */
struct weir_counts weir_tree_update(struct weir_group *group)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(group->css);
	struct weir_counts own;

	if (READ_ONCE(group->pages_are) == WEIR_INHERITED)
		own = weir_count_unfolded(memcg);
	else
		own = weir_count_own(memcg, &group->inherited);
	tree_report(group, &own, false);
	return own;
}

/*
 * See what pages of removed children are the cgroup's now.  @cost grows by what it
 * took, in reads.  As weir_count_inherited().
 */
void weir_tree_inherit(struct weir_group *group, u32 *cost)
{
	struct weir_inherited inherited = weir_count_inherited(group->css, cost);

	WRITE_ONCE(group->inherited.dirty, inherited.dirty);
	WRITE_ONCE(group->inherited.writeback, inherited.writeback);
	weir_tree_update(group);
}

/*
 * weir_tree_update() in a pass, at most once between two sleeps: the count costs a read for
 * each possible CPU, and the steps of a pass follow each other in microseconds.
 */
void weir_tree_fresh(struct weir_group *group, struct weir_pass_state *state)
{
	if (state && state->counted && state->counted_switches == current->nvcsw)
		return;
	weir_tree_update(group);
	if (state) {
		state->counted = true;
		state->counted_switches = current->nvcsw;
	}
}

/* Take a group that holds nothing more, or is forgotten, out of the sums for good. */
void weir_tree_detach(struct weir_group *group)
{
	struct weir_counts nothing = {};

	tree_report(group, &nothing, true);
}

/* Of the subtree's pages, what counts against the group's floor: what floors inside have no room for. */
u64 weir_tree_claim(const struct weir_group *group)
{
	return weir_subtree_pages(READ_ONCE(group->subtree.claim));
}

/*
 * Notes in @state which knobs are on the path of @group, NULL if there is none,
 * for all steps of a pass until its task sleeps: one walk.  Returns the next
 * group with a floor, or NULL.
 */
struct weir_group *weir_tree_survey(struct weir_group *group, struct weir_pass_state *state)
{
	struct weir_group *floored = NULL;

	state->surveyed = true;
	state->surveyed_switches = current->nvcsw;
	state->capped = false;
	for (; group; group = group->parent) {
		if (!floored && READ_ONCE(group->floor))
			floored = group;
		state->capped |= weir_group_has_ceiling(group);
	}
	state->floored = floored;
	return floored;
}

/* The next group with a floor, from @group upwards, or NULL. */
struct weir_group *weir_tree_floored(struct weir_group *group)
{
	while (group && !READ_ONCE(group->floor))
		group = group->parent;
	return group;
}

/* Is there a knob here or above? */
bool weir_tree_bound(const struct weir_group *group)
{
	for (; group; group = group->parent) {
		if (weir_group_has_knob(group))
			return true;
	}
	return false;
}

/* Is there a ceiling here or above? */
bool weir_tree_capped(const struct weir_group *group)
{
	for (; group; group = group->parent) {
		if (weir_group_has_ceiling(group))
			return true;
	}
	return false;
}

/* The tightest ceiling here and above, in pages; WEIR_UNLIMITED if none. */
u64 weir_tree_ceiling(const struct weir_group *group)
{
	u64 least = WEIR_UNLIMITED;

	for (; group; group = group->parent) {
		if (weir_group_has_ceiling(group))
			least = min(least, weir_group_ceiling(group));
	}
	return least;
}

/*
 * The group that passes of @css are judged by: its own, or, if there was no way to make
 * one, its nearest ancestor's for the sake of a knob above.  Under RCU.
 */
struct weir_group *weir_tree_nearest(struct cgroup_subsys_state *css)
{
	struct weir_group *group = weir_group_find(css);

	if (likely(group))
		return group;
	group = weir_group_nearest(css);
	return weir_tree_bound(group) ? group : NULL;
}
