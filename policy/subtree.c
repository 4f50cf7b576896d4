// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of a subtree, summed up one level at a time.
 *
 * Model.  Each cgroup reports to its path what has changed of its own pages since its
 * last report.  So a sum is what the cgroups of the subtree last reported, in whatever
 * order they did.
 *
 * Pages that claim a floor go up with them.  A page claims the nearest floor from
 * its cgroup upwards.  A floor takes what it has room for out of the sum, and what
 * is beyond claims the next one (reserve.c), so that no page counts against two.
 * What a level reports to its parent of claims is how much that has changed.  It depends
 * on the order in which changes are summed up, so the caller changes one level at
 * a time, under the level's lock.
 *
 * Example.  A has a floor of 6,000 pages and children B and C; B has a floor of
 * 3,100.  B reports 3,400 pages, C 5,000: A's sum is 8,400.  300 of B's claim A's
 * floor with C's 5,000: 700 of it are unused.  When B cleans 1,000, A's sum is 7,400
 * and its claims fall by 300 only.
 */
#include "policy.h"

/* The change that a cgroup is to report to its path: @reported was the last, it holds @own. */
struct weir_tally weir_subtree_change(const struct weir_counts *reported,
				      const struct weir_counts *own)
{
	struct weir_tally change = {
		.dirty = (weir_s64)(own->dirty - reported->dirty),
		.writeback = (weir_s64)(own->writeback - reported->writeback),
	};

	change.claim = change.dirty + change.writeback;
	return change;
}

/*
 * Add @change to the sums of a level with @floor, of which tasks below fill @foreign
 * with pages of other cgroups (credit.c).  What is left in @change is for the
 * parent.  Returns what of the floor is unused.
 */
weir_u64 weir_subtree_add(struct weir_subtree *subtree, struct weir_tally *change,
			  weir_u64 floor, weir_u64 foreign)
{
	weir_u64 held;
	weir_s64 beyond;

	subtree->dirty += change->dirty;
	subtree->writeback += change->writeback;
	subtree->claim += change->claim;
	held = weir_subtree_pages(subtree->claim);
	if (floor)
		held = weir_add(held, foreign);
	beyond = floor ? (weir_s64)weir_reserve_beyond(floor, held) : (weir_s64)held;
	change->claim = beyond - subtree->beyond;
	subtree->beyond = beyond;
	return floor ? weir_reserve_unused(floor, held) : 0;
}
