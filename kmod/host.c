// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's limits as passes find them: what they are amended by, that is what floors
 * reserve and do not use and what drain says, and when the flusher is due by them.
 */
#include "weir.h"
#include "compat.h"
#include <linux/writeback.h>

static atomic64_t unused_total;

/* The record's floor now reserves @unused pages beyond what it covers. */
void weir_reserve_note(struct weir_record *record, u64 unused)
{
	u64 before = atomic64_xchg(&record->unused, unused);

	if (unused != before)
		atomic64_add(unused - before, &unused_total);
}

/* Pages that all floors reserve beyond those they cover. */
u64 weir_unused_pages(void)
{
	return max_t(s64, atomic64_read(&unused_total), 0);
}

/* The figures that amend the host's limits: none, if weir only observes. */
struct weir_drain_host weir_host_amendments(void)
{
	struct weir_drain_host host = {};

	if (READ_ONCE(weir_observe))
		return host;
	host.unused = weir_unused_pages();
	weir_drain_fill_host(&host);
	return host;
}

/* The host's limits at the last beat, as passes find them now. */
struct weir_limits weir_host_limits(void)
{
	struct weir_drain_host host = weir_host_amendments();
	struct weir_limits limits = {
		.thresh = READ_ONCE(weir_pool.host_thresh),
		.bg_thresh = READ_ONCE(weir_pool.host_bg_thresh),
	};

	weir_amend_global(&limits, WEIR_PASS_WRITER, &host, NULL);
	return limits;
}

/* Start background writeback if it is due. */
void weir_wake_flusher(struct bdi_writeback *wb)
{
	if (!weir_laptop_mode() && !writeback_in_progress(wb) &&
	    global_node_page_state(NR_FILE_DIRTY) >
	    weir_host_limits().bg_thresh)
		weir_start_background(wb);
}
