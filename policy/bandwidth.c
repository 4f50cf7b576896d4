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
 * Siblings do not wait for each other's debts.  A line is divided into parts, one
 * for each child of the level that dirties something and one for its own tasks, and
 * a ticket is paid, too, once its own part is at the part's rate, the bound divided by
 * their number.  Tasks that are killed before they have paid, or that dirty 1 GiB in
 * one call, leave the line as long as can be; a sibling that dirties less than its
 * part does not notice.
 *
 * Tasks that end before they have waited leave what they dirtied to those that follow: a task
 * that is made below a bound waits first, until that is paid at the part's rate.  Else a
 * cgroup whose tasks are killed, or write a few pages and exit, is held by no bound.  What
 * the living owe, who wait themselves, is not waited for.  Those that wait so are let go
 * together; what they dirty in their first calls is to be paid before the next.
 *
 * What was not used for longer than BURST_MS is lost.  A level owes no more than
 * WEIR_BANDWIDTH_OWED_MOST_MS take, two minutes: what 300 tasks owe that write 2 MiB in each
 * call, below a bound of 8 MiB a second, and a tenth more.  What brings a level there is a call
 * that dirties more than that, as calls are not held (kmod/at_return.c), a task that
 * may not sleep, with real-time priority for example, or tasks that end before they
 * have paid.  The rest is forgiven, as others of the same part wait for it.  Of a
 * wait that is shorter than WAIT_MIN_MS nothing is waited, it adds up.
 *
 * Accuracy.  In any ten seconds a cgroup dirties its bound, plus BURST_MS of
 * it, plus a line of about POLL_MS: 2 % together, and what calls dirty that begin in
 * them, if each is more than a line.  The first pass of a new task, 32 pages for Linux,
 * is charged when it has happened, as are 2 MiB on xfs.
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
/* 64 GiB/s: times the longest wait in microseconds, below 2^63. */
#define BOUND_MOST	(1ULL << 36)

/* Bytes that @bound pays for in @ms. */
static weir_u64 bytes_paid(weir_u64 bound, weir_u64 ms)
{
	return bound * ms / 1000;
}

static weir_u64 clamp_bound(weir_u64 bound)
{
	if (!bound)
		return 1;
	return bound < BOUND_MOST ? bound : BOUND_MOST;
}

/* The rate of each of @parts of a line. */
static weir_u64 part_bound(weir_u64 bound, weir_u64 parts)
{
	return clamp_bound(bound) / (parts ? parts : 1);
}

/* Of two counts that wrap: by how much @a is ahead of @b, 0 if it is behind. */
static weir_u64 ahead_by(weir_u64 a, weir_u64 b)
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
	weir_u64 elapsed_us = ahead_by(now_us, level->now_us);
	weir_u64 most_owed, most_saved;

	bound = clamp_bound(bound);
	most_owed = bytes_paid(bound, WEIR_BANDWIDTH_OWED_MOST_MS);
	most_saved = bytes_paid(bound, BURST_MS);
	if (elapsed_us) {
		weir_u64 paid;

		level->now_us = now_us;
		paid = bound * (elapsed_us < most_us ? elapsed_us : most_us) + level->rest;
		level->paid += paid / US_PER_S;
		level->rest = paid % US_PER_S;
	}
	if (ahead_by(level->paid, level->charged) > most_saved)
		level->paid = level->charged + most_saved;
	if (ahead_by(level->charged, level->paid) > most_owed)
		level->paid = level->charged - most_owed;
}

/* Milliseconds until all that was charged up to @ticket is paid. */
static weir_u64 line_due_ms(struct weir_bandwidth *line, weir_u64 bound, weir_u64 now_ns,
			    weir_u64 ticket)
{
	weir_u64 owed, due_ms;

	weir_bandwidth_advance(line, bound, now_ns);
	bound = clamp_bound(bound);
	owed = ahead_by(ticket, line->paid);
	/* the count wraps after years: a ticket from before waits no longer than others */
	due_ms = owed / bound * 1000 + (owed % bound * 1000 + bound - 1) / bound;
	return due_ms < WEIR_BANDWIDTH_OWED_MOST_MS ? due_ms : WEIR_BANDWIDTH_OWED_MOST_MS;
}

/*
 * Milliseconds until the tickets of @hold are paid at the level that it waits
 * for, one of whose @parts is @part.  @part is NULL if its ticket is in
 * another's.
 */
