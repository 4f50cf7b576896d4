// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.writeback_bytes and memory.dirty_weight: flushers submit in parts.
 *
 * A flusher fills the disk's queue, and an fsync, a read or an umount of a neighbour
 * stands behind seconds of it.  policy/window.c says what a window holds, policy/division.c in
 * which order flushers of competing cgroups go.  Without the one a neighbour's fsync takes
 * seconds; without the other what a cgroup gets of a disk follows the number of its flushers.
 *
 * weir_flusher_write() runs in the place of do_writepages(), in a flusher that writes an
 * inode: it calls the filesystem for a part of the pages at a time, and sleeps before a
 * part for which there is no room.  Only the kernel's own background, periodic and reclaim
 * writeback is held: what sync, fsync, umount and the like ask for has another form and is
 * not (may_be_held()).
 *
 * The flusher holds I_SYNC of the inode and s_umount of its filesystem, shared, while it
 * sleeps, as it does on stock in the disk's queue.  unlink of the inode, umount, remount
 * and freeze wait for those.  So
 *   - a call ends after WEIR_WINDOW_CALL_MOST_MS, with what it has written, as if its
 *     slice were used up: the flusher lets go of both before it comes again;
 *   - one that a window gave no room for a second writes a part all the same, so that a
 *     tenant's own cannot keep a page dirty for ever, and a device that hangs holds a flusher
 *     in its queue, as on stock, and not here;
 *   - a call ends at once when other work waits for the flusher, such as a sync's.
 *
 * Flushers that a knob is about are listed, each with its wb.  One that has ended leaves
 * pages in flight: it stays in the list until they are written, and while it is ahead
 * of others by weight.
 *
 * The rescuer of the workqueue never waits here.  How many others do is bounded (places.c).  One
 * beyond writes nothing and ends its work, as if all pages were locked: the kernel skips such
 * inodes.  Its writers, or the kernel's timer, wake it again.  Nothing is written past a window
 * by it: else a tenant would get rid of its window by many cgroups.
 */
#include "weir.h"
#include "flusher.h"
#include <linux/blkdev.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/writeback.h>

/* A part is written in so long below a window, though there is no room. */
#define FORCE_JIFFIES	HZ
#define TURN_KEPT_JIFFIES	(6 * HZ)
/* Others that a flusher looks at besides itself, in a look and in the beat. */
#define REFRESH_MOST	16
#define SWEEP_MOST	64

/* A call of weir_flusher_write(). */
struct flush_call {
	struct weir_disk *disk;
	struct weir_flusher *flusher;
	u64 excess;		/* pages that are to be written before a part may be submitted */
	u64 part;		/* 0: nothing bounds it */
	u64 written;		/* pages, by all whose writeback counts, when looked at */
	bool has_window;	/* there is one on the path */
	bool by_weight;		/* the excess is */
	bool would_wait;	/* if it were not observed alone */
	bool skipped;		/* there was no place to wait in */
	u64 window_ns;		/* held so far, by a window */
	u64 weight_ns;
};

/*
 * Is this the kernel's own writeback, that no task waits for?  The flusher's background,
 * periodic and reclaim work walk files in circles; fsync, sync and sync_file_range() do not.
 */
static bool may_be_held(const struct writeback_control *wbc)
{
	return wbc->range_cyclic && wbc->sync_mode == WB_SYNC_NONE &&
	       current->flags & PF_WQ_WORKER && !(current->flags & PF_MEMALLOC) &&
	       wbc->wb && wbc->wb->memcg_css->parent && !READ_ONCE(weir_unloading) &&
	       !weir_current_rescues();
}

/* Has it asked for a turn lately?  The kernel has a flusher look again in five seconds. */
static bool waits_for_turn(const struct weir_flusher *flusher)
{
	return flusher->waits && time_before(jiffies, flusher->waited + TURN_KEPT_JIFFIES);
}

static void flusher_drop(struct weir_disk *disk, struct weir_flusher *flusher)
{
	weir_division_leave(flusher);
	weir_flusher_remove(disk, flusher);
}

/*
 * Forget a flusher that has ended, and of which nothing is in flight.  One that waits for a
 * turn past a window is still to be the first of those that do.  One that has asked for
 * a place stays for the rest of the second, and its branches: forgotten and made anew at
 * each inode, a tenant would count as many that ask, and others would have one place each.
 */
static void flusher_drop_ended(struct weir_disk *disk, struct weir_flusher *flusher)
{
	if (!flusher->inside && !flusher->in_flight && !weir_division_must_keep(flusher) &&
	    !weir_place_asked(flusher->branch) && !waits_for_turn(flusher))
		flusher_drop(disk, flusher);
}

