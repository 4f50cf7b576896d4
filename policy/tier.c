// SPDX-License-Identifier: GPL-2.0-only
/*
 * Budgets: what of a memory limit may lie in which tier.
 *
 * Model.  A limit counts bytes, and on a host with fast and slow memory not which
 * bytes; who comes first takes the fast ones.  So each limit is split as the host's
 * memory is: of a host with 3/4 of it in the top tier, 3/4 of every limit may be
 * there.  With more tiers, the first two together may hold what the first two are
 * of the whole, and so on; what does not fit goes down by one.
 *
 *   upto(limit, t)   = limit x capacity of tiers 0..t / capacity of all
 *   budget(limit, t) = upto(limit, t) - upto(limit, t - 1)
 *
 * A ratio of the operator's own takes the place of the top tier's part; the lower
 * tiers then share what is left by their capacities.  With one tier, or nothing
 * below the first, there is no choice, and the budget is the limit.  No limit is no
 * budget.
 *
 * Everything is evaluated when it is asked for, from the capacities of that moment:
 * memory may be plugged, limits be written.
 *
 * Example.  75 GB + 25 GB, limits min 8, low 12, high 20, max 24 GB: 6, 9, 15 and
 * 18 GB in the top tier, of the max 6 GB in the lower.  With a ratio of 50 the max
 * gives 12 + 12.  Three tiers of 60, 30 and 10 GB: a limit of 20 GB is 12 + 6 + 2;
 * with a ratio of 20 it is 4 in the first and 12 + 4 in the others.
 */
#include "tier.h"

/* Capacity of tiers @first to @last. */
static weir_u64 capacity_between(const struct weir_tiers *tiers, weir_u32 first,
				 weir_u32 last)
{
	weir_u64 sum = 0;
	weir_u32 tier;

	for (tier = first; tier <= last && tier < tiers->count &&
	     tier < WEIR_TIERS_MAX; tier++)
		sum += weir_saturate(tiers->capacity[tier]);
	return sum;
}

/*
 * The part of @limit that may lie in tiers 0 to @last together; @ratio is the
 * cgroup's own, or WEIR_TIER_BY_CAPACITY for the host's.
 */
weir_u64 weir_tier_upto(const struct weir_tiers *tiers, weir_u32 ratio,
			weir_u64 limit, weir_u32 last)
{
	weir_u64 lower = capacity_between(tiers, 1, WEIR_TIERS_MAX - 1);
	weir_u64 top;

	if (ratio == WEIR_TIER_BY_CAPACITY)
		ratio = tiers->ratio;
	if (limit == WEIR_UNLIMITED)
		return WEIR_UNLIMITED;
	limit = weir_saturate(limit);
	if (!lower || last >= WEIR_TIERS_MAX - 1 || last + 1 >= tiers->count)
		return limit;
	if (ratio == WEIR_TIER_BY_CAPACITY)
		return weir_share(limit, capacity_between(tiers, 0, last),
				  capacity_between(tiers, 0, WEIR_TIERS_MAX - 1));
	top = weir_share(limit, ratio, 100);
	return top + weir_share(limit - top, capacity_between(tiers, 1, last), lower);
}

/* The limit that budgets are of: the lower of the two that bound a cgroup. */
weir_u64 weir_tier_limit(weir_u64 high, weir_u64 max)
{
	return high < max ? high : max;
}

/*
 * The part of @limit that may lie in @tier, when those above are full to their budgets.
 */
weir_u64 weir_tier_budget(const struct weir_tiers *tiers, weir_u32 ratio,
			  weir_u64 limit, weir_u32 tier)
{
	weir_u64 upto = weir_tier_upto(tiers, ratio, limit, tier);

	if (!tier || upto == WEIR_UNLIMITED)
		return upto;
	return upto - weir_tier_upto(tiers, ratio, limit, tier - 1);
}

/* The next tier below @tier that has memory; @tier if there is none. */
weir_u32 weir_tier_below(const struct weir_tiers *tiers, weir_u32 tier)
{
	weir_u32 below;

	for (below = tier + 1; below < tiers->count && below < WEIR_TIERS_MAX; below++)
		if (tiers->capacity[below])
			return below;
	return tier;
}

/* Does a cgroup's ratio grant more of the top tier after a change @from, @to? */
int weir_tier_raises(const struct weir_tiers *tiers, weir_u32 from, weir_u32 to)
{
	return weir_tier_upto(tiers, to, WEIR_PAGES_MAX, 0) >
	       weir_tier_upto(tiers, from, WEIR_PAGES_MAX, 0);
}
