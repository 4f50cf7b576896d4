// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bandwidth, applied: writers wait at their return to user mode.
 *
 * What is dirtied is counted by task, not by wb: a bound is about the tasks of a
 * cgroup, whatever they write to, and where a filesystem has no cgroup writeback (NFS,
 * FUSE, vfat) all cgroups share a wb.  Each pass, and the exit of each task, charges
 * what the task itself dirtied since the last (device.c) to every bound from
 * its cgroup upwards.  policy/bandwidth.c says for how long the task waits then, which it
 * does when its call is over (at_return.c).  The call is not held, and what it dirties
 * after that pass is charged when it returns.
 *
 * A bound holds for what is below a floor, too, so a pass that a floor leaves out is
 * charged as any other.  weir adds a wait to the throttle, it lets no task past it.
 *
 * A task that the kernel gives way to (weir_task_urgent(), PF_LOCAL_THROTTLE)
 * is charged and does not wait, nor does one that exits.  Kernel threads are in the root cgroup,
 * which has no bound, unless they are moved.
 *
 * After each step the wait is computed anew.  If the level whose line the task stands in
 * has another bound or none by then, or is no longer on its path, the task goes to the end
 * of the longest line there is now: a tenant that raises or clears a bound of its own does
 * not get past its parent's.
 *
 * A wait keeps numbers: its tickets, and the serial number of the level's css, by which
 * the level is looked up on the task's path.
 *
 * A line's parts (policy/bandwidth.c) are counted by a list in the level's record of the
 * children that dirtied something lately: until what they owed then is paid, and a second.
 *
 * What a task owes that dies, or had not reported when it exits, is left to its part of each
 * line, and a task that is made in that part waits for it before it is in user mode for
 * the first time.  Without that, writers that are killed before they pay are held by
 * nothing: 32 of them wrote 57 MiB/s below a bound of 2.
 *
 * A cgroup that is held here holds no other: neither the device nor the wb are told,
 * unlike by the kernel's pause and the weight's wait, as others may share them.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* Parts that a charge looks at, whether they still count. */
#define PARTS_LOOKED_AT		4

/* Cgroups with a bound.  Written under weir_lock. */
unsigned int weir_bandwidth_count;

/* The count of pages that each task had dirtied at its last report. */
static struct weir_reporters bandwidth_reporters;

static struct cgroup_subsys_state *css_of_current(void)
{
	return task_css(current, memory_cgrp_id);
}

/* The bound of @record is another, or ends.  The caller holds weir_lock. */
void weir_bandwidth_change(struct weir_record *record, u64 bytes)
{
	u64 was = record->bandwidth_bytes;

	raw_spin_lock(&record->lock);
	/* pages dirtied until now are paid for by the bound until now */
	if (was == WEIR_UNLIMITED)
		weir_bandwidth_start(&record->bandwidth, ktime_get_ns());
	else
		weir_bandwidth_advance(&record->bandwidth, was, ktime_get_ns());
	WRITE_ONCE(record->bandwidth_bytes, bytes);
	raw_spin_unlock(&record->lock);
	WRITE_ONCE(weir_bandwidth_count,
		   weir_bandwidth_count + (bytes != WEIR_UNLIMITED) - (was != WEIR_UNLIMITED));
}

/* Is there a bound here or above? */
static bool has_bandwidth_on_path(const struct weir_record *record)
{
	while (record && READ_ONCE(record->bandwidth_bytes) == WEIR_UNLIMITED)
		record = record->parent;
	return record;
}

/* The part of @level's line for tasks of its child @below, or of its own if that is NULL. */
static struct weir_part *child_part(struct weir_record *level, struct weir_record *below)
{
	return below ? &below->part : &level->own_part;
}

/* By which a part is told from others of the line. */
static u64 child_number(const struct weir_record *below)
{
	return below ? below->css->serial_nr : 0;
}

static void uncount_part(struct weir_record *level, struct weir_part *part)
{
	list_del_init(&part->node);
	level->parts--;
}

/*
 * A task of @part dirties pages: that counts as one of the line's parts, and those that
 * have not done so for long do not any more.  Some are looked at, in turns.  Under
 * @level's lock.
 */