/* Look at up to @most flushers that have not been looked at in this jiffy. */
static void refresh_flushers(struct weir_disk *disk, u32 most)
{
	struct weir_flusher *flusher;

	while (most-- && !list_empty(&disk->flushers)) {
		flusher = list_first_entry(&disk->flushers, struct weir_flusher, listed);
		if (flusher->looked == jiffies)
			break;
		weir_flusher_update(disk, flusher);
		weir_division_charge_flusher(flusher);
		flusher_drop_ended(disk, flusher);
	}
	weir_division_expire(disk);
}

/* List the flusher of @wb for @call.  False without memory.  Nothing waits. */
static bool flusher_enter(struct flush_call *call, struct bdi_writeback *wb)
{
	struct weir_flusher *made = NULL;

	for (;;) {
		call->disk = weir_disk_lock(wb->bdi);
		if (!call->disk)
			break;
		/* submissions of others count before it begins to compete */
		refresh_flushers(call->disk, REFRESH_MOST);
		call->flusher = weir_flusher_find(call->disk, wb);
		if (!call->flusher && made && weir_flusher_add(call->disk, made)) {
			call->flusher = made;
			made = NULL;
		}
		if (call->flusher) {
			weir_division_enter(call->disk, call->flusher);
			call->flusher->inside = true;
		}
		spin_unlock(&call->disk->lock);
		if (call->flusher || made)
			break;
		made = kzalloc(sizeof(*made), GFP_NOWAIT | __GFP_NOWARN);
		if (!made)
			break;
		if (!wb_tryget(wb)) {
			kfree(made);
			made = NULL;
			break;
		}
		made->wb = wb;
	}
	if (made) {
		wb_put(wb);
		kfree(made);
	}
	return call->flusher;
}

static void flusher_leave(struct flush_call *call)
{
	struct weir_flusher *flusher = call->flusher;

	spin_lock(&call->disk->lock);
	flusher->inside = false;
	weir_flusher_reserve(flusher, 0);
	weir_flusher_update(call->disk, flusher);
	weir_division_exit(call->disk, flusher, call->window_ns || call->weight_ns);
	flusher_drop_ended(call->disk, flusher);
	spin_unlock(&call->disk->lock);
}

/* The window of the level's own cgroup, in pages, or 0.  Under RCU. */
static u64 window_at(const struct weir_level *at)
{
	const struct weir_record *record = weir_level_record(at);
	u64 bytes = record ? READ_ONCE(record->writeback_bytes) : WEIR_UNLIMITED;

	return bytes == WEIR_UNLIMITED ? 0 : weir_bytes_to_pages(bytes);
}

/* Pages that are to be written before @flusher has room in the level's @window. */
static u64 excess_at(const struct weir_level *at, const struct weir_flusher *flusher, u64 window)
{
	const struct weir_branch *branch = at->branch;
	u64 taken = weir_window_taken(window, flusher->pace, flusher->in_flight,
				      branch->in_flight, branch->paced[WEIR_PACE_MOVES],
				      branch->paced[WEIR_PACE_HELD]);

	return weir_window_excess(window, taken);
}

/* The windows on the path: the one with the least room counts, and the least part. */
static void ask_windows(struct flush_call *call)
{
	struct weir_level at = weir_flusher_level(call->flusher);

	for (; at.branch->parent; weir_level_up(&at)) {
		u64 window = window_at(&at), excess, part;

		if (!window)
			continue;
		excess = excess_at(&at, call->flusher, window);
		part = weir_window_part(window);
		call->part = call->part ? min(call->part, part) : part;
		if (call->has_window && excess < call->excess)
			continue;
		call->has_window = true;
		call->excess = excess;
		call->written = at.branch->written;
	}
}

static bool lacks_room(const struct weir_level *at, const struct weir_flusher *flusher)
{
	u64 window = window_at(at);

	return window && excess_at(at, flusher, window);
}

/* Is @flusher the one that has waited for longest, of those below @branch? */
static bool claim_first_turn(struct weir_branch *branch, struct weir_flusher *flusher)
{
	struct weir_flusher *first = branch->first;

	if (!first || !waits_for_turn(first) || time_before(flusher->waits, first->waits))
		branch->first = flusher;
	return branch->first == flusher;
}

/*
 * May a part go past the windows on the path?  One a second below each that has no room, of
 * the flusher that has waited for longest: else one that io.max holds, and so fills the window,
 * would have all turns, and its neighbours below the window none.  One whose pages are held
 * above the device has none: they would add up there.  A cgroup above without a window has no
 * say: else a tenant would take the turns of others.
 */
