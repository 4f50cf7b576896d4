// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floors on a writer's path, as its pass finds them.
 *
 * Every record from the writer's cgroup to the root may have a floor, and any that
 * has room will do.  So the pass is decided by the one that has most, with what
 * the path as a whole allows: a ceiling or memory.max that is filled wins.
 *
 * What a floor covers comes from the sums of tree.c.  A cgroup that has no record is in no
 * sum, and no floor is about it: its passes are the kernel's.
 */
#include "weir.h"

/* The floor of @record, as @pass of @wb's writer finds it. */
static struct weir_floor_cover find_cover(struct weir_record *record, struct bdi_writeback *wb,
					  const struct weir_floor_pass *pass)
{
	struct weir_counts all = weir_tree_counts(record);
	u64 by_folio = all.dirty + all.writeback;
	u64 floor = READ_ONCE(record->floor);

	if (!READ_ONCE(record->floor_given))
		floor = weir_fair_claimable(floor, pass->host_dirty, pass->host_thresh);
	return (struct weir_floor_cover) {
		.floor = floor,
		.claim = weir_tree_claim(record),
		.by_folio = by_folio,
		.in_wb = weir_count_wb(wb, by_folio),
		.foreign = weir_record_foreign(record),
	};
}

/*
 * Pages to the nearest limit here or above, of a ceiling or of memory; 0 where floors
 * have filled what they may.
 */
static u64 floor_room(struct weir_record *record)
{
	u64 left = WEIR_UNLIMITED;
	const struct weir_record *own = record;
	bool fair = READ_ONCE(weir_fair);

	for (; left && record; record = record->parent) {
		struct weir_counts held = weir_tree_counts(record);

		left = min(left, weir_floor_left(weir_memory_room(record->css),
						 held.dirty + held.writeback));
		/* the cgroup's own pages fill its floor: find_cover() */
		if (fair && record != own && weir_fair_filled(record))
			left = 0;
		if (weir_record_has_ceiling(record))
			left = min(left, weir_ceiling_left(weir_record_ceiling(record),
							   &held));
	}
	return left;
}

/*
 * The floor that decides a pass on @wb of @record's cgroup.  Without a floor on
 * the path, or if the wb is of a cgroup that has no record, its floor is 0.
 * @state: the pass, NULL outside of one.
 */
struct weir_floor_pass weir_floor_for_pass(struct weir_record *record,
					   struct bdi_writeback *wb,
					   struct weir_pass_state *state)
{
	struct weir_floor_pass pass = {
		.host_dirty = weir_count_host(),
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
		.floors_total = READ_ONCE(weir_pool.honoured),
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.cgroup_domain = wb->memcg_css->parent != NULL,
	};

	weir_tree_fresh(record, state);
	if (record->css != wb->memcg_css)
		return pass;
	pass.left = floor_room(record);
	while ((record = weir_tree_floored(record))) {
		struct weir_floor_cover found = find_cover(record, wb, &pass);

		weir_floor_cover(&pass, &found);
		record = record->parent;
	}
	return pass;
}
