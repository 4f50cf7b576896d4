// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floor: memory.dirty_min.
 *
 * Model.  Linux throttles all that dirty pages once the *host* holds more than
 * its freerun level, (background + limit) / 2.  A floor exempts the tasks of a
 * subtree as long as that subtree itself holds little: below the floor a writer's
 * pass through balance_dirty_pages() is left out as a whole, exactly as if the
 * host were free-running.  Nothing is lifted, so nothing can stay lifted.
 *
 * Those below one floor share it, first come first served.  Of several floors on
 * a writer's path any that has room will do: a floor inside another is used
 * first, the outer one by what goes beyond (reserve.c), and the pass is decided by
 * the one that has most room.
 *
 * What counts against a floor is the larger of two counts, plus what neither
 * can see.  The memcgs' count goes by who owns the folio, the wb's by who
 * owns the inode: what the writer's wb holds beyond the pages of the floor's
 * whole subtree counts too.  They differ on shared files, and a task that dirties
 * another cgroup's page in another cgroup's file is in neither; credit.c keeps those.
 *
 * Caps, each evaluated with live values:
 *   own   at most memory.max - memory.min, and at most half of memory.max: a
 *         cgroup that fills itself with dirty pages leaves reclaim nothing it
 *         can drop and would meet the OOM killer instead of the throttle.  The
 *         same bounds what the subtree of each cgroup on a writer's path may hold,
 *         whichever floors cover it.  And at most what ceilings on the path let it fill
 *   pool  all floors together at most 80 % of the global limit, scaled down
 *         in proportion
 *   host  no floor is honoured while the host holds its limit and all floors
 *         on top.  That is where a wrong count would end, or a reservation that
 *         is made while the others fill the limit already.
 *
 * A ceiling wins over a floor, also an ancestor's that siblings have filled: what
 * bounds a subtree bounds all of it, as memory.max wins over memory.min.  It is full
 * for a floor where it is for all writers, at 3/4 (ceiling.c): others of the subtree
 * were let go before, and the rest is for what they dirty until their next look.
 *
 * What a floor reserves and its cgroup does not use is taken out of what the
 * others may use, so that the host stays within its limit: reserve.c.
 *
 * Example.  Limit 32 MiB (8,192 pages), background 16 MiB; the noisy cgroup
 * keeps the host between 24 and 32 MiB.  A victim with dirty_min 16 MiB (4,096
 * pages, 50 % of the limit, so unscaled) that holds 6 MiB: 1,536 < 4,096 and
 * 8,192 < 8,192 + 4,096, so it is admitted, and looked at again after
 * 2^(log2(2,560) / 2) = 32 pages.
 *
 * A pod has a floor of 4,096 pages, its container one of 2,048.  The container
 * holds 2,500, a sidecar 1,000.  A writer in the container finds none of 2,048
 * left, and under the pod's floor 4,096 - 1,000 - 452 = 2,644: it is admitted and
 * looked at again after 32 pages.
 */
#include "policy.h"

/*
 * The part of the floor a cgroup asks for that its own memory limits leave.
 * Returns pages, at most WEIR_PAGES_MAX.
 */
weir_u64 weir_floor_own(const struct weir_floor_caps *caps)
{
	weir_u64 own = weir_saturate(caps->wanted);
	weir_u64 room, part;

	if (caps->memory_max == WEIR_UNLIMITED)
		return own;
	room = caps->memory_max > caps->memory_min ?
	       caps->memory_max - caps->memory_min : 0;
	part = caps->memory_max / 100 * WEIR_FLOOR_PERCENT_OF_MEMORY +
	       caps->memory_max % 100 * WEIR_FLOOR_PERCENT_OF_MEMORY / 100;
	if (own > room)
		own = room;
	return own < part ? own : part;
}

/*
 * Pages until all memory of a subtree that holds @held is dirty, at least, where floors
 * fill @room of it, which is half or less: weir_floor_own().  0 once they have.
 */
weir_u64 weir_floor_left(weir_u64 room, weir_u64 held)
{
	return held < room ? weir_add(room, room - held) : 0;
}

