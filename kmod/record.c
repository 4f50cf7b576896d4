// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir's record of one cgroup: its knobs and its counters.
 *
 * A record is made when a knob of the cgroup is written, or in the first pass of one of
 * its tasks, for all its ancestors then, and by the beat for every other cgroup below one
 * with a knob: pages may be its own that tasks of others dirtied.  Its memory is charged to the cgroup it is
 * about.  Knobs end with the cgroup; the beat drops the record once the cgroup is
 * gone and its pages are clean or no record above counts them.
 *
 * weir_lock serialises everything but lookups and counting.  It is a spinlock, as
 * tenants take it, too: a task that is out of its cpu.max may lose the CPU while
 * it holds a mutex.  A pass finds a record by its css under RCU and never keeps it
 * across a sleep: rmdir frees the record of a cgroup whose tasks still sleep in the
 * throttle, only the css stays.
 *
 * The beat visits cgroups by a walk over the whole hierarchy that goes on where
 * it stopped: each turn has a budget in reads of counters, so one turn takes
 * the same time however many cgroups there are.  With B reads a turn and P
 * possible CPUs a round over N cgroups whose pages are counted takes
 * N x (2P + 16) / B turns.  Example: B = 131,072, five turns a second.  1,000
 * cgroups and 8 CPUs: every turn.  50,000 removed cgroups that still have pages,
 * 256 CPUs: 202 turns, 40 s.
 */
#include "weir.h"
#include <linux/hashtable.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

unsigned int weir_record_count;
unsigned int weir_knob_count;

/* The cgroup that was visited last; referenced.  The beat's. */
static struct cgroup_subsys_state *visited;

/* Of making a record: 7,000 instructions, and 300 for each possible CPU's part. */
#define MAKE_COST	(1400 + 28 * weir_count_cost())
#define CHUNK_READS	4096

static void free_now(struct weir_record *record)
{
	free_percpu(record->stats);
	kfree(record);
}

/*
 * Memory for the record of @css, charged to that cgroup, which may be short of it:
 * then NULL, and no task is killed for it.
 */
static struct weir_record *allocate_record(struct cgroup_subsys_state *css, gfp_t gfp)
{
	struct mem_cgroup *before =
		set_active_memcg(mem_cgroup_from_css(css));
	struct weir_record *record;
	bool made = false;

	/* the beat cannot wait for pages side by side */
	static_assert(sizeof(*record) <= PAGE_SIZE);
	gfp |= __GFP_NORETRY | __GFP_NOWARN;
	record = kzalloc(sizeof(*record), gfp);
	if (record) {
		record->stats = alloc_percpu_gfp(struct weir_stats, gfp);
		made = record->stats;
	}
	set_active_memcg(before);
	if (!made || !css_tryget(css)) {
		if (record)
			free_now(record);
		return NULL;
	}
	record->css = css;
	record->ceiling.bytes = WEIR_UNLIMITED;
	record->weight = WEIR_WEIGHT_DEFAULT;
	record->bandwidth_bytes = WEIR_UNLIMITED;
	record->writeback_bytes = WEIR_UNLIMITED;
	record->tier_ratio = WEIR_TIER_BY_CAPACITY;
	raw_spin_lock_init(&record->lock);
	INIT_LIST_HEAD(&record->floors);
	weir_bandwidth_init(record);
	return record;
}

static void insert_record(struct weir_record *record)
{
	record->parent = weir_record_find(record->css->parent);
	if (record->parent)
		record->parent->children++;
	list_add_tail(&record->all, &weir_others);
	weir_lookup_add(record);
	WRITE_ONCE(weir_record_count, weir_record_count + 1);
	weir_beat_start();
}

/* The topmost of @css and its ancestors that has no record; NULL if all have. */
static struct cgroup_subsys_state *topmost_missing(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *missing = NULL;

	for (; css->parent && !weir_record_find(css); css = css->parent)
		missing = css;
	return missing;
}

/*
 * Make the record of @css, and those of its ancestors, if need be.  Takes
 * weir_lock, but not while it allocates: -ENOMEM, -ENODEV if the cgroup goes,
 * -EINTR if the task is killed.
 */
int weir_record_make(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *missing;
	struct weir_record *record;
	int err;

	for (;;) {
		err = weir_lock_killable();
		if (err)
			return err;
		missing = topmost_missing(css);
		spin_unlock(&weir_lock);
		if (!missing)
			return 0;
		if (!weir_css_alive(css))
			return -ENODEV;
		record = allocate_record(missing, GFP_KERNEL_ACCOUNT);
		if (!record)
			return -ENOMEM;
		err = weir_lock_killable();
		if (!err) {
			if (topmost_missing(css) == missing) {
				insert_record(record);
				record = NULL;
			}
			spin_unlock(&weir_lock);
		}
		if (record) {
			css_put(record->css);
			free_now(record);
		}
		if (err)
			return err;
	}
}

