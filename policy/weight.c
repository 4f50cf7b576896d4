// SPDX-License-Identifier: GPL-2.0-only
/*
 * The weight: memory.dirty_weight.
 *
 * Model.  Every cgroup has a flusher of its own on each device, and the device
 * serves flushers alike as long as they have something to write.  Linux adapts
 * the rate at which a cgroup may dirty to what its own flusher gets done, so a
 * factor on a task's pages or pauses is adapted away.  But a flusher cannot write
 * what its cgroup was not let dirty, and what it leaves the others' flushers take.
 * So whoever decides at which rates those who compete dirty, decides their shares.
 *
 * Strategy.  A page has a price, in time.  A cgroup pays for what it dirties, and
 * its writers wait until what is paid for has passed: with a hweight p of a device
 * that cleans N pages in a round (200 ms), a page costs
 *
 *     200 ms / (p x N x ease).
 *
 * Everybody's rate is the device's own, divided by weight.  The ease is the same
 * for all and keeps the device busy.  It follows the host's level, dirty pages and
 * those in writeback: 1 at three quarters of the way from the background level to
 * freerun, where Linux begins to throttle; 2.5 at the background level and below,
 * where nobody waits; falling to 1/8 a quarter of the way above freerun.  Flushers
 * write whatever is dirty beyond the background level, so what the level is above it is
 * at the device.  Linux mostly leaves everybody alone then; and if one does not use
 * its hweight, the others' pages get cheaper.
 *
 * Somebody who does not pay, a loop device or an NFS server on another filesystem,
 * may keep the host above freerun.  So that those who do are not starved for it,
 * the ease is at least 2 while they hold less on the device than it cleans in 0.4 s
 * and than a quarter of the background level.
 *
 * Now and then everybody is stopped by something else, a journal's commit or a
 * busy CPU, and the host sinks.  What one did not use meanwhile it has saved: its
 * part of the room up to where the ease is 1, and at least a round's.  So the room
 * is filled by weight, too, and not by who comes first.  A burst, too, is paid for,
 * but nobody owes more than five seconds: a cgroup with a very small hweight gets
 * a few pages in that time all the same.
 *
 * All of this is for the root's division, of the whole device.  Below the root
 * (share.c) neither the host's level nor the device's wb_rate says anything about
 * what the members together may have: there the wb_rate is what they got, and the
 * ease is 1.
 *
 * Who competes: those whose tasks were put to sleep lately, by Linux or by this.
 * Hweights are handed down the hierarchy as cgroup v2 does it: of what a cgroup
 * has, each child that competes, or has descendants that do, gets its weight's
 * part.  A cgroup's own tasks count as one more child of the default weight.
 *
 * Example.  Two cgroups with 100 and 400 on a disk that cleans 1,000 pages in a
 * round, the limit 8,192 pages, background 4,096, so freerun is 6,144.  At 5,632
 * pages the ease is 1: a page costs the first 1 ms, the second 0.25 ms.  The
 * second can only use half of its hweight: the host sinks to 5,000 pages, the ease
 * rises to 1.6, and the first gets 300 pages in a round instead of 200.
 */
#include "policy.h"

#define NS_PER_MS	1000000ULL
#define ROUND_NS	(WEIR_ROUND_MS * NS_PER_MS)
/* The ease, in eighths. */
#define EASE_ONE	8ULL
#define EASE_MOST	20ULL

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

/*
 * Pages a device cleans in a round, smoothed: it was @wb_rate, and @written in the
 * last @elapsed_ms.  An eighth of the way each time, as a disk's cache and a
 * journal's commit make some rounds short and others long.
 */
weir_u64 weir_wb_rate(weir_u64 wb_rate, weir_u64 written, weir_u64 elapsed_ms)
{
	weir_u64 done = weir_saturate(weir_saturate(written) * WEIR_ROUND_MS /
				      (elapsed_ms ? elapsed_ms : 1));

	wb_rate = weir_saturate(wb_rate);
	return wb_rate ? (7 * wb_rate + done + 7) / 8 : done;
}

/* Where the ease is 1, and half the way from there to where it would be 0. */
struct level {
	weir_u64 set;
	weir_u64 half;
};

static struct level level(const struct weir_turn *turn)
{
	weir_u64 bg_thresh = weir_saturate(turn->host_bg_thresh);
	weir_u64 freerun = weir_freerun(turn->host_thresh, bg_thresh);
	weir_u64 quarter = freerun > bg_thresh ? (freerun - bg_thresh) / 4 : 0;

	return (struct level) {
		.set = freerun - quarter,
		.half = quarter ? quarter : 1,
	};
}

