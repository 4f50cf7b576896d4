// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: an empty free list is paid for by cgroups that allocate beyond their
 * share.
 *
 * Model.  A task that finds no free page reclaims some itself, whichever cgroup filled
 * the memory: a light allocator swaps a heavy one's pages out and waits for the disk.
 * A cgroup at its memory.high reclaims of itself, before others have to.  So some
 * memory is to stay free beyond the high watermarks, the headroom; while it does,
 * neither kswapd nor any allocation reclaims.  What is missing of it is taken off
 * the limits of the cgroups that allocate most.
 *
 * What is free is not what counts: a limited cgroup below its limit may take the
 * difference at any moment.  The level is what would be free if all had done so,
 *
 *	level = free - sum(limit - usage)
 *
 * and so a hog that unmaps everything does not make limits rise, to be too high
 * when it maps again.
 *
 * Strategy.  Below the headroom, what is missing is divided among the cgroups in
 * proportion to what each allocates beyond its share of all allocation, by weight.
 * One that allocates its share or less pays nothing, nor does one that holds no more
 * than its share of the memory that cgroups hold and that is free, while there is
 * another: it may allocate only to get back what was taken of it.  All that is in no
 * listed cgroup counts as one more, of the default weight.  Above twice the headroom,
 * limits rise by an eighth of the rest in each step, in proportion to weights.  In
 * between nothing changes.
 *
 * A limit falls by an eighth of itself in a step at most, and never below a floor:
 * memory.min or memory.low; what cannot be reclaimed of it; or, of a cgroup that needs
 * again an eighth of what is reclaimed of it, its share of that memory, as far as it
 * holds that.  Of a cgroup whose memory can hardly be reclaimed, for want
 * of swap, nothing is asked: a task over its limit would sleep for nothing.
 *
 * Idle memory.  While free memory stays above the high watermarks, kswapd does not
 * run and idle memory stays, so that limited cgroups swap in its place, for good.
 * While there are limits, the kernel is therefore asked to reclaim a 512th of memory at
 * a time, the coldest of the whole host.  If hardly any of that was outside of the
 * limited cgroups, or if it refaults there, the next request comes twice as late as
 * this one did, up to a minute.
 *
 * Rates count what a cgroup grows by and what is reclaimed of it.  What it frees
 * itself and takes again within one interval is not seen, nor does it empty any
 * free list.
 *
 * Example.  1,000 pages of headroom, 400 free; hogs at 90,000 pages allocate
 * 12,000 a second, writers 3,000, weights 100.  A share is 15,000 / 3 = 5,000: the
 * hogs are 7,000 beyond it, the writers are not.  The hogs' limit is 90,000 - 600.
 * They reach it and stay; the level is 1,000 and nothing changes any more.
 */
#include "reclaim.h"

/* A limit falls by so much in a step: usage, or the limit, divided by this. */
#define STEP		8
/* Of what was reclaimed so much comes back: it is in use. */
#define NEEDED		8
/* Part of memory that the headroom is, at least and at most. */
#define HEADROOM_LEAST	128
#define HEADROOM_MOST	16
/* Part of memory, and most and fewest pages, that are asked for at a time. */
#define IDLE_PART	512
#define IDLE_LEAST	1024ULL
#define IDLE_MOST	16384ULL
/* Between two requests, while there is idle memory and at most. */
#define IDLE_LEAST_MS	250ULL
#define IDLE_MOST_MS	64000ULL
#define MS_PER_S	1000ULL

static weir_u64 is_limited(const struct weir_reclaim_group *group)
{
	return group->limit != WEIR_UNLIMITED && !group->fixed;
}

/* The starting point of a step: the limit, or without one the pages held. */
static weir_u64 step_base(const struct weir_reclaim_group *group)
{
	weir_u64 usage = weir_saturate(group->usage);

	return is_limited(group) ? weir_saturate(group->limit) : usage;
}

