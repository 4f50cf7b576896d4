// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a cgroup does on each device: the credit of floors.
 *
 * A group remembers the last devices its tasks wrote to, and those of cgroups
 * below it that have no group yet.  One more takes the place of an earlier one:
 * then its first pass counts for what it reports, and no more.
 */
#include "weir.h"
#include <linux/hash.h>

/*
 * The place of @wb among the group's devices; another's, emptied, if it has none.
 * The caller holds group->lock.
 */
struct weir_device *weir_device_of(struct weir_group *group,
				   struct bdi_writeback *wb)
{
	u64 css_serial = wb->memcg_css->serial_nr;
	struct weir_device *device;
	int i;

	for (i = 0; i < WEIR_DEVICES; i++) {
		device = &group->devices[i];
		if (device->bdi_id == wb->bdi->id &&
		    device->css_serial == css_serial)
			return device;
	}
	device = &group->devices[group->next_device++ % WEIR_DEVICES];
	*device = (struct weir_device) {
		.bdi_id = wb->bdi->id,
		.css_serial = css_serial,
		/* ids begin with 1 */
		.again = device->bdi_id != 0,
	};
	return device;
}

/* Pages newly dirtied in this wb since the group's last pass on it. */
static u64 newly_dirtied(struct weir_group *group, struct bdi_writeback *wb,
			 u64 reported)
{
	u64 now = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]);
	struct weir_device *device;
	bool again;
	u64 before;

	raw_spin_lock(&group->lock);
	device = weir_device_of(group, wb);
	again = device->again;
	before = device->wb_dirtied;
	device->wb_dirtied = now;
	raw_spin_unlock(&group->lock);
	/*
	 * What the wb has recorded since it was made vouches for pages once.  A
	 * place that was another's may be this wb's for the second time: who
	 * writes to more devices in turn than there are places would have old
	 * pages vouch for new ones of others each time around.
	 */
	if (!before && again)
		return min(now, reported);
	/* a wb made anew starts from zero */
	return now >= before ? now - before : now;
}

/*
 * Pages of a pass that the task itself dirtied.
 *
 * What a pass reports may include pages of tasks that have exited: the kernel
 * lets whoever comes next on that CPU answer for them.  They must not count as
 * this cgroup's, or a neighbour of many short-lived writers would eat up its
 * floor.  The task's own I/O accounting knows better; what it said at the last
 * report is kept in a small table, one word per slot: pid and page count.  A task
 * that is not there is believed what it has dirtied in all its life.
 */
u64 weir_dirtied_by_current(struct weir_reporters *reporters, u64 reported)
{
#ifdef CONFIG_TASK_IO_ACCOUNTING
	atomic64_t *slot = &reporters->last[hash_ptr(current, WEIR_REPORTERS_BITS)];
	u32 pages = current->ioac.write_bytes >> PAGE_SHIFT;
	u64 before = atomic64_xchg(slot, (u64)current->pid << 32 | pages);

	if (before >> 32 == current->pid)
		pages -= (u32)before;
	return min_t(u64, pages, reported);
#else
	return reported;
#endif
}

/*
 * Account a pass of the group on @wb in the credit of @floored, the next floor
 * from it upwards.  Its pages are charged if a floor admits it; otherwise the
 * kernel may or may not take them off the task, and only what the wb recorded
 * is noted.
 */
void weir_device_charge(struct weir_group *group, struct weir_group *floored,
			struct bdi_writeback *wb, u64 reported, bool admitted)
{
	static struct weir_reporters reporters;
	u64 dirtied = weir_dirtied_by_current(&reporters, reported);
	u64 in_wb = newly_dirtied(group, wb, reported);

	raw_spin_lock(&floored->lock);
	floored->credit.most_ahead = READ_ONCE(floored->floor);
	weir_credit_charge(&floored->credit, weir_now_ms(),
			   admitted ? dirtied : 0, in_wb);
	raw_spin_unlock(&floored->lock);
}

/* Foreign pages that count against the floor now. */
u64 weir_device_foreign(struct weir_group *group)
{
	u64 foreign;

	raw_spin_lock(&group->lock);
	foreign = weir_credit_pages(&group->credit, weir_now_ms());
	raw_spin_unlock(&group->lock);
	return foreign;
}
