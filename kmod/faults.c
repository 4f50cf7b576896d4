// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults on purpose, for the tests only: built with WEIR_FAULTS=y, never
 * otherwise.
 *
 *   fault_one_in   lose one decision in this many, as a missed probe would
 *   fault_hide     a function or a name in BTF this kernel shall not have
 *   fault_taken    a kernel that brings a memory.dirty_min of its own
 *   fault_stall    the beat does nothing, as if its workqueue were stuck
 *   fault_late_ms  tasks named "dd" lose their CPU for so long between two domains of a
 *                  pass, without a sleep of their own
 */
#include "weir.h"
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>

static unsigned int fault_one_in;
module_param(fault_one_in, uint, 0644);
MODULE_PARM_DESC(fault_one_in, "lose one decision in this many, 0 = none");

static char *fault_hide;
module_param(fault_hide, charp, 0444);
MODULE_PARM_DESC(fault_hide, "function or name in BTF that is not to be found");

static bool fault_taken;
module_param(fault_taken, bool, 0444);
MODULE_PARM_DESC(fault_taken, "let there be a memory.dirty_min already");

static bool fault_stall;
module_param(fault_stall, bool, 0644);
MODULE_PARM_DESC(fault_stall, "let the beat do nothing");

static unsigned int fault_late_ms;
module_param(fault_late_ms, uint, 0644);
MODULE_PARM_DESC(fault_late_ms, "have tasks named dd lose their CPU in a pass, in ms");

/* The current task is about to look at the domain of its cgroup.  It may be scheduled. */
void weir_fault_late(void)
{
	unsigned long until = jiffies + msecs_to_jiffies(READ_ONCE(fault_late_ms));

	if (!READ_ONCE(fault_late_ms) || strcmp(current->comm, "dd"))
		return;
	while (time_before(jiffies, until) && !fatal_signal_pending(current))
		cond_resched();
}

/* Is the beat to do nothing? */
bool weir_fault_stalls(void)
{
	return READ_ONCE(fault_stall);
}

/* Is this decision to be lost? */
bool weir_fault_loses(void)
{
	static atomic_t calls;
	unsigned int every = READ_ONCE(fault_one_in);

	return every && !((unsigned int)atomic_inc_return(&calls) % every);
}

/* Is this name to be treated as missing? */
bool weir_fault_hides(const char *name)
{
	return fault_hide && !strcmp(fault_hide, name);
}

/* BTF as a kernel would bring it that calls what is to be hidden something else. */
void weir_fault_rename(void *blob, size_t size)
{
	size_t len = fault_hide ? strlen(fault_hide) + 1 : 0;
	char *at;

	/* with the ends of the names before and after it */
	for (at = blob + 1; len && at + len <= (char *)blob + size; at++) {
		if (!at[-1] && !memcmp(at, fault_hide, len))
			*at = '?';
	}
}

static int show_taken(struct seq_file *seq, void *unused)
{
	seq_puts(seq, "the kernel's own\n");
	return 0;
}

static struct cftype taken[] = {
	{ .name = "dirty_min", .flags = CFTYPE_NOT_ON_ROOT, .seq_show = show_taken },
	{ }
};

/* The files of that kernel, or NULL. */
struct cftype *weir_fault_files(void)
{
	return fault_taken ? taken : NULL;
}