/* The most that all floors together may reserve. */
static weir_u64 floors_cap(const struct weir_floor_pool *pool)
{
	return weir_share(pool->host_thresh, WEIR_FLOORS_PERCENT_OF_LIMIT, 100);
}

/*
 * One cgroup's floor after the pool's scale; the sum over all cgroups is at
 * most 80 % of the global limit whatever they ask for.  Should @wanted_total lag
 * behind a knob and miss @own, this one floor still stays within the 80 %.
 */
weir_u64 weir_floor_effective(weir_u64 own, const struct weir_floor_pool *pool)
{
	weir_u64 cap = floors_cap(pool);
	weir_u64 scaled = weir_share(own, cap, pool->wanted_total);

	return scaled < cap ? scaled : cap;
}

/*
 * One step of a floor that is @now towards @effective, beside @others, the sum
 * of all others.  Floors are evaluated one after the other: pages that one
 * gains, another may not have given up yet.  None loses more than its part for
 * that: where the limit falls, the first that is evaluated would have next to
 * nothing, and pages it reserved would be open to any cgroup.
 */
weir_u64 weir_floor_step(weir_u64 now, weir_u64 effective, weir_u64 others,
			 const struct weir_floor_pool *pool)
{
	weir_u64 cap = floors_cap(pool);
	weir_u64 room = cap > others ? cap - others : 0;

	if (effective <= now || room <= now)
		return effective < now ? effective : now;
	return effective < room ? effective : room;
}

/* Upper bound of the sum of all effective floors. */
weir_u64 weir_floors_total(const struct weir_floor_pool *pool)
{
	weir_u64 cap = floors_cap(pool);

	return pool->wanted_total < cap ? pool->wanted_total : cap;
}

/* Pages that claim the floor in this pass. */
static weir_u64 claiming_pages(const struct weir_floor_pass *pass)
{
	weir_u64 larger = pass->memcg_dirty > pass->wb_dirty ?
			  pass->memcg_dirty : pass->wb_dirty;

	return weir_add(larger, pass->foreign);
}

/* The room that the pass finds under the floor. */
weir_u64 weir_floor_unused(const struct weir_floor_pass *pass)
{
	return weir_reserve_unused(pass->floor, claiming_pages(pass));
}

/*
 * Let a floor on the writer's path decide the pass, if none does yet or if it has
 * more room than the one that does.
 */
void weir_floor_cover(struct weir_floor_pass *pass,
		      const struct weir_floor_cover *cover)
{
	struct weir_floor_pass other = *pass;

	other.floor = cover->floor;
	other.memcg_dirty = cover->claim;
	other.wb_dirty = weir_add(cover->claim, weir_reserve_beyond(cover->by_folio,
								    cover->in_wb));
	other.foreign = cover->foreign;
	if (!pass->floor || weir_floor_unused(&other) > weir_floor_unused(pass))
		*pass = other;
}

/* Decide one writer's pass. */
enum weir_floor_verdict weir_floor_decide(const struct weir_floor_pass *pass)
{
	if (!pass->floor || pass->strictlimit || !pass->cgroup_domain)
		return WEIR_FLOOR_NONE;
	if (claiming_pages(pass) >= pass->floor)
		return WEIR_FLOOR_FULL;
	if (!pass->left)
		return WEIR_FLOOR_CAPPED;
	if (pass->host_dirty >= weir_add(pass->host_thresh, pass->floors_total))
		return WEIR_FLOOR_HOST_FULL;
	return WEIR_FLOOR_ADMIT;
}

/*
 * Pages an admitted task may dirty before it is looked at again: the square
 * root, to a power of two, of what is left of the floor.  The rule Linux uses
 * for a free-running task, with the floor in the limit's place.  A limit on the path
 * bounds it as it does for all tasks without a pace: the square root of a pod's floor,
 * once for each writer of a small container, fills its memory.  At least 1.
 */
weir_u64 weir_floor_poll(const struct weir_floor_pass *pass)
{
	weir_u64 left = weir_floor_unused(pass);
	weir_u64 poll = 1;

	while (left >= 4) {
		left >>= 2;
		poll <<= 1;
	}
	if (poll > pass->left / WEIR_LOOK_PART)
		poll = pass->left / WEIR_LOOK_PART;
	return poll ? poll : 1;
}
