// SPDX-License-Identifier: GPL-2.0-only
/*
 * Knobs that flushers are held by, and the flushers that they hold: what flusher.c,
 * places.c and division.c stand on.
 *
 * A device has a list of flushers and, above them, a tree of the cgroups that they are of.
 * Each branch has the sums of all below it, so what a flusher asks about a window or a
 * weight takes a walk up its path, however many flushers there are.  A flusher's part of the
 * sums is as old as the last look at it.
 */
#include "weir.h"
#include "flusher.h"
#include <linux/hash.h>
#include <linux/slab.h>

#define DISKS_BITS	5

unsigned int weir_window_count;		/* cgroups with a window; weir_lock */

static u32 root_weighted;		/* as weir_record.weighted, of the root; weir_lock */
static u32 weighted;			/* cgroups with a weight of their own; weir_lock */

static struct hlist_head disks[1 << DISKS_BITS];
static DEFINE_SPINLOCK(disks_lock);	/* taken before a disk's own */

/* A window was set or cleared.  Under weir_lock. */
void weir_window_change(struct weir_record *record, u64 bytes)
{
	int change = (bytes != WEIR_UNLIMITED) - (record->writeback_bytes != WEIR_UNLIMITED);

	WRITE_ONCE(record->writeback_bytes, bytes);
	WRITE_ONCE(weir_window_count, weir_window_count + change);
}

bool weir_weights_any(void)
{
	return READ_ONCE(weighted);
}

/* A cgroup's weight is another.  The caller holds weir_lock. */
void weir_weight_change(struct weir_record *record, u32 weight)
{
	u32 *siblings = record->parent ? &record->parent->weighted : &root_weighted;
	int change = (weight != WEIR_WEIGHT_DEFAULT) - (record->weight != WEIR_WEIGHT_DEFAULT);

	WRITE_ONCE(record->weight, weight);
	WRITE_ONCE(*siblings, *siblings + change);
	WRITE_ONCE(weighted, weighted + change);
}

/* Is anything set that holds flushers? */
bool weir_flushers_any(void)
{
	return READ_ONCE(weir_window_count) || weir_weights_any();
}

static void init_branch(struct weir_branch *branch)
{
	INIT_HLIST_HEAD(&branch->flushers);
	branch->by_vtime = RB_ROOT_CACHED;
	branch->contenders = RB_ROOT_CACHED;
	RB_CLEAR_NODE(&branch->node);
}

static struct weir_disk *make_disk(const struct backing_dev_info *bdi)
{
	struct weir_disk *disk = kzalloc(sizeof(*disk), GFP_NOWAIT | __GFP_NOWARN);

	if (!disk)
		return NULL;
	disk->bdi = bdi;
	spin_lock_init(&disk->lock);
	init_branch(&disk->top);
	xa_init(&disk->branches);
	INIT_LIST_HEAD(&disk->flushers);
	INIT_LIST_HEAD(&disk->inside);
	INIT_LIST_HEAD(&disk->outside);
	return disk;
}

/*
 * The device, locked, or NULL without memory for it.  One without flushers is forgotten by
 * weir_disks_visit(), not while it is locked.
 */
struct weir_disk *weir_disk_lock(const struct backing_dev_info *bdi)
{
	struct hlist_head *bucket = &disks[hash_ptr(bdi, DISKS_BITS)];
	struct weir_disk *disk;

	spin_lock(&disks_lock);
	hlist_for_each_entry(disk, bucket, node) {
		if (disk->bdi == bdi)
			goto found;
	}
	disk = make_disk(bdi);
	if (disk)
		hlist_add_head(&disk->node, bucket);
found:
	if (disk)
		spin_lock(&disk->lock);
	spin_unlock(&disks_lock);
	return disk;
}

/* Call @visit for each disk, locked, and forget those that have no flusher then. */
void weir_disks_visit(void (*visit)(struct weir_disk *disk))
{
	struct weir_disk *disk;
	struct hlist_node *next;
	bool empty;
	int i;

	for (i = 0; i < ARRAY_SIZE(disks); i++) {
		spin_lock(&disks_lock);
		hlist_for_each_entry_safe(disk, next, &disks[i], node) {
			spin_lock(&disk->lock);
			visit(disk);
			empty = list_empty(&disk->flushers);
			spin_unlock(&disk->lock);
			if (!empty)
				continue;
			hlist_del(&disk->node);
			xa_destroy(&disk->branches);
			kfree(disk);
		}
		spin_unlock(&disks_lock);
	}
}

