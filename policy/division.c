// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.dirty_weight: the order in which flushers of competing cgroups submit.
 *
 * Linux brings the rate at which a cgroup may dirty pages to what its own flusher gets
 * written (balance_dirty_pages() by the bandwidth of the wb).  So if flushers write by
 * weight, writers dirty by weight, and no writer has to wait for anything else.
 *
 * Each flusher has a virtual time, which says how much it has submitted for its hweight:
 * start-time fair queueing, as disk and packet schedulers do it.
 *
 *   virtual time += pages submitted / hweight
 *
 * in 1024ths of a page: in whole pages a part of 64 KiB of nine tenths would count as 17
 * instead of 17.8, and the other one would have 4 % less than its tenth.
 *
 * A flusher submits a part as long as it is no more than half of the budget ahead of the
 * one that is furthest behind, and less than its part of the budget is in flight for it:
 *
 *   budget = what the device wrote in 25 ms, of late; 256 KiB at the least
 *
 * Where others than these have a part of the device's writeback, what is in flight decides how
 * much these get of it: then the budget does not bound it, and only the order is kept, by
 * parts of 1 MiB.
 *
 * Pages are as the kernel counts writeback: a large folio counts whole, though xfs writes only
 * those of its blocks that are dirty.  Random writes into files that are cached in folios of
 * unlike sizes so get unlike parts in bytes.
 *
 * Who had nothing to write comes back no further behind than four budgets: what others were
 * lent meanwhile is not owed.  hweights of those that compete add up to 1, so virtual time
 * is of pages of the device, and a lead is the number of pages that are to be
 * submitted by the others.
 *
 * Example.  Weights of 300 and 100 on a disk of 16 MB/s, 4 pages a millisecond: the budget is
 * 100 pages.  A part of 25 pages brings the first 33 ahead, one of 16 the second 64: it may be
 * 50 ahead, so the first submits 11 pages or more before the second does again.
 */
#include "policy.h"

#define VTIME_PAGE		1024ULL
#define BUDGET_MS		25ULL
#define BUDGET_EPOCH_US		250000ULL
/* No time that is longer counts. */
#define BUDGET_LONG_MS		1000000ULL
/* Others write more than one in so many pages. */
#define BUDGET_OTHERS		4
/* In pages. */
#define BUDGET_LEAST		((256ULL << 10) >> WEIR_PAGE_SHIFT)
#define BUDGET_PART_LEAST	(WEIR_WINDOW_MIN >> WEIR_PAGE_SHIFT)
#define BUDGET_PATIENCE_LEAST_MS	300ULL
#define BUDGET_PATIENCE_MOST_MS		3000ULL
/* As large a request as most disks take. */
#define BUDGET_SHARED_AHEAD	((1ULL << 20) >> WEIR_PAGE_SHIFT)

/*
 * One level of the hierarchy: of a parent's @hweight, the part of a child with
 * @weight, where the weights of all children that compete add up to @siblings.
 */
weir_u32 weir_hweight(weir_u32 hweight, weir_u32 weight,
			     weir_u64 siblings)
{
	weir_u64 part = weir_share(hweight, weight, siblings);

	return part ? (weir_u32)part : 1;
}

/* A hweight as people read it, rounded to the nearest of WEIR_HWEIGHT_SHOWN parts. */
weir_u32 weir_weight_shown(weir_u32 hweight)
{
	return (weir_u32)(((weir_u64)hweight * WEIR_HWEIGHT_SHOWN +
			   WEIR_HWEIGHT_ONE / 2) / WEIR_HWEIGHT_ONE);
}

/* Virtual time at @vtime after @pages more were submitted for @hweight. */
weir_u64 weir_division_charge(weir_u64 vtime, weir_u64 pages, weir_u32 hweight)
{
	return vtime + weir_saturate(pages) * WEIR_HWEIGHT_ONE * VTIME_PAGE /
			       (hweight ? hweight : 1);
}

/*
 * Virtual time of a flusher that competes again, where the others' least is @least.  It had
 * @vtime; 0 is none, and then it is not behind.
 */
weir_u64 weir_division_join(weir_u64 vtime, weir_u64 least, weir_u64 budget)
{
	weir_u64 lent = vtime ? 4 * VTIME_PAGE * budget : 0;

	if (least > lent && vtime < least - lent)
		return least - lent;
	return vtime;
}

/*
 * Pages that others are to submit before a flusher with @vtime may go on, where the others'
 * least is @least and it may be @ahead of that; 0 if it may.
 */
weir_u64 weir_division_lead(weir_u64 vtime, weir_u64 least, weir_u64 ahead)
{
	weir_u64 may = least + VTIME_PAGE * ahead;

	return vtime > may ? (vtime - may + VTIME_PAGE - 1) / VTIME_PAGE : 0;
}

/*
 * Virtual time of one that has waited for its turn for WEIR_DIVISION_TURN_MS, with @vtime, where
 * the others' least is @least: no further ahead than by two parts more than it may be.  What sync and
 * fsync submit is charged and held by nothing.  Where that is more than what is due, pages
 * that no sync is about would never be written.
 */
