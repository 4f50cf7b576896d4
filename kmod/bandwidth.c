// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bandwidth, applied: writers wait in the throttle's entry.
 *
 * What is dirtied is counted by task, not by wb: a bound is about the tasks of a
 * cgroup, whatever they write to, and where a filesystem has no cgroup writeback (NFS,
 * FUSE, vfat) a wb is everybody's.  Each pass, and the exit of each task, charges
 * what the task itself dirtied since the last (device.c) to every bound from
 * its cgroup upwards.  policy/bandwidth.c says for how long the pass waits then.
 *
 * The wait comes first: before a floor may leave the pass out, as a bound holds for
 * what is below a floor, too; and before the weight's wait and the kernel's pass, which
 * takes it for time the task took to think.  weir adds a wait to the throttle, it lets
 * nobody past it.
 *
 * A task that the kernel gives way to (weir_task_urgent(), PF_LOCAL_THROTTLE)
 * is charged and does not wait, nor does one that exits.  Kernel threads are in the root cgroup,
 * which has no bound, unless somebody moves them.
 *
 * The wait is killable, in steps of 200 ms at most.  After each step it is computed anew:
 * a bound that was changed holds from then on.  It ends early when the bound is gone,
 * when the task is in another cgroup, when the system is about to sleep, and when weir
 * stops acting, and after WEIR_WAIT_MOST_MS, as the weight's: a pass may be that of a fault in
 * the middle of getdents() or read(), with a lock that everybody takes.  The rest is
 * waited for at the return to user mode (at_return.c), where any signal ends it: a task
 * that is to be frozen, traced or told something is not kept from that.  What is not
 * waited for remains charged, and the next look comes after a page.
 *
 * Like the kernel's pause it is inside write(), with what the filesystem has locked there, the
 * inode mostly: who writes to the same file waits, too.  A small bound makes a large
 * write() long, as a small cpu.max does.
 *
 * A wait keeps the wb, which the caller holds, and numbers: its ticket, and the serial
 * number of the level's css, by which the level is looked up on the task's path.
 *
 * A cgroup that is held here holds nobody else: neither the device nor the wb are told,
 * unlike by the kernel's pause and the weight's wait, as others may share them.
 */
#include "weir.h"
#include <linux/freezer.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* Cgroups with a bound.  Written under weir_lock. */
unsigned int weir_bandwidth_count;

/* What each task had dirtied at its last report. */
static struct weir_reporters bandwidth_reporters;

static struct cgroup_subsys_state *css_of_current(void)
{
	return task_css(current, memory_cgrp_id);
}

/* The bound of @group is another, or ends.  The caller holds weir_lock. */
void weir_bandwidth_change(struct weir_group *group, u64 bytes)
{
	u64 was = group->bandwidth_bytes;

	raw_spin_lock(&group->lock);
	/* what was dirtied until now is paid for by the bound until now */
	if (was == WEIR_UNLIMITED)
		weir_bandwidth_start(&group->bandwidth, ktime_get_ns());
	else
		weir_bandwidth_advance(&group->bandwidth, was, ktime_get_ns());
	WRITE_ONCE(group->bandwidth_bytes, bytes);
	raw_spin_unlock(&group->lock);
	WRITE_ONCE(weir_bandwidth_count,
		   weir_bandwidth_count + (bytes != WEIR_UNLIMITED) - (was != WEIR_UNLIMITED));
}

/* Is there a bound here or above? */
static bool is_bounded(const struct weir_group *group)
{
	while (group && READ_ONCE(group->bandwidth_bytes) == WEIR_UNLIMITED)
		group = group->parent;
	return group;
}

/*
 * Charge @hold's pages to every bound from @group upwards; while weir observes, they
 * are forgiven at once.
 */
static void charge(struct weir_group *group, struct weir_bandwidth_hold *hold)
{
	bool observe = READ_ONCE(weir_observe);
	u64 now_ns;

	for (; group; group = group->parent) {
		if (READ_ONCE(group->bandwidth_bytes) == WEIR_UNLIMITED)
			continue;
		raw_spin_lock(&group->lock);
		now_ns = ktime_get_ns();
		if (group->bandwidth_bytes != WEIR_UNLIMITED)
			weir_bandwidth_charge(&group->bandwidth, group->bandwidth_bytes,
					      now_ns, group->css->serial_nr, hold);
		if (observe)
			weir_bandwidth_start(&group->bandwidth, now_ns);
		raw_spin_unlock(&group->lock);
	}
}

/* Charge what the current task dirtied of the @reported pages since its last report. */
static void report(struct weir_group *group, u64 reported,
		   struct weir_bandwidth_hold *hold)
{
	/* the table is of tasks below a bound, which most of a host's may not be */
	if (!is_bounded(group))
		return;
	hold->pages = weir_dirtied_by_current(&bandwidth_reporters, reported);
	charge(group, hold);
}

