// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all floors reserve and do not use, kept fresh without asking everybody.
 *
 * Each group keeps what it last contributed; each of its passes, writer's or
 * flusher's, counts the cgroup anew and adds only the difference to one sum.  So
 * a decision costs one count, whatever the number of cgroups.  Pages that are
 * written back without a pass are seen by the beat, which counts every group.
 *
 * A group whose cgroup is gone takes its contribution along when it is freed,
 * after the last handler that could have noted one.
 */
#include "weir.h"

static atomic64_t unused_total;

/* The group now reserves @unused pages beyond what it holds. */
void weir_reserve_note(struct weir_group *group, u64 unused)
{
	u64 before = atomic64_xchg(&group->unused, unused);

	if (unused != before)
		atomic64_add(unused - before, &unused_total);
}

/* Count the group anew. */
void weir_reserve_refresh(struct weir_group *group)
{
	struct weir_floor_pass pass = { .floor = READ_ONCE(group->floor) };
	struct weir_counts counts;

	if (pass.floor) {
		counts = weir_count_memcg(mem_cgroup_from_css(group->css));
		pass.memcg_dirty = counts.dirty + counts.writeback;
		pass.foreign = weir_group_foreign(group);
	}
	weir_reserve_note(group, weir_floor_unused(&pass));
}

/* What the host's limits are amended for. */
struct weir_host weir_host(void)
{
	s64 unused = atomic64_read(&unused_total);

	return (struct weir_host) {
		.unused = READ_ONCE(weir_observe) || unused < 0 ? 0 : unused,
	};
}

/* The host's limits at the last beat, as passes find them now. */
struct weir_limits weir_host_limits(void)
{
	struct weir_host host = weir_host();
	struct weir_limits limits = {
		.thresh = READ_ONCE(weir_pool.host_thresh),
		.bg_thresh = READ_ONCE(weir_pool.host_bg_thresh),
	};

	weir_drain_amend(&limits, weir_drain_host().limit,
			 weir_drain_host().stock);
	weir_host_amend(&limits, &host, WEIR_PASS_WRITER);
	return limits;
}
