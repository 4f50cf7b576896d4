// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wait of sync(2) and syncfs(2), with drain_tighten.
 *
 * A sync submits all that was dirty, and then waits for each file's writeback, in
 * filemap_fdatawait_keep_errors(): from the file's first page to its last, for
 * each page that is under writeback when the walk comes to it.  Beside a task that
 * writes a file from its begin to its end the flusher is always a little ahead of
 * the walk, and the walk follows it to the end of the file, however little is
 * dirty (docs/experiments/0030-bounded-sync.md).
 *
 * All that is to be waited for is under writeback when the wait begins: sync has
 * submitted what was dirty before.  So the last page that is under writeback then is
 * where the walk may end; the kernel's own function for a range of a file does it.
 * What is submitted before that page meanwhile is still waited for.
 *
 * A task that waits is in weir's code: unloading waits for it, as for tasks in passes.
 */
#include "weir.h"
#include <linux/pagemap.h>
#include <linux/xarray.h>

/*
 * From which page on is nothing under writeback, at some moment since the call?  As
 * writeback begins and ends meanwhile, one look may find what another did not; each
 * that finds nothing is such a moment.  A look from inside a large folio finds its
 * head, which is before; or nothing, and the walk finds it there.
 */
static pgoff_t find_writeback_end(struct address_space *mapping)
{
	pgoff_t begin = 0, end = (LLONG_MAX >> PAGE_SHIFT) + 1;

	while (begin < end) {
		pgoff_t middle = begin + (end - begin) / 2;
		unsigned long found = middle;

		if (xa_find(&mapping->i_pages, &found, ULONG_MAX,
			    PAGECACHE_TAG_WRITEBACK))
			begin = max(found, middle) + 1;
		else
			end = middle;
	}
	return end;
}

/* In the place of filemap_fdatawait_keep_errors(). */
int weir_sync_wait(struct address_space *mapping)
{
	u64 end = LLONG_MAX;

	/* not 0: that would be the whole file */
	if (weir_acting() && weir_drain_bounds_sync())
		end = ((u64)max(find_writeback_end(mapping), 1UL) << PAGE_SHIFT) - 1;
	return filemap_fdatawait_range_keep_errors(mapping, 0, end);
}