static void count_part(struct weir_record *level, struct weir_part *part)
{
	struct weir_part *oldest;
	int looks = PARTS_LOOKED_AT;

	while (looks-- && !list_empty(&level->part_list)) {
		oldest = list_first_entry(&level->part_list, struct weir_part, node);
		if (oldest->until_ms < weir_now_ms())
			uncount_part(level, oldest);
		else
			list_move_tail(&oldest->node, &level->part_list);
	}
	if (part->gone || !list_empty(&part->node))
		return;
	list_add_tail(&part->node, &level->part_list);
	level->parts++;
}

/* A record goes, after all below it; a pass may still have found it. */
void weir_bandwidth_detach(struct weir_record *record)
{
	struct weir_record *level = record->parent;

	if (!level)
		return;
	raw_spin_lock(&level->lock);
	record->part.gone = true;
	if (!list_empty(&record->part.node))
		uncount_part(level, &record->part);
	raw_spin_unlock(&level->lock);
}

void weir_bandwidth_init(struct weir_record *record)
{
	INIT_LIST_HEAD(&record->part.node);
	INIT_LIST_HEAD(&record->own_part.node);
	INIT_LIST_HEAD(&record->part_list);
}

/*
 * Charge @hold's pages to every bound from @record upwards; while weir observes, they
 * are forgiven at once.
 */
static void charge_path(struct weir_record *record, struct weir_bandwidth_hold *hold)
{
	bool observe = READ_ONCE(weir_observe);
	struct weir_record *below = NULL;
	struct weir_part *part;
	u64 now_ns;

	for (; record; below = record, record = record->parent) {
		if (READ_ONCE(record->bandwidth_bytes) == WEIR_UNLIMITED)
			continue;
		raw_spin_lock(&record->lock);
		now_ns = ktime_get_ns();
		part = child_part(record, below);
		if (record->bandwidth_bytes != WEIR_UNLIMITED) {
			count_part(record, part);
			weir_bandwidth_charge(&record->bandwidth, &part->line, record->parts,
					      record->bandwidth_bytes, now_ns,
					      record->css->serial_nr, hold);
			if (hold->number == record->css->serial_nr) {
				hold->part_number = child_number(below);
				hold->bound = record->bandwidth_bytes;
			}
			part->until_ms = weir_now_ms() + hold->due_ms +
					 WEIR_BANDWIDTH_PART_LINGERS_MS;
		}
		if (observe) {
			weir_bandwidth_start(&record->bandwidth, now_ns);
			weir_bandwidth_start(&part->line, now_ns);
		}
		raw_spin_unlock(&record->lock);
	}
}

/* Charge what the current task dirtied of the @reported pages since its last report. */
static void report_pages(struct weir_record *record, u64 reported,
			 struct weir_bandwidth_hold *hold)
{
	/* the table is of tasks below a bound, which most of a host's may not be */
	if (!has_bandwidth_on_path(record))
		return;
	hold->pages = weir_dirtied_by_current(&bandwidth_reporters, reported);
	charge_path(record, hold);
}

/* For how long are the tickets of @hold to be waited for still, in ms?  Under RCU. */
static u64 still_due_ms(struct weir_record *record, struct weir_bandwidth_hold *hold)
{
	struct weir_record *level = record, *below = NULL;
	struct weir_part *part;
	bool is_bound = false;
	u64 due_ms = 0, pages;

	for (; level && level->css->serial_nr != hold->number; level = level->parent)
		below = level;
	if (level) {
		raw_spin_lock(&level->lock);
		is_bound = level->bandwidth_bytes == hold->bound;
		/* of another child by now, the task has no ticket in that part */
		part = child_number(below) == hold->part_number ? child_part(level, below) : NULL;
		if (is_bound)
			due_ms = weir_bandwidth_due_ms(&level->bandwidth,
						       part ? &part->line : NULL,
						       level->parts, level->bandwidth_bytes,
						       ktime_get_ns(), hold);
		raw_spin_unlock(&level->lock);
	}
	if (is_bound)
		return due_ms;
	/* that line is gone: to the end of the longest */
	pages = hold->pages;
	*hold = (struct weir_bandwidth_hold) {};
	charge_path(record, hold);
	hold->pages = pages;
	return hold->due_ms;
}

