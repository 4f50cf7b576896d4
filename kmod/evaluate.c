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
 * Evaluates the part of its floor that the record's caps leave, before the pool's scale.
 */
static void evaluate_wanted(struct weir_record *record)
{
	u64 wanted = weir_memory_floor(record,
				       weir_bytes_to_pages(record->dirty_min_bytes));

	WRITE_ONCE(weir_pool.floors_wanted,
		   weir_pool.floors_wanted + wanted - record->floor_wanted);
	record->floor_wanted = wanted;
}

/*
 * Scales the floor to the pool.  Its subtree is counted by passes and the walk, not for
 * each floor here.
 */
static void scale_floor(struct weir_record *record, const struct weir_floor_pool *pool)
{
	u64 others = weir_pool.floors_given - record->floor_given;
	u64 floor = weir_floor_step(record->floor_given,
				    weir_floor_effective(record->floor_wanted, pool),
				    others, pool);

	if (!floor != !record->floor_given)
		weir_floors_epoch++;
	weir_pool.floors_given = others + floor;
	WRITE_ONCE(record->floor, floor);
	WRITE_ONCE(record->floor_given, floor);
	weir_tree_review(record);
}

/*
 * Evaluate the floor of one record, if it has one.  The caller holds weir_lock.  Where the
 * pool is full, it gets what the others leave, and its part once the beat has scaled those.
 */
void weir_floor_evaluate(struct weir_record *record)
{
	struct weir_floor_pool all;

	if (!record->dirty_min_bytes && !record->floor_wanted)
		return;
	/* its own is set, or was until now */
	weir_fair_leave(record, false);
	evaluate_wanted(record);
	all = floor_pool();
	scale_floor(record, &all);
	WRITE_ONCE(weir_pool.floors_total, weir_floors_total(&all));
	weir_fair_fill_pool();
	weir_reserve_watch();
}

/*
 * Evaluate the base of the ratio of one record, and what its subtree holds.  The caller
 * holds weir_lock.
 */
void weir_record_evaluate(struct weir_record *record)
{
	weir_tree_update(record);
	if (READ_ONCE(record->ceiling.ratio_percent))
		WRITE_ONCE(record->avail, weir_memory_dirtyable(record));
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
			struct weir_record *record = list_first_entry(&weir_floors,
								      struct weir_record, floors);

			raw_spin_lock(&record->lock);
			weir_credit_forgive(&record->credit, record->floor);
			raw_spin_unlock(&record->lock);
			weir_floor_evaluate(record);
			weir_fair_count(record);
			list_rotate_left(&weir_floors);
		}
		spin_unlock(&weir_lock);
		cond_resched();
	}
}