static weir_u32 group_weight(const struct weir_reclaim_group *group)
{
	return group->weight ? group->weight : 1;
}

/*
 * A rate in pages a second that was @was, of @pages in the last @elapsed_ms: a
 * quarter of the way.  At ten steps a second that forgets in half a second.
 */
weir_u64 weir_reclaim_rate(weir_u64 was, weir_u64 pages, weir_u64 elapsed_ms)
{
	weir_u64 now = weir_saturate(pages) * MS_PER_S /
		       (elapsed_ms ? elapsed_ms : 1);

	return (3 * weir_saturate(was) + weir_saturate(now)) / 4;
}

/*
 * The headroom that follows @headroom, if @free pages were there a step ago: a quarter
 * more if allocations had to reclaim in spite of it, else slowly back to the least.
 * Where it was not there yet, limits have still to fall: to ask for more then would
 * take it from cgroups when the stalls are long over.
 */
weir_u64 weir_reclaim_headroom(weir_u64 memory, weir_u64 headroom,
			       weir_u64 free, int stalled)
{
	weir_u64 low = weir_saturate(memory) / HEADROOM_LEAST;
	weir_u64 high = weir_saturate(memory) / HEADROOM_MOST;

	headroom = weir_most(weir_saturate(headroom), low);
	if (stalled && weir_saturate(free) >= headroom / 2)
		headroom += headroom / 4 + 1;
	else if (!stalled)
		headroom -= (headroom - low) / 64;
	return weir_least(headroom, high);
}

/* All weights, that of what is in no group included. */
weir_u64 weir_reclaim_weights(const struct weir_reclaim_group *groups,
			      weir_u64 count)
{
	weir_u64 sum = WEIR_RECLAIM_WEIGHT;
	weir_u64 i;

	for (i = 0; i < count; i++)
		sum = weir_add(sum, group_weight(&groups[i]));
	return sum;
}

/* The least that a limit of the group may be. */
weir_u64 weir_reclaim_floor(const struct weir_reclaim_host *host,
			    const struct weir_reclaim_group *group,
			    weir_u64 weights)
{
	weir_u64 stolen = weir_saturate(group->stolen);
	weir_u64 floor = weir_most(weir_saturate(group->protection),
				   weir_saturate(group->pinned));
	weir_u64 share;

	if (!stolen || weir_saturate(group->refaulted) < stolen / NEEDED)
		return floor;
	share = weir_share(weir_saturate(host->memory), group_weight(group),
			   weights ? weights : 1);
	return weir_most(floor, weir_least(share, weir_saturate(group->usage)));
}

/* Pages that are asked for at a time, of a host with so much memory. */
weir_u64 weir_reclaim_idle(weir_u64 memory)
{
	return weir_most(weir_least(memory / IDLE_PART, IDLE_MOST), IDLE_LEAST);
}

/*
 * Milliseconds until the next request, which came @was_ms after the one before.
 * @asked pages were asked for by that; since then @stolen were taken outside of the
 * limited groups, and @refaulted were needed again there.
 */
weir_u64 weir_reclaim_idle_wait(weir_u64 was_ms, weir_u64 asked,
				weir_u64 stolen, weir_u64 refaulted)
{
	int idle = stolen && stolen >= asked / NEEDED &&
		   refaulted < stolen / NEEDED;

	if (idle)
		return IDLE_LEAST_MS;
	was_ms = weir_most(weir_least(was_ms, IDLE_MOST_MS), IDLE_LEAST_MS);
	return weir_least(2 * was_ms, IDLE_MOST_MS);
}

/* Pages a second that a group allocates beyond its share of @all. */
static weir_u64 excess_rate(const struct weir_reclaim_group *group, weir_u64 all,
			    weir_u64 weights)
{
	weir_u64 share = weir_share(weir_saturate(all), group_weight(group), weights);

	return weir_sub(weir_saturate(group->rate), share);
}

