// SPDX-License-Identifier: GPL-2.0-only
/*
 * Demand and supply of one cgroup in the memory above a boundary: the two sides
 * of the market in tier_plan.c.
 *
 * Model.  Above the boundary a cgroup has three levels, min <= low <= budget
 * (tier_share.c; where a protection is above the budget it wins).  Pages above each
 * are a supply, pages that are missing below each a demand, as far as there are
 * pages further down that would go up.  Each pair of tiers that follow each other
 * trades only in pages that lie in one of the two.
 *
 * Where heat is known only hot pages would go up, while memory is lent; the cold
 * ones are demanded for idle memory at most, and are the first to be given.
 *
 * Example.  min 20, low 50, budget 100; 130 above, of which 40 are cold.  30 are
 * above the budget, 50 above low, of these 10 cold, 30 above min: the first 30 have
 * the cold ones.  All are halved, and none is offered below the band.
 */
#include "tier.h"

/* The difference that is none: a 128th of the budget, or the band if that is more. */
weir_u64 weir_tier_band(const struct weir_tier_settings *settings,
			weir_u64 budget)
{
	weir_u64 part = budget == WEIR_UNLIMITED ? 0 : budget / 128;

	return weir_most(weir_saturate(settings->band), part);
}

/* Half of what is more than the band. */
weir_u64 weir_tier_half(weir_u64 pages, weir_u64 band)
{
	return pages > band ? (pages + 1) / 2 : 0;
}

/* Pages that a group holds in the tiers down to @tier. */
weir_u64 weir_tier_above(const struct weir_tier_group *group, weir_u32 tier)
{
	weir_u64 sum = 0;
	weir_u32 i;

	for (i = 0; i <= tier; i++)
		sum += weir_saturate(group->held[i]);
	return sum;
}

/* A group's hot pages in a tier; none where heat is not known. */
weir_u64 weir_tier_hot(const struct weir_tier_group *group, weir_u32 tier)
{
	return group->heat_known ?
	       weir_saturate(weir_least(group->hot[tier], group->held[tier])) : 0;
}

/*
 * Non-zero if heat counts among cgroups.  A guess is a little off each time: if
 * demands and supplies followed it, pages would go from one cgroup to the other
 * and back for ever.
 */
int weir_tier_trades_heat(const struct weir_tier_group *group)
{
	return group->heat_known == WEIR_TIER_HEAT_KNOWN;
}

/* Supplies of the pages in @tier that are not going up already. */
static void fill_supplies(const struct weir_tier_group *group, weir_u32 tier,
			  weir_u64 here, weir_u64 band, struct weir_tier_work *work)
{
	weir_u64 cold = weir_tier_trades_heat(group) ?
			weir_sub(here, weir_tier_hot(group, tier)) : 0;
	weir_u64 upper = weir_tier_above(group, tier);
	weir_u64 give, rest;

	work->over = weir_least(here, weir_sub(upper, work->levels.budget));
	rest = here - work->over;
	work->supply[WEIR_TIER_ABOVE_BUDGET] = weir_tier_half(work->over, band);
	give = weir_least(rest, weir_sub(weir_least(upper, work->levels.budget),
					 work->levels.low));
	work->supply[WEIR_TIER_ABOVE_LOW] = weir_tier_half(give, band);
	cold = weir_sub(cold, work->over);
	work->supply[WEIR_TIER_COLD_ABOVE_LOW] =
		weir_tier_half(weir_least(give, cold), band);
	give = weir_least(rest - give, weir_sub(weir_least(upper, work->levels.low),
						work->levels.min));
	work->supply[WEIR_TIER_ABOVE_MIN] = weir_tier_half(give, band);
}

/* Pages missing up to a level, 0 if they are no more than the band. */
static weir_u64 missing_pages(weir_u64 level, weir_u64 upper, weir_u64 band)
{
	weir_u64 pages = weir_sub(level, upper);

	return pages > band ? pages : 0;
}

/* Demands for the tiers down to @tier, of pages in @lower. */
static void fill_demands(const struct weir_tier_group *group, weir_u32 tier,
			 weir_u32 lower, weir_u32 lend, weir_u64 band,
			 struct weir_tier_work *work)
{
	weir_u64 below = weir_saturate(group->held[lower]);
	int by_heat = weir_tier_trades_heat(group);
	weir_u64 up = by_heat && lend ?
		      weir_tier_hot(group, lower) : below;
	weir_u64 upper = weir_tier_above(group, tier);
	weir_u64 room = weir_sub(work->levels.budget, upper);
	weir_u64 within = weir_tier_half(weir_least(up, room), band);
	weir_u64 more = lend ? weir_tier_half(weir_sub(up, room), band) : 0;
	weir_u64 others = lend ? weir_tier_half(below - up, band) : 0;
	weir_u64 to_min = weir_least(within, missing_pages(work->levels.min, upper, band));
	weir_u64 to_low = weir_least(within, missing_pages(work->levels.low, upper, band));
	weir_u64 *demand = work->demand;

	demand[WEIR_TIER_BELOW_MIN] = to_min;
	demand[WEIR_TIER_BELOW_LOW] = to_low - to_min;
	demand[WEIR_TIER_BELOW_BUDGET] = within - to_low;
	demand[WEIR_TIER_HOT_BEYOND] = by_heat ? more : 0;
	demand[WEIR_TIER_IDLE_BEYOND] = by_heat ? others : more;
}

/*
 * Fill in what @group demands and supplies at the boundary between @tier and @below; its
 * levels there are in @work, and @leaving of its pages in @tier are going up already.
 */
void weir_tier_weigh(const struct weir_tier_settings *settings,
		     const struct weir_tier_group *group, weir_u32 tier,
		     weir_u32 below, weir_u64 leaving,
		     struct weir_tier_work *work)
{
	weir_u64 band = weir_tier_band(settings, work->levels.budget);
	weir_u64 here = weir_sub(weir_saturate(group->held[tier]), leaving);

	work->levels.low = weir_most(work->levels.low, work->levels.min);
	work->levels.budget = weir_most(work->levels.budget, work->levels.low);
	fill_supplies(group, tier, here, band, work);
	fill_demands(group, tier, below, settings->lend, band, work);
}
