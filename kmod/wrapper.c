// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wrappers that the kernel calls instead of its own functions: hook.c puts
 * these there and knows no more of them than where they are and how many tasks
 * are in them.
 */
#include "weir.h"

DECLARE_STATIC_CALL(weir_rest_of_limits, weir_limits);

/* Called in the place of balance_dirty_pages(). */
static int pass_wrapper(struct bdi_writeback *wb, unsigned long pages_dirtied,
			unsigned int flags)
{
	int ret;

	this_cpu_inc(weir_inside);
	ret = weir_pass(wb, pages_dirtied, flags);
	this_cpu_dec(weir_inside);
	return ret;
}

/* Called in the place of filemap_fdatawait_keep_errors(). */
static int wait_wrapper(struct address_space *mapping)
{
	int ret;

	this_cpu_inc(weir_syncing);
	ret = weir_sync_wait(mapping);
	this_cpu_dec(weir_syncing);
	return ret;
}

/* Called in the place of domain_dirty_limits(). */
static void limits_wrapper(void *dtc)
{
	static_call(weir_rest_of_limits)(dtc);
	weir_limits(dtc);
}

const struct weir_wrappers weir_wrappers = {
	.pass = pass_wrapper,
	.limits = limits_wrapper,
	.wait = wait_wrapper,
#ifdef WEIR_FLUSHER
	.writepages = weir_flusher_write,
#endif
};