weir_u64 weir_division_cap(weir_u64 vtime, weir_u64 least, weir_u64 ahead, weir_u64 part,
			   weir_u32 hweight)
{
	weir_u64 most = weir_division_charge(least + VTIME_PAGE * ahead, 2 * part, hweight);

	return vtime < most ? vtime : most;
}

/*
 * Does a flusher with @hweight that submitted @pages in @ms, and was held by nothing, use little?
 * Less than half of its part of what the division has of the device.  Its writers are throttled,
 * as at the host's limit, and have dirtied no more.
 */
int weir_division_uses_little(const struct weir_budget *budget, weir_u32 hweight, weir_u64 pages,
			      weir_u64 ms)
{
	weir_u64 due = weir_share(budget->own, hweight, WEIR_HWEIGHT_ONE);

	return 2 * weir_saturate(pages) * BUDGET_MS < due * weir_least(ms, BUDGET_LONG_MS);
}

/* @pages in @elapsed_us, in 25 ms; no more than an eighth below what it was @before. */
static weir_u64 rate_of(weir_u64 before, weir_u64 pages, weir_u64 elapsed_us)
{
	weir_u64 rate = pages * BUDGET_MS * 1000 / elapsed_us;
	weir_u64 least = before - before / 8;

	return rate < least ? least : rate;
}

/*
 * Note what the flushers of a division, and all of the device, have written by @now_ns, in
 * pages; @budget is all 0 at first.  Time in which there was little to write says little: the
 * rate falls by an eighth at most.
 */
void weir_budget_note(struct weir_budget *budget, weir_u64 written, weir_u64 of_device,
		      weir_u64 now_ns)
{
	weir_u64 elapsed_us = (now_ns - budget->since_ns) / 1000;
	weir_u64 own = weir_saturate(written - budget->written);
	/* the device's sum falls when a cgroup goes */
	weir_u64 all = weir_most(own, weir_saturate(weir_sub(of_device, budget->of_device)));

	if (budget->since_ns && elapsed_us < BUDGET_EPOCH_US)
		return;
	if (budget->since_ns) {
		budget->pages = rate_of(budget->pages, all, elapsed_us);
		budget->own = rate_of(budget->own, own, elapsed_us);
	}
	budget->shared = budget->since_ns && all > own && all - own > all / BUDGET_OTHERS;
	budget->since_ns = now_ns;
	budget->written = written;
	budget->of_device = of_device;
}

static weir_u64 budget_pages(const struct weir_budget *budget)
{
	return budget->pages < BUDGET_LEAST ? BUDGET_LEAST : budget->pages;
}

/* Pages that one flusher may be ahead of the others. */
weir_u64 weir_budget_ahead(const struct weir_budget *budget)
{
	weir_u64 ahead = budget_pages(budget) / 2;

	if (budget->shared && ahead < BUDGET_SHARED_AHEAD)
		return BUDGET_SHARED_AHEAD;
	return ahead;
}

static weir_u64 budget_of(const struct weir_budget *budget, weir_u32 hweight)
{
	return weir_share(budget_pages(budget), hweight, WEIR_HWEIGHT_ONE);
}

/*
 * Pages that a child of the division with @hweight submits at a time: half of what it may have
 * in flight.  All pages of a part end at once, when the last is written.  Were there only one,
 * the disk would be idle until the flusher has looked and submitted the next.
 */
weir_u64 weir_budget_part(const struct weir_budget *budget, weir_u32 hweight)
{
	weir_u64 part = weir_window_part(2 * weir_budget_ahead(budget));
	weir_u64 half = budget_of(budget, hweight) / 2;

	if (budget->shared)
		return part;
	return weir_least(part, half < BUDGET_PART_LEAST ? BUDGET_PART_LEAST : half);
}

/*
 * Pages that are to be written before a child of the division with @hweight may submit
 * another part, with @in_flight of its own: it has its part of the budget.
 */
weir_u64 weir_budget_excess(const struct weir_budget *budget, weir_u32 hweight,
			    weir_u64 in_flight)
{
	if (budget->shared)
		return 0;
	return weir_part_excess(budget_of(budget, hweight), weir_budget_part(budget, hweight),
				in_flight);
}

/*
 * For how long, in ms, a child of the division may have no room before it is taken for slow, with
 * @in_flight pages of the whole division: twice the time in which a disk that takes one request
 * after the other has written them, and a moment.  What was submitted before there were weights
 * may be megabytes.  Where the rate is not known yet, or next to nothing, the most.
 */
weir_u64 weir_budget_patience_ms(const struct weir_budget *budget, weir_u64 in_flight)
{
	weir_u64 ms = BUDGET_PATIENCE_MOST_MS;

	if (budget->pages)
		ms = weir_least(2 * BUDGET_MS * weir_saturate(in_flight) / budget->pages, ms);
	return BUDGET_PATIENCE_LEAST_MS + ms;
}
