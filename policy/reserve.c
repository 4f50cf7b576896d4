// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reservation: the pages that floors hold back from all other cgroups.
 *
 * Model.  A floor (floor.c) lets a cgroup go on while the host is at its limit.
 * That would be a licence to pass the limit, if the others could fill it first.
 * So what is reserved and not yet used is taken out of what the others may use:
 *
 *   unused = sum over all floors of (floor - what it covers), or 0
 *   limit' = limit - unused
 *
 * A cgroup that dirties a page below its floor moves both sides by one: the
 * host holds one page more, and the others' limit is one page higher.  So what
 * the others have left does not depend on what floors' owners do, and all of
 * them together end at the limit, not above it.
 *
 * A floor covers the pages of its subtree.  For that to hold with a floor inside
 * another, no page may count against two: cleaned, it would free one page of the
 * host and two of what may be dirtied.  So a page claims the nearest floor from
 * its cgroup upwards, and what this one has no room for claims the next.  In that
 * order a page that is dirtied or cleaned moves the sum by one at most, and the
 * host and what is unused together only ever grow by pages that were held to
 * limit'.  A floor inside another is on top of it, as each is in the sum.
 *
 * Strategy, in the host's domain, for writers and flushers of every device,
 * strictlimit ones too (lowering is safe where lifting is not):
 *   thresh     less what is unused, but no less than the share that no floor may
 *              take: a stale sum must not stop the host
 *   bg_thresh  scaled by the same factor: flushers start in time, freerun falls
 *              along with the limit
 *   dom_limit  the domain's smoothed limit would follow down by 1/32 in 200 ms,
 *              and never below what is dirty; meanwhile the others may hold what
 *              is not theirs.  It is pulled down to thresh at once.  Only where
 *              the host holds more than that, because a large reservation is
 *              new, it is left a 256th above what is dirty, and follows that
 *              down: the position ratio is 0.03 to 0.1 there, so the others are
 *              slowed until their excess is written back, but not stopped
 * Readers see stock values.  A writer below its floor does not get here.
 *
 * Example.  Limit 8,192 pages, background 4,096; two floors of 2,048.  One
 * cgroup holds 2,048, the other 48: 2,000 are unused.  Amended: limit 6,192,
 * background 3,096, freerun 4,644.  With 2,096 pages held under floors the
 * others have 4,096 to themselves, and that remains so while the second fills
 * its floor.
 *
 * A floor of 3,000 with one of 1,000 inside: the inner subtree holds 1,500, the
 * rest of the outer 700.  1,000 of the inner one's are covered by its own floor,
 * 500 claim the outer, which covers 1,200: 1,800 are unused.  If all those are
 * dirtied and the inner 1,500 then cleaned, 1,000 + 500 may be dirtied again.
 */
#include "policy.h"

/* Of @floor, what those pages that claim it leave. */
weir_u64 weir_reserve_unused(weir_u64 floor, weir_u64 claimed)
{
	return claimed < floor ? floor - claimed : 0;
}

/* Of the pages that claim @floor, those it has no room for: they claim the next one. */
weir_u64 weir_reserve_beyond(weir_u64 floor, weir_u64 claimed)
{
	return claimed > floor ? claimed - floor : 0;
}

/* The most that the smoothed limit of a domain that holds @dirty may be. */
static weir_u64 smoothed_limit_cap(weir_u64 thresh, weir_u64 dirty)
{
	weir_u64 part;

	dirty = weir_saturate(dirty);
	part = dirty / 256 + 1;
	return dirty > thresh + part ? dirty + part : thresh;
}

/*
 * Amend the host's limits for what is reserved and unused.  Returns 0 and
 * leaves all as it is if nothing is, or if a reader asks.  Afterwards bg_thresh <
 * thresh, and nothing is higher than it was.
 */
int weir_host_amend(struct weir_limits *limits, const struct weir_host *host,
		    enum weir_pass kind)
{
	weir_u64 most = weir_share(limits->thresh, WEIR_FLOORS_PERCENT_OF_LIMIT,
				   100);
	weir_u64 unused = host->unused < most ? host->unused : most;
	weir_u64 thresh, dom_limit;

	if (kind == WEIR_PASS_READER || !unused)
		return 0;
	thresh = limits->thresh - unused;
	limits->bg_thresh = weir_share(limits->bg_thresh, thresh,
				       limits->thresh);
	if (limits->bg_thresh >= thresh)
		limits->bg_thresh = thresh / 2;
	limits->thresh = thresh;
	/* a flusher's count lacks the pages in writeback */
	if (kind == WEIR_PASS_FLUSHER)
		return 1;
	dom_limit = smoothed_limit_cap(thresh, limits->dirty);
	if (limits->dom_limit > dom_limit)
		limits->dom_limit = dom_limit;
	return 1;
}
