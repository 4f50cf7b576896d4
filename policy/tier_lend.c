// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lending: what budgets grow to while there is more fast memory than they add up to.
 *
 * Model.  Above a boundary there is room R.  Within their budgets cgroups can use
 * the sum of min(all a cgroup holds, its budget).  If that is less than R, every
 * budget is multiplied by one factor, the largest for which
 *
 *   sum of min(all it holds, factor x budget) <= R
 *
 * So who holds little leaves what it does not need, and among those who would have
 * more, idle memory is divided as the budgets are: of all divisions this one gives
 * the one with least, compared to its budget, the most.  It does not depend on where
 * pages lie now, so moving them does not change it.  Who has no budget claims all it
 * holds; who has a budget of 0 is lent nothing.
 *
 * Example.  Room for 730; four cgroups with a budget of 165 hold 220 each: the factor
 * is 730 / 660 = 1.106, and each may have 182.5.  If one of them holds only 100, the
 * others may have 210.  If two hold 100 the others have all their 220, and the rest of
 * the room stays idle.
 */
#include "tier.h"

/* Factors are in 1024ths. */
#define ONE	1024ULL
#define MOST	(1024 * ONE)

static weir_u64 multiply_budget(weir_u64 budget, weir_u64 factor)
{
	if (budget == WEIR_UNLIMITED)
		return WEIR_UNLIMITED;
	return weir_saturate(weir_saturate(budget) * factor / ONE);
}

static weir_u64 pages_used(const struct weir_tier_work *work, weir_u32 count,
			   weir_u64 factor)
{
	weir_u64 sum = 0;
	weir_u32 i;

	for (i = 0; i < count; i++) {
		weir_u64 lent = multiply_budget(work[i].levels.budget, factor);

		if (!work[i].inner)
			sum += lent < work[i].held ? lent : work[i].held;
	}
	return sum;
}

/* Raise the budgets in @work's levels, if there is @room for it. */
void weir_tier_lend(struct weir_tier_work *work, weir_u32 count, weir_u64 room)
{
	weir_u64 least = ONE, most = MOST;
	weir_u32 i;

	while (least < most) {
		weir_u64 middle = (least + most + 1) / 2;

		if (pages_used(work, count, middle) <= room)
			least = middle;
		else
			most = middle - 1;
	}
	for (i = 0; i < count; i++)
		work[i].levels.budget = multiply_budget(work[i].levels.budget, least);
}
