// SPDX-License-Identifier: GPL-2.0-only
/*
 * A livepatch of the throttle itself, for livepatch.sh: no task is ever throttled,
 * and passes are counted.  No use for anything else.
 */
#include <linux/backing-dev.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/sched.h>

static unsigned long passes;
module_param(passes, ulong, 0444);

static int never_throttle(struct bdi_writeback *wb, unsigned long pages_dirtied,
			  unsigned int flags)
{
	passes++;
	current->nr_dirtied = 0;
	return 0;
}

static struct klp_func functions[] = {
	{ .old_name = "balance_dirty_pages", .new_func = never_throttle },
	{ }
};

static struct klp_object objects[] = {
	{ .funcs = functions },
	{ }
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objects,
};

static int __init livepatch_init(void)
{
	return klp_enable_patch(&patch);
}

static void __exit livepatch_exit(void)
{
}

module_init(livepatch_init);
module_exit(livepatch_exit);
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("A livepatch of balance_dirty_pages() for weir's tests");