/*
 * The same without waiting for memory, or for a task: the record of @css is made even if
 * the cgroup has no memory left.  Otherwise it could escape its parent's ceiling by
 * filling its own memory.max.  It is charged all the same, beyond the limit, as the kernel
 * does for an allocation that cannot wait: otherwise a tenant whose cgroups have no room
 * would have the host's memory for their records.  Under weir_lock.
 */
static struct weir_record *make_now(struct cgroup_subsys_state *css)
{
	struct weir_record *record = allocate_record(css, GFP_NOWAIT | __GFP_ACCOUNT) ?:
				   allocate_record(css, GFP_ATOMIC | __GFP_ACCOUNT);

	if (record)
		insert_record(record);
	return record;
}

/* Levels without a record that one pass makes records for, the topmost first. */
#define LEVELS_MADE	32

/*
 * The record of @css, in a pass that found none: made now, and those of its ancestors, so
 * that the pass is judged by what the cgroup holds.  The task may hold a filesystem's
 * locks: nothing here waits, and the lock is left after each record.  Where the lock is
 * taken or the host has no memory for it, the record is made by a later pass or the beat's
 * walk, and this pass is its nearest ancestor's, if any; it has dirtied a few dozen pages
 * by then, which no sum has.  Under RCU.
 */
struct weir_record *weir_record_make_in_pass(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *missing = css->parent ? css : NULL;
	int levels;

	for (levels = 0; missing && levels < LEVELS_MADE; levels++) {
		if (!weir_css_alive(css) || !spin_trylock(&weir_lock))
			break;
		missing = topmost_missing(css);
		if (missing && !make_now(missing))
			levels = LEVELS_MADE;
		spin_unlock(&weir_lock);
	}
	return weir_tree_nearest(css);
}

/* The next walk begins anew, if there is one: hold no cgroup for it. */
void weir_records_restart_walk(void)
{
	if (visited)
		css_put(visited);
	visited = NULL;
}

/* Of a removed cgroup: does anything still count as its own? */
static bool holds_pages(struct cgroup_subsys_state *css)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	struct weir_counts own = weir_layout.reparents ?
				 weir_count_unfolded(memcg) :
				 weir_count_memcg(memcg);

	return own.dirty + own.writeback;
}

static void free_record(struct rcu_head *rcu)
{
	struct weir_record *record = container_of(rcu, struct weir_record, rcu);

	/* no pass sees the record any more */
	weir_reserve_note(record, 0);
	free_now(record);
}

/* A knob of @record was changed, or ended; it @had some before. */
void weir_record_knobs_changed(struct weir_record *record, bool had)
{
	weir_knob_count += weir_record_has_any(record) - had;
	if ((record->dirty_min_bytes == 0) == list_empty(&record->floors))
		return;
	if (record->dirty_min_bytes) {
		list_add_tail(&record->floors, &weir_floors);
		weir_floor_count++;
	} else {
		list_del_init(&record->floors);
		weir_floor_count--;
	}
}

static void end_knobs(struct weir_record *record)
{
	bool had = weir_record_has_any(record);

	weir_window_change(record, WEIR_UNLIMITED);
	weir_weight_change(record, WEIR_WEIGHT_DEFAULT);
	if (!had)
		return;
	WRITE_ONCE(record->dirty_min_bytes, 0);
	WRITE_ONCE(record->ceiling.bytes, WEIR_UNLIMITED);
	WRITE_ONCE(record->ceiling.ratio_percent, 0);
	weir_bandwidth_change(record, WEIR_UNLIMITED);
	weir_record_knobs_changed(record, had);
	weir_floor_evaluate(record);
}

static void drop_record(struct weir_record *record)
{
	end_knobs(record);
	weir_fair_leave(record, true);
	weir_tree_detach(record);
	hash_del_rcu(&record->node);
	weir_bandwidth_detach(record);
	list_del(&record->all);
	WRITE_ONCE(weir_record_count, weir_record_count - 1);
	if (record->parent)
		record->parent->children--;
	css_put(record->css);
	call_rcu(&record->rcu, free_record);
}

/* Its cgroup is removed: is the record still needed? */
static bool is_done(struct weir_record *record)
{
	if (weir_css_alive(record->css))
		return false;
	end_knobs(record);
	if (record->children)
		return false;
	/* its pages are its topmost cgroup's, where parts are fair; but once reparented */
	if (!weir_tree_has_knob(record) &&
	    (weir_layout.reparents || !READ_ONCE(weir_writer_count)))
		return true;
	if (weir_layout.reparents && record->pages_are != WEIR_INHERITED)
		return false;
	return !holds_pages(record->css);
}

/* Removed children of @css whose pages are @before are @now; returns the reads it took. */
static u32 see_removed(struct cgroup_subsys_state *css, enum weir_pages_are before,
		       enum weir_pages_are now)
{
	struct cgroup_subsys_state *child;
	struct weir_record *record;
	u32 nth = 0;

	list_for_each_entry_rcu(child, &css->children, sibling) {
		weir_rest_at(child, ++nth);
		if (READ_ONCE(child->flags) & CSS_ONLINE)
			continue;
		record = weir_record_find(child);
		if (record && record->pages_are == before)
			WRITE_ONCE(record->pages_are, now);
	}
	return nth;
}