static bool take_forced_part(struct flush_call *call)
{
	struct weir_level at;
	bool may = false;

	rcu_read_lock();
	spin_lock(&call->disk->lock);
	if (call->flusher->pace == WEIR_PACE_HELD && call->flusher->in_flight) {
		weir_flusher_end_wait(call->flusher);
		goto unlock;
	}
	may = true;
	call->flusher->waited = jiffies;
	if (!call->flusher->waits)
		call->flusher->waits = jiffies ?: 1;
	if (time_before(jiffies, call->flusher->waits + FORCE_JIFFIES))
		may = false;
	for (at = weir_flusher_level(call->flusher); at.branch->parent; weir_level_up(&at)) {
		if (!lacks_room(&at, call->flusher))
			continue;
		may &= claim_first_turn(at.branch, call->flusher);
		if (at.branch->forced &&
		    time_before(jiffies, at.branch->forced + FORCE_JIFFIES))
			may = false;
	}
	for (at = weir_flusher_level(call->flusher); may && at.branch->parent;
	     weir_level_up(&at)) {
		if (lacks_room(&at, call->flusher))
			at.branch->forced = jiffies ?: 1;
	}
	if (may) {
		weir_flusher_end_wait(call->flusher);
		weir_flusher_reserve(call->flusher, call->part);
	}
unlock:
	spin_unlock(&call->disk->lock);
	rcu_read_unlock();
	return may;
}

/* Look whether there is room for a part, and for how large a one. */
static void ask_room(struct flush_call *call)
{
	struct weir_turn_wait turn;

	call->excess = 0;
	call->part = 0;
	call->has_window = false;
	call->by_weight = false;
	weir_division_sample_device(call->disk, call->flusher);
	rcu_read_lock();
	spin_lock(&call->disk->lock);
	weir_flusher_reserve(call->flusher, 0);
	weir_flusher_update(call->disk, call->flusher);
	refresh_flushers(call->disk, REFRESH_MOST);
	if (READ_ONCE(weir_window_count))
		ask_windows(call);
	if (weir_division_ask_turn(call->disk, call->flusher, &turn)) {
		if (!call->part || turn.excess > call->excess) {
			call->excess = turn.excess;
			call->written = turn.written;
			call->by_weight = true;
		}
		call->part = call->part ? min(call->part, turn.part) : turn.part;
	}
	if (!call->excess) {
		weir_flusher_end_wait(call->flusher);
		weir_flusher_reserve(call->flusher, call->part);
	}
	spin_unlock(&call->disk->lock);
	rcu_read_unlock();
}

/*
 * Make a request of its own of the part that was submitted.  The flusher gathers all that it
 * submits, and two parts that become one request end at once: then nothing is in flight
 * while the flusher is woken.
 */
static void submit_plugged_bios(void)
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

static bool held_enough(const struct flush_call *call)
{
	return call->window_ns + call->weight_ns >= WEIR_WINDOW_CALL_MOST_MS * NSEC_PER_MSEC;
}

/* Sleep once for room, and look again. */
static void wait_once(struct flush_call *call)
{
	u64 written = call->written, began_ns = ktime_get_ns(), slept_ns;
	struct weir_window_rate *rate = &call->flusher->rate;
	bool by_weight = call->by_weight;

	weir_window_sleep(weir_window_sleep_ns(call->excess, rate));
	slept_ns = ktime_get_ns() - began_ns;
	*(by_weight ? &call->weight_ns : &call->window_ns) += slept_ns;
	ask_room(call);
	/* sums of two windows are not to be compared */
	if (call->part && call->by_weight == by_weight && call->written >= written)
		weir_window_rate_note(rate, call->written - written, slept_ns, call->part);
}

/*
 * Waits for room; returns how many of @left pages may be submitted now.  0: the
 * call is to end here.
 */
static long wait_for_room(struct flush_call *call, long left,
			  const struct writeback_control *wbc, bool wrote)
{
	struct bdi_writeback *wb = call->flusher->wb;
	bool placed = false;
	long may = -1;

	ask_room(call);
	while (call->excess && may < 0) {
		if (READ_ONCE(weir_observe)) {
			call->would_wait = true;
			may = left;
		} else if (!list_empty(&wb->work_list)) {
			/* sync and the like come next; reclaim's work is not broken off */
			may = wbc->for_background || wbc->for_kupdate ? 0 : left;
		} else if (READ_ONCE(weir_unloading)) {
			may = left;
		} else if (!held_enough(call) &&
			   (placed || weir_place_take(call->flusher->branch))) {
			placed = true;
			wait_once(call);
		} else if (!wrote && !call->by_weight && take_forced_part(call)) {
			/* by weight others do go on, so its turn comes */
			break;
		} else {
			call->skipped = !wrote && !held_enough(call);
			may = 0;
		}
	}
	if (placed)
		weir_place_give(call->flusher->branch);
	if (may >= 0)
		return may;
	return call->part ? min_t(u64, left, call->part) : left;
}

