// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that a wb has newly recorded as dirtied: each page once, however late a
 * look is.
 *
 * Model.  A wb counts the pages that are dirtied in it, from when it is made.  Looks
 * at that count come from several CPUs, and who looks may lose its CPU before it has
 * noted what it saw.  A look that began before the last one had ended may be the
 * earlier of the two: if it says less, it says nothing.  Any other that says less
 * saw the count go down.  By little: the kernel took back what a flusher dirtied
 * again, and nothing is new until the count is where it was.  By more: the wb was
 * made anew, and has recorded what it says since.  Whatever the reason, what is
 * missing bounds what is new.  A wb that is made anew while it has recorded little is
 * taken for the former: its cgroup's next pages, as many as that, pass for foreign.
 *
 * The first look, or the first after a pause, does not know what of the count is
 * old: of that it takes what the caller says its own task is yet to report.
 *
 * Example.  A wb has recorded 5,000 pages; of a first look 32 are new.  The next
 * look finds 5,100: 100.  One that was interrupted at 5,050 comes after it: none.
 * The wb is made anew and has recorded 10: 10.
 */
#include "policy.h"

/* Note a look; returns the pages that are new. */
weir_u64 weir_recorded_note(struct weir_recorded *recorded,
			    const struct weir_wb_snapshot *look)
{
	weir_u64 before = recorded->pages, pages = look->dirtied, missing;

	if (look->first) {
		pages = pages < look->unreported ? pages : look->unreported;
	} else if (pages >= before) {
		pages -= before;
	} else {
		missing = before - pages;
		if (look->begun_ns < recorded->ended_ns || missing < WEIR_AHEAD_MOST)
			return 0;
		pages = pages < missing ? pages : missing;
	}
	recorded->pages = look->dirtied;
	recorded->ended_ns = look->ended_ns;
	return pages;
}