/* Less than a step of what a group holds can be reclaimed. */
static weir_u64 is_futile(const struct weir_reclaim_group *group)
{
	weir_u64 usage = weir_saturate(group->usage);

	return weir_sub(usage, weir_saturate(group->pinned)) < usage / STEP;
}

/* Pages by which a step may lower a group's limit, to @least if not to its floor. */
static weir_u64 payable_pages(const struct weir_reclaim_host *host,
			      const struct weir_reclaim_group *group,
			      weir_u64 weights, weir_u64 least)
{
	weir_u64 floor = weir_most(weir_reclaim_floor(host, group, weights), least);

	if (group->fixed || is_futile(group))
		return 0;
	return weir_least(weir_sub(step_base(group), floor), step_base(group) / STEP);
}

/*
 * Take @pages off the limits of those that allocate beyond their share, and hold more
 * than their share of @memory.  Non-zero if there is one.
 */
static int lower_limits(const struct weir_reclaim_host *host,
			const struct weir_reclaim_group *groups, weir_u64 count,
			weir_u64 weights, weir_u64 memory, weir_u64 pages,
			weir_u64 *limits)
{
	weir_u64 all = 0, sum = 0;
	weir_u64 i;

	for (i = 0; i < count; i++)
		all = weir_add(all, weir_saturate(groups[i].rate));
	for (i = 0; i < count; i++) {
		weir_u64 least = weir_share(memory, group_weight(&groups[i]), weights);

		if (payable_pages(host, &groups[i], weights, least))
			sum = weir_add(sum, excess_rate(&groups[i], all, weights));
	}
	for (i = 0; i < count && sum; i++) {
		weir_u64 least = weir_share(memory, group_weight(&groups[i]), weights);
		weir_u64 part = weir_share(pages,
					   excess_rate(&groups[i], all, weights), sum);

		part = weir_least(part, payable_pages(host, &groups[i], weights, least));
		if (part)
			limits[i] = step_base(&groups[i]) - part;
	}
	return sum != 0;
}

/* Give @pages back to those that are limited. */
static void raise_limits(const struct weir_reclaim_group *groups, weir_u64 count,
			 weir_u64 pages, weir_u64 *limits)
{
	weir_u64 sum = 0;
	weir_u64 i;

	for (i = 0; i < count; i++)
		sum += is_limited(&groups[i]) ? group_weight(&groups[i]) : 0;
	for (i = 0; i < count && sum; i++) {
		if (is_limited(&groups[i]))
			limits[i] = step_base(&groups[i]) +
				    weir_share(pages, group_weight(&groups[i]), sum);
	}
}

/* The limit that each group is to have now, WEIR_UNLIMITED for none. */
void weir_reclaim_limits(const struct weir_reclaim_host *host,
			 const struct weir_reclaim_group *groups,
			 weir_u64 count, weir_u64 *limits)
{
	weir_u64 weights = weir_reclaim_weights(groups, count);
	weir_u64 headroom = weir_saturate(host->headroom);
	weir_u64 free = weir_saturate(host->free);
	weir_u64 promised = 0, missing;
	weir_u64 i;

	for (i = 0; i < count; i++) {
		limits[i] = groups[i].limit;
		if (is_limited(&groups[i]))
			promised = weir_add(promised,
					    weir_sub(step_base(&groups[i]),
						     weir_saturate(groups[i].usage)));
	}
	missing = weir_sub(weir_add(promised, headroom), free);
	if (missing) {
		if (!lower_limits(host, groups, count, weights,
				  weir_saturate(host->memory), missing, limits))
			lower_limits(host, groups, count, weights, 0, missing, limits);
	} else if (free > weir_add(promised, 2 * headroom))
		raise_limits(groups, count,
			     (free - promised - 2 * headroom) / STEP, limits);
	for (i = 0; i < count; i++) {
		if (is_limited(&groups[i]) && is_futile(&groups[i]))
			limits[i] = WEIR_UNLIMITED;
	}
}
