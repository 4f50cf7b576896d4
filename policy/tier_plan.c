// SPDX-License-Identifier: GPL-2.0-only
/*
 * The plan: which cgroup's pages should change their tier now, and how many.
 *
 * Model.  Between two tiers that follow each other is a boundary; above it a cgroup
 * has a budget and protections (tier.c, tier_share.c).  Each boundary is planned by
 * itself, from the top, as a market for the memory above it.  A tier that has no memory
 * now (offline) is passed over.  Who demands, in this order, and what it is served from:
 *
 *   demand          pages that would go up    from, in this order
 *   below min       up to its toptier_min     free memory, above budget, above low,
 *                                             above min
 *   below low       up to its toptier_low     free memory, above budget, above low
 *   below budget    up to toptier_high, max   free memory, above budget, and for
 *                                             hot pages cold ones above low
 *   hot, beyond     hot pages for which the   free memory, cold pages above low
 *                   budget has no room
 *   idle, beyond    all others                free memory beyond twice the headroom
 *
 * The last two are lending: what is not wanted within a budget need not lie idle,
 * and a group above its budget keeps what no other demands.  With it budgets are raised
 * first, all by one factor, if there is memory for that (tier_lend.c).  Without it
 * all this is left out, and each group goes down to its budget.  None is taken below
 * its toptier_min, and below _low only where no other is above its own.
 *
 * Where heat is known only hot pages demand (without lending: all do, up to the
 * budget), and what a cgroup cannot get for its hot pages it makes by exchanging
 * cold ones of its own.  Where it is guessed, only the last is done, and by who has
 * nothing else to move.
 *
 * Why it comes to rest.  A move takes half of a difference and none below a band, so
 * nothing overshoots.  No supply turns into a demand of the class it served or a
 * later one that is served from whom it went to: above budget ends at the budget,
 * above low at low.  Differences of D pages in all, d of them one cgroup's, are
 * within the band after
 *
 *   D / step + log2(d / band) + 2
 *
 * plans between two tiers, if neither is full: pages go where there is room beyond
 * the headroom, by at most that room, and what goes down first makes room for what
 * goes up.  Where both tiers are full half the headroom below is used in turns, which
 * bounds the step.  Where the lower tier is full of what was lent, the wish to go
 * down is a demand there.
 *
 * Example.  Top tier full but for its headroom; three cgroups with a budget of 180
 * hold 220, 220 and 200 in it, a fourth 40 with 160 further down.  It is 140 below
 * its budget: 70 this time.  The others are above by 40, 40 and 20: 20, 20 and 10 go
 * down, 50 go up.  Next: 45 wanted, 10, 10 and 5 to be had; and so on.
 */
#include "tier.h"

struct market {
	const struct weir_tier_settings *settings;
	const struct weir_tier_group *groups;
	struct weir_tier_work *work;
	struct weir_tier_move *moves;
	weir_u32 count;
	weir_u32 tier;			/* the one above the boundary */
	weir_u32 below;
	weir_u32 upper;			/* the one above that, or WEIR_TIERS_MAX */
	weir_u64 free;			/* above, beyond the headroom */
	weir_u64 headroom;
	weir_u64 room_below;
	weir_u64 loan_below;		/* of the headroom there, until as much went up */
	weir_u64 down;			/* of both and the step, not used */
	weir_u64 up;			/* of the step, not used */
	weir_u64 pressed;		/* wanted to come down into this tier, and could not */
	weir_u64 demand[WEIR_TIER_DEMANDS];
	weir_u64 of_hot;		/* of BELOW_BUDGET */
	weir_u64 supply[WEIR_TIER_SUPPLIES];
	weir_u64 served[WEIR_TIER_DEMANDS];
	weir_u64 used[WEIR_TIER_SUPPLIES];
};

static weir_u64 leaving_pages(const struct market *market, weir_u32 i)
{
	return market->upper == WEIR_TIERS_MAX ?
	       0 : market->moves[i].promote[market->upper];
}