static void count_held(struct flush_call *call)
{
	struct weir_record *record;

	if (!call->window_ns && !call->weight_ns && !call->would_wait)
		return;
	rcu_read_lock();
	record = weir_flusher_record(call->flusher);
	if (record && call->would_wait)
		weir_count(record, would_wait);
	if (record && call->window_ns) {
		weir_count(record, window_held);
		this_cpu_add(record->stats->window_held_ns, call->window_ns);
	}
	if (record && call->weight_ns) {
		weir_count(record, weight_held);
		this_cpu_add(record->stats->weight_held_ns, call->weight_ns);
	}
	rcu_read_unlock();
}

static int write_in_parts(struct address_space *mapping, struct writeback_control *wbc,
			  struct flush_call *call)
{
	long left = wbc->nr_to_write, part;
	bool wrote = false;
	int ret = 0;

	while (left > 0) {
		part = wait_for_room(call, left, wbc, wrote);
		if (!part && call->skipped) {
			wbc->pages_skipped++;
			break;
		}
		if (!part) {
			/* as if the slice were used up: the inode's turn comes again */
			left = 0;
			break;
		}
		wbc->nr_to_write = part;
		ret = weir_kernel_writepages(mapping, wbc);
		if (part < left)
			submit_plugged_bios();
		wrote = true;
		left -= part - wbc->nr_to_write;
		/* nothing more is dirty */
		if (ret || wbc->nr_to_write > 0)
			break;
	}
	wbc->nr_to_write = left;
	count_held(call);
	return ret;
}

/* Is the flusher of @wb to be held by a window or a weight? */
static bool is_bound_and_recorded(struct bdi_writeback *wb)
{
	struct weir_record *record, *nearest;
	bool bound;

	rcu_read_lock();
	nearest = weir_record_nearest(wb->memcg_css);
	bound = weir_weights_any();
	for (record = nearest; record && !bound; record = record->parent)
		bound = READ_ONCE(record->writeback_bytes) != WEIR_UNLIMITED;
	if (bound && (!nearest || nearest->css != wb->memcg_css))
		bound = weir_record_make_in_pass(wb->memcg_css);
	rcu_read_unlock();
	return bound;
}

static struct task_struct *prover;

/*
 * Does the hook work?  Calls do_writepages() for no page, which then returns at once; -ENODATA
 * if that did not come by here: kernel.ftrace_enabled is 0.  Only the beat does.
 */
int weir_flushers_prove(void)
{
	struct writeback_control wbc = { .nr_to_write = 0 };
	int err = weir_writepages_hook();

	if (err)
		return err;
	WRITE_ONCE(prover, current);
	weir_call_writepages(NULL, &wbc);
	if (READ_ONCE(prover)) {
		WRITE_ONCE(prover, NULL);
		return -ENODATA;
	}
	/* 0 is never */
	WRITE_ONCE(weir_flushers_proven, jiffies ?: 1);
	return 0;
}

/* In the place of do_writepages(). */
int weir_flusher_write(struct address_space *mapping, struct writeback_control *wbc)
{
	struct flush_call call = { .flusher = NULL };
	int ret;

	if (READ_ONCE(prover) == current) {
		WRITE_ONCE(prover, NULL);
		return 0;
	}
	if (!weir_flushers_any() || !may_be_held(wbc) || !is_bound_and_recorded(wbc->wb) ||
	    !flusher_enter(&call, wbc->wb))
		return weir_kernel_writepages(mapping, wbc);
	this_cpu_inc(weir_flushing);
	ret = write_in_parts(mapping, wbc, &call);
	flusher_leave(&call);
	this_cpu_dec(weir_flushing);
	return ret;
}

static void sweep_disk(struct weir_disk *disk)
{
	refresh_flushers(disk, SWEEP_MOST);
}

/* Forget flushers that have ended: each keeps a wb, and that a cgroup and a device. */
void weir_flushers_sweep(void)
{
	weir_disks_visit(sweep_disk);
}

static void drop_all_flushers(struct weir_disk *disk)
{
	struct weir_flusher *flusher, *next;

	list_for_each_entry_safe(flusher, next, &disk->flushers, listed)
		flusher_drop(disk, flusher);
}

/* Nothing enters any more and nothing is inside: forget all. */
void weir_flushers_end(void)
{
	weir_disks_visit(drop_all_flushers);
}
