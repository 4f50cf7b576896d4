// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floors and ceilings evaluated live: when a knob is written, and on each beat, against
 * the memory.max, memory.min and limit of the moment.
 */
#include "weir.h"

LIST_HEAD(weir_floors);
unsigned int weir_floor_count;

/* Floors that are evaluated under one hold of weir_lock: a fraction of a millisecond. */
#define FLOORS_AT_ONCE	32

static struct weir_floor_pool floor_pool(void)
{
	return (struct weir_floor_pool) {
		.wanted_total = weir_pool.floors_wanted,
		.host_thresh = READ_ONCE(weir_pool.host_thresh),
	};
}

/*
 * Evaluates the part of its floor that the group's caps leave, before the pool's scale.
 */
static void evaluate_wanted(struct weir_group *group)
{
	u64 wanted = weir_memory_floor(group);

	WRITE_ONCE(weir_pool.floors_wanted,
		   weir_pool.floors_wanted + wanted - group->floor_wanted);
	group->floor_wanted = wanted;
}

/*
 * Scales the floor to the pool.  Its subtree is counted by passes and the walk, not for
 * each floor here.
 */
static void scale_floor(struct weir_group *group, const struct weir_floor_pool *pool)
{
	u64 others = weir_pool.floors_given - group->floor;
	u64 floor = weir_floor_step(group->floor,
				    weir_floor_effective(group->floor_wanted, pool),
				    others, pool);

	if (!floor != !group->floor)
		weir_floors_epoch++;
	weir_pool.floors_given = others + floor;
	WRITE_ONCE(group->floor, floor);
	weir_tree_review(group);
}

/*
 * Evaluate the floor of one group, if it has one.  The caller holds weir_lock.  Where the
 * pool is full, it gets what the others leave, and its part once the beat has scaled those.
 */
void weir_floor_evaluate(struct weir_group *group)
{
	struct weir_floor_pool all;

	if (!group->dirty_min_bytes && !group->floor_wanted)
		return;
	evaluate_wanted(group);
	all = floor_pool();
	scale_floor(group, &all);
	WRITE_ONCE(weir_pool.floors_total, weir_floors_total(&all));
	weir_reserve_watch();
}

/*
 * Evaluate the base of the ratio of one group, and what its subtree holds.  The caller
 * holds weir_lock.
 */
void weir_group_evaluate(struct weir_group *group)
{
	weir_tree_update(group);
	if (READ_ONCE(group->ceiling.ratio_percent))
		WRITE_ONCE(group->avail, weir_memory_dirtyable(group));
}

/*
 * Evaluate every floor within the host's present limits, some at a time.  The list goes
 * round, so that floors may come and go in between.
 */
void weir_floors_evaluate(void)
{
	unsigned int left = READ_ONCE(weir_floor_count);
	unsigned int now;

	while (left) {
		now = min(left, FLOORS_AT_ONCE);
		left -= now;
		spin_lock(&weir_lock);
		for (; now && !list_empty(&weir_floors); now--) {
			struct weir_group *group = list_first_entry(&weir_floors,
								    struct weir_group, floors);

			raw_spin_lock(&group->lock);
			weir_credit_forgive(&group->credit, group->floor);
			raw_spin_unlock(&group->lock);
			weir_floor_evaluate(group);
			list_rotate_left(&weir_floors);
		}
		spin_unlock(&weir_lock);
		cond_resched();
	}
}
