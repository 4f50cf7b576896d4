/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reclaim: which cgroups reclaim for themselves, and how much.
 *
 * For the agent, which writes memory.high; no part of weir.ko.  Page counts unless
 * a name says otherwise, rates in pages a second.
 */
#ifndef WEIR_POLICY_RECLAIM_H
#define WEIR_POLICY_RECLAIM_H

#include "policy.h"

/*
 * The default weight of a cgroup, and the weight of all memory that is in no listed
 * cgroup together.
 */
#define WEIR_RECLAIM_WEIGHT	100U

struct weir_reclaim_host {
	weir_u64 memory;	/* what is free and what all groups hold */
	weir_u64 free;		/* beyond the high watermarks */
	weir_u64 headroom;	/* what of it should stay free */
};

struct weir_reclaim_group {
	weir_u64 usage;		/* memory.current */
	weir_u64 limit;		/* memory.high as set here before, WEIR_UNLIMITED if not */
	weir_u64 protection;	/* memory.min or memory.low, the larger */
	weir_u64 pinned;	/* what of usage cannot be reclaimed: nowhere to swap it to */
	weir_u64 rate;		/* what it allocates */
	weir_u64 stolen;	/* what is reclaimed of it */
	weir_u64 refaulted;	/* what of that it needs again */
	weir_u32 weight;
	weir_u32 fixed;		/* memory.high is another program's: never changed */
};

weir_u64 weir_reclaim_rate(weir_u64 was, weir_u64 pages, weir_u64 elapsed_ms);
weir_u64 weir_reclaim_headroom(weir_u64 memory, weir_u64 headroom,
			       weir_u64 free, int stalled);
weir_u64 weir_reclaim_floor(const struct weir_reclaim_host *host,
			    const struct weir_reclaim_group *group,
			    weir_u64 weights);
weir_u64 weir_reclaim_weights(const struct weir_reclaim_group *groups,
			      weir_u64 count);
weir_u64 weir_reclaim_idle(weir_u64 memory);
weir_u64 weir_reclaim_idle_wait(weir_u64 was_ms, weir_u64 asked,
				weir_u64 stolen, weir_u64 refaulted);
void weir_reclaim_limits(const struct weir_reclaim_host *host,
			 const struct weir_reclaim_group *groups,
			 weir_u64 count, weir_u64 *limits);

#endif