static void add_up(struct market *market)
{
	weir_u32 i, k;

	for (i = 0; i < market->count; i++) {
		struct weir_tier_work *work = &market->work[i];

		if (work->inner)
			continue;
		weir_tier_weigh(market->settings, &market->groups[i],
				market->tier, market->below,
				leaving_pages(market, i), work);
		for (k = 0; k < WEIR_TIER_DEMANDS; k++)
			market->demand[k] += work->demand[k];
		for (k = 0; k < WEIR_TIER_SUPPLIES; k++)
			market->supply[k] += work->supply[k];
		if (weir_tier_trades_heat(&market->groups[i]))
			market->of_hot += work->demand[WEIR_TIER_BELOW_BUDGET];
	}
}

/* Serves @wish pages from a supply as far as it goes; returns the rest of the wish. */
static weir_u64 take_supply(struct market *market, enum weir_tier_supply from,
			    weir_u64 wish)
{
	weir_u64 left = weir_sub(market->supply[from], market->used[from]);

	/* cold pages above low are pages above low: each is given once */
	if (from == WEIR_TIER_COLD_ABOVE_LOW || from == WEIR_TIER_ABOVE_LOW)
		left = weir_least(left, weir_sub(market->supply[WEIR_TIER_ABOVE_LOW],
						 market->used[WEIR_TIER_ABOVE_LOW] +
						 market->used[WEIR_TIER_COLD_ABOVE_LOW]));
	left = weir_least(left, wish);
	market->used[from] += left;
	return wish - left;
}

/* Matches supplies with demands: which supply serves which, and how much in all. */
static void match_supply(struct market *market)
{
	weir_u64 free = market->free, *demand = market->demand;
	weir_u64 left, spare;
	int k;

	for (k = 0; k < WEIR_TIER_IDLE_BEYOND; k++) {
		left = weir_sub(demand[k], free);
		free = weir_sub(free, demand[k]);
		if (k <= WEIR_TIER_BELOW_BUDGET)
			left = take_supply(market, WEIR_TIER_ABOVE_BUDGET, left);
		if (k <= WEIR_TIER_BELOW_LOW)
			left = take_supply(market, WEIR_TIER_ABOVE_LOW, left);
		if (k == WEIR_TIER_BELOW_MIN)
			left = take_supply(market, WEIR_TIER_ABOVE_MIN, left);
		if (k == WEIR_TIER_BELOW_BUDGET && market->settings->lend) {
			spare = weir_least(left, market->of_hot);
			left -= spare - take_supply(market, WEIR_TIER_COLD_ABOVE_LOW, spare);
		}
		if (k == WEIR_TIER_HOT_BEYOND)
			left = take_supply(market, WEIR_TIER_COLD_ABOVE_LOW, left);
		market->served[k] = demand[k] - left;
	}
	market->served[WEIR_TIER_IDLE_BEYOND] =
		weir_least(demand[WEIR_TIER_IDLE_BEYOND], weir_sub(free, market->headroom));
	take_supply(market, WEIR_TIER_ABOVE_BUDGET, market->pressed);
	if (!market->settings->lend)
		market->used[WEIR_TIER_ABOVE_BUDGET] =
			market->supply[WEIR_TIER_ABOVE_BUDGET];
}

/*
 * Moves pages down: no more than a step, and than there is room below.  Where
 * pages go both ways a part of the headroom below is used in between, or two
 * full tiers would stay as they are.  Each gives by what it offered; pages that
 * were counted in two classes it gives once.
 */
static void take_down(struct market *market)
{
	weir_u64 down = 0, up = 0, allowed, room;
	weir_u32 i, k;

	for (k = 0; k < WEIR_TIER_SUPPLIES; k++)
		down += market->used[k];
	for (k = 0; k < WEIR_TIER_DEMANDS; k++)
		up += market->served[k];
	room = market->room_below + weir_least(up, market->loan_below);
	allowed = weir_least(weir_least(down, market->down), room);
	market->pressed = weir_sub(weir_least(down, market->up), room);
	for (k = 0; k < WEIR_TIER_SUPPLIES; k++)
		market->used[k] = weir_share(market->used[k], allowed, down);
	for (i = 0; i < market->count; i++) {
		const struct weir_tier_work *work = &market->work[i];
		weir_u64 offered = work->supply[WEIR_TIER_ABOVE_BUDGET] +
				   work->supply[WEIR_TIER_ABOVE_LOW] +
				   work->supply[WEIR_TIER_ABOVE_MIN];

		if (work->inner)
			continue;
		down = 0;
		for (k = 0; k < WEIR_TIER_SUPPLIES; k++)
			down += weir_share(work->supply[k], market->used[k],
					   market->supply[k]);
		down = weir_least(down, offered);
		market->moves[i].demote[market->tier] = down;
		market->down -= down;
		market->free += down;
	}
}