/* For how long is the ticket of @hold to be waited for still, in ms?  Under RCU. */
static u64 still_due_ms(struct weir_group *group, const struct weir_bandwidth_hold *hold)
{
	u64 due_ms = 0;

	while (group && group->css->serial_nr != hold->number)
		group = group->parent;
	if (!group)
		return 0;
	raw_spin_lock(&group->lock);
	if (group->bandwidth_bytes != WEIR_UNLIMITED)
		due_ms = weir_bandwidth_due_ms(&group->bandwidth, group->bandwidth_bytes,
					       ktime_get_ns(), hold->ticket);
	raw_spin_unlock(&group->lock);
	return due_ms;
}

/* A step of a wait in @state has taken @slept_ns; for how long is the next to be, in ms? */
static u64 bandwidth_goes_on(const struct weir_bandwidth_hold *hold, unsigned int state,
			     u64 slept_ns)
{
	struct weir_group *group;
	u64 due_ms = 0;

	rcu_read_lock();
	group = weir_group_nearest(css_of_current());
	if (group) {
		this_cpu_add(group->stats->bandwidth_held_ns, slept_ns);
		due_ms = still_due_ms(group, hold);
	}
	rcu_read_unlock();
	if (READ_ONCE(weir_observe) || !weir_acting() || weir_task_urgent() ||
	    signal_pending_state(state, current) || freezing(current))
		return 0;
	return due_ms;
}

/*
 * Wait in @state for @due_ms, for @most_ms at most; what is left to be waited for then, in
 * ms.  Its name is what /proc/PID/wchan says of a task that waits: weir explain looks there.
 */
static noinline u64 weir_bandwidth_sleep(const struct weir_bandwidth_hold *hold,
					 unsigned int state, u64 due_ms, u64 most_ms)
{
	u64 start_ns = ktime_get_ns(), now_ns = start_ns, before_ns;

	while (due_ms && now_ns - start_ns < most_ms * NSEC_PER_MSEC) {
		__set_current_state(state);
		io_schedule_timeout(msecs_to_jiffies(min(due_ms, WEIR_ROUND_MS)));
		before_ns = now_ns;
		now_ns = ktime_get_ns();
		due_ms = bandwidth_goes_on(hold, state, now_ns - before_ns);
	}
	return due_ms;
}

/* What a pass has left of @hold is waited for where its task holds nothing. */
static void wait_at_return(const struct weir_bandwidth_hold *hold)
{
	u64 due_ms = bandwidth_goes_on(hold, TASK_INTERRUPTIBLE, 0);

	weir_bandwidth_sleep(hold, TASK_INTERRUPTIBLE, due_ms, WEIR_BANDWIDTH_RETURN_MOST_MS);
}

/*
 * Before a pass of the current task on @wb, in its context, with no lock held: charge
 * what it dirtied of @pages, and wait until that is paid.  False if @flags
 * forbid a wait that is due: the pass ends with -EAGAIN, and comes again.  @hold is 0
 * at first.
 */
bool weir_bandwidth_wait(struct bdi_writeback *wb, u64 pages, unsigned int flags,
			 struct weir_bandwidth_hold *hold)
{
	bool waits = !weir_task_urgent() && !(current->flags & PF_LOCAL_THROTTLE);
	struct cgroup_subsys_state *css;
	struct weir_group *group;

	/* without that account of the task's, a refused pass would report its pages again */
	if (!IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) && (flags & BDP_ASYNC))
		pages = 0;
	rcu_read_lock();
	css = css_of_current();
	group = weir_group_nearest(css);
	if (group)
		report(group, pages, hold);
	waits &= weir_bandwidth_holds(hold);
	if (hold->number && group->css != css)
		weir_group_wanted(css);
	if (waits && READ_ONCE(weir_observe)) {
		weir_count(group, would_pace);
		waits = false;
	} else if (waits) {
		weir_count(group, bandwidth_held);
	}
	if (READ_ONCE(weir_observe))
		hold->least = 0;
	rcu_read_unlock();
	if (!waits)
		return true;
	weir_wake_flusher(wb);
	if (flags & BDP_ASYNC)
		return false;
	if (weir_bandwidth_sleep(hold, TASK_KILLABLE, hold->due_ms, WEIR_WAIT_MOST_MS))
		weir_at_return(wait_at_return, hold);
	return true;
}

/* The current task exits: what it has not reported yet is charged all the same. */
void weir_bandwidth_exit(void)
{
	struct weir_bandwidth_hold hold = {};
	struct weir_group *group;

	if (!weir_bandwidth_any() || !IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) ||
	    current->nr_dirtied <= 0 || !weir_acting())
		return;
	rcu_read_lock();
	group = weir_group_nearest(css_of_current());
	if (group)
		report(group, current->nr_dirtied, &hold);
	rcu_read_unlock();
}
