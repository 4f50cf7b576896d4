// SPDX-License-Identifier: GPL-2.0-only
/*
 * The part of the tiers above a boundary that a hierarchy leaves each of its
 * cgroups.
 *
 * Model.  Budgets and protection are given to cgroups on every level, pages lie in
 * the leaves.  A child has what its own files say, but all children together no more
 * than their parent:
 *
 *   budget      its own; if the claims of all children are more than the parent's
 *               budget, that is shared in proportion to the claims.  A claim is the
 *               own budget, or all that is held if that is less
 *   protection  the same, and what of a parent's is not claimed covers the rest of
 *               what its children hold, in proportion (as memory.min and memory.low
 *               do where cgroup2 is mounted with memory_recursiveprot)
 *
 * So no owner of a cgroup gets past what was set above it by writing to its own files or
 * by making cgroups.  Pages of a cgroup with children that are in none of them claim
 * as a child would; they are left where they are.
 *
 * Example.  A pod with a budget of 75 and two containers with none of their own,
 * which hold 60 and 40: 45 and 30.  With a budget of 20 on the second: claims of 60
 * and 20, so 56 and 18; once the first is below 55, it has what it holds.
 */
#include "tier.h"

static weir_u64 total_pages(const weir_u64 *pages)
{
	weir_u64 sum = 0;
	int tier;

	for (tier = 0; tier < WEIR_TIERS_MAX; tier++)
		sum += weir_saturate(pages[tier]);
	return weir_saturate(sum);
}

static int has_parent(const struct weir_tier_group *groups, weir_u32 i)
{
	return groups[i].parent < i;
}

/* Fills in the levels of a cgroup's own files, and its claims of its parent's.
 */
static void fill_own_levels(const struct weir_tiers *tiers, weir_u32 last,
			    const struct weir_tier_group *group, struct weir_tier_work *work)
{
	struct weir_tier_levels *levels = &work->levels;

	levels->min = weir_tier_upto(tiers, group->ratio, group->min, last);
	levels->low = weir_tier_upto(tiers, group->ratio, group->low, last);
	levels->budget = weir_tier_upto(tiers, group->ratio,
					weir_tier_limit(group->high, group->max),
					last);
	work->held = total_pages(group->held);
	work->claims.min = weir_least(levels->min, work->held);
	work->claims.low = weir_least(levels->low, work->held);
	work->claims.budget = weir_least(levels->budget, work->held);
	work->children = (struct weir_tier_levels) {};
	work->children_held = 0;
	work->inner = 0;
}

/* Of a parent's protection @granted, what covers a child that claims @claim of it. */
static weir_u64 child_protection(weir_u64 granted, weir_u64 claim, weir_u64 claims,
				 weir_u64 held, weir_u64 held_by_all)
{
	if (claims >= granted)
		return weir_share(granted, claim, claims);
	return claim + weir_share(weir_least(granted, held_by_all) - claims,
				  held - claim, held_by_all - claims);
}

static void hand_down(const struct weir_tier_work *parent,
		      struct weir_tier_work *child)
{
	const struct weir_tier_levels *sums = &parent->children;
	struct weir_tier_levels *levels = &child->levels;
	const struct weir_tier_levels *claims = &child->claims;
	weir_u64 rest = parent->held > parent->children_held ?
			parent->held - parent->children_held : 0;
	weir_u64 held = parent->children_held + rest;

	levels->min = child_protection(parent->levels.min, claims->min, sums->min,
				       child->held, held);
	levels->low = child_protection(parent->levels.low, claims->low, sums->low,
				       child->held, held);
	if (sums->budget + rest > parent->levels.budget)
		levels->budget = weir_share(parent->levels.budget, claims->budget,
					    sums->budget + rest);
	else
		levels->budget = weir_least(levels->budget, parent->levels.budget);
}

/*
 * Fill in @work's levels of every group for tiers 0 to @last.  A parent stands
 * before its children.
 */
void weir_tier_share(const struct weir_tiers *tiers, weir_u32 last,
		     const struct weir_tier_group *groups,
		     struct weir_tier_work *work, weir_u32 count)
{
	weir_u32 i;

	for (i = 0; i < count; i++)
		fill_own_levels(tiers, last, &groups[i], &work[i]);
	for (i = 0; i < count; i++) {
		struct weir_tier_work *parent;

		if (!has_parent(groups, i))
			continue;
		parent = &work[groups[i].parent];
		parent->inner = 1;
		parent->children_held += work[i].held;
		parent->children.min += work[i].claims.min;
		parent->children.low += work[i].claims.low;
		parent->children.budget += work[i].claims.budget;
	}
	for (i = 0; i < count; i++) {
		if (has_parent(groups, i))
			hand_down(&work[groups[i].parent], &work[i]);
	}
}
