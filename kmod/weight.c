// SPDX-License-Identifier: GPL-2.0-only
/*
 * The weight, applied: writers wait for the time that their cgroup's pages cost.
 *
 * While any cgroup has a weight, each pass of a writer pays for what its cgroup's
 * wb recorded as dirtied since the last one, at the price of the moment.  If that
 * is paid until later than now, the entry probe of pass.c returns into
 * weir_weight_wait() instead of the kernel's function.  That sleeps as the kernel
 * does in the throttle, killable and in steps of 200 ms at most, and leaves the
 * task's count of dirtied pages as it was and its next look due at once.  That
 * look, with the task's next page, is the kernel's own: weir adds a wait to the
 * throttle, it lets nobody past it, so the limits of the host, of the cgroup and
 * of the device hold as before.  The kernel counts the wait as time the task took
 * to think and sleeps that much shorter.
 *
 * Unloading.  Unlike free_running(), this function sleeps, and a sleeping task is
 * one that synchronize_rcu_tasks() takes for gone.  So sleepers are counted: once
 * the probes are removed and a first grace period has passed, whoever is in here
 * is counted; once none is, a second one lets the last of them return.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* The task's nr_dirtied_pause after a wait; the kernel's pass sets it anew. */
#define WAITED	0

static atomic_t waiting = ATOMIC_INIT(0);	/* tasks in weir_weight_wait() */

/* Note what was dirtied and cleaned since the last look; returns what was dirtied. */
static u64 look(struct weir_device *device, struct bdi_writeback *wb)
{
	u64 dirtied = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]);
	u64 written = percpu_counter_sum_positive(&wb->stat[WB_WRITTEN]);
	/* a look on another CPU may have been the later one; a wb made anew starts from 0 */
	u64 pages = device->seen ? dirtied - min(dirtied, device->paid) : 0;

	if (device->seen)
		device->cleaned += written - min(written, device->written);
	device->paid = dirtied;
	device->written = written;
	device->queued = weir_count_wb(wb, WEIR_UNLIMITED);
	device->seen = jiffies ?: 1;
	return pages;
}

/* Pay for what @group dirtied on @wb; for how long has it to wait, in milliseconds? */
static u64 pay(struct weir_group *group, struct bdi_writeback *wb)
{
	struct weir_limits limits = weir_host_limits();
	u64 now_ns = ktime_get_mono_fast_ns();
	struct weir_device *device;
	struct weir_turn turn;
	unsigned long flags;
	u64 pages, wait_ms;

	raw_spin_lock_irqsave(&group->lock, flags);
	device = weir_device_of(group, wb);
	turn = (struct weir_turn) {
		.portion = READ_ONCE(device->portion),
		.pace = READ_ONCE(device->pace),
		.queued = READ_ONCE(device->queue),
		.host_dirty = weir_count_host(),
		.host_thresh = limits.thresh,
		.host_bg_thresh = limits.bg_thresh,
	};
	pages = look(device, wb);
	device->price_ns = weir_turn_price_ns(&turn);
	device->due_ns = weir_turn_pay(&turn, device->due_ns, now_ns, pages);
	wait_ms = weir_turn_wait_ms(&turn, device->due_ns, now_ns);
	raw_spin_unlock_irqrestore(&group->lock, flags);
	return wait_ms;
}

/* Is the pass of a task of @group to be held?  Called by the entry probe. */
bool weir_weight_holds(struct weir_group *group, struct bdi_writeback *wb)
{
	/* the next beat makes the group of a new cgroup */
	if (!READ_ONCE(weir_weights_enabled) || group->css != wb->memcg_css ||
	    current->nr_dirtied_pause == WAITED)
		return false;
	/*
	 * The kernel gives way to these as well: real-time tasks, and those that
	 * clean pages by dirtying some.
	 */
	if (rt_task(current) || current->flags & PF_LOCAL_THROTTLE ||
	    !pay(group, wb))
		return false;
	if (!READ_ONCE(weir_observe))
		return true;
	weir_count(group, would_wait);
	return false;
}

/* A task of @group was put to sleep for what it dirtied: it competes. */
static void note_sleep(struct weir_group *group, u64 bdi_id)
{
	struct weir_device *device = weir_device_own(group, bdi_id);

	if (device)
		WRITE_ONCE(device->slept, jiffies ?: 1);
}

/*
 * A kernel's pass of a task of @group ends, in which it may have @slept.  Who pays
 * must not dirty much more before the next one.
 */
void weir_weight_leave(struct weir_group *group, u64 bdi_id, bool slept)
{
	struct weir_device *device;

	if (!READ_ONCE(weir_weights_enabled))
		return;
	if (slept)
		note_sleep(group, bdi_id);
	device = weir_device_own(group, bdi_id);
	if (device && !READ_ONCE(weir_observe))
		current->nr_dirtied_pause =
			weir_turn_poll(READ_ONCE(device->price_ns),
				       current->nr_dirtied_pause);
}

/* Is there room under a floor on @group's path, by now?  Then nobody waits. */
static bool admitted(struct weir_group *group, struct bdi_writeback *wb)
{
	struct weir_floor_pass pass;

	if (!weir_tree_floored(group))
		return false;
	pass = weir_floor_look(group, wb);
	return weir_floor_decide(&pass) == WEIR_FLOOR_ADMIT;
}

/* Ask again, by ordinary code; nothing is left to wait for if anything is gone. */
static u64 ask(struct bdi_writeback *wb)
{
	struct weir_group *group;
	u64 ms = 0;

	rcu_read_lock();
	group = weir_group_find(wb->memcg_css);
	if (group && READ_ONCE(weir_weights_enabled) && !admitted(group, wb)) {
		note_sleep(group, wb->bdi->id);
		ms = pay(group, wb);
	}
	rcu_read_unlock();
	return ms;
}

static void account(struct bdi_writeback *wb, u64 start_ns)
{
	struct weir_group *group;

	rcu_read_lock();
	group = weir_group_find(wb->memcg_css);
	if (group) {
		weir_count(group, weight_held);
		this_cpu_add(group->stats->weight_held_ns,
			     ktime_get_ns() - start_ns);
	}
	rcu_read_unlock();
}

/* Runs in the place of balance_dirty_pages(), in the writer's own context. */
int weir_weight_wait(struct bdi_writeback *wb, unsigned long pages_dirtied,
		     unsigned int flags)
{
	u64 start_ns = ktime_get_ns();
	u64 ms;

	weir_wake_flusher(wb);
	if (flags & BDP_ASYNC)
		return -EAGAIN;
	atomic_inc(&waiting);
	for (ms = ask(wb); ms && !fatal_signal_pending(current); ms = ask(wb)) {
		__set_current_state(TASK_KILLABLE);
		io_schedule_timeout(msecs_to_jiffies(ms));
	}
	account(wb, start_ns);
	current->nr_dirtied_pause = WAITED;
	atomic_dec(&waiting);
	return 0;
}

/* Wait until no task is in this module's code: the probes are gone, weights off. */
void weir_weights_drain(void)
{
	synchronize_rcu_tasks();
	while (atomic_read(&waiting))
		schedule_timeout_uninterruptible(1);
	synchronize_rcu_tasks();
}
