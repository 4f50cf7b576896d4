// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.writeback_bytes: a cgroup's flushers submit no more than a window at once.
 *
 * Without it a flusher fills the disk's queue, and an fsync, a read or an umount of a
 * neighbour stands behind seconds of it.  policy/window.c says what a window holds.
 *
 * weir_window_write() runs in the place of do_writepages(), in a flusher that writes an
 * inode: it calls the filesystem for a part of the pages at a time, and sleeps before a
 * part for which no window on the path has room.  Only the kernel's own background,
 * periodic and reclaim writeback is held: what sync, fsync, umount and the like ask for
 * has another form and is not (may_hold()).
 *
 * The flusher holds I_SYNC of the inode and s_umount of its filesystem, shared, while it
 * sleeps, as it does on stock in the disk's queue.  unlink of the inode, umount, remount
 * and freeze wait for those.  So
 *   - a call ends after WEIR_WINDOW_CALL_MOST_MS, with what it has written, as if its
 *     slice were used up: the flusher lets go of both before it comes again;
 *   - one that got no room until then writes a part all the same, so that a tenant's own
 *     window cannot keep a page dirty for ever, and a device that hangs holds a flusher in
 *     its queue, as on stock, and not here;
 *   - a call ends at once when other work waits for the flusher, such as a sync's.
 *
 * What flushers of one subtree have in flight on a device is summed over those that a
 * window is about (flushers), each of which keeps its wb.  A flusher that has ended
 * leaves pages in flight: it stays in the list until they are written.
 *
 * The rescuer of the workqueue never waits here, and no more than HELD_MOST flushers do at
 * a time: they are workers of one queue with 256 on each node, and others need some.
 */
#include "weir.h"
#include <linux/blkdev.h>
#include <linux/hash.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/writeback.h>

#define HELD_MOST	64
#define BUCKETS_BITS	5

/* A wb whose writeback counts against a window. */
struct flusher {
	struct hlist_node node;		/* by device; window_lock, like the rest */
	struct bdi_writeback *wb;	/* referenced */
	bool inside;			/* a call of weir_window_write() uses it */
	u64 in_flight;			/* pages, when looked at */
	u64 written;			/* pages, since boot */
	unsigned long looked;		/* jiffies */
	struct weir_window_rate rate;	/* its own call's, at most one at a time */
};

/* A call of weir_window_write(). */
struct window_call {
	struct flusher *flusher;
	u64 window;		/* of the path, with the least room: pages; 0: none */
	u64 excess;		/* of what is in flight over it */
	u64 written;		/* by the flushers of that window, when looked at */
	u64 held_ns;		/* so far */
};

unsigned int weir_window_count;		/* cgroups with a window; weir_lock */

static struct hlist_head flushers[1 << BUCKETS_BITS];
static DEFINE_SPINLOCK(window_lock);
static atomic_t held;

/* A window was set or cleared.  Under weir_lock. */
void weir_window_change(struct weir_group *group, u64 bytes)
{
	int change = (bytes != WEIR_UNLIMITED) - (group->writeback_bytes != WEIR_UNLIMITED);

	WRITE_ONCE(group->writeback_bytes, bytes);
	WRITE_ONCE(weir_window_count, weir_window_count + change);
}

/*
 * Is this the kernel's own writeback, that nobody waits for?  The flusher's background,
 * periodic and reclaim work walk files in circles; fsync, sync and sync_file_range() do not.
 */
static bool may_hold(const struct writeback_control *wbc)
{
	return wbc->range_cyclic && wbc->sync_mode == WB_SYNC_NONE &&
	       current->flags & PF_WQ_WORKER && !(current->flags & PF_MEMALLOC) &&
	       wbc->wb && wbc->wb->memcg_css->parent && !READ_ONCE(weir_leaving) &&
	       !weir_current_rescues();
}

static struct hlist_head *flushers_on(const struct backing_dev_info *bdi)
{
	return &flushers[hash_ptr(bdi, BUCKETS_BITS)];
}

static void look(struct flusher *flusher)
{
	flusher->in_flight = wb_stat_sum(flusher->wb, WB_WRITEBACK);
	flusher->written = wb_stat_sum(flusher->wb, WB_WRITTEN);
	flusher->looked = jiffies;
}

