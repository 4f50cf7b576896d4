// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all floors reserve and do not use, kept fresh without asking everybody.
 *
 * Each floor keeps what it last contributed; each pass below it, writer's or
 * flusher's, counts the pass's cgroup anew (tree.c), and adds only the difference
 * to one sum (host.c).  So a decision costs one count, whatever the number of cgroups.
 *
 * Pages that are written back or truncated without a pass free a floor unseen, and
 * meanwhile the others may take its room.  So while the host is above its background
 * level, where it matters, groups that a floor covers and that held pages when last
 * counted are counted in turns of RECOUNT_READS, 42 a second at 250 Hz: with 8 CPUs
 * 80 groups in one, with 256 CPUs 5.  The rest of a turn, a quarter at least, looks
 * for groups that were told pages since: 256 of them.  Examples with 8 CPUs, where
 * 500 of 10,000 cgroups hold pages: each is counted every 7 turns, 0.17 s; one
 * that holds pages anew is among them after 38 turns at most, 0.9 s.  A disk of
 * 16 MB/s gets 0.4 MB ahead of a turn, 1 % of a limit of 32 MiB; with the beat's
 * five counts a second it was 3.2 MB, and the host was seen at 1.07 x its limit.
 * However late a count is, the host holds at most what floors reserve beyond its
 * limit.
 *
 * A group whose cgroup is gone takes its contribution along when it is freed,
 * after the last handler that could have noted one.
 */
#include "weir.h"
#include "compat.h"
#include <linux/workqueue.h>

#define RECOUNT_JIFFIES	msecs_to_jiffies(WEIR_RECOUNT_MS)
/* About what a turn reads, under weir_lock; groups beyond that come next turn. */
#define RECOUNT_READS	(1 << 12)

static bool ended;

static void recount(struct work_struct *work)
{
	if (weir_count_host() > weir_host_limits().bg_thresh)
		weir_groups_recount(RECOUNT_READS);
	if (READ_ONCE(weir_pool.floors_total))
		queue_delayed_work(weir_unbound_wq, to_delayed_work(work),
				   RECOUNT_JIFFIES);
}

static DECLARE_DELAYED_WORK(recount_work, recount);

/* Floors were evaluated: recount as long as there are any. */
void weir_reserve_watch(void)
{
	if (!ended && READ_ONCE(weir_pool.floors_total))
		queue_delayed_work(weir_unbound_wq, &recount_work,
				   RECOUNT_JIFFIES);
}

/*
 * Stop recounting for good.  Only the caller drops groups now, and that evaluates
 * floors.
 */
void weir_reserve_end(void)
{
	ended = true;
	cancel_delayed_work_sync(&recount_work);
}
