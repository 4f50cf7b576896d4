// SPDX-License-Identifier: GPL-2.0-only
/*
 * The order of amendments in one pass.
 *
 * Model.  A pass (pass.c) asks for the limits of two domains: the host's, then,
 * if the writer's cgroup has one, the cgroup's.  Up to four parts of weir amend
 * what the kernel computed, and each works on what the one before has left.
 *
 * Order, in the host's domain:
 *   drain        the operator's own limit (drain_limits.c), instead of the sysctl's.
 *                First: what floors may reserve is a share of the limit that is
 *                in force
 *   reservation  what floors hold back is taken out of that (reserve.c).  Were
 *                it taken first, a drain limit would be put in its place, and
 *                the reservation be lost
 *   release      a writer that began its pass above a floor and slept while the
 *                floor got room is let go: the kernel looks again after each
 *                step.  Last: the dirty count becomes 0, which is freerun under
 *                any limit, and the smoothed limit is to follow what is dirty,
 *                not this 0
 * and in the cgroup's, in the same pass:
 *   drain        by what the pass found for the host, with the reservation put
 *                back: that is about the host's domain only
 *   release      follows the host's, as a pass is decided once.  Before
 *                ceilings: they would count the pages anew.  None of them is
 *                full, or the floor would not have admitted (floor.c)
 *   ceilings     of the path (ceiling.c), on a device that is not strictlimit.
 *                After drain: a ceiling bounds a cgroup however fast its disk
 *                drains
 * A reader's pass is left as it is (rule 4 of pass.c).  A flusher's has all but
 * the release, as it does not sleep: writers and flushers see the same limits
 * (rule 2).  A lost pass over the host's domain means that nothing is released,
 * and a lost one over the cgroup's that the kernel's own throttle goes on (rule 1).
 *
 * The caller reads counters, looks at the floors and walks up the path for its
 * ceilings; the order of those does not matter.
 *
 * Example.  Limit 8,192 pages, background 4,096, 6,000 dirty; a drain limit of
 * 16,384 is in force and floors leave 2,000 unused.  Drain: 16,384, background
 * 4,096.  Reservation: 14,384, background 3,596.  A cgroup that has all of the
 * host's 65,536 dirtyable pages follows to 16,384; a ceiling of 8,192 makes that
 * 6,144.
 * The other way round, the limit would be 6,192 after the reservation, and 16,384
 * after drain: 2,000 pages that floors were promised would be free for all.  A
 * sleeper whose floor has room finds 0 dirty in both, and goes on.
 */
#include "policy.h"

/*
 * Amend the @limits of the global domain, in a pass of @kind.  @below: what the
 * pass of a writer finds of the floors on its path, NULL without one.  Non-zero
 * if the writer is let go: then its cgroup's domain is to follow.
 */
int weir_amend_global(struct weir_limits *limits, enum weir_pass kind,
		      const struct weir_drain_host *host,
		      const struct weir_floor_pass *below)
{
	const struct weir_host floors = { .unused = host->unused };

	if (kind == WEIR_PASS_READER)
		return 0;
	weir_drain_amend(limits, host->limit, host->stock);
	weir_host_amend(limits, &floors, kind);
	if (kind != WEIR_PASS_WRITER || !below ||
	    weir_floor_decide(below) != WEIR_FLOOR_ADMIT)
		return 0;
	limits->dirty = 0;
	return 1;
}

/*
 * Amend the @limits of a cgroup's domain with @avail dirtyable memory; @released:
 * what weir_amend_global() said in the same pass.  Non-zero if the ceilings on the
 * path come next, each by weir_ceiling_amend().
 */
int weir_amend_memcg(struct weir_limits *limits,
		     const struct weir_pass_facts *facts,
		     const struct weir_drain_host *host, weir_u64 avail,
		     int released)
{
	if (weir_pass_kind(facts) == WEIR_PASS_READER)
		return 0;
	weir_drain_follow(limits, avail, host);
	if (!weir_pass_may_cap(facts))
		return 0;
	if (released)
		limits->dirty = 0;
	return !released;
}
