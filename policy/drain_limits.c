// SPDX-License-Identifier: GPL-2.0-only
/*
 * Seconds of drain in a pass: what the limit that drain.c found makes of the limits
 * of its two domains.  Without drain_seconds there is none, and they stay as they are.
 */
#include "policy.h"

/*
 * Amend the host's @limits as the sysctl would have, had it been @limit instead
 * of @stock; a @limit of 0 leaves them.  A lift leaves background where it is,
 * and what a real-time task has beyond.  A tighter limit scales both.
 */
void weir_drain_amend(struct weir_limits *limits, weir_u64 limit,
		      weir_u64 stock)
{
	if (!limit)
		return;
	if (limit >= stock) {
		if (limits->thresh < limit)
			limits->thresh = limit;
		return;
	}
	limits->thresh = weir_share(limits->thresh, limit, stock);
	limits->bg_thresh = weir_share(limits->bg_thresh, limit, stock);
	if (limits->bg_thresh >= limits->thresh)
		limits->bg_thresh = limits->thresh / 2;
}

/*
 * Amend the limits of a cgroup's domain along with the host's.  Linux gives a
 * cgroup the same share of its dirtyable memory (@avail) as the host's limit is
 * of the host's, in 4096ths, rounded up.  So does this for a lift, by what the
 * same pass found for the host, with what floors reserve (reserve.c) put back:
 * that is about the host's domain only.  A lift lost there is none here, or no
 * more than what is reserved.
 *
 * Tightened, the cgroup has its portion, too, but not less than the least that the host
 * may be left with, if the kernel lets it have that.  Example: while the drain is not
 * known a host with a limit of 6,400 MiB has 4; a container with 1,280 of those has 4 as
 * well, not 3/4, and one with 2 keeps 2.
 */
void weir_drain_follow(struct weir_limits *limits, weir_u64 avail,
		       const struct weir_drain_host *host)
{
	weir_u64 host_avail = weir_saturate(host->avail);
	weir_u64 lifted = weir_saturate(host->thresh);
	weir_u64 share, limit;

	if (!host->limit)
		return;
	if (host->limit < host->stock) {
		limit = weir_share(limits->thresh, host->limit, host->stock);
		if (limit < WEIR_DRAIN_LEAST)
			limit = weir_least(WEIR_DRAIN_LEAST, limits->thresh);
		weir_drain_amend(limits, limit, limits->thresh);
		return;
	}
	if (!host_avail)
		return;
	if (lifted < host->limit)
		lifted = weir_least(weir_add(lifted, host->unused), host->limit);
	share = (lifted * 4096 + host_avail - 1) / host_avail;
	limit = weir_share(avail, weir_least(share, 4096), 4096);
	if (limit > limits->thresh)
		limits->thresh = limit;
}
