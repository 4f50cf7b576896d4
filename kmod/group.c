// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir's record of one cgroup: its knobs and its counters.
 *
 * A group is made when a knob of the cgroup is written, or in the first pass of one of
 * its tasks, for all its ancestors then, and by the beat for every other cgroup below one
 * with a knob: pages may be its own that tasks of others dirtied.  Its memory is charged to the cgroup it is
 * about.  Knobs end with the cgroup; the beat drops the group once the cgroup is
 * gone and its pages are clean or no group above counts them.
 *
 * weir_lock serialises everything but lookups and counting.  It is a spinlock, as
 * tenants take it, too: a task that is out of its cpu.max may lose the CPU while
 * it holds a mutex.  A pass finds a group by its css under RCU and never keeps it
 * across a sleep: rmdir frees the group of a cgroup whose tasks still sleep in the
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

unsigned int weir_group_count;
unsigned int weir_knob_count;

/* The cgroup that was visited last; referenced.  The beat's. */
static struct cgroup_subsys_state *visited;

/* Of making a group: 7,000 instructions, and 300 for each possible CPU's part. */
#define MAKE_COST	(1400 + 28 * weir_count_cost())
#define CHUNK_READS	4096

static void free_now(struct weir_group *group)
{
	free_percpu(group->stats);
	kfree(group);
}

/*
 * Memory for the group of @css, charged to that cgroup, which may be short of it:
 * then NULL, and no task is killed for it.
 */
static struct weir_group *allocate_group(struct cgroup_subsys_state *css, gfp_t gfp)
{
	struct mem_cgroup *before =
		set_active_memcg(mem_cgroup_from_css(css));
	struct weir_group *group;
	bool made = false;

	/* the beat cannot wait for pages side by side */
	static_assert(sizeof(*group) <= PAGE_SIZE);
	gfp |= __GFP_NORETRY | __GFP_NOWARN;
	group = kzalloc(sizeof(*group), gfp);
	if (group) {
		group->stats = alloc_percpu_gfp(struct weir_stats, gfp);
		made = group->stats;
	}
	set_active_memcg(before);
	if (!made || !css_tryget(css)) {
		if (group)
			free_now(group);
		return NULL;
	}
	group->css = css;
	group->ceiling.bytes = WEIR_UNLIMITED;
	group->weight = WEIR_WEIGHT_DEFAULT;
	group->bandwidth_bytes = WEIR_UNLIMITED;
	group->writeback_bytes = WEIR_UNLIMITED;
	group->tier_ratio = WEIR_TIER_BY_CAPACITY;
	raw_spin_lock_init(&group->lock);
	INIT_LIST_HEAD(&group->floors);
	weir_bandwidth_made(group);
	return group;
}

static void insert_group(struct weir_group *group)
{
	group->parent = weir_group_find(group->css->parent);
	if (group->parent)
		group->parent->children++;
	list_add_tail(&group->all, &weir_others);
	weir_lookup_add(group);
	WRITE_ONCE(weir_group_count, weir_group_count + 1);
	weir_beat_start();
}

/* The topmost of @css and its ancestors that has no group; NULL if all have. */
static struct cgroup_subsys_state *topmost_missing(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *missing = NULL;

	for (; css->parent && !weir_group_find(css); css = css->parent)
		missing = css;
	return missing;
}

/*
 * Make the group of @css, and those of its ancestors, if need be.  Takes
 * weir_lock, but not while it allocates: -ENOMEM, -ENODEV if the cgroup goes,
 * -EINTR if the task is killed.
 */
int weir_group_make(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *missing;
	struct weir_group *group;
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
		group = allocate_group(missing, GFP_KERNEL_ACCOUNT);
		if (!group)
			return -ENOMEM;
		err = weir_lock_killable();
		if (!err) {
			if (topmost_missing(css) == missing) {
				insert_group(group);
				group = NULL;
			}
			spin_unlock(&weir_lock);
		}
		if (group) {
			css_put(group->css);
			free_now(group);
		}
		if (err)
			return err;
	}
}