static void put_branch(struct weir_disk *disk, struct weir_branch *branch)
{
	struct weir_branch *parent;

	while (!--branch->users && branch->parent) {
		parent = branch->parent;
		xa_erase(&disk->branches, branch->css->id);
		kfree(branch);
		branch = parent;
	}
}

/*
 * The cgroup above @css that has a branch of its own, or NULL: the device's is next.  By
 * parents, which @css holds: the controller may have been switched off and on above it.
 */
static struct cgroup_subsys_state *css_of_branch_above(struct cgroup_subsys_state *css)
{
	do {
		css = css->parent;
	} while (css && css->cgroup->level > WEIR_FLUSHER_LEVELS);
	return css && css->parent ? css : NULL;
}

/* The branch of @css, and one user more; NULL without memory. */
static struct weir_branch *get_branch(struct weir_disk *disk, struct cgroup_subsys_state *css)
{
	struct weir_branch *first = NULL, *below = NULL, *branch;

	for (; css; css = css_of_branch_above(css)) {
		branch = xa_load(&disk->branches, css->id);
		if (branch)
			break;
		branch = kzalloc(sizeof(*branch), GFP_NOWAIT | __GFP_NOWARN);
		if (!branch)
			goto undo;
		init_branch(branch);
		branch->css = css;
		branch->users = 1;
		if (xa_err(xa_store(&disk->branches, css->id, branch,
				    GFP_NOWAIT | __GFP_NOWARN))) {
			kfree(branch);
			goto undo;
		}
		if (below)
			below->parent = branch;
		else
			first = branch;
		below = branch;
	}
	if (!css)
		branch = &disk->top;
	branch->users++;
	if (!below)
		return branch;
	below->parent = branch;
	return first;

undo:
	/* no parent above the last */
	while (first) {
		branch = first->parent;
		xa_erase(&disk->branches, first->css->id);
		kfree(first);
		first = branch;
	}
	return NULL;
}

struct weir_flusher *weir_flusher_find(struct weir_disk *disk, const struct bdi_writeback *wb)
{
	struct weir_branch *branch = xa_load(&disk->branches, wb->memcg_css->id);
	struct weir_flusher *flusher;

	if (!branch)
		return NULL;
	hlist_for_each_entry(flusher, &branch->flushers, node) {
		if (flusher->wb == wb)
			return flusher;
	}
	return NULL;
}

/* List @flusher, which has a wb and is zero but for that.  False without memory. */
bool weir_flusher_add(struct weir_disk *disk, struct weir_flusher *flusher)
{
	flusher->branch = get_branch(disk, flusher->wb->memcg_css);
	if (!flusher->branch)
		return false;
	hlist_add_head(&flusher->node, &flusher->branch->flushers);
	list_add_tail(&flusher->listed, &disk->flushers);
	INIT_LIST_HEAD(&flusher->asking);
	RB_CLEAR_NODE(&flusher->by_vtime);
	/* pages that it wrote before count in no sum */
	flusher->written = wb_stat_sum(flusher->wb, WB_WRITTEN);
	weir_flusher_update(disk, flusher);
	return true;
}

/* Bring all sums of its path to @in_flight pages, of a flusher whose pages get on by @pace. */
static void count_in_flight(struct weir_flusher *flusher, u64 in_flight, enum weir_pace pace)
{
	struct weir_branch *branch;

	for (branch = flusher->branch; branch; branch = branch->parent) {
		branch->in_flight += in_flight - flusher->in_flight;
		branch->paced[flusher->pace] -= flusher->in_flight;
		branch->paced[pace] += in_flight;
	}
	flusher->in_flight = in_flight;
	flusher->pace = pace;
}

