// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ceiling: memory.dirty_bytes and memory.dirty_ratio.
 *
 * Model.  Linux already throttles a cgroup's writers against a domain of the
 * cgroup's own, whose limit is a share of the global one.  A ceiling lowers
 * that domain's limit, and everything behind it (freerun, position ratio, rate
 * limit, the flusher's own check) follows by itself.
 *
 * Strategy, in the return of the kernel's limit calculation, for that cgroup's
 * domain only:
 *   thresh     min(kernel's, 3/4 of the ceiling): only ever tighter.  A
 *              domain's limit is not the most it holds but where its writers'
 *              pace ends.  A writer that was let go before dirties what it may
 *              until its next look, on xfs a folio at least (300 writers with one of
 *              64 KiB: 19 MiB); the rest has room for that
 *   bg_thresh  scaled by the same factor, so the flusher starts in proportion
 *              and freerun stays below the limit
 *   dirty      the exact count over all devices.  The kernel's own lags by
 *              seconds, in which writers go 2 to 4 times over.  Writeback
 *              counts for a writer, and for a flusher where writers are held.
 *              Never less than the kernel's count scaled with the limit: where
 *              the two disagree, the ceiling must not let pass what stock
 *              would hold
 *   dom_limit  the domain's smoothed limit is pulled down to thresh: it decays
 *              by 1/32 in 200 ms and would widen the ceiling meanwhile; under
 *              a full ceiling, too, where the kernel's own count is tighter
 * An ancestor's ceiling bounds its subtree, and has no domain in this pass: the
 * one domain there is, the writer's own, is put where the subtree is under the
 * ancestor's ceiling.  thresh is the least of all limits on the path, and dirty
 * is to thresh what the fullest of them holds of its limit.  So each ceiling on
 * the path is obeyed, and the tightest paces.
 *
 * Nothing is rounded to zero: a limit is at least two pages, and real-time
 * priority, applied by the kernel before weir looks, does not widen it.
 *
 * Example.  Kernel: thresh 100,000, background 50,000; ceiling 64 MiB = 16,384
 * pages.  Amended: thresh 12,288, background 6,144, freerun 9,216.  A cgroup
 * with 8,000 dirty and 1,000 in writeback free-runs at 9,000; its flusher
 * sees 8,000 > 6,144 and goes on.  Its parent has a ceiling of 32,768 pages, a
 * limit of 24,576, and holds 23,000: 0.94 of it, tighter than 0.73.  thresh stays
 * 12,288, dirty becomes 11,501, above freerun, and the writer is paced.
 */
#include "policy.h"

#define NS_PER_S	1000000000ULL
/* Pages that a full ceiling lets past in a second, 1 MiB, and the most one pass is for. */
#define PAST_PER_S	((1ULL << 20) >> WEIR_PAGE_SHIFT)
#define PAST_PASS_MOST	PAST_PER_S

/*
 * The stricter of the two knobs in pages, or WEIR_UNLIMITED if neither is set.
 * @avail: the cgroup's dirtyable memory, the base of the ratio.
 */
weir_u64 weir_ceiling_pages(const struct weir_ceiling *ceiling, weir_u64 avail)
{
	weir_u64 pages = WEIR_UNLIMITED;
	weir_u64 by_ratio;

	if (ceiling->bytes != WEIR_UNLIMITED)
		pages = weir_saturate(weir_bytes_to_pages(ceiling->bytes));
	if (ceiling->ratio_percent) {
		by_ratio = weir_share(avail, ceiling->ratio_percent, 100);
		if (by_ratio < pages)
			pages = by_ratio;
	}
	return pages > WEIR_CEILING_MIN ? pages : WEIR_CEILING_MIN;
}

/*
 * The smaller of @headroom, which the cgroups below have, and the pages that a
 * cgroup with @limit and @used pages has left.  As in mem_cgroup_wb_stats().
 */
weir_u64 weir_memory_headroom(weir_u64 headroom, weir_u64 limit, weir_u64 used)
{
	weir_u64 left = weir_sub(limit, used);

	return left < headroom ? left : headroom;
}

/*
 * A cgroup's dirtyable memory, as in mdtc_calc_avail(): its page cache and what it can still grow by,
 * which is neither more than its limits leave nor than others have clean.
 */
weir_u64 weir_ceiling_avail(const struct weir_memory *memory)
{
	weir_u64 clean = weir_sub(memory->file, memory->dirty);
	weir_u64 others = weir_sub(weir_sub(memory->host_avail, memory->host_dirty),
				   clean);

	return weir_add(memory->file, others < memory->headroom ?
			others : memory->headroom);
}

/*
 * The part of @ceiling that writers may fill, in pages, at least two: the rest
 * is for pages that they dirty until their next look.
 */
weir_u64 weir_ceiling_limit(weir_u64 ceiling)
{
	return ceiling - ceiling / 4;
}

static weir_u64 pages_held(const struct weir_counts *counts)
{
	return weir_add(counts->dirty, counts->writeback);
}

/*
 * The part of @counts that the asking side is measured by.  Where writers are
 * held at @limit, a flusher writes all it has: they wait for what a slow device
 * has in writeback, and for the few pages on a fast one, below its background
 * level.
 */
static weir_u64 pages_measured(const struct weir_counts *counts, enum weir_pass kind,
			       weir_u64 limit)
{
	if (kind == WEIR_PASS_WRITER || (counts->dirty && pages_held(counts) >= limit))
		return pages_held(counts);
	return counts->dirty;
}

/*
 * The dirty count that is to @thresh what @dirty is to @limit, rounded up:
 * above freerun, background or limit there is above them here.
 */
static weir_u64 same_position(weir_u64 dirty, weir_u64 limit, weir_u64 thresh)
{
	if (limit == thresh || !dirty)
		return dirty;
	return weir_share(thresh, dirty, limit) + 1;
}

/*
 * Hold @limits to one ceiling, the cgroup's own or an ancestor's, whose pages
 * are @counts; the order of several does not matter.  Non-zero if this ceiling
 * is what the position is judged by now.  bg_thresh stays below thresh.
 */
int weir_ceiling_amend(struct weir_limits *limits, weir_u64 ceiling,
		       const struct weir_counts *counts, enum weir_pass kind)
{
	weir_u64 stock = limits->thresh;
	weir_u64 limit = weir_ceiling_limit(ceiling);
	weir_u64 thresh = limit < stock ? limit : stock;
	weir_u64 before, here, used;
	int decides;

	if (kind == WEIR_PASS_READER || ceiling == WEIR_UNLIMITED)
		return 0;
	before = same_position(limits->dirty, stock, thresh);
	used = pages_measured(counts, kind, limit);
	here = same_position(used, limit, thresh);
	decides = here > before;
	if (thresh < stock) {
		limits->bg_thresh = weir_share(thresh, limits->bg_thresh, stock);
		if (limits->bg_thresh >= thresh)
			limits->bg_thresh = thresh / 2;
	}
	limits->thresh = thresh;
	limits->dirty = decides ? here : before;
	if ((decides || used >= limit || thresh < stock) && limits->dom_limit > thresh)
		limits->dom_limit = thresh;
	return decides;
}

/* Non-zero if a writer is above the domain's freerun level. */
int weir_limits_brake(const struct weir_limits *limits)
{
	return limits->dirty > weir_freerun_level(limits->thresh, limits->bg_thresh);
}

/* The freerun level that @ceiling makes: what the kernel's is to its limit. */
weir_u64 weir_ceiling_freerun(weir_u64 ceiling, const struct weir_limits *stock)
{
	return weir_share(weir_ceiling_limit(ceiling),
			  weir_freerun_level(stock->thresh, stock->bg_thresh),
			  stock->thresh);
}

/*
 * Pages a task under a ceiling may dirty before its next look.
 *
 * Below @freerun, the level the ceiling makes, the kernel's poll interval is the
 * square root of the room left, per task: with 300 writers and 4,000 pages of
 * room that is 64 x 300 = 19,200 pages, more than the whole ceiling.  A 512th of
 * the room per task keeps 300 writers within the room.  Above it the kernel paces
 * each task, by a rate that it takes for 100 MB/s until it has seen the disk for
 * seconds: 1 MB a look, 64 MB for 64 writers.  A 64th of the room there.  Never
 * more than the kernel's own, never less than 1.
 */
weir_u64 weir_ceiling_poll(weir_u64 ceiling, weir_u64 freerun,
			   const struct weir_counts *counts, weir_u64 stock_poll)
{
	weir_u64 poll = weir_sub(ceiling, pages_held(counts)) /
			(pages_held(counts) > freerun ? 64 : WEIR_LOOK_PART);

	if (poll > stock_poll)
		poll = stock_poll;
	return poll ? poll : 1;
}

/* Does the subtree hold all that the ceiling lets writers fill? */
int weir_ceiling_full(weir_u64 ceiling, const struct weir_counts *counts)
{
	return pages_held(counts) >= weir_ceiling_limit(ceiling);
}

/* Pages to @ceiling; 0 if it is full. */
weir_u64 weir_ceiling_left(weir_u64 ceiling, const struct weir_counts *counts)
{
	return weir_ceiling_full(ceiling, counts) ? 0 : ceiling - pages_held(counts);
}

/*
 * Of writers whose own wb has next to nothing dirty, a full ceiling lets 1 MiB a second
 * past, those that ask first.
 *
 * The kernel lets each such writer past any limit after one tick, so that a device
 * that hangs does not stop those who write to another.  But a wb has next to nothing
 * for another reason, too: the files that its cgroup writes to are on another wb, one
 * that was replaced when +io was switched, or another cgroup's.  Then each task
 * dirties a folio in each tick, and a hundred tasks are past any ceiling in a second.
 *
 * Non-zero if a pass of @pages may go now; @next_ns, of the ceiling, is when the next may.
 */
int weir_ceiling_lets_past(weir_u64 *next_ns, weir_u64 now_ns, weir_u64 pages)
{
	if (now_ns < *next_ns)
		return 0;
	if (!pages)
		pages = 1;
	if (pages > PAST_PASS_MOST)
		pages = PAST_PASS_MOST;
	*next_ns = now_ns + NS_PER_S * pages / PAST_PER_S;
	return 1;
}