/*
 * The cgroup inherits from its removed children, and they keep what they have not
 * folded, in this order: pages may count twice until the next round, but not for
 * none.  So a child that is removed meanwhile keeps all of them for that round.
 * Outside of weir_lock, as there may be many children; only the beat drops records.
 */
static u32 inherit_removed(struct cgroup_subsys_state *css)
{
	struct weir_record *record = weir_record_find(css);
	u32 cost;

	if (!record || !weir_tree_has_knob(record))
		return 0;
	cost = see_removed(css, WEIR_OWN, WEIR_REPARENTED);
	weir_tree_inherit(record, &cost);
	return cost + see_removed(css, WEIR_REPARENTED, WEIR_INHERITED);
}

/*
 * One cgroup of the walk; returns what that took, in reads.  @making is what may be
 * spent on new records.  Under weir_lock.
 */
static u32 record_visit(struct cgroup_subsys_state *css, u32 *making)
{
	struct weir_record *record, *parent;
	u32 cost = WEIR_VISIT_COST + css->cgroup->level;

	/* about to be freed: no record has it, and the walk cannot stop at it */
	if (!css->parent || percpu_ref_is_zero(&css->refcnt))
		return 1;
	record = weir_record_find(css);
	if (!record) {
		parent = weir_record_find(css->parent);
		if (!parent || !weir_tree_has_knob(parent) || !*making)
			return cost;
		cost += weir_count_cost();
		if (weir_css_alive(css) || holds_pages(css)) {
			record = make_now(css);
			cost += MAKE_COST;
			*making -= min_t(u32, *making, MAKE_COST);
		}
	}
	if (record && !is_done(record) && weir_tree_has_knob(record)) {
		weir_record_evaluate(record);
		cost += weir_count_cost();
	}
	/* the rest of a long chain of removed ones is for the next round */
	while (record && cost < CHUNK_READS && is_done(record)) {
		cost += weir_count_cost() + record->css->cgroup->level;
		parent = record->parent;
		drop_record(record);
		record = parent;
	}
	return cost;
}

static struct cgroup_subsys_state *record_root(void)
{
	/* pid 0 stays where it was made */
	return rcu_dereference(init_task.cgroups)->subsys[memory_cgrp_id];
}

/*
 * Go on with the walk over all cgroups, for about @budget reads or to its end:
 * make records where they are missing, drop those that are done, and evaluate the
 * others that a knob is about.  Only the beat does this.  The lock is held for
 * CHUNK_READS reads at a time.  New records take three quarters of the budget at most,
 * those beyond are for the next round: a tenant that makes cgroups as fast as the walk
 * makes records for them would keep it among them.
 */
void weir_records_walk(u32 budget)
{
	struct cgroup_subsys_state *pos = visited, *held = visited;
	u32 making = budget / 4 * 3;
	u32 spent = 0, chunk = 0;

	rcu_read_lock();
	spin_lock(&weir_lock);
	while ((pos = css_next_descendant_pre(pos, record_root()))) {
		if (held)
			css_put(held);
		held = NULL;
		chunk += record_visit(pos, &making);
		if (weir_layout.reparents && weir_css_get(pos)) {
			spin_unlock(&weir_lock);
			chunk += inherit_removed(pos);
			spin_lock(&weir_lock);
			css_put(pos);
		}
		if (chunk < CHUNK_READS || !weir_css_get(pos))
			continue;
		held = pos;
		spent += chunk;
		chunk = 0;
		if (spent >= budget)
			break;
		spin_unlock(&weir_lock);
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
		spin_lock(&weir_lock);
	}
	spin_unlock(&weir_lock);
	rcu_read_unlock();
	if (!pos) {
		if (held)
			css_put(held);
		held = NULL;
	}
	visited = held;
}

/*
 * Forget all cgroups, children before their parents.  Nothing is hooked or recounted:
 * the lists are read without the lock.
 */
void weir_records_drop_all(void)
{
	struct weir_record *record, *parent;

	weir_records_restart_walk();
	list_splice_tail_init(&weir_holders, &weir_others);
	while (!list_empty(&weir_others)) {
		record = list_first_entry(&weir_others, struct weir_record, all);
		spin_lock(&weir_lock);
		/* one that has children goes with the last of them */
		list_move_tail(&record->all, &weir_others);
		while (record && !record->children) {
			parent = record->parent;
			drop_record(record);
			record = parent;
		}
		spin_unlock(&weir_lock);
		cond_resched();
	}
}

/* Sum the counters over all CPUs. */
void weir_record_stats(struct weir_record *record, struct weir_stats *sum)
{
	u64 *sums = (u64 *)sum;
	unsigned int cpu, i;

	static_assert(sizeof(*sum) % sizeof(u64) == 0);
	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const u64 *part = (u64 *)per_cpu_ptr(record->stats, cpu);

		for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
			sums[i] += READ_ONCE(part[i]);
	}
}
