// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a subtree holds, known in time to decide by it.
 *
 * A ceiling or a floor of a cgroup is about its whole subtree, but exact counts
 * are of one cgroup each (counts.c), and a probe cannot visit a thousand of
 * them.  So every cgroup at or below one with a knob has a group, every group
 * remembers what it last told of its own pages, and each of its passes, writer's
 * or flusher's, adds what has changed since to the sums of all its ancestors.
 * The beat does the same for every group, five times a second: 200 ms is the
 * aggregation period, and what a sum can miss is what flows in meanwhile from
 * cgroups that make no pass.
 *
 * Cgroups never move, so the path of groups up to the root is fixed when a
 * group is made, and a sum cannot come apart: whatever order updates arrive in,
 * a group's share of it is what the group last told.
 *
 * A removed cgroup keeps its group until it is clean: its pages are still the
 * subtree's.  A cgroup made since the last beat has none yet; its writers are
 * judged by the nearest ancestor that has.
 *
 * Example.  A (ceiling 64M) has children B and C.  B told 3,000 pages, C 5,000:
 * A's sum is 8,000.  A writer of B makes a pass and B now holds 3,400: 400 go
 * to B's and A's sum.  Cost: one exact count and one addition per level.
 */
#include "weir.h"

static void add(struct weir_group *group, long dirty, long writeback)
{
	for (; group; group = group->parent) {
		if (dirty)
			atomic64_add(dirty, &group->subtree.dirty);
		if (writeback)
			atomic64_add(writeback, &group->subtree.writeback);
	}
}

/* Tell the path what has changed; returns the cgroup's own pages. */
struct weir_counts weir_tree_update(struct weir_group *group)
{
	struct weir_counts own =
		weir_count_memcg(mem_cgroup_from_css(group->css));

	add(group, own.dirty - atomic64_xchg(&group->told.dirty, own.dirty),
	    own.writeback - atomic64_xchg(&group->told.writeback, own.writeback));
	return own;
}

/* Take a group that holds nothing more, or is forgotten, out of the sums. */
void weir_tree_leave(struct weir_group *group)
{
	add(group, -atomic64_xchg(&group->told.dirty, 0),
	    -atomic64_xchg(&group->told.writeback, 0));
}

static u64 sum_of(atomic64_t *sum)
{
	s64 pages = atomic64_read(sum);

	/* a page moved from one cgroup's count to another's, seen half */
	return pages > 0 ? pages : 0;
}

/* The pages of the subtree, the cgroup itself included. */
struct weir_counts weir_tree_counts(struct weir_group *group)
{
	return (struct weir_counts) {
		.dirty = sum_of(&group->subtree.dirty),
		.writeback = sum_of(&group->subtree.writeback),
	};
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
			least = min(least, weir_ceiling_pages(&group->ceiling,
							      READ_ONCE(group->avail)));
	}
	return least;
}

/* Has the subtree of any ceiling here or above filled it?  After weir_tree_update(). */
bool weir_tree_at_ceiling(struct weir_group *group)
{
	for (; group; group = group->parent) {
		struct weir_counts counts = weir_tree_counts(group);

		if (weir_group_has_ceiling(group) &&
		    counts.dirty + counts.writeback >=
		    weir_ceiling_pages(&group->ceiling, READ_ONCE(group->avail)))
			return true;
	}
	return false;
}

/* The group of @css or of its nearest ancestor that has one.  Under RCU. */
struct weir_group *weir_tree_nearest(struct cgroup_subsys_state *css)
{
	struct weir_group *group = NULL;

	for (; css->parent && !group; css = css->parent)
		group = weir_group_find(css);
	return group;
}
