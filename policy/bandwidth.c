// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bandwidth: memory.dirty_bandwidth, the bytes per second that a cgroup and
 * all below it may dirty.
 *
 * Model.  A ceiling bounds how much is dirty, a weight how a device is
 * shared; neither says how fast a cgroup may write.  io.max does, but at the
 * device: bios wait there, pages stay dirty meanwhile, and the throttle,
 * which sees only dirty pages, makes neighbours wait for them.  Here the
 * writer itself waits, before its pages can pile up, on any filesystem,
 * whichever device they are for.
 *
 * Each cgroup with a bound is a level.  What a task dirties is charged to all
 * levels on its path, once, when a pass or its exit reports it; and what is
 * charged is paid, as time goes by, at the level's bound.  A pass is a ticket
 * in each line: it waits until everything that was charged up to and with its
 * own pages is paid, at the level where that takes longest.
 *
 * Strategy.  Tickets, rather than waiting until nothing is owed: of 300
 * writers that wait for that, all wake at once and dirty 300 times what one
 * may.  In a line they wake one after the other, and the flow is even.  A
 * ticket is a number of bytes, so a bound that changes changes what is still
 * to be waited for, too.
 *
 * A task is looked at again after so many pages that the line is POLL_MS long
 * if all its tasks take as many: what tasks of the line took lately, on
 * average, more or less by how long it was.  With many writers, each looks
 * after fewer pages, a page at least. The line is what a cgroup is ahead of
 * its bound.  All that wait in it are given the same, so all get the same;
 * going by its own pages, a task that began with more would have more for
 * good.
 *
 * Nobody saves up: what was not used for longer than BURST_MS is lost.
 * Nobody owes more than 32 seconds take either, what 2 MiB take at the least
 * bound: xfs dirties as much before it lets the throttle look (a large folio).
 * One pass waits for a second of it at most, its task for 16 s more where it
 * holds no lock (kmod/bandwidth.c).  What brings a level there is a task that
 * may not sleep, with real-time priority for example, tasks that end before
 * they have paid, or more tasks than the bound lets dirty a page each in that
 * time, or in a second if signals end their waits or they do not return to
 * user mode; their neighbours in the line must not pay for it for hours.  Of a
 * wait that is shorter than WAIT_MIN_MS nothing is waited, it adds up.
 *
 * Accuracy.  In any ten seconds a cgroup dirties its bound, plus BURST_MS of
 * it, plus a line of about POLL_MS: 2 % together.  The first pass of a new
 * task, 32 pages for Linux, is charged when it has happened, as are 2 MiB on
 * xfs.
 *
 * Example.  A bound of 1 MiB/s, 256 pages.  A task that has just begun
 * reports 32 pages: 125 ms.  It sleeps for that, and looks again after 32 x
 * 100 / 125 = 25 pages, from then on each 98 ms.  A second task joins with 32
 * pages: it waits for 98 + 125 ms and takes 13 next; soon both take 12 or 13,
 * each waits about 100 ms.  Its parent has 2 MiB/s, which a third task in
 * another child can use: it waits in the parent's line alone, where the two
 * take half of what is paid.  The bound is raised to 10 MiB/s: who had 50 ms
 * to wait for has 5.
 */
#include "policy.h"

#define US_PER_S	1000000ULL
#define NS_PER_US	1000ULL
#define BURST_MS	100ULL
#define POLL_MS		100ULL
#define WAIT_MIN_MS	10ULL
/* Of a page, for averages. */
#define FINE		16ULL
#define LATELY		8ULL
/* 256 GiB/s: times the longest wait in microseconds, below 2^63. */
#define BOUND_MOST	(1ULL << 38)

/* Bytes that @bound pays for in @ms. */
static weir_u64 worth(weir_u64 bound, weir_u64 ms)
{
	return bound * ms / 1000;
}

static weir_u64 within(weir_u64 bound)
{
	if (bound < WEIR_BANDWIDTH_MIN)
		return WEIR_BANDWIDTH_MIN;
	return bound < BOUND_MOST ? bound : BOUND_MOST;
}

/* Of two counts that wrap: by how much @a is ahead of @b, 0 if it is behind. */
static weir_u64 ahead(weir_u64 a, weir_u64 b)
{
	return (weir_s64)(a - b) > 0 ? a - b : 0;
}

/* Nothing is owed, nothing is saved. */
void weir_bandwidth_start(struct weir_bandwidth *level, weir_u64 now_ns)
{
	level->paid = level->charged;
	level->rest = 0;
	level->now_us = now_ns / NS_PER_US;
}

