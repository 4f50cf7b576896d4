// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that tasks below a floor dirtied, and that their wbs recorded:
 * policy/credit.c.  Without it a floor's owner who rewrites files of others
 * fills the host up to its limit and all floors on top.
 *
 * A record remembers what its wbs on the last devices had recorded.  One more device takes
 * the place of an earlier one.
 */
#include "weir.h"
#include <linux/hash.h>

/* Of the word that keeps a task's last report: pages, modulo 128 GiB. */
#define PAGES_BITS	25
#define PAGES_MASK	(BIT(PAGES_BITS) - 1)

/* The place of a device among the record's, or NULL.  Under record->lock. */
static struct weir_device *find_device(struct weir_record *record, u64 bdi_id)
{
	struct weir_device *device;

	for (device = record->devices; device < record->devices + WEIR_DEVICES; device++) {
		if (device->bdi_id == bdi_id)
			return device;
	}
	return NULL;
}

/*
 * Give a device a place whose wb has @recorded pages.  Those of @own, which the task of
 * this pass dirtied, are new, if the device cannot have lost a place before: pages that
 * counted again each time would let a tenant rewrite as many of others'.
 */
static struct weir_device *assign_device_slot(struct weir_record *record, u64 bdi_id,
					      u64 recorded, u64 own)
{
	bool again = record->next_device >= WEIR_DEVICES;
	struct weir_device *device =
		&record->devices[record->next_device++ % WEIR_DEVICES];

	/* stays above the number of places when it wraps */
	record->next_device = record->next_device ?: WEIR_DEVICES;
	device->bdi_id = bdi_id;
	device->recorded = recorded - (again ? 0 : min(recorded, own));
	return device;
}

/*
 * Pages that the record's @wb has recorded as dirtied since the last pass on it.  It is
 * read under the lock: what is noted never goes back but for a wb that was made anew.
 */
static u64 take_newly_recorded(struct weir_record *record, struct bdi_writeback *wb, u64 own)
{
	u64 bdi_id = wb->bdi->id, recorded, pages = 0;
	struct weir_device *device;

	raw_spin_lock(&record->lock);
	/* the cgroup has another by now, whose count is not this one's */
	if (!wb_dying(wb)) {
		recorded = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]);
		device = find_device(record, bdi_id) ?:
			 assign_device_slot(record, bdi_id, recorded, own);
		if (recorded > device->recorded)
			pages = recorded - device->recorded;
		device->recorded = recorded;
	}
	raw_spin_unlock(&record->lock);
	return pages;
}

/*
 * Pages of a pass that the task itself dirtied.
 *
 * What a pass reports may include pages of tasks that have exited: the kernel
 * lets the next task on that CPU answer for them.  They must not count as
 * this cgroup's, or a neighbour of many short-lived writers would take its
 * floor away.  The task's own I/O
 * accounting knows better; what it said at the last report is kept in a table by
 * pid, one word each: whose it is, in 7 bits, and the page count, in 25.  A task that
 * is not there is believed what it has dirtied in all its life.  Tasks share a place
 * if a multiple of 32,768 lies between their pids: of a neighbour's tasks, a tenant
 * with N tasks that write makes N in 32,768 be forgotten.
 *
 * Tasks of the floor's own cgroups answer when they exit (weir_device_charge_exit()).
 */
u64 weir_dirtied_by_current(struct weir_reporters *reporters, u64 reported)
{
#ifdef CONFIG_TASK_IO_ACCOUNTING
	u32 place = current->pid & (BIT(WEIR_REPORTERS_BITS) - 1);
	/* pids are used again, and by a tenant who forks for it within seconds */
	u32 whose = hash_64(current->start_time + current->pid, 32 - PAGES_BITS);
	u64 pages = current->ioac.write_bytes >> PAGE_SHIFT;
	u32 now = whose << PAGES_BITS | (pages & PAGES_MASK);
	u32 before = atomic_xchg(&reporters->last[place], now);

	if (!((before ^ now) & ~PAGES_MASK))
		pages = min_t(u64, pages, (now - before) & PAGES_MASK);
	return min(pages, reported);
#else
	return reported;
#endif
}

/* Of floors: what tasks have said when it was last asked. */
static struct weir_reporters device_reporters;

/*
 * Foreign pages below a fair part count for all above it, too: a tenant's cgroups come and
 * go, each with a part, and what they have dirtied of others' stays.
 */
static noinline void charge_ancestors(struct weir_record *record, s64 foreign)
{
	while (foreign && (record = record->parent)) {
		raw_spin_lock(&record->lock);
		record->credit = min(record->credit - foreign, 0LL);
		raw_spin_unlock(&record->lock);
	}
}

static void charge_credit(struct weir_record *floored, u64 own, u64 recorded, bool admitted)
{
	s64 before, after;

	raw_spin_lock(&floored->lock);
	before = floored->credit;
	weir_credit_charge(&floored->credit, READ_ONCE(floored->floor), own, recorded, admitted);
	after = floored->credit;
	raw_spin_unlock(&floored->lock);
	/* above zero none is foreign */
	if (floored->parent && !READ_ONCE(floored->floor_given))
		charge_ancestors(floored, min(before, 0LL) - min(after, 0LL));
}

/*
 * The current task exits.  The kernel lets another task answer for what it dirtied since
 * its last pass, which knows nothing of it: a cgroup whose tasks each rewrite less of
 * another's file than makes them look would have a floor without an end.
 */
void weir_device_charge_exit(void)
{
	struct weir_record *record;

	if (!IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) || current->nr_dirtied <= 0 ||
	    !weir_acting() || READ_ONCE(weir_observe))
		return;
	rcu_read_lock();
	record = weir_tree_nearest(rcu_dereference(current->cgroups)->
				   subsys[memory_cgrp_id]);
	record = weir_tree_floored(record);
	if (record)
		charge_credit(record,
			      weir_dirtied_by_current(&device_reporters, current->nr_dirtied),
			      0, true);
	rcu_read_unlock();
}

/*
 * Account a pass of the record on its @wb in the credit of @floored, the next floor from it
 * upwards.
 */
void weir_device_charge(struct weir_record *record, struct weir_record *floored,
			struct bdi_writeback *wb, u64 reported, bool admitted)
{
	u64 own = weir_dirtied_by_current(&device_reporters, reported);

	charge_credit(floored, own, take_newly_recorded(record, wb, own), admitted);
}