/*
 * The same without waiting for memory, or for a task: the group of @css is made even if
 * the cgroup has no memory left.  Otherwise it could escape its parent's ceiling by
 * filling its own memory.max.  It is charged all the same, beyond the limit, as the kernel
 * does for an allocation that cannot wait: otherwise a tenant whose cgroups have no room
 * would have the host's memory for their groups.  Under weir_lock.
 */
static struct weir_group *make_now(struct cgroup_subsys_state *css)
{
	struct weir_group *group = allocate_group(css, GFP_NOWAIT | __GFP_ACCOUNT) ?:
				   allocate_group(css, GFP_ATOMIC | __GFP_ACCOUNT);

	if (group)
		insert_group(group);
	return group;
}

/* Levels without a group that one pass makes groups for, the topmost first. */
#define LEVELS_MADE	32

/*
 * The group of @css, in a pass that found none: made now, and those of its ancestors, so
 * that the pass is judged by what the cgroup holds.  The task may hold a filesystem's
 * locks: nothing here waits, and the lock is left after each group.  Where the lock is
 * taken or the host has no memory for it, the group is made by a later pass or the beat's
 * walk, and this pass is its nearest ancestor's, if any; it has dirtied a few dozen pages
 * by then, which no sum has.  Under RCU.
 */
struct weir_group *weir_group_make_in_pass(struct cgroup_subsys_state *css)
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
void weir_groups_restart_walk(void)
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

static void free_group(struct rcu_head *rcu)
{
	struct weir_group *group = container_of(rcu, struct weir_group, rcu);

	/* no pass sees the group any more */
	weir_reserve_note(group, 0);
	free_now(group);
}

/* A knob of @group was changed, or ended; it @had some before. */
void weir_group_knobs_changed(struct weir_group *group, bool had)
{
	weir_knob_count += weir_group_has_any(group) - had;
	if ((group->dirty_min_bytes == 0) == list_empty(&group->floors))
		return;
	if (group->dirty_min_bytes) {
		list_add_tail(&group->floors, &weir_floors);
		weir_floor_count++;
	} else {
		list_del_init(&group->floors);
		weir_floor_count--;
	}
}

static void end_knobs(struct weir_group *group)
{
	bool had = weir_group_has_any(group);

	weir_window_change(group, WEIR_UNLIMITED);
	weir_weight_change(group, WEIR_WEIGHT_DEFAULT);
	if (!had)
		return;
	WRITE_ONCE(group->dirty_min_bytes, 0);
	WRITE_ONCE(group->ceiling.bytes, WEIR_UNLIMITED);
	WRITE_ONCE(group->ceiling.ratio_percent, 0);
	weir_bandwidth_change(group, WEIR_UNLIMITED);
	weir_group_knobs_changed(group, had);
	weir_floor_evaluate(group);
}

static void drop_group(struct weir_group *group)
{
	end_knobs(group);
	weir_tree_detach(group);
	hash_del_rcu(&group->node);
	weir_bandwidth_drop(group);
	list_del(&group->all);
	WRITE_ONCE(weir_group_count, weir_group_count - 1);
	if (group->parent)
		group->parent->children--;
	css_put(group->css);
	call_rcu(&group->rcu, free_group);
}

/* Its cgroup is removed: is the record still needed? */
static bool is_done(struct weir_group *group)
{
	if (weir_css_alive(group->css))
		return false;
	end_knobs(group);
	if (group->children)
		return false;
	if (!weir_tree_bound(group))
		return true;
	if (weir_layout.reparents && group->pages_are != WEIR_INHERITED)
		return false;
	return !holds_pages(group->css);
}

/* Removed children of @css whose pages are @before are @now; returns the reads it took. */
static u32 see_removed(struct cgroup_subsys_state *css, enum weir_pages_are before,
		       enum weir_pages_are now)
{
	struct cgroup_subsys_state *child;
	struct weir_group *group;
	u32 nth = 0;

	list_for_each_entry_rcu(child, &css->children, sibling) {
		weir_rest_at(child, ++nth);
		if (READ_ONCE(child->flags) & CSS_ONLINE)
			continue;
		group = weir_group_find(child);
		if (group && group->pages_are == before)
			WRITE_ONCE(group->pages_are, now);
	}
	return nth;
}

