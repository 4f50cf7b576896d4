// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floors and ceilings evaluated live: when a knob is written, and on each beat, against
 * the memory.max, memory.min and limit of the moment.
 */
#include "weir.h"

LIST_HEAD(weir_floors);

static struct weir_floor_pool pool(void)
{
	return (struct weir_floor_pool) {
		.wanted_total = weir_pool.floors_wanted,
		.host_thresh = READ_ONCE(weir_pool.host_thresh),
	};
}

/* What the group's caps leave of its floor, before the pool's scale. */
static void wish(struct weir_group *group)
{
	u64 wanted = weir_memory_floor(group);

	WRITE_ONCE(weir_pool.floors_wanted,
		   weir_pool.floors_wanted + wanted - group->floor_wanted);
	group->floor_wanted = wanted;
}

/* What its subtree holds is counted by passes and the walk, not for each floor here. */
static void scale(struct weir_group *group, const struct weir_floor_pool *pool)
{
	u64 floor = weir_floor_effective(group->floor_wanted, pool);

	if (!floor != !group->floor)
		weir_floors_epoch++;
	WRITE_ONCE(group->floor, floor);
	weir_tree_review(group);
}

static void total(const struct weir_floor_pool *pool)
{
	WRITE_ONCE(weir_pool.floors_total, weir_floors_total(pool));
	weir_reserve_watch();
}

/* Evaluate the floor of one group, if it has one.  The caller holds weir_lock. */
void weir_floor_evaluate(struct weir_group *group)
{
	struct weir_floor_pool all;

	if (!group->dirty_min_bytes && !group->floor_wanted)
		return;
	wish(group);
	all = pool();
	scale(group, &all);
	total(&all);
}

/*
 * Evaluate the floor and the base of the ratio of one group, and what its
 * subtree holds.  The caller holds weir_lock.
 */
void weir_evaluate(struct weir_group *group)
{
	weir_tree_update(group);
	if (READ_ONCE(group->ceiling.ratio_percent))
		WRITE_ONCE(group->avail, weir_memory_dirtyable(group));
	weir_floor_evaluate(group);
}

/* Evaluate every floor within the host's present limits.  Under weir_lock. */
void weir_floors_evaluate(void)
{
	struct weir_floor_pool all;
	struct weir_group *group;

	list_for_each_entry(group, &weir_floors, floors)
		wish(group);
	all = pool();
	list_for_each_entry(group, &weir_floors, floors)
		scale(group, &all);
	total(&all);
}