/*
 * Time has gone by, with @bound; also to be called right before it changes.  Looks
 * from several CPUs come in any order: one that is late finds nothing new.
 */
void weir_bandwidth_advance(struct weir_bandwidth *level, weir_u64 bound,
			    weir_u64 now_ns)
{
	weir_u64 now_us = now_ns / NS_PER_US, most_us = WEIR_BANDWIDTH_OWED_MOST_MS * 1000;
	weir_u64 elapsed_us = ahead(now_us, level->now_us);
	weir_u64 most_owed, most_saved;

	bound = within(bound);
	most_owed = worth(bound, WEIR_BANDWIDTH_OWED_MOST_MS);
	most_saved = worth(bound, BURST_MS);
	if (elapsed_us) {
		weir_u64 paid;

		level->now_us = now_us;
		paid = bound * (elapsed_us < most_us ? elapsed_us : most_us) + level->rest;
		level->paid += paid / US_PER_S;
		level->rest = paid % US_PER_S;
	}
	if (ahead(level->paid, level->charged) > most_saved)
		level->paid = level->charged + most_saved;
	if (ahead(level->charged, level->paid) > most_owed)
		level->paid = level->charged - most_owed;
}

/* How long until what was charged up to @ticket is paid, in milliseconds? */
weir_u64 weir_bandwidth_due_ms(struct weir_bandwidth *level, weir_u64 bound,
			       weir_u64 now_ns, weir_u64 ticket)
{
	weir_u64 owed, due_ms;

	weir_bandwidth_advance(level, bound, now_ns);
	bound = within(bound);
	owed = ahead(ticket, level->paid);
	/* the count wraps after years: a ticket from before waits no longer than others */
	due_ms = owed / bound * 1000 + (owed % bound * 1000 + bound - 1) / bound;
	return due_ms < WEIR_BANDWIDTH_OWED_MOST_MS ? due_ms : WEIR_BANDWIDTH_OWED_MOST_MS;
}

/* What passes report, on average, in parts of a page: it was @was, and now @pages. */
static weir_u64 usual(weir_u64 was, weir_u64 pages)
{
	was = weir_saturate(was);
	return was ? (was * (LATELY - 1) + pages * FINE) / LATELY : pages * FINE;
}

/*
 * Pages, in parts of one, that make the line of a level POLL_MS long if all its tasks
 * take as many, and no more than twice what they took lately.
 */
static weir_u64 poll_of(const struct weir_bandwidth *level, weir_u64 due_ms)
{
	if (due_ms < POLL_MS / 2)
		due_ms = POLL_MS / 2;
	return weir_saturate(level->usual) * POLL_MS / due_ms;
}

/*
 * A task has dirtied @hold's pages: charge them to a level, which the caller calls
 * @number.  @hold is for all levels on the task's path, and 0 before the first.
 */
void weir_bandwidth_charge(struct weir_bandwidth *level, weir_u64 bound,
			   weir_u64 now_ns, weir_u64 number,
			   struct weir_bandwidth_hold *hold)
{
	weir_u64 pages = weir_saturate(hold->pages);
	weir_u64 due_ms, poll;

	weir_bandwidth_advance(level, bound, now_ns);
	level->charged += pages << WEIR_PAGE_SHIFT;
	if (pages)
		level->usual = usual(level->usual, pages);
	due_ms = weir_bandwidth_due_ms(level, bound, now_ns, level->charged);
	poll = poll_of(level, due_ms);
	/* no level is known yet */
	if (!hold->least || poll < hold->poll)
		hold->poll = poll;
	if (!hold->least || within(bound) < hold->least)
		hold->least = within(bound);
	if (hold->number && due_ms <= hold->due_ms)
		return;
	hold->due_ms = due_ms;
	hold->ticket = level->charged;
	hold->number = number;
}

/* Is that to be waited for, or left to add up? */
int weir_bandwidth_holds(const struct weir_bandwidth_hold *hold)
{
	return hold->due_ms >= WAIT_MIN_MS;
}

/*
 * Pages the task may dirty before it is looked at again: what the level asks for that
 * asks soonest.  A task that waits in its parent's line, among tasks that take more,
 * would make its own too long.
 */
weir_u64 weir_bandwidth_poll(const struct weir_bandwidth_hold *hold,
			     weir_u64 stock_poll)
{
	weir_u64 most = worth(hold->least, POLL_MS) >> WEIR_PAGE_SHIFT;
	weir_u64 poll = hold->poll / FINE;

	if (!hold->least)
		return stock_poll;
	if (poll > most)
		poll = most;
	if (poll > stock_poll)
		poll = stock_poll;
	return poll ? poll : 1;
}