weir_u64 weir_bandwidth_due_ms(struct weir_bandwidth *level, struct weir_bandwidth *part,
			       weir_u64 parts, weir_u64 bound, weir_u64 now_ns,
			       const struct weir_bandwidth_hold *hold)
{
	weir_u64 all_ms = line_due_ms(level, bound, now_ns, hold->ticket);
	weir_u64 part_ms;

	if (!part)
		return all_ms;
	part_ms = line_due_ms(part, part_bound(bound, parts), now_ns, hold->part_ticket);
	return part_ms < all_ms ? part_ms : all_ms;
}

/*
 * The average of pages that passes report, in parts of a page: it was @was, and one
 * more pass reports @pages.
 */
static weir_u64 average_pass(weir_u64 was, weir_u64 pages)
{
	was = weir_saturate(was);
	return was ? (was * (LATELY - 1) + pages * FINE) / LATELY : pages * FINE;
}

static void charge_line(struct weir_bandwidth *line, weir_u64 bound, weir_u64 now_ns,
			weir_u64 pages)
{
	weir_bandwidth_advance(line, bound, now_ns);
	line->charged += pages << WEIR_PAGE_SHIFT;
	if (pages)
		line->usual = average_pass(line->usual, pages);
}

/*
 * Pages, in parts of one, that make a line POLL_MS long if all its tasks take as many,
 * and no more than twice what they took lately.
 */
static weir_u64 poll_for_line(const struct weir_bandwidth *line, weir_u64 due_ms)
{
	if (due_ms < POLL_MS / 2)
		due_ms = POLL_MS / 2;
	return weir_saturate(line->usual) * POLL_MS / due_ms;
}

/*
 * A task has dirtied @hold's pages: charge them to a level, which the caller calls
 * @number, and to its @part of it, one of @parts.  @hold is for all levels on the
 * task's path, and 0 before the first.
 */
void weir_bandwidth_charge(struct weir_bandwidth *level, struct weir_bandwidth *part,
			   weir_u64 parts, weir_u64 bound, weir_u64 now_ns,
			   weir_u64 number, struct weir_bandwidth_hold *hold)
{
	weir_u64 pages = weir_saturate(hold->pages);
	weir_u64 all_ms, part_ms, due_ms, poll;

	charge_line(level, bound, now_ns, pages);
	charge_line(part, part_bound(bound, parts), now_ns, pages);
	all_ms = line_due_ms(level, bound, now_ns, level->charged);
	part_ms = line_due_ms(part, part_bound(bound, parts), now_ns, part->charged);
	due_ms = part_ms < all_ms ? part_ms : all_ms;
	poll = part_ms < all_ms ? poll_for_line(part, part_ms) : poll_for_line(level, all_ms);
	/* no level is known yet */
	if (!hold->least || poll < hold->poll)
		hold->poll = poll;
	if (!hold->least || clamp_bound(bound) < hold->least)
		hold->least = clamp_bound(bound);
	if (hold->number && due_ms <= hold->due_ms)
		return;
	hold->due_ms = due_ms;
	hold->ticket = level->charged;
	hold->part_ticket = part->charged;
	hold->number = number;
}

/*
 * Tasks of a part, one of @parts, have ended that dirtied @pages and did not wait for them:
 * @left is a line for the tasks that follow them.
 */
void weir_bandwidth_leave(struct weir_bandwidth *left, weir_u64 parts, weir_u64 bound,
			  weir_u64 now_ns, weir_u64 pages)
{
	charge_line(left, part_bound(bound, parts), now_ns, weir_saturate(pages));
}

/* Milliseconds until what was left up to @ticket is paid. */
weir_u64 weir_bandwidth_left_ms(struct weir_bandwidth *left, weir_u64 parts, weir_u64 bound,
				weir_u64 now_ns, weir_u64 ticket)
{
	return line_due_ms(left, part_bound(bound, parts), now_ns, ticket);
}

/* Are @due_ms a wait? */
int weir_bandwidth_waits(weir_u64 due_ms)
{
	return due_ms >= WAIT_MIN_MS;
}

/* Is that to be waited for, or left to add up? */
int weir_bandwidth_holds(const struct weir_bandwidth_hold *hold)
{
	return weir_bandwidth_waits(hold->due_ms);
}

/*
 * Pages the task may dirty before it is looked at again: what the level asks for that
 * asks soonest.  A task that waits in its parent's line, among tasks that take more,
 * would make its own too long.
 */
weir_u64 weir_bandwidth_poll(const struct weir_bandwidth_hold *hold,
			     weir_u64 stock_poll)
{
	weir_u64 most = bytes_paid(hold->least, POLL_MS) >> WEIR_PAGE_SHIFT;
	weir_u64 poll = hold->poll / FINE;

	if (!hold->least)
		return stock_poll;
	if (poll > most)
		poll = most;
	if (poll > stock_poll)
		poll = stock_poll;
	return poll ? poll : 1;
}
