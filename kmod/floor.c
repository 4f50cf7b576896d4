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

/* The floor of @record, whose subtree holds @held, as @pass of @wb's writer finds it. */
static struct weir_floor_cover find_cover(struct weir_record *record, u64 floor,
					  const struct weir_counts *held,
					  struct bdi_writeback *wb,
					  const struct weir_floor_pass *pass)
{
	u64 by_folio = held->dirty + held->writeback;

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

/* Pages to the limit of memory or ceiling of @record, whose subtree holds @held. */
static u64 room_at(struct weir_record *record, const struct weir_counts *held)
{
	u64 left = weir_floor_left(weir_memory_room(record->css),
				   held->dirty + held->writeback);

	if (weir_record_has_ceiling(record))
		left = min(left, weir_ceiling_left(weir_record_ceiling(record), held));
	return left;
}

/*
 * The floor that decides a pass on @wb.  Without a floor on the path, or if the wb is of a
 * cgroup that has no record, its floor is 0.  What is left of it is 0, too, where floors
 * have filled what they may.
 */
struct weir_floor_pass weir_floor_for_pass(const struct weir_stretch *stretch,
					   struct bdi_writeback *wb)
{
	struct weir_floor_pass pass = {
		.host_dirty = weir_count_host(),
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
		.floors_total = READ_ONCE(weir_pool.honoured),
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.cgroup_domain = wb->memcg_css->parent != NULL,
	};
	struct weir_record *record = stretch->record;
	bool fair = READ_ONCE(weir_fair);

	weir_stretch_count(stretch);
	if (!stretch->own)
		return pass;
	pass.left = WEIR_UNLIMITED;
	for (; record; record = record->parent) {
		struct weir_counts held = weir_tree_counts(record);
		u64 floor = READ_ONCE(record->floor);

		pass.left = min(pass.left, room_at(record, &held));
		/* the cgroup's own pages fill its floor: find_cover() */
		if (fair && record != stretch->record && weir_fair_filled(record))
			pass.left = 0;
		if (floor) {
			struct weir_floor_cover found = find_cover(record, floor, &held, wb,
								   &pass);

			weir_floor_cover(&pass, &found);
		}
	}
	return pass;
}