/* Moves pages up: no more than a step, and than there is room now. */
static void bring_up(struct market *market)
{
	weir_u64 room = weir_least(market->free, market->up), up;
	weir_u32 i, k;

	for (k = 0; k < WEIR_TIER_DEMANDS; k++) {
		market->served[k] = weir_least(market->served[k], room);
		room -= market->served[k];
		market->up -= market->served[k];
	}
	for (i = 0; i < market->count; i++) {
		const struct weir_tier_work *work = &market->work[i];

		if (work->inner)
			continue;
		up = 0;
		for (k = 0; k < WEIR_TIER_DEMANDS; k++)
			up += weir_share(work->demand[k], market->served[k],
					 market->demand[k]);
		market->moves[i].promote[market->tier] = up;
	}
}

/*
 * Pages that a cgroup exchanges, cold ones of its own for hot ones that get no other
 * room.
 */
static weir_u64 exchangeable_pages(struct market *market, weir_u32 i)
{
	const struct weir_tier_group *group = &market->groups[i];
	const struct weir_tier_work *work = &market->work[i];
	struct weir_tier_move *move = &market->moves[i];
	weir_u32 tier = market->tier;
	weir_u64 here = weir_sub(weir_saturate(group->held[tier]), leaving_pages(market, i));
	weir_u64 cold, hot;

	if (!group->heat_known)
		return 0;
	/* it would not be known any more which pages a sample was of */
	if (!weir_tier_trades_heat(group) && (move->demote[tier] || move->promote[tier]))
		return 0;
	cold = weir_sub(here, weir_tier_hot(group, tier) + move->demote[tier]);
	hot = weir_sub(weir_tier_hot(group, market->below), move->promote[tier]);
	if (!market->settings->lend)
		cold = weir_sub(cold, work->over);
	return weir_least(weir_tier_half(weir_least(cold, hot),
					 weir_tier_band(market->settings,
							move->budget[tier])),
			  weir_least(market->down, market->up));
}

static enum weir_tier_reason move_reason(const struct market *market, weir_u32 i,
					 weir_u64 swapped)
{
	const struct weir_tier_work *work = &market->work[i];
	const struct weir_tier_move *move = &market->moves[i];
	const weir_u64 *demand = work->demand;
	weir_u64 budget = move->budget[market->tier];
	weir_u64 band = weir_tier_band(market->settings, budget);
	weir_u64 upper = weir_tier_above(&market->groups[i], market->tier);
	weir_u64 protected = demand[WEIR_TIER_BELOW_MIN] + demand[WEIR_TIER_BELOW_LOW];
	int is_short = protected || (upper < budget && demand[WEIR_TIER_BELOW_BUDGET]);

	if (move->demote[market->tier] > swapped)
		return work->supply[WEIR_TIER_ABOVE_BUDGET] ?
		       WEIR_TIER_RETURNS : WEIR_TIER_YIELDS;
	if (move->promote[market->tier] > swapped)
		return is_short ? WEIR_TIER_TAKES : WEIR_TIER_BORROWS;
	if (swapped)
		return WEIR_TIER_EXCHANGES;
	if (is_short)
		return WEIR_TIER_WAITS_ABOVE;
	if (upper > budget && upper - budget > band)
		return market->settings->lend && !market->pressed ?
		       WEIR_TIER_KEEPS : WEIR_TIER_WAITS_BELOW;
	return WEIR_TIER_BALANCED;
}