static weir_u64 ease(const struct weir_turn *turn, const struct level *at,
		     weir_u64 wb_rate)
{
	weir_u64 top = at->set + 2 * at->half;
	weir_u64 dirty = weir_saturate(turn->host_dirty);
	weir_u64 queued = weir_saturate(turn->queued);
	weir_u64 result = dirty < top ? EASE_ONE * (top - dirty) / (2 * at->half) : 0;

	if (turn->nested)
		return EASE_ONE;
	if (result < 2 * EASE_ONE && queued < 2 * wb_rate &&
	    queued < weir_saturate(turn->host_bg_thresh) / 4)
		result = 2 * EASE_ONE;
	if (result > EASE_MOST)
		return EASE_MOST;
	return result ? result : 1;
}

/* What a page costs, if those who compete have @eighths of a page in a round. */
static weir_u64 cost_ns(const struct weir_turn *turn, weir_u64 eighths)
{
	weir_u64 pages, ns;

	/* what is behind must not owe for it: a debt would put it behind again */
	if (!turn->hweight || turn->behind || !eighths)
		return 0;
	pages = weir_share(eighths, turn->hweight, WEIR_HWEIGHT_ONE);
	ns = ROUND_NS * EASE_ONE / (pages ? pages : 1);
	return ns ? ns : 1;
}

/* For how long somebody may have saved: what everybody's part of the room costs. */
static weir_u64 savings_ns(const struct weir_turn *turn, const struct level *at,
			   weir_u64 eighths)
{
	weir_u64 dirty = weir_saturate(turn->host_dirty);
	weir_u64 rounds_8;

	if (turn->nested || dirty >= at->set || !eighths)
		return ROUND_NS;
	rounds_8 = EASE_ONE * EASE_ONE * (at->set - dirty) / eighths;
	if (rounds_8 < EASE_ONE)
		return ROUND_NS;
	if (rounds_8 > WEIR_DEBT_ROUNDS * EASE_ONE)
		return WEIR_DEBT_ROUNDS * ROUND_NS;
	return rounds_8 * ROUND_NS / EASE_ONE;
}

/*
 * Pay for @pages: it was paid until @due_ns; until when is it now?  Never less
 * than it was, though looks from several CPUs come in any order.
 */
struct weir_payment weir_turn_pay(const struct weir_turn *turn, weir_u64 due_ns,
				  weir_u64 now_ns, weir_u64 pages)
{
	struct level at = level(turn);
	weir_u64 wb_rate = weir_saturate(turn->wb_rate);
	weir_u64 eighths = wb_rate * ease(turn, &at, wb_rate);
	weir_u64 saved_ns = savings_ns(turn, &at, eighths);
	weir_u64 most_ns = now_ns + WEIR_DEBT_ROUNDS * ROUND_NS;
	struct weir_payment payment = { .cost_ns = cost_ns(turn, eighths) };
	weir_u64 covered;

	if (due_ns + saved_ns < now_ns)
		due_ns = now_ns - saved_ns;
	payment.due_ns = due_ns;
	if (!payment.cost_ns)
		return payment;
	pages = weir_saturate(pages);
	covered = due_ns < most_ns ? (most_ns - due_ns) / payment.cost_ns : 0;
	if (pages <= covered) {
		payment.due_ns += pages * payment.cost_ns;
		return payment;
	}
	payment.forgiven = pages - covered;
	if (due_ns < most_ns)
		payment.due_ns = most_ns;
	return payment;
}

/*
 * May writers of the cgroup be held at all?  Below the background level nobody
 * is: flushers rest.  Not from freerun on, where the kernel lets everybody go:
 * the root's division keeps the host below it, and in others whoever dirties
 * fastest would fill what is missing each time that the host dips below it.
 */
int weir_turn_holds(const struct weir_turn *turn)
{
	return turn->hweight && !turn->behind &&
	       turn->host_dirty > turn->host_bg_thresh;
}

/*
 * For how long a writer has to wait whose cgroup has paid until @due_ns, in
 * milliseconds; 0 to go on.  The shortest waits are left to add up; the longest is
 * WEIR_WAIT_MOST_MS.
 */
weir_u64 weir_turn_wait_ms(const struct weir_turn *turn, weir_u64 due_ns,
			   weir_u64 now_ns)
{
	weir_u64 wait_ms = due_ns > now_ns ? (due_ns - now_ns) / NS_PER_MS : 0;

	if (wait_ms < WEIR_WAIT_MIN_MS || !weir_turn_holds(turn))
		return 0;
	return wait_ms < WEIR_WAIT_MOST_MS ? wait_ms : WEIR_WAIT_MOST_MS;
}

/* Pages a task may dirty before it is looked at again: the shortest wait's worth. */
weir_u64 weir_turn_poll(weir_u64 cost_ns, weir_u64 stock_poll)
{
	weir_u64 poll = cost_ns ? WEIR_WAIT_MIN_MS * NS_PER_MS / cost_ns :
				   stock_poll;

	if (poll > stock_poll)
		poll = stock_poll;
	return poll ? poll : 1;
}
