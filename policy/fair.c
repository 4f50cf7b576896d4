// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fair part: a floor for each cgroup that dirties pages, without a knob.
 *
 * Model.  Linux throttles all writers once the host is above its freerun level, those that
 * hold next to nothing like those that hold all of it.  A cgroup that holds less than its fair
 * part of the host's limit is not the reason, and is not to wait.  So it has a floor (floor.c):
 *
 *   pool  what floors may take of the limit, less the floors that are set
 *   part  pool x the weight of each level / the weights of its siblings that write
 *
 * Level by level, so that a tenant with a hundred children has one part, and they divide it.
 * A sibling counts from its first pass until it has made none for two seconds: parts depend on
 * cgroups that write, not on those that are there.  What the host holds besides, in the root
 * cgroup or in topmost ones that have ceased to write, counts as one more at the top.
 *
 * That is of the 80 % that floors may take: below the limit the kernel's throttle is to keep
 * those steady that hold more.  While the host holds its limit the part is of all of that: then
 * to hold less is to be sure that another holds more than its own.
 *
 * One writer alone has all of the pool, and no floor: nothing is to be protected from anyone,
 * and the host behaves as on stock.
 *
 * What such a floor keeps back from others is not all that it leaves unused: a hundred cgroups
 * that log a line a second would take four fifths of the limit.  It keeps as much again as its
 * cgroup holds.  The rest is lent.  A cgroup that grows always finds that room, and others give
 * way as it does:
 *
 *   kept = min(floor - held, held)
 *
 * So a burst of a cgroup that held nothing meets a host that others may have filled, and is
 * above its limit until they have given way: by that cgroup's part, and by all parts of those that
 * burst at the same time, 80 % together (floor.c, host).  To keep that room free would take it
 * from every host with one writer.
 *
 * Example.  Limit 8,192 pages: a pool of 6,553.  A flood alone has no floor and fills the limit.
 * A second cgroup writes 125 pages a second: both have a floor of 3,276.  The flood holds more,
 * and is throttled as ever.  The second holds 1,000 after 8 s, and 1,000 are kept for it: the
 * others' limit is 7,192.  While the host is at its limit it may fill 4,095.  A tenant with ten writers beside the two: each of the three has 2,184,
 * and each of the tenant's ten 218.
 */
#include "policy.h"

/* The pages that fair parts are of: what floors that are set leave of those floors may take. */
weir_u64 weir_fair_pool(const struct weir_floor_pool *set)
{
	weir_u64 cap = weir_share(set->host_thresh, WEIR_FLOORS_PERCENT_OF_LIMIT, 100);

	return weir_sub(cap, set->wanted_total);
}

/* The part of a child with @weight in @part, where siblings that write add up to @siblings. */
weir_u64 weir_fair_part(weir_u64 part, weir_u32 weight, weir_u64 siblings)
{
	return weir_share(part, weight, siblings);
}

/* The floor of a cgroup that has @part of @pool: none if it writes alone. */
weir_u64 weir_fair_floor(weir_u64 part, weir_u64 pool)
{
	return part < pool ? part : 0;
}

/* Pages that a writer's pass may fill of a fair @floor. */
weir_u64 weir_fair_claimable(weir_u64 floor, weir_u64 host_dirty, weir_u64 host_thresh)
{
	if (host_dirty < host_thresh)
		return floor;
	return weir_add(floor, weir_share(floor, 100 - WEIR_FLOORS_PERCENT_OF_LIMIT,
					  WEIR_FLOORS_PERCENT_OF_LIMIT));
}

/* Pages of @unused under a fair @floor that are kept from others. */
weir_u64 weir_fair_kept(weir_u64 floor, weir_u64 unused)
{
	return weir_least(unused, weir_sub(floor, unused));
}

/* Does the host hold pages enough besides those of cgroups that write, to count as one? */
int weir_fair_others(weir_u64 host_dirty, weir_u64 counted, weir_u64 host_thresh)
{
	return weir_sub(host_dirty, counted) >
	       weir_share(host_thresh, WEIR_FAIR_OTHERS_PERCENT, 100);
}
