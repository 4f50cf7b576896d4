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
 *   thresh     min(kernel's, ceiling): only ever tighter
 *   bg_thresh  scaled by the same factor, so the flusher starts in proportion
 *              and freerun stays below the limit
 *   dirty      the cgroup's exact count over all its devices.  The kernel's
 *              own lags by seconds, in which writers go 2 to 4 times over.
 *              Writeback counts for a writer, never for a flusher.  Never less
 *              than the kernel's count scaled with the limit: where the two
 *              disagree, the ceiling must not let pass what stock would hold
 *   dom_limit  the domain's smoothed limit is pulled down to thresh: it decays
 *              by 1/32 in 200 ms and would widen the ceiling meanwhile
 * Nothing is rounded to zero: a limit is at least two pages, and real-time
 * priority, applied by the kernel before weir looks, does not widen it.
 *
 * Example.  Kernel: thresh 100,000, background 50,000; ceiling 64 MiB = 16,384
 * pages.  Amended: thresh 16,384, background 8,192, freerun 12,288.  A cgroup
 * with 10,000 dirty and 1,000 in writeback free-runs at 11,000; its flusher
 * sees 10,000 > 8,192 and goes on.
 */
#include "policy.h"

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

/* What of @counts the asking side is measured by. */
static weir_u64 counted(const struct weir_counts *counts, enum weir_pass kind)
{
	return kind == WEIR_PASS_WRITER ?
	       weir_add(counts->dirty, counts->writeback) : counts->dirty;
}

/*
 * The dirty count that is to @ceiling what the kernel's is to its limit,
 * rounded up: above freerun, background or limit before is above them after.
 */
static weir_u64 same_position(const struct weir_limits *stock, weir_u64 ceiling)
{
	return stock->dirty ?
	       weir_share(ceiling, stock->dirty, stock->thresh) + 1 : 0;
}

/*
 * Lower @limits to @ceiling.  Returns 0 and leaves all as it is if the kernel's
 * own limit is as tight already.  Afterwards bg_thresh < thresh.
 */
int weir_ceiling_amend(struct weir_limits *limits, weir_u64 ceiling,
		       const struct weir_counts *counts, enum weir_pass kind)
{
	weir_u64 dirty;

	if (kind == WEIR_PASS_READER || ceiling >= limits->thresh)
		return 0;
	dirty = same_position(limits, ceiling);
	limits->bg_thresh = weir_share(ceiling, limits->bg_thresh,
				       limits->thresh);
	if (limits->bg_thresh >= ceiling)
		limits->bg_thresh = ceiling / 2;
	limits->thresh = ceiling;
	limits->dirty = counted(counts, kind);
	if (limits->dirty < dirty)
		limits->dirty = dirty;
	if (limits->dom_limit > ceiling)
		limits->dom_limit = ceiling;
	return 1;
}

/*
 * Non-zero if the ceiling is what denies a writer freerun: it is tighter than
 * the kernel's limit, and the cgroup is above the freerun level it makes.
 */
int weir_ceiling_holds(weir_u64 ceiling, const struct weir_limits *stock,
		       const struct weir_counts *counts)
{
	struct weir_limits capped = *stock;

	if (!weir_ceiling_amend(&capped, ceiling, counts, WEIR_PASS_WRITER))
		return 0;
	return counted(counts, WEIR_PASS_WRITER) >
	       weir_freerun(capped.thresh, capped.bg_thresh);
}

/*
 * Non-zero above @freerun, the level the ceiling makes: from there the kernel
 * paces each task, and chooses how many pages make a pause worth taking.
 */
int weir_ceiling_brakes(weir_u64 freerun, const struct weir_counts *counts)
{
	return counted(counts, WEIR_PASS_WRITER) > freerun;
}

/*
 * Pages a free-running task under a ceiling may dirty before its next pass.
 *
 * The kernel's poll interval is the square root of the room left, per task:
 * with 300 writers and 4,000 pages of room that is 64 x 300 = 19,200 pages,
 * more than the whole ceiling.  A 512th of the room per task keeps 300 writers
 * within the room; never more than the kernel's own, never less than 1.
 */
weir_u64 weir_ceiling_poll(weir_u64 ceiling, const struct weir_counts *counts,
			   weir_u64 stock_poll)
{
	weir_u64 held = weir_add(counts->dirty, counts->writeback);
	weir_u64 poll = held < ceiling ? (ceiling - held) / 512 : 1;

	if (poll > stock_poll)
		poll = stock_poll;
	return poll ? poll : 1;
}