/* The current task's call is over: charge what it dirtied since its last pass. */
static void charge_rest(struct weir_record *record, struct weir_bandwidth_hold *hold)
{
	struct weir_bandwidth_hold rest = {};

	if (!IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) || current->nr_dirtied <= 0)
		return;
	report_pages(record, current->nr_dirtied, &rest);
	if (!rest.number)
		return;
	rest.pages += hold->pages;
	*hold = rest;
}

/* A step of a wait has taken @slept_ns, none if it begins; for how long is the next, in ms? */
static u64 bandwidth_due_ms(struct weir_call *call, u64 slept_ns)
{
	struct weir_bandwidth_hold *hold = &call->owed[WEIR_DEBT_BANDWIDTH].hold;
	struct weir_record *record;
	u64 due_ms = 0;

	rcu_read_lock();
	record = weir_record_nearest(css_of_current());
	if (record) {
		if (!slept_ns)
			charge_rest(record, hold);
		this_cpu_add(record->stats->bandwidth_held_ns, slept_ns);
		due_ms = still_due_ms(record, hold);
	}
	rcu_read_unlock();
	if (hold->least)
		current->nr_dirtied_pause =
			weir_bandwidth_poll(hold, current->nr_dirtied_pause);
	return due_ms;
}

/* Its name is what /proc/PID/wchan says of a task that waits: weir explain looks there. */
static noinline void weir_bandwidth_sleep(long timeout)
{
	__set_current_state(TASK_KILLABLE);
	io_schedule_timeout(timeout);
	/* not a tail call */
	barrier();
}

/*
 * The current task ends and has not waited for @pages: at each bound of its path, tasks that are
 * made in the same part wait for them.  Under RCU.
 */
static void leave_debt(struct weir_record *record, u64 pages)
{
	struct weir_record *below = NULL;

	if (!pages || READ_ONCE(weir_observe))
		return;
	for (; record; below = record, record = record->parent) {
		if (READ_ONCE(record->bandwidth_bytes) == WEIR_UNLIMITED)
			continue;
		raw_spin_lock(&record->lock);
		if (record->bandwidth_bytes != WEIR_UNLIMITED)
			weir_bandwidth_leave(&child_part(record, below)->left, record->parts,
					     record->bandwidth_bytes, ktime_get_ns(), pages);
		raw_spin_unlock(&record->lock);
	}
}

/* The current task dies with what @call owes. */
static void bandwidth_leave(const struct weir_call *call)
{
	struct weir_record *record;

	rcu_read_lock();
	record = weir_record_nearest(css_of_current());
	if (record)
		leave_debt(record, call->owed[WEIR_DEBT_BANDWIDTH].hold.pages);
	rcu_read_unlock();
}

static const struct weir_debt bandwidth_debt = {
	.due_ms = bandwidth_due_ms,
	.sleep = weir_bandwidth_sleep,
	.leave = bandwidth_leave,
};

/* Have the current task wait for @hold at its return; true if it will. */
static bool owe_bandwidth(const struct weir_bandwidth_hold *hold)
{
	struct weir_call *call;
	u64 pages;

	if (weir_task_urgent() || current->flags & PF_LOCAL_THROTTLE)
		return false;
	call = weir_call_get();
	if (!call)
		return false;
	/* of all passes of the call */
	pages = call->debts[WEIR_DEBT_BANDWIDTH] ? call->owed[WEIR_DEBT_BANDWIDTH].hold.pages : 0;
	call->debts[WEIR_DEBT_BANDWIDTH] = &bandwidth_debt;
	call->owed[WEIR_DEBT_BANDWIDTH].hold = *hold;
	call->owed[WEIR_DEBT_BANDWIDTH].hold.pages += pages;
	return true;
}

/*
 * Before a pass of the current task, in its context: charge what it dirtied of @pages.
 * @hold, 0 at first, is for the time of its next look; of no use to one that waits, as that
 * is looked at when it returns.
 */
void weir_bandwidth_pass(u64 pages, unsigned int flags, struct weir_bandwidth_hold *hold)
{
	bool observe = READ_ONCE(weir_observe);
	struct weir_record *record;

	/* without that account of the task's, a refused pass would report its pages again */
	if (!IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) && (flags & BDP_ASYNC))
		pages = 0;
	rcu_read_lock();
	record = weir_record_nearest(css_of_current());
	if (record)
		report_pages(record, pages, hold);
	if (weir_bandwidth_holds(hold)) {
		if (observe) {
			weir_count(record, would_pace);
		} else if (owe_bandwidth(hold)) {
			weir_count(record, bandwidth_held);
			hold->least = 0;
		} else if (weir_call_is_dying()) {
			/* it dumps its core */
			leave_debt(record, hold->pages);
		}
	}
	if (observe)
		hold->least = 0;
	rcu_read_unlock();
}

