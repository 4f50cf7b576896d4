// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that tasks below a floor dirtied and that belong to other cgroups.
 *
 * A task that rewrites another cgroup's file dirties folios charged to that
 * cgroup, under an inode owned by that cgroup's wb.  Its own counts stay at
 * zero, and a floor judged by them alone would be a licence without limit.
 *
 * Two running numbers tell: what tasks below the floor dirtied, and what their wbs
 * recorded.  They agree for one's own files, in whatever order tasks report the pages
 * of several.  A floor keeps their balance, one for all tasks and wbs down to the next
 * floor, so many small cgroups have no more than one.
 *
 * Above zero it is what wbs recorded and no task has reported yet.  That vouches for
 * pages of others', so it is held at the floor.  Below zero it is foreign pages, which
 * count against the floor as its own do.  A pass that the floor does not admit adds none:
 * the kernel holds its task for them.
 *
 * Foreign pages are forgiven steadily, a whole floor in a minute; if there are more, a
 * 300th of them in each beat.  By then the owner's flusher has had to take them up, as the
 * kernel's dirty expiry is half of that.
 *
 * Example.  A floor of 4,096 pages.  A task reports 64 pages, its wb recorded 64: none is
 * foreign.  It reports 64 of which 16 are another's: 48 were recorded, 16 are foreign.
 * In each beat 14 are forgiven.
 */
#include "policy.h"

/* Beats in which a whole floor is forgiven: 60 s. */
#define FORGIVEN_IN	(60000 / WEIR_BEAT_MS)

/*
 * Account a pass below a floor of @most pages, or a task's exit: the task dirtied @own
 * pages, and its wb has newly recorded @recorded.
 */
void weir_credit_charge(weir_s64 *balance, weir_u64 most, weir_u64 own,
			weir_u64 recorded, int admitted)
{
	const weir_s64 owed_most = (weir_s64)WEIR_PAGES_MAX;
	weir_s64 bound = (weir_s64)weir_saturate(most);
	weir_s64 least = *balance < 0 ? *balance : 0;
	weir_s64 now = *balance + (weir_s64)weir_saturate(recorded) -
		       (weir_s64)weir_saturate(own);

	if (!admitted && now < least)
		now = least;
	*balance = now > bound ? bound : now < -owed_most ? -owed_most : now;
}

/* Foreign pages that count against the floor. */
weir_u64 weir_credit_foreign(weir_s64 balance)
{
	return balance < 0 ? (weir_u64)-balance : 0;
}

/* A beat has passed. */
void weir_credit_forgive(weir_s64 *balance, weir_u64 most)
{
	weir_u64 foreign = weir_credit_foreign(*balance);
	weir_u64 base = foreign > weir_saturate(most) ? foreign : weir_saturate(most);
	weir_u64 part = base / FORGIVEN_IN + 1;

	if (foreign)
		*balance += (weir_s64)(part < foreign ? part : foreign);
}
