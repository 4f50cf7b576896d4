// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit that put a task to sleep.
 *
 * The kernel throttles by one of two domains, the host's or the writer's
 * cgroup's, whichever leaves the task less.  It says which only by the numbers
 * it reports with the pause: the limit and the count of that domain.  The same
 * numbers were seen when the cgroup's domain was computed for this very pass, so
 * equal ones mean the cgroup's and others the host's.  Within the cgroup's
 * domain it is known what its position was judged by: the kernel's own limit for
 * the cgroup, its ceiling, or an ancestor's.  On a strictlimit device the
 * device's share decides, whatever the domain.
 *
 * Example.  The pass saw limit 16,384 and 15,001 dirty in the cgroup's domain,
 * judged by an ancestor's ceiling.  The pause reports 16,384 and 15,001: the
 * ancestor.  It reports 100,000 and 90,000: the host.
 */
#include "policy.h"

enum weir_pause_by weir_pause_by(const struct weir_pause_facts *facts)
{
	if (facts->strictlimit)
		return WEIR_BY_DEVICE;
	if (!facts->cgroup_seen)
		return WEIR_BY_UNKNOWN;
	if (facts->thresh != facts->cgroup_thresh ||
	    facts->dirty != facts->cgroup_dirty)
		return WEIR_BY_HOST;
	return facts->judged_by;
}