/* Note the pace of its pages, by a sum of the device's that is as old as the looks at others. */
static void note_pace(struct weir_disk *disk, struct weir_flusher *flusher)
{
	u64 own = flusher->in_flight;
	struct weir_window_progress now = {
		.written = flusher->written,
		.in_flight = own - flusher->reserved,
		.others_written = disk->moved - flusher->moved,
		.others_in_flight = disk->top.in_flight - disk->top.paced[WEIR_PACE_HELD] -
				    (flusher->pace == WEIR_PACE_HELD ? 0 : own),
		/* not what it has reserved itself */
		.moving = disk->top.paced[WEIR_PACE_MOVES] -
			  (flusher->pace == WEIR_PACE_MOVES ? own : 0),
		.ms = jiffies64_to_msecs(get_jiffies_64()),
	};

	count_in_flight(flusher, own,
			weir_window_pace(&flusher->mark, &disk->pages, &now));
}

/* It waits for no turn to go past a window any more. */
void weir_flusher_end_wait(struct weir_flusher *flusher)
{
	struct weir_branch *branch;

	if (!flusher->waits)
		return;
	flusher->waits = 0;
	for (branch = flusher->branch; branch; branch = branch->parent) {
		if (branch->first == flusher)
			branch->first = NULL;
	}
}

/* Nothing of it is in flight, and it is in no division. */
void weir_flusher_remove(struct weir_disk *disk, struct weir_flusher *flusher)
{
	weir_flusher_end_wait(flusher);
	count_in_flight(flusher, 0, flusher->pace);
	hlist_del(&flusher->node);
	list_del(&flusher->listed);
	put_branch(disk, flusher->branch);
	wb_put(flusher->wb);
	kfree(flusher);
}

/* Bring its part of all sums up to date. */
void weir_flusher_update(struct weir_disk *disk, struct weir_flusher *flusher)
{
	u64 in_flight = wb_stat_sum(flusher->wb, WB_WRITEBACK) + flusher->reserved;
	u64 written = wb_stat_sum(flusher->wb, WB_WRITTEN);
	struct weir_branch *branch;

	for (branch = flusher->branch; branch; branch = branch->parent)
		branch->written += written - flusher->written;
	if (flusher->pace != WEIR_PACE_HELD) {
		disk->moved += written - flusher->written;
		flusher->moved += written - flusher->written;
	}
	flusher->written = written;
	count_in_flight(flusher, in_flight, flusher->pace);
	note_pace(disk, flusher);
	flusher->looked = jiffies;
	list_move_tail(&flusher->listed, &disk->flushers);
}

/*
 * Count @pages as in flight until it has submitted them: it may wait for a journal in between,
 * and others that look meanwhile would find the same room.
 */
void weir_flusher_reserve(struct weir_flusher *flusher, u64 pages)
{
	count_in_flight(flusher, flusher->in_flight - flusher->reserved + pages, flusher->pace);
	flusher->reserved = pages;
}

/*
 * The record of a flusher's cgroup, or of its nearest ancestor with one; not deeper than
 * WEIR_FLUSHER_LEVELS.  Under RCU.
 */
struct weir_record *weir_flusher_record(const struct weir_flusher *flusher)
{
	struct cgroup_subsys_state *css = flusher->wb->memcg_css;
	struct cgroup *above = cgroup_ancestor(css->cgroup, WEIR_FLUSHER_LEVELS);

	if (above && above != css->cgroup)
		css = rcu_dereference(above->subsys[memory_cgrp_id]);
	return css ? weir_record_nearest(css) : NULL;
}

/* The lowest level of its path.  Under RCU, as all levels. */
struct weir_level weir_flusher_level(const struct weir_flusher *flusher)
{
	return (struct weir_level) {
		.branch = flusher->branch,
		.record = weir_flusher_record(flusher),
	};
}

/* The record of the branch's own cgroup, or NULL. */
struct weir_record *weir_level_record(const struct weir_level *at)
{
	return at->record && at->record->css == at->branch->css ? at->record : NULL;
}

/* All ancestors of a cgroup with a record have one, but the root. */
void weir_level_up(struct weir_level *at)
{
	if (weir_level_record(at))
		at->record = at->record->parent;
	at->branch = at->branch->parent;
}

/* Has a child of the branch's cgroup a weight of its own? */
bool weir_level_divides(const struct weir_level *at)
{
	const struct weir_record *record = weir_level_record(at);

	if (!at->branch->parent)
		return READ_ONCE(root_weighted);
	return record && READ_ONCE(record->weighted);
}
