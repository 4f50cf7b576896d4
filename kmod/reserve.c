// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that all floors reserve and do not use, kept fresh without asking every
 * record.
 *
 * Each floor keeps what it last contributed; each pass below it, writer's or
 * flusher's, counts the pass's cgroup anew (tree.c), and adds only the difference
 * to one sum (host.c).  So a decision costs one count, whatever the number of cgroups.
 *
 * Pages that are written back or truncated without a pass free a floor unseen, and
 * meanwhile the others may take its room.  So while the host is above its background
 * level, where it matters, records that a floor covers and that held pages when last
 * counted are counted in turns of RECOUNT_READS, 42 a second at 250 Hz: with 8 CPUs
 * 80 records in one, with 256 CPUs 5.  The rest of a turn, a quarter at least, looks
 * for records that were told pages since: 256 of them.  Examples with 8 CPUs, where
 * 500 of 10,000 cgroups hold pages: each is counted every 7 turns, 0.17 s; one
 * that holds pages anew is among them after 38 turns at most, 0.9 s.  A disk of
 * 16 MB/s gets 0.4 MB ahead of a turn, 1 % of a limit of 32 MiB; with the beat's
 * five counts a second it was 3.2 MB, and the host was seen at 1.07 x its limit.
 * However late a count is, the host holds at most what floors reserve beyond its
 * limit.
 *
 * A record whose cgroup is gone takes its contribution along when it is freed,
 * after the last handler that could have noted one.
 */
#include "weir.h"
#include "compat.h"
#include <linux/workqueue.h>

#define RECOUNT_JIFFIES	msecs_to_jiffies(WEIR_RECOUNT_MS)
/* About what a turn reads, under weir_lock; records beyond that come next turn. */
#define RECOUNT_READS	(1 << 12)

/*
 * Every record, the one that a recount saw longest ago first: those that held pages
 * below a floor then, and the others.
 */
LIST_HEAD(weir_holders);
LIST_HEAD(weir_others);

/* The same of one that is passed over: the cache lines that takes. */
#define SKIP_COST	4

static bool ended;

/* Is a floor on its path?  @spent grows by the levels that took, if it is not known. */
static bool is_floored(struct weir_record *record, u32 *spent)
{
	/* fair parts come and go without an epoch, and an end of one is to be counted */
	if (READ_ONCE(weir_writer_count))
		return true;
	if (record->unfloored == weir_floors_epoch)
		return false;
	*spent += record->css->cgroup->level;
	if (weir_tree_floored(record))
		return true;
	record->unfloored = weir_floors_epoch;
	return false;
}

/*
 * Count the records of @list that hold pages below a floor, for about @budget reads or
 * once, and put each where it belongs; returns what that took.  Under weir_lock.
 */
static u32 recount_some(struct list_head *list, u32 budget)
{
	struct weir_record *record, *last;
	struct weir_counts own;
	u32 spent = 0;
	bool holds;

	if (list_empty(list))
		return 0;
	last = list_last_entry(list, struct weir_record, all);
	do {
		record = list_first_entry(list, struct weir_record, all);
		/* a pass may be half way through telling: who was a holder is counted */
		holds = list == &weir_holders ||
			READ_ONCE(record->reported.dirty) +
				READ_ONCE(record->reported.writeback);
		holds = holds && is_floored(record, &spent);
		spent += SKIP_COST;
		if (holds) {
			own = weir_tree_update(record);
			holds = own.dirty + own.writeback;
			spent += WEIR_VISIT_COST + weir_count_cost();
		}
		list_move_tail(&record->all, holds ? &weir_holders : &weir_others);
	} while (record != last && spent < budget);
	return spent;
}

/*
 * Count anew what floors cover, for about @budget reads, going on where the last
 * call stopped.  A record that held nothing is counted by its tasks' passes; a quarter
 * of the budget, and what holders leave of theirs, is for finding those that hold
 * something since.  So holders do not wait for cgroups without pages.  weir_lock is
 * held for as long.
 */
static void reserve_turn(u32 budget)
{
	u32 spent;

	spin_lock(&weir_lock);
	spent = recount_some(&weir_holders, budget / 4 * 3);
	recount_some(&weir_others, budget - min(spent, budget));
	spin_unlock(&weir_lock);
}

static bool any_floor(void)
{
	return READ_ONCE(weir_pool.floors_total) || READ_ONCE(weir_writer_count);
}

static void recount(struct work_struct *work)
{
	if (weir_count_host() > weir_host_limits().bg_thresh)
		reserve_turn(RECOUNT_READS);
	if (any_floor())
		queue_delayed_work(weir_unbound_wq, to_delayed_work(work),
				   RECOUNT_JIFFIES);
}

static DECLARE_DELAYED_WORK(recount_work, recount);

/* Floors were evaluated: recount as long as there are any. */
void weir_reserve_watch(void)
{
	if (!ended && any_floor())
		queue_delayed_work(weir_unbound_wq, &recount_work,
				   RECOUNT_JIFFIES);
}

/*
 * Stop recounting for good.  Only the caller drops records now, and that evaluates
 * floors.
 */
void weir_reserve_end(void)
{
	ended = true;
	cancel_delayed_work_sync(&recount_work);
}