/*
 * The cgroup inherits from its removed children, and they keep what they have not
 * folded, in this order: pages may count twice until the next round, but not for
 * none.  So a child that is removed meanwhile keeps all of them for that round.
 * Outside of weir_lock, as there may be many children; only the beat drops groups.
 */
static u32 inherit_removed(struct cgroup_subsys_state *css)
{
	struct weir_group *group = weir_group_find(css);
	u32 cost;

	if (!group || !weir_tree_bound(group))
		return 0;
	cost = see_removed(css, WEIR_OWN, WEIR_REPARENTED);
	weir_tree_inherit(group, &cost);
	return cost + see_removed(css, WEIR_REPARENTED, WEIR_INHERITED);
}

/*
 * One cgroup of the walk; returns what that took, in reads.  @making is what may be
 * spent on new groups.  Under weir_lock.
 */
static u32 group_visit(struct cgroup_subsys_state *css, u32 *making)
{
	struct weir_group *group, *parent;
	u32 cost = WEIR_VISIT_COST + css->cgroup->level;

	/* about to be freed: no group has it, and the walk cannot stop at it */
	if (!css->parent || percpu_ref_is_zero(&css->refcnt))
		return 1;
	group = weir_group_find(css);
	if (!group) {
		parent = weir_group_find(css->parent);
		if (!parent || !weir_tree_bound(parent) || !*making)
			return cost;
		cost += weir_count_cost();
		if (weir_css_alive(css) || holds_pages(css)) {
			group = make_now(css);
			cost += MAKE_COST;
			*making -= min_t(u32, *making, MAKE_COST);
		}
	}
	if (group && !is_done(group) && weir_tree_bound(group)) {
		weir_group_evaluate(group);
		cost += weir_count_cost();
	}
	/* the rest of a long chain of removed ones is for the next round */
	while (group && cost < CHUNK_READS && is_done(group)) {
		cost += weir_count_cost() + group->css->cgroup->level;
		parent = group->parent;
		drop_group(group);
		group = parent;
	}
	return cost;
}

static struct cgroup_subsys_state *group_root(void)
{
	/* pid 0 stays where it was made */
	return rcu_dereference(init_task.cgroups)->subsys[memory_cgrp_id];
}

/*
 * Go on with the walk over all cgroups, for about @budget reads or to its end:
 * make groups where they are missing, drop those that are done, and evaluate the
 * others that a knob is about.  Only the beat does this.  The lock is held for
 * CHUNK_READS reads at a time.  New groups take three quarters of the budget at most,
 * those beyond are for the next round: a tenant that makes cgroups as fast as the walk
 * makes groups for them would keep it among them.
 */
void weir_groups_walk(u32 budget)
{
	struct cgroup_subsys_state *pos = visited, *held = visited;
	u32 making = budget / 4 * 3;
	u32 spent = 0, chunk = 0;

	rcu_read_lock();
	spin_lock(&weir_lock);
	while ((pos = css_next_descendant_pre(pos, group_root()))) {
		if (held)
			css_put(held);
		held = NULL;
		chunk += group_visit(pos, &making);
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
void weir_groups_drop_all(void)
{
	struct weir_group *group, *parent;

	weir_groups_restart_walk();
	list_splice_tail_init(&weir_holders, &weir_others);
	while (!list_empty(&weir_others)) {
		group = list_first_entry(&weir_others, struct weir_group, all);
		spin_lock(&weir_lock);
		/* one that has children goes with the last of them */
		list_move_tail(&group->all, &weir_others);
		while (group && !group->children) {
			parent = group->parent;
			drop_group(group);
			group = parent;
		}
		spin_unlock(&weir_lock);
		cond_resched();
	}
}

/* Sum the counters over all CPUs. */
void weir_group_stats(struct weir_group *group, struct weir_stats *sum)
{
	u64 *sums = (u64 *)sum;
	unsigned int cpu, i;

	static_assert(sizeof(*sum) % sizeof(u64) == 0);
	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const u64 *part = (u64 *)per_cpu_ptr(group->stats, cpu);

		for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
			sums[i] += READ_ONCE(part[i]);
	}
}
