// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arrears: what tasks of a cgroup dirtied and its account did not pay for.
 *
 * Model.  A wb records dirtied pages by the inode's cgroup, a pass reports them by
 * the task's.  For a cgroup's own files the two agree: what its wb recorded waits
 * for its tasks' reports.  What is reported and was not recorded was dirtied in
 * another cgroup's file.  What was recorded but is more than a cgroup can owe is
 * not paid for either.  A cgroup of which that is a sixteenth or more, lately,
 * evades.
 *
 * A task's count is not of one device.  A cgroup strays on a device if a sixteenth
 * of what passes there report is not recorded there; it is to be looked at on other
 * devices, and what its wbs there recorded vouches for it, too.
 *
 * Example.  A wb records 100 pages.  Its tasks report 60, then 44 more: 4 of them
 * were dirtied elsewhere, 4 of 104 is not evading.  Tasks that report 60 each time
 * while 50 are recorded evade.
 */
#include "policy.h"

/* Of what was reported, that much and more is remembered. */
#define LATELY		1024ULL
/* A cgroup evades, or strays, if that is one page in so many. */
#define PART		16ULL

/* The cgroup's wb recorded @pages, and its account is to pay for them. */
void weir_arrears_record(struct weir_arrears *arrears, weir_u64 pages)
{
	weir_u64 ahead = weir_add(arrears->ahead, pages);

	arrears->ahead = ahead < WEIR_AHEAD_MOST ? ahead : WEIR_AHEAD_MOST;
}

/* Of @pages that a task reports, those that the wb did not record. */
weir_u64 weir_arrears_match(struct weir_arrears *arrears, weir_u64 pages)
{
	weir_u64 recorded = arrears->ahead < pages ? arrears->ahead : pages;

	arrears->ahead -= recorded;
	return pages - recorded;
}

/*
 * A task reported @pages in a pass on the wb, which had not recorded @strayed of
 * them; no wb of the cgroup had recorded @unpaid.
 */
void weir_arrears_report(struct weir_arrears *arrears, weir_u64 pages, weir_u64 strayed,
			 weir_u64 unpaid)
{
	arrears->passed += weir_saturate(pages);
	arrears->strayed += weir_saturate(strayed);
	arrears->unpaid += weir_saturate(unpaid);
	while (arrears->passed >= LATELY) {
		arrears->passed /= 2;
		arrears->strayed /= 2;
		arrears->unpaid /= 2;
	}
}

/* Of the pages that were recorded, @pages are more than the cgroup can owe. */
void weir_arrears_forgive(struct weir_arrears *arrears, weir_u64 pages)
{
	arrears->unpaid = weir_saturate(weir_add(arrears->unpaid, pages));
}

/* Does the cgroup evade?  True, too, as long as it is too early to tell. */
int weir_arrears_evades(const struct weir_arrears *arrears)
{
	return PART * arrears->unpaid >= arrears->passed;
}

/* Does the cgroup stray?  The same. */
int weir_arrears_strays(const struct weir_arrears *arrears)
{
	return PART * arrears->strayed >= arrears->passed;
}
