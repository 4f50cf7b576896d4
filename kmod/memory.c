// SPDX-License-Identifier: GPL-2.0-only
/*
 * The room that memory leaves a cgroup for a floor, and the base of a ratio.
 *
 * Both come from live values on the cgroup's whole path, read by the beat: a
 * page must fit under every memory.max from the cgroup to the root.
 */
#include "weir.h"

/* Of a floor of @wanted, what the memory of one cgroup on its path leaves. */
static u64 floor_within(struct cgroup_subsys_state *css, u64 wanted)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	struct weir_floor_caps caps = {
		.wanted = wanted,
		.memory_max = weir_pages_max(READ_ONCE(memcg->memory.max)),
		.memory_min = READ_ONCE(memcg->memory.min),
	};

	return weir_floor_own(&caps);
}

/* The most that floors let a cgroup's subtree hold: the rest is for reclaim to drop. */
u64 weir_memory_room(struct cgroup_subsys_state *css)
{
	return floor_within(css, WEIR_UNLIMITED);
}

/*
 * The pages of a floor of @wanted that every memory.max, memory.min and ceiling on the
 * path allows: what may not be held need not be reserved.
 */
u64 weir_memory_floor(struct weir_record *record, u64 wanted)
{
	u64 floor = min(wanted, weir_ceiling_limit(weir_tree_ceiling(record)));

	for (; record; record = record->parent)
		floor = floor_within(record->css, floor);
	return floor;
}

static u64 path_headroom(struct weir_record *record)
{
	u64 least = WEIR_UNLIMITED;

	for (; record; record = record->parent) {
		struct mem_cgroup *memcg = mem_cgroup_from_css(record->css);

		least = weir_memory_headroom(least, min(READ_ONCE(memcg->memory.max),
							READ_ONCE(memcg->memory.high)),
					     page_counter_read(&memcg->memory));
	}
	return least;
}

/* The subtree's dirtyable memory, the base of memory.dirty_ratio. */
u64 weir_memory_dirtyable(struct weir_record *record)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(record->css);
	struct weir_counts counts = weir_tree_counts(record);
	struct weir_memory memory = {
		.file = weir_memcg_page_state(memcg, NR_ACTIVE_FILE) +
			weir_memcg_page_state(memcg, NR_INACTIVE_FILE),
		.dirty = counts.dirty + counts.writeback,
		.headroom = path_headroom(record),
		.host_avail = weir_limits_dirtyable(),
		.host_dirty = weir_count_host(),
	};

	return weir_ceiling_avail(&memory);
}
