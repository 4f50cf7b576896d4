// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tiers as they are now, for the files of tier_files.c; tier.c sets them.
 */
#include "weir.h"
#include <linux/nodemask.h>

/* to change these: tier.c's switch_lock and weir_lock */
struct weir_tier_nodes weir_tier_lists;
unsigned int weir_tier_ratio;

/* The tiers with what memory they have now; the caller holds weir_lock. */
void weir_tiers_now(struct weir_tiers *now)
{
	int tier, node;

	lockdep_assert_held(&weir_lock);
	*now = (struct weir_tiers) {
		.count = weir_tier_lists.count,
		.ratio = weir_tier_ratio ?: WEIR_TIER_BY_CAPACITY,
	};
	for (tier = 0; tier < weir_tier_lists.count; tier++) {
		for_each_node_mask(node, weir_tier_lists.tier[tier]) {
			if (node_online(node))
				now->capacity[tier] +=
					READ_ONCE(NODE_DATA(node)->node_present_pages);
		}
	}
}

/* The nodes of a tier; the caller holds weir_lock. */
const nodemask_t *weir_tier_nodes(u32 tier)
{
	lockdep_assert_held(&weir_lock);
	return &weir_tier_lists.tier[tier];
}