/* For how long is what was left up to @ticket to be waited for at @level, in ms? */
static u64 leftover_at_ms(struct weir_record *level, struct weir_part *part, u64 ticket)
{
	u64 due_ms = 0;

	raw_spin_lock(&level->lock);
	if (level->bandwidth_bytes != WEIR_UNLIMITED)
		due_ms = weir_bandwidth_left_ms(&part->left, level->parts,
						level->bandwidth_bytes, ktime_get_ns(), ticket);
	raw_spin_unlock(&level->lock);
	return due_ms;
}

/* A step of a new task's wait has taken @slept_ns; for how long is the next, in ms? */
static u64 leftover_due_ms(struct weir_call *call, u64 slept_ns)
{
	struct weir_record *level, *below = NULL;
	u64 due_ms = 0;

	rcu_read_lock();
	level = weir_record_nearest(css_of_current());
	if (level)
		this_cpu_add(level->stats->bandwidth_held_ns, slept_ns);
	while (level && level->css->serial_nr != call->owed[WEIR_DEBT_LEFT].left.number) {
		below = level;
		level = level->parent;
	}
	/* moved to another child, it waits for nothing there */
	if (level && child_number(below) == call->owed[WEIR_DEBT_LEFT].left.part_number)
		due_ms = leftover_at_ms(level, child_part(level, below),
					call->owed[WEIR_DEBT_LEFT].left.ticket);
	rcu_read_unlock();
	return due_ms;
}

static const struct weir_debt left_debt = {
	.due_ms = leftover_due_ms,
	.sleep = weir_bandwidth_sleep,
};

/*
 * The current task has made @child, which waits for what tasks have left that ended.  Not if
 * it was made for another cgroup: a service manager may wait until it has begun.
 */
void weir_bandwidth_fork(struct task_struct *child)
{
	struct weir_record *record, *level, *below = NULL, *longest = NULL, *longest_below = NULL;
	struct weir_call *call;
	u64 due_ms, longest_ms = 0;

	if (!weir_bandwidth_any() || !weir_acting() || READ_ONCE(weir_observe))
		return;
	rcu_read_lock();
	record = task_css(child, memory_cgrp_id) == css_of_current() ?
			 weir_record_nearest(css_of_current()) : NULL;
	for (level = record; level; below = level, level = level->parent) {
		if (READ_ONCE(level->bandwidth_bytes) == WEIR_UNLIMITED)
			continue;
		due_ms = leftover_at_ms(level, child_part(level, below),
					READ_ONCE(child_part(level, below)->left.charged));
		if (due_ms <= longest_ms)
			continue;
		longest_ms = due_ms;
		longest = level;
		longest_below = below;
	}
	call = weir_bandwidth_waits(longest_ms) ? weir_call_add_to(child) : NULL;
	if (call) {
		call->owed[WEIR_DEBT_LEFT].left.number = longest->css->serial_nr;
		call->owed[WEIR_DEBT_LEFT].left.part_number = child_number(longest_below);
		call->owed[WEIR_DEBT_LEFT].left.ticket =
			READ_ONCE(child_part(longest, longest_below)->left.charged);
		/* it does not run yet */
		call->debts[WEIR_DEBT_LEFT] = &left_debt;
		weir_count(record, bandwidth_held);
	}
	rcu_read_unlock();
}

/* The current task exits: what it has not reported yet is charged all the same. */
void weir_bandwidth_exit(void)
{
	struct weir_bandwidth_hold hold = {};
	struct weir_record *record;

	if (!weir_bandwidth_any() || !IS_ENABLED(CONFIG_TASK_IO_ACCOUNTING) ||
	    current->nr_dirtied <= 0 || !weir_acting())
		return;
	rcu_read_lock();
	record = weir_record_nearest(css_of_current());
	if (record) {
		report_pages(record, current->nr_dirtied, &hold);
		leave_debt(record, hold.pages);
	}
	rcu_read_unlock();
}