static void drop(struct flusher *flusher)
{
	hlist_del(&flusher->node);
	wb_put(flusher->wb);
	kfree(flusher);
}

/* The flusher of @wb, listed, or NULL without memory for it.  Nothing waits. */
static struct flusher *enter(struct bdi_writeback *wb)
{
	struct flusher *flusher, *made = NULL;

	do {
		spin_lock(&window_lock);
		hlist_for_each_entry(flusher, flushers_on(wb->bdi), node) {
			if (flusher->wb == wb)
				goto found;
		}
		if (made) {
			flusher = made;
			made = NULL;
			hlist_add_head(&flusher->node, flushers_on(wb->bdi));
			goto found;
		}
		spin_unlock(&window_lock);
		made = kzalloc(sizeof(*made), GFP_NOWAIT | __GFP_NOWARN);
		if (made && !wb_tryget(wb)) {
			kfree(made);
			made = NULL;
		}
		if (made)
			made->wb = wb;
	} while (made);
	return NULL;

found:
	flusher->inside = true;
	spin_unlock(&window_lock);
	if (made) {
		wb_put(wb);
		kfree(made);
	}
	return flusher;
}

static void leave(struct flusher *flusher)
{
	spin_lock(&window_lock);
	flusher->inside = false;
	look(flusher);
	if (!flusher->in_flight)
		drop(flusher);
	spin_unlock(&window_lock);
}

/* Add up what flushers at or below @css have in flight on the device of @own. */
static void sum_below(struct cgroup_subsys_state *css, const struct flusher *own,
		      u64 *in_flight, u64 *written)
{
	struct flusher *flusher;
	struct hlist_node *next;

	hlist_for_each_entry_safe(flusher, next, flushers_on(own->wb->bdi), node) {
		if (flusher->wb->bdi != own->wb->bdi ||
		    !cgroup_is_descendant(flusher->wb->memcg_css->cgroup, css->cgroup))
			continue;
		/* its own flusher does, each time it looks */
		if (flusher != own && flusher->looked != jiffies) {
			look(flusher);
			if (!flusher->in_flight && !flusher->inside) {
				drop(flusher);
				continue;
			}
		}
		*in_flight += flusher->in_flight;
		*written += flusher->written;
	}
}

/* Look whether the windows on the path have room for a part; false without any. */
static bool window_look(struct window_call *call)
{
	struct bdi_writeback *wb = call->flusher->wb;
	struct weir_group *group;
	bool any = false;

	spin_lock(&window_lock);
	rcu_read_lock();
	look(call->flusher);
	call->excess = 0;
	call->window = 0;
	for (group = weir_group_nearest(wb->memcg_css); group; group = group->parent) {
		u64 bytes = READ_ONCE(group->writeback_bytes);
		u64 in_flight = 0, written = 0, excess, window;

		if (bytes == WEIR_UNLIMITED)
			continue;
		window = weir_bytes_to_pages(bytes);
		sum_below(group->css, call->flusher, &in_flight, &written);
		excess = weir_window_excess(window, in_flight);
		if (any && excess < call->excess)
			continue;
		any = true;
		call->excess = excess;
		call->window = window;
		call->written = written;
	}
	rcu_read_unlock();
	spin_unlock(&window_lock);
	return any;
}

/*
 * Make a request of its own of the part that was submitted.  The flusher gathers all that it
 * submits, and two parts that become one request end at once: then nothing is in flight
 * while the flusher is woken.
 */
static void send_part(void)
{
	struct blk_plug *plug = current->plug;

	if (!plug)
		return;
	blk_finish_plug(plug);
	blk_start_plug(plug);
}

/* Its name is what /proc/PID/wchan says of a flusher that waits: weir explain looks there. */
static noinline void weir_window_sleep(u64 ns)
{
	ktime_t time = ns_to_ktime(ns);

	__set_current_state(TASK_IDLE);
	schedule_hrtimeout_range(&time, ns / 8, HRTIMER_MODE_REL);
	/* not a tail call */
	barrier();
}

