// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a writer's pass finds under the floors of its path.
 *
 * Every group from the writer's cgroup to the root may have a floor, and any that
 * has room will do.  So the pass is decided by the one that has most, with what
 * the path as a whole allows: a ceiling or memory.max that is filled wins.
 *
 * What a floor covers comes from the sums of tree.c, by the folios' owners.  The
 * writer's wb counts by the inodes' owners: what it holds beyond the pages of the
 * floor's whole subtree counts too.  The pages of a cgroup that has no group yet
 * are in no sum; they are counted here, against each floor.
 *
 * Example.  A pod has a floor of 4,096 pages, its container one of 2,048.  The
 * container holds 2,500, a sidecar 1,000.  A writer in the container finds none of
 * 2,048 left, and under the pod's floor 4,096 - 1,000 - 452 = 2,644: it is admitted
 * and looked at again after 32 pages.
 */
#include "weir.h"

/* The floor of @group in @pass, in which @fresh pages are in no sum. */
static void cover(struct weir_floor_pass *pass, struct weir_group *group,
		  struct bdi_writeback *wb, u64 fresh)
{
	struct weir_counts all = weir_tree_counts(group);
	u64 by_folio = all.dirty + all.writeback + fresh;
	u64 by_inode = max(by_folio, weir_count_wb(wb, by_folio));

	pass->floor = READ_ONCE(group->floor);
	pass->memcg_dirty = weir_tree_claim(group) + fresh;
	pass->wb_dirty = pass->memcg_dirty + by_inode - by_folio;
	pass->foreign = weir_device_foreign(group);
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
	u64 fresh = own.dirty + own.writeback;
	struct weir_floor_pass pass = {
		.host_dirty = weir_count_host(),
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
		.floors_total = READ_ONCE(weir_pool.floors_total),
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.cgroup_domain = wb->memcg_css->parent != NULL,
	};
	struct weir_floor_pass roomiest;

	weir_tree_fresh(group, seen);
	pass.capped = weir_tree_full(group) ||
		      fresh >= weir_memory_room(wb->memcg_css);
	roomiest = pass;
	while ((group = weir_tree_floored(group))) {
		cover(&pass, group, wb, fresh);
		if (!roomiest.floor ||
		    weir_floor_unused(&pass) > weir_floor_unused(&roomiest))
			roomiest = pass;
		group = group->parent;
	}
	return roomiest;
}
