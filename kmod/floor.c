// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a writer's pass finds under the floors of its path.
 *
 * Every group from the writer's cgroup to the root may have a floor, and any that
 * has room will do.  So the pass is decided by the one that has most, with what
 * the path as a whole allows: a ceiling or memory.max that is filled wins.
 *
 * What a floor covers comes from the sums of tree.c.  The pages of a cgroup that
 * has no group yet are in no sum; they are counted here, against each floor.
 */
#include "weir.h"

/* What @wb's writer finds of the floor of @group, with @fresh pages in no sum. */
static struct weir_floor_cover cover(struct weir_group *group,
				     struct bdi_writeback *wb, bool young,
				     const struct weir_counts *own)
{
	struct weir_counts all = weir_tree_counts(group);
	struct weir_counts more = weir_tree_unsummed(group, young, own);
	u64 fresh = more.dirty + more.writeback;
	u64 by_folio = all.dirty + all.writeback + fresh;

	return (struct weir_floor_cover) {
		.floor = READ_ONCE(group->floor),
		.claim = weir_tree_claim(group) + fresh,
		.by_folio = by_folio,
		.in_wb = weir_count_wb(wb, by_folio),
		.foreign = weir_device_foreign(group),
	};
}

/*
 * Pages to the nearest limit here or above, of a ceiling or of memory; 0 where floors
 * have filled what they may.  After weir_tree_update().  @young and @own as
 * weir_tree_unsummed().
 */
static u64 floor_room(struct weir_group *group, bool young,
		      const struct weir_counts *own)
{
	u64 left = WEIR_UNLIMITED;

	for (; left && group; group = group->parent) {
		struct weir_counts held = weir_tree_held(group, young, own);

		left = min(left, weir_floor_left(weir_memory_room(group->css),
						 held.dirty + held.writeback));
		if (weir_group_has_ceiling(group))
			left = min(left, weir_ceiling_left(weir_group_ceiling(group),
							   &held));
	}
	return left;
}

/*
 * What decides a pass on @wb of @group's cgroup, or of one that has no group yet.
 * Without a floor on the path its floor is 0.  @seen: the pass, NULL outside of one.
 */
struct weir_floor_pass weir_floor_look(struct weir_group *group,
				       struct bdi_writeback *wb,
				       struct weir_seen *seen)
{
	struct weir_counts own = weir_tree_uncounted(group, wb->memcg_css);
	bool young = group->css != wb->memcg_css;
	struct weir_counts held = own, more;
	struct cgroup_subsys_state *css;
	struct weir_floor_pass pass = {
		.host_dirty = weir_count_host(),
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
		.floors_total = READ_ONCE(weir_pool.floors_total),
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.cgroup_domain = wb->memcg_css->parent != NULL,
	};

	weir_tree_fresh(group, seen);
	pass.left = floor_room(group, young, &own);
	more = weir_tree_unsummed(group, young, &own);
	/* those without a group, from the writer's up; it alone is known for what it holds */
	for (css = wb->memcg_css; css && css != group->css; css = css->parent) {
		pass.left = min(pass.left, weir_floor_left(weir_memory_room(css),
							   held.dirty + held.writeback));
		held = more;
	}
	while ((group = weir_tree_floored(group))) {
		struct weir_floor_cover found = cover(group, wb, young, &own);

		weir_floor_cover(&pass, &found);
		group = group->parent;
	}
	return pass;
}