static void exchange_all(struct market *market)
{
	weir_u32 tier = market->tier, i;

	for (i = 0; i < market->count; i++) {
		struct weir_tier_move *move = &market->moves[i];
		weir_u64 swapped;

		if (market->work[i].inner)
			continue;
		swapped = exchangeable_pages(market, i);
		market->down -= swapped;
		market->up -= swapped;
		move->demote[tier] += swapped;
		move->promote[tier] += swapped;
		if (move->reason == WEIR_TIER_BALANCED)
			move->reason = move_reason(market, i, swapped);
	}
}

/*
 * Free memory that no move uses up: a 100th of a tier, on large hosts a GiB.  It is for
 * what is allocated until the next plan; what goes beyond that lands one tier lower.
 */
weir_u64 weir_tier_headroom(weir_u64 capacity)
{
	return weir_least(weir_saturate(capacity) / 100, 1ULL << (30 - WEIR_PAGE_SHIFT));
}

static weir_u64 pages_free(const struct weir_tier_room *room, weir_u32 tier)
{
	return weir_sub(weir_saturate(room->free[tier]),
			weir_saturate(room->headroom[tier]));
}

/* Half of the headroom, or of what is left of it; a few pages would take for ever. */
static weir_u64 headroom_loan(const struct weir_tier_room *room, weir_u32 tier)
{
	weir_u64 half = weir_least(weir_saturate(room->free[tier]),
				   weir_saturate(room->headroom[tier])) / 2;

	return half < WEIR_TIER_LOAN_MIN ? 0 : half;
}

/*
 * Pages that cgroups have above the boundary, and that are free there but for
 * the headroom: moving their pages does not change the sum.
 */
static weir_u64 room_above(const struct market *market,
			   const struct weir_tier_room *room)
{
	weir_u64 sum = 0, headroom = 0;
	weir_u32 i;

	for (i = 0; i <= market->tier; i++) {
		sum += weir_saturate(room->free[i]);
		headroom += weir_saturate(room->headroom[i]);
	}
	for (i = 0; i < market->count; i++) {
		if (!market->work[i].inner)
			sum += weir_tier_above(&market->groups[i], market->tier);
	}
	return weir_sub(sum, headroom);
}

/* Plan every boundary.  A group with children in the list only bounds them. */
void weir_tier_plan(const struct weir_tiers *tiers,
		    const struct weir_tier_room *room,
		    const struct weir_tier_settings *settings,
		    const struct weir_tier_group *groups,
		    struct weir_tier_work *work,
		    struct weir_tier_move *moves, weir_u32 count)
{
	weir_u32 tiers_here = weir_least(tiers->count, WEIR_TIERS_MAX);
	weir_u64 step = weir_saturate(settings->step);
	weir_u64 came_down = 0, pressed = 0, down;
	weir_u32 upper = WEIR_TIERS_MAX, tier, i;

	for (i = 0; i < count; i++)
		moves[i] = (struct weir_tier_move) {};
	for (tier = 0; tier + 1 < tiers_here; tier++) {
		weir_u32 below = weir_tier_below(tiers, tier);
		struct market market = {
			.settings = settings,
			.groups = groups,
			.work = work,
			.moves = moves,
			.count = count,
			.tier = tier,
			.below = below,
			.upper = upper,
			.free = weir_sub(pages_free(room, tier), came_down),
			.headroom = weir_saturate(room->headroom[tier]),
			.room_below = pages_free(room, below),
			.loan_below = headroom_loan(room, below),
			.up = step,
			.pressed = pressed,
		};

		weir_tier_share(tiers, tier, groups, work, count);
		for (i = 0; i < count; i++)
			moves[i].budget[tier] = work[i].levels.budget;
		if (below == tier || (tier && !tiers->capacity[tier]))
			continue;
		down = weir_least(market.room_below + market.loan_below, step);
		market.down = down;
		if (settings->lend)
			weir_tier_lend(work, count, room_above(&market, room));
		add_up(&market);
		match_supply(&market);
		take_down(&market);
		bring_up(&market);
		exchange_all(&market);
		pressed = market.pressed;
		came_down = down - market.down;
		upper = tier;
	}
}
