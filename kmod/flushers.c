// SPDX-License-Identifier: GPL-2.0-only
/*
 * Knobs that flushers are held by, and the flushers that they hold: what flusher.c and
 * division.c stand on.
 */
#include "weir.h"
#include "flusher.h"
#include <linux/hash.h>

unsigned int weir_window_count;		/* cgroups with a window; weir_lock */

static struct weir_siblings root;
static u32 weighted;			/* cgroups with a weight of their own; weir_lock */

struct hlist_head weir_flushers[1 << WEIR_FLUSHERS_BITS];
DEFINE_SPINLOCK(weir_flushers_lock);

/* A window was set or cleared.  Under weir_lock. */
void weir_window_change(struct weir_group *group, u64 bytes)
{
	int change = (bytes != WEIR_UNLIMITED) - (group->writeback_bytes != WEIR_UNLIMITED);

	WRITE_ONCE(group->writeback_bytes, bytes);
	WRITE_ONCE(weir_window_count, weir_window_count + change);
}

bool weir_weights_any(void)
{
	return READ_ONCE(weighted);
}

struct weir_siblings *weir_siblings_of(struct weir_group *group)
{
	return group->parent ? &group->parent->below : &root;
}

/* A cgroup's weight is another.  The caller holds weir_lock. */
void weir_weight_change(struct weir_group *group, u32 weight)
{
	struct weir_siblings *siblings = weir_siblings_of(group);
	int change = (weight != WEIR_WEIGHT_DEFAULT) - (group->weight != WEIR_WEIGHT_DEFAULT);

	WRITE_ONCE(group->weight, weight);
	WRITE_ONCE(siblings->weighted, siblings->weighted + change);
	WRITE_ONCE(weighted, weighted + change);
}

/* The topmost division that @group is in, or NULL.  Under RCU. */
const struct weir_siblings *weir_division_scope(struct weir_group *group)
{
	const struct weir_siblings *scope = NULL;

	if (READ_ONCE(root.weighted))
		return &root;
	while ((group = group->parent)) {
		if (READ_ONCE(group->below.weighted))
			scope = &group->below;
	}
	return scope;
}

/* Is anything set that holds flushers? */
bool weir_flushers_any(void)
{
	return READ_ONCE(weir_window_count) || weir_weights_any();
}

struct hlist_head *weir_flushers_on(const struct backing_dev_info *bdi)
{
	return &weir_flushers[hash_ptr(bdi, WEIR_FLUSHERS_BITS)];
}

void weir_flusher_look(struct weir_flusher *flusher)
{
	flusher->in_flight = wb_stat_sum(flusher->wb, WB_WRITEBACK);
	flusher->written = wb_stat_sum(flusher->wb, WB_WRITTEN);
	flusher->looked = jiffies;
}

/*
 * The record of a flusher's cgroup, or of its nearest ancestor with one; not deeper than
 * WEIR_FLUSHER_LEVELS.  Under RCU.
 */
struct weir_group *weir_flusher_group(const struct weir_flusher *flusher)
{
	struct cgroup_subsys_state *css = flusher->wb->memcg_css;
	struct cgroup *above = cgroup_ancestor(css->cgroup, WEIR_FLUSHER_LEVELS);

	if (above && above != css->cgroup)
		css = rcu_dereference(above->subsys[memory_cgrp_id]);
	return css ? weir_group_nearest(css) : NULL;
}
