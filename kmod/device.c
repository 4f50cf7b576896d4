// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a cgroup does on each device: the credit of floors.
 *
 * A group remembers the last devices its tasks wrote to, and those of cgroups
 * below it that have no group yet.  One more takes the place of an earlier one, and
 * what passes of that one report is foreign until they have a place for longer than
 * one.
 */
#include "weir.h"
#include <linux/hash.h>

/* Of the word that keeps a task's last report: pages, modulo 128 GiB. */
#define PAGES_BITS	25
#define PAGES_MASK	(BIT(PAGES_BITS) - 1)

/* The place of @wb among the group's devices, or NULL.  Under group->lock. */
static struct weir_device *find(struct weir_group *group, struct bdi_writeback *wb)
{
	struct weir_device *device;

	for (device = group->devices; device < group->devices + WEIR_DEVICES; device++) {
		if (device->bdi_id == wb->bdi->id &&
		    device->css_serial == wb->memcg_css->serial_nr)
			return device;
	}
	return NULL;
}

/*
 * May @wb, which has no place, have had one?  Places are taken in their order, and
 * cgroups newer than all are new.  Under group->lock.
 */
static bool was_here(const struct weir_group *group, const struct bdi_writeback *wb)
{
	return group->next_device >= WEIR_DEVICES &&
	       wb->memcg_css->serial_nr <= group->newest_serial;
}

/*
 * What the groups above know of @wb, up to @floored: they judged its passes while its
 * cgroup had no group.  Nothing that is of use if @group may have known it before, @again:
 * what it has noted since is lost, and they know less.  One lock at a time: a look that one of them makes meanwhile
 * may vouch for its pages twice.
 */
static struct weir_device known_above(struct weir_group *group,
				      const struct weir_group *floored,
				      struct bdi_writeback *wb, bool again)
{
	struct weir_device known = { .again = again };
	const struct weir_device *device = NULL;

	while (group != floored && !device) {
		group = group->parent;
		raw_spin_lock(&group->lock);
		device = find(group, wb);
		/* nearer ones that had it know of pages that this one does not */
		if (device && !known.again)
			known = *device;
		else if (!device)
			known.again |= was_here(group, wb);
		raw_spin_unlock(&group->lock);
	}
	return known;
}

/* Give @wb a place, another's, with what is known of it.  Under group->lock. */
static struct weir_device *place(struct weir_group *group, struct bdi_writeback *wb,
				 struct weir_device *known)
{
	u64 css_serial = wb->memcg_css->serial_nr;
	struct weir_device *device =
		&group->devices[group->next_device % WEIR_DEVICES];

	known->bdi_id = wb->bdi->id;
	known->css_serial = css_serial;
	known->again |= was_here(group, wb);
	*device = *known;
	/* stays above the number of places when it wraps */
	group->next_device = group->next_device + 1 ?: WEIR_DEVICES;
	group->newest_serial = max(group->newest_serial, css_serial);
	return device;
}

/*
 * Pages newly dirtied in this wb since the group's last pass on it.  Whoever looks
 * at it first, of the groups below @floored, finds what it has recorded in all its
 * life: that vouches for what tasks may not have reported, the @reported pages of
 * this pass among them, and for no more.  A group that looks later goes on from there.
 * So each page is vouched for once: a tenant whose old pages counted again in each
 * group, or each time that a wb gets a place, would rewrite as many of others' unseen.
 */
static u64 newly_dirtied(struct weir_group *group, const struct weir_group *floored,
			 struct bdi_writeback *wb, u64 reported)
{
	struct weir_look look = { .begun_ns = ktime_get_ns() };
	struct weir_device *device, known;
	u64 pages;

	look.dirtied = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]);
	look.ended_ns = ktime_get_ns();
	raw_spin_lock(&group->lock);
	device = find(group, wb);
	if (!device) {
		bool again = was_here(group, wb);

		raw_spin_unlock(&group->lock);
		known = known_above(group, floored, wb, again);
		raw_spin_lock(&group->lock);
		device = find(group, wb) ?: place(group, wb, &known);
	}
	/*
	 * The cgroup has another by now, which no look has noted yet: what this one says
	 * would be taken for the other's.  Looks of the other wait for the lock.
	 */
	if (wb_dying(wb)) {
		raw_spin_unlock(&group->lock);
		return 0;
	}
	look.first = !device->recorded.ended_ns;
	look.unreported = device->again ? 0 : reported + WEIR_AHEAD_MOST;
	pages = weir_recorded_note(&device->recorded, &look);
	raw_spin_unlock(&group->lock);
	return pages;
}

/*
 * Pages of a pass that the task itself dirtied.
 *
 * What a pass reports may include pages of tasks that have exited: the kernel
 * lets whoever comes next on that CPU answer for them.  They must not count as
 * this cgroup's, or a neighbour of many short-lived writers would eat up its
 * floor; half of them would, too, only twice as slowly.  The task's own I/O
 * accounting knows better; what it said at the last report is kept in a table by
 * pid, one word each: whose it is, in 7 bits, and the page count, in 25.  A task that
 * is not there is believed what it has dirtied in all its life.  Tasks share a place
 * if a multiple of 32,768 lies between their pids: of a neighbour's tasks, a tenant
 * with N tasks that write makes N in 32,768 be forgotten.
 *
 * Tasks of the floor's own cgroups answer when they exit (weir_device_exit()).
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
 * The current task exits.  What it dirtied since a floor last admitted it, the next
 * pass below the floor reports: whoever the kernel lets answer for it, its cgroup did it.
 * Otherwise a cgroup whose tasks each rewrite less of another's file than makes
 * them look would have a floor without an end.
 *
 * Example.  100 tasks below a floor rewrite 16 pages each of another cgroup's file
 * and exit.  The kernel adds 16 to the next writer's pages, 100 times; weir adds
 * 1,600 to what the next pass below the floor reports, and they are foreign.
 */
void weir_device_exit(void)
{
	struct weir_group *group;

	if (!IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) || current->nr_dirtied <= 0 ||
	    !weir_acting() || READ_ONCE(weir_observe))
		return;
	rcu_read_lock();
	group = weir_tree_nearest(rcu_dereference(current->cgroups)->
				  subsys[memory_cgrp_id]);
	group = weir_tree_floored(group);
	if (group)
		atomic64_add(weir_dirtied_by_current(&device_reporters,
						     current->nr_dirtied),
			     &group->by_dead);
	rcu_read_unlock();
}

/*
 * Account a pass of the group on @wb in the credit of @floored, the next floor
 * from it upwards.  Its pages are charged if a floor admits it.  Otherwise the
 * kernel may or may not take them off the task: they are not taken for reported,
 * and only what the wb recorded is noted.
 */
void weir_device_charge(struct weir_group *group, struct weir_group *floored,
			struct bdi_writeback *wb, u64 reported, bool admitted)
{
	u64 dirtied = admitted ? weir_dirtied_by_current(&device_reporters, reported) : 0;
	u64 by_dead = atomic64_xchg(&floored->by_dead, 0);
	u64 in_wb = newly_dirtied(group, floored, wb, reported);

	raw_spin_lock(&floored->lock);
	floored->credit.most_ahead = READ_ONCE(floored->floor);
	weir_credit_charge(&floored->credit, weir_now_ms(),
			   by_dead + dirtied, in_wb);
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
