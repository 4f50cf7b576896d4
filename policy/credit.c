// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that a floor's cgroups dirtied and that belong to somebody else.
 *
 * A task that rewrites another cgroup's file dirties folios charged to that
 * cgroup, under an inode owned by that cgroup's wb.  Its own counts stay at
 * zero, and a floor judged by them alone would be a licence without limit.
 *
 * Two cumulative numbers tell: what the cgroup's tasks dirtied (the pages each
 * throttle pass reports) and what its own wbs recorded as dirtied.  They agree
 * for one's own files, up to pages still on their way to the next pass.  What
 * tasks report beyond what the wbs recorded is foreign.  Order does not
 * matter: pages seen in a wb first are remembered in @ahead and matched when
 * a task reports them.  Passes that the floor does not admit report no pages
 * (the kernel may or may not take them off the task), so @ahead is held at
 * @most_ahead, the floor: what slips through as matched at one time is bounded by it,
 * and to do so again takes as many pages of one's own.
 *
 * A floor has one credit for all tasks and wbs it covers, down to the next floor:
 * so many small cgroups do not make up for a bound each.  What one of them rewrites
 * of another's is matched as well, if the other makes passes; otherwise it counts
 * twice, as foreign and as the owner's.
 *
 * Foreign pages are charged for at least one and at most two windows of the
 * kernel's dirty expiry: by then the owner's flusher has had to take them up.
 *
 * Example.  A task reports 64 pages, the wb recorded none: 64 foreign pages,
 * held until the window after next begins, 30 to 60 s later.  A task reports
 * 64, the wb recorded 64: none.
 */
#include "policy.h"

/*
 * Begin the window that @now_ms lies in.  Windows that follow each other share
 * a border, so that a late pass does not prolong what the last one charged; a
 * clock read on another CPU just before the window began does not end it.
 */
static void slide(struct weir_credit *credit, weir_u64 now_ms)
{
	weir_u64 age;

	if (now_ms < credit->window_start_ms)
		return;
	age = now_ms - credit->window_start_ms;
	if (age < WEIR_CREDIT_WINDOW_MS)
		return;
	if (age < 2 * WEIR_CREDIT_WINDOW_MS) {
		credit->before_pages = credit->now_pages;
		credit->window_start_ms += WEIR_CREDIT_WINDOW_MS;
	} else {
		credit->before_pages = 0;
		credit->window_start_ms = now_ms;
	}
	credit->now_pages = 0;
}

/*
 * Account one pass: a task reports @dirtied_by_task pages, of which the
 * cgroup's wb has newly recorded @dirtied_in_wb.
 */
void weir_credit_charge(struct weir_credit *credit, weir_u64 now_ms,
			weir_u64 dirtied_by_task, weir_u64 dirtied_in_wb)
{
	weir_u64 seen;

	slide(credit, now_ms);
	seen = weir_add(credit->ahead, dirtied_in_wb);
	if (seen >= dirtied_by_task) {
		seen -= dirtied_by_task;
		credit->ahead = seen < credit->most_ahead ? seen :
				credit->most_ahead;
		return;
	}
	credit->ahead = 0;
	credit->now_pages = weir_saturate(weir_add(credit->now_pages,
						   dirtied_by_task - seen));
}

/* Foreign pages still charged at @now_ms. */
weir_u64 weir_credit_pages(const struct weir_credit *credit, weir_u64 now_ms)
{
	struct weir_credit now = *credit;

	slide(&now, now_ms);
	return weir_add(now.now_pages, now.before_pages);
}
