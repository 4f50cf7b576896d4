/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tiers of memory: what of a limit may lie in which, and what should move.
 *
 * tier.c is part of weir.ko; tier_share.c, tier_lend.c, tier_weigh.c and tier_plan.c
 * are for who moves pages, the agent and the simulated host.  Page counts unless a name
 * says otherwise.
 */
#ifndef WEIR_POLICY_TIER_H
#define WEIR_POLICY_TIER_H

#include "policy.h"

#define WEIR_TIERS_MAX		8
/* Between two tiers that follow each other. */
#define WEIR_TIER_BOUNDARIES	(WEIR_TIERS_MAX - 1)
/* A ratio that was never set: the top tier's part of all capacity. */
#define WEIR_TIER_BY_CAPACITY	(~0U)
#define WEIR_TIER_NO_PARENT	(~0U)

/* tier.c: budgets */

/* Fastest first. */
struct weir_tiers {
	weir_u64 capacity[WEIR_TIERS_MAX];
	weir_u32 count;
	weir_u32 ratio;		/* host-wide percent, or WEIR_TIER_BY_CAPACITY */
};

weir_u64 weir_tier_upto(const struct weir_tiers *tiers, weir_u32 ratio,
			weir_u64 limit, weir_u32 last);
weir_u64 weir_tier_limit(weir_u64 high, weir_u64 max);
weir_u64 weir_tier_budget(const struct weir_tiers *tiers, weir_u32 ratio,
			  weir_u64 limit, weir_u32 tier);
weir_u32 weir_tier_below(const struct weir_tiers *tiers, weir_u32 tier);
int weir_tier_raises(const struct weir_tiers *tiers, weir_u32 from, weir_u32 to);
enum weir_parsed weir_parse_ratio(const char *text, weir_u64 len,
				  weir_u32 *ratio);

/* tier_share.c: what a hierarchy leaves each of its cgroups */

/* The state of knowledge about which pages are hot. */
enum weir_tier_heat {
	WEIR_TIER_HEAT_UNKNOWN,
	WEIR_TIER_HEAT_KNOWN,
	WEIR_TIER_HEAT_GUESSED,	/* from a sample: good for exchanges, not for demands */
};

struct weir_tier_group {
	/* with descendants' */
	weir_u64 held[WEIR_TIERS_MAX];
	weir_u64 hot[WEIR_TIERS_MAX];	/* of them, read of late; if heat is known */
	/* memory.min, low, high, max as written; WEIR_UNLIMITED if none */
	weir_u64 min;
	weir_u64 low;
	weir_u64 high;
	weir_u64 max;
	weir_u32 ratio;		/* memory.toptier_ratio, or WEIR_TIER_BY_CAPACITY */
	weir_u32 heat_known;	/* enum weir_tier_heat */
	weir_u32 parent;	/* its place in the list, before this one's */
};

/* Of one group in all tiers above one boundary. */
struct weir_tier_levels {
	weir_u64 min;
	weir_u64 low;
	weir_u64 budget;
};

enum weir_tier_demand {
	WEIR_TIER_BELOW_MIN,
	WEIR_TIER_BELOW_LOW,
	WEIR_TIER_BELOW_BUDGET,
	WEIR_TIER_HOT_BEYOND,	/* hot pages that its budget has no room for */
	WEIR_TIER_IDLE_BEYOND,	/* others, for memory that lies idle */
	WEIR_TIER_DEMANDS,
};

enum weir_tier_supply {
	WEIR_TIER_ABOVE_BUDGET,
	WEIR_TIER_ABOVE_LOW,
	WEIR_TIER_ABOVE_MIN,
	WEIR_TIER_COLD_ABOVE_LOW,	/* of ABOVE_LOW */
	WEIR_TIER_SUPPLIES,
};

/* The plan's own, one for each group; levels stay those of the last boundary. */
struct weir_tier_work {
	struct weir_tier_levels levels;
	struct weir_tier_levels claims;
	struct weir_tier_levels children;	/* sums of their claims */
	weir_u64 held;
	weir_u64 children_held;
	weir_u64 demand[WEIR_TIER_DEMANDS];
	weir_u64 supply[WEIR_TIER_SUPPLIES];
	weir_u64 over;		/* of ABOVE_BUDGET, before any step is chosen */
	weir_u32 inner;		/* has children in the list */
};

void weir_tier_share(const struct weir_tiers *tiers, weir_u32 last,
		     const struct weir_tier_group *groups,
		     struct weir_tier_work *work, weir_u32 count);

/* tier_weigh.c: what a cgroup demands, and what it has to give */

struct weir_tier_settings {
	weir_u64 band;		/* a difference of fewer pages is none */
	weir_u64 step;		/* most pages across one boundary, each way */
	weir_u32 lend;		/* a group above its budget keeps what no other wants */
};

weir_u64 weir_tier_band(const struct weir_tier_settings *settings,
			weir_u64 budget);
weir_u64 weir_tier_half(weir_u64 pages, weir_u64 band);
int weir_tier_trades_heat(const struct weir_tier_group *group);
weir_u64 weir_tier_hot(const struct weir_tier_group *group, weir_u32 tier);
weir_u64 weir_tier_above(const struct weir_tier_group *group, weir_u32 tier);
void weir_tier_weigh(const struct weir_tier_settings *settings,
		     const struct weir_tier_group *group, weir_u32 tier,
		     weir_u32 below, weir_u64 leaving,
		     struct weir_tier_work *work);

/* tier_lend.c: what is idle is lent */

void weir_tier_lend(struct weir_tier_work *work, weir_u32 count, weir_u64 room);

/* tier_plan.c: what should move now */

struct weir_tier_room {
	weir_u64 free[WEIR_TIERS_MAX];
	weir_u64 headroom[WEIR_TIERS_MAX];	/* of free, left to allocations */
};

#define WEIR_TIER_LOAN_MIN	64ULL

weir_u64 weir_tier_headroom(weir_u64 capacity);

enum weir_tier_reason {
	WEIR_TIER_BALANCED,
	WEIR_TIER_KEEPS,	/* above its budget, and no other group wants it */
	WEIR_TIER_RETURNS,	/* above its budget, goes down to it */
	WEIR_TIER_YIELDS,	/* within its budget, for others' protection or hot pages */
	WEIR_TIER_TAKES,	/* below its budget or protection, goes up */
	WEIR_TIER_BORROWS,	/* takes idle memory, or cold pages' place, beyond its budget */
	WEIR_TIER_EXCHANGES,	/* its own cold pages for its own hot ones */
	WEIR_TIER_WAITS_ABOVE,	/* would go up, no room there */
	WEIR_TIER_WAITS_BELOW,	/* would go down, no room there */
};

/*
 * Pages of one group that are to move; [0] is across the boundary below the
 * first tier, to and from the next one that has memory.
 */
struct weir_tier_move {
	weir_u64 demote[WEIR_TIER_BOUNDARIES];
	weir_u64 promote[WEIR_TIER_BOUNDARIES];
	weir_u64 budget[WEIR_TIER_BOUNDARIES];	/* in all tiers above, effective */
	enum weir_tier_reason reason;
};

void weir_tier_plan(const struct weir_tiers *tiers,
		    const struct weir_tier_room *room,
		    const struct weir_tier_settings *settings,
		    const struct weir_tier_group *groups,
		    struct weir_tier_work *work,
		    struct weir_tier_move *moves, weir_u32 count);

#endif