/* Sleep once for room.  False if too many flushers do already. */
static bool wait_once(struct window_call *call)
{
	u64 written = call->written, began_ns = ktime_get_ns(), slept_ns;
	struct weir_window_rate *rate = &call->flusher->rate;

	if (atomic_inc_return(&held) > HELD_MOST) {
		atomic_dec(&held);
		return false;
	}
	weir_window_sleep(weir_window_sleep_ns(call->excess, rate));
	atomic_dec(&held);
	slept_ns = ktime_get_ns() - began_ns;
	call->held_ns += slept_ns;
	if (window_look(call))
		weir_window_rate_note(rate, call->written > written ? call->written - written : 0,
				      slept_ns, weir_window_part(call->window));
	return true;
}

/*
 * How much of @left pages may be submitted now?  Waits for room.  0: the call is to end here.
 */
static long wait_for_room(struct window_call *call, long left,
			  const struct writeback_control *wbc, bool wrote)
{
	struct bdi_writeback *wb = call->flusher->wb;

	window_look(call);
	while (call->excess) {
		/* sync and the like come next; reclaim's work is not broken off for them */
		if (!list_empty(&wb->work_list))
			return wbc->for_background || wbc->for_kupdate ? 0 : left;
		if (READ_ONCE(weir_leaving))
			return left;
		if (call->held_ns >= WEIR_WINDOW_CALL_MOST_MS * NSEC_PER_MSEC) {
			if (wrote)
				return 0;
			break;
		}
		if (!wait_once(call))
			return left;
	}
	if (!call->window)
		return left;
	return min_t(u64, left, weir_window_part(call->window));
}

static void count_held(struct bdi_writeback *wb, u64 held_ns)
{
	struct weir_group *group;

	if (!held_ns)
		return;
	rcu_read_lock();
	group = weir_group_nearest(wb->memcg_css);
	if (group) {
		weir_count(group, window_held);
		this_cpu_add(group->stats->window_held_ns, held_ns);
	}
	rcu_read_unlock();
}

static int write_in_parts(struct address_space *mapping, struct writeback_control *wbc,
			  struct flusher *flusher)
{
	struct window_call call = { .flusher = flusher };
	long left = wbc->nr_to_write, part;
	bool wrote = false;
	int ret = 0;

	while (left > 0) {
		part = wait_for_room(&call, left, wbc, wrote);
		if (!part) {
			/* as if the slice were used up: the inode's turn comes again */
			left = 0;
			break;
		}
		wbc->nr_to_write = part;
		ret = weir_kernel_writepages(mapping, wbc);
		send_part();
		wrote = true;
		left -= part - wbc->nr_to_write;
		/* nothing more is dirty */
		if (ret || wbc->nr_to_write > 0)
			break;
	}
	wbc->nr_to_write = left;
	count_held(flusher->wb, call.held_ns);
	return ret;
}

/* Is there a window on the path of @wb? */
static bool is_windowed(struct bdi_writeback *wb)
{
	struct weir_group *group;
	bool windowed = false;

	rcu_read_lock();
	for (group = weir_group_nearest(wb->memcg_css); group && !windowed; group = group->parent)
		windowed = READ_ONCE(group->writeback_bytes) != WEIR_UNLIMITED;
	rcu_read_unlock();
	return windowed;
}

/* In the place of do_writepages(). */
int weir_window_write(struct address_space *mapping, struct writeback_control *wbc)
{
	struct flusher *flusher = NULL;
	int ret;

	if (READ_ONCE(weir_window_count) && may_hold(wbc) && is_windowed(wbc->wb))
		flusher = enter(wbc->wb);
	if (!flusher)
		return weir_kernel_writepages(mapping, wbc);
	this_cpu_inc(weir_flushing);
	ret = write_in_parts(mapping, wbc, flusher);
	leave(flusher);
	this_cpu_dec(weir_flushing);
	return ret;
}

/* Nothing enters any more and nothing is inside: forget what flushers have in flight. */
void weir_windows_end(void)
{
	struct flusher *flusher;
	struct hlist_node *next;
	int i;

	for (i = 0; i < ARRAY_SIZE(flushers); i++) {
		hlist_for_each_entry_safe(flusher, next, &flushers[i], node)
			drop(flusher);
	}
}
