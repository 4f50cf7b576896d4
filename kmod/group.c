// SPDX-License-Identifier: GPL-2.0-only
/*
 * What weir knows of one cgroup: its knobs and its counters.
 *
 * A group is made when a weir file of the cgroup is first written or its
 * memory.dirty_stat first read, for all its ancestors then, and by the beat for
 * every cgroup below one with a knob.  It is found by its css in probe handlers
 * under RCU.  Knobs end with the cgroup; the group is dropped by the beat once
 * the cgroup is gone and its pages are clean or nobody above counts them.
 * weir_lock serialises everything but lookups and counting.
 */
#include "weir.h"
#include <linux/hashtable.h>
#include <linux/slab.h>

/* 10,000 cgroups make chains of ten. */
static DEFINE_HASHTABLE(groups, 10);

DEFINE_MUTEX(weir_lock);
unsigned int weir_group_count;

/* The group of @css or NULL.  Under RCU or weir_lock. */
struct weir_group *weir_group_find(struct cgroup_subsys_state *css)
{
	struct weir_group *group;

	hash_for_each_possible_rcu(groups, group, node, (unsigned long)css,
				   lockdep_is_held(&weir_lock)) {
		if (group->css == css)
			return group;
	}
	return NULL;
}

static struct weir_group *make(struct cgroup_subsys_state *css,
			       struct weir_group *parent, gfp_t gfp)
{
	struct weir_group *group = kzalloc(sizeof(*group), gfp);

	if (!group)
		return NULL;
	group->stats = alloc_percpu_gfp(struct weir_stats, gfp);
	if (!group->stats || !css_tryget(css)) {
		free_percpu(group->stats);
		kfree(group);
		return NULL;
	}
	group->css = css;
	group->parent = parent;
	group->ceiling.bytes = WEIR_UNLIMITED;
	group->weight = WEIR_WEIGHT_DEFAULT;
	group->tier_ratio = WEIR_TIER_BY_CAPACITY;
	raw_spin_lock_init(&group->lock);
	hash_add_rcu(groups, &group->node, (unsigned long)css);
	weir_group_count++;
	if (parent)
		parent->children++;
	return group;
}

/*
 * The group of @css, made if need be, and those of its ancestors, topmost
 * first; NULL if out of memory or the cgroup goes.
 */
struct weir_group *weir_group_get(struct cgroup_subsys_state *css, gfp_t gfp)
{
	struct weir_group *group = weir_group_find(css);
	struct weir_group *parent;
	struct cgroup_subsys_state *missing;

	lockdep_assert_held(&weir_lock);
	while (!group && weir_css_alive(css)) {
		missing = css;
		while (missing->parent->parent &&
		       !weir_group_find(missing->parent))
			missing = missing->parent;
		parent = weir_group_find(missing->parent);
		if (!make(missing, parent, gfp))
			return NULL;
		group = weir_group_find(css);
	}
	return group;
}

static bool holds_pages(struct cgroup_subsys_state *css)
{
	struct weir_counts own = weir_count_memcg(mem_cgroup_from_css(css));

	return own.dirty + own.writeback;
}

/*
 * Make the missing groups of a cgroup's children.  A removed child stays listed
 * while any page of it is cached, and gets one if some are dirty.  Returns how
 * many were made; what memory was short for is left to the next beat.
 */
unsigned int weir_group_adopt(struct weir_group *group)
{
	struct cgroup_subsys_state *child;
	unsigned int made = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(child, &group->css->children, sibling) {
		if (!weir_group_find(child) &&
		    (weir_css_alive(child) || holds_pages(child)) &&
		    make(child, group, GFP_NOWAIT | __GFP_NOWARN))
			made++;
	}
	rcu_read_unlock();
	return made;
}

static void free_group(struct rcu_head *rcu)
{
	struct weir_group *group = container_of(rcu, struct weir_group, rcu);

	/* no handler sees the group any more */
	weir_reserve_note(group, 0);
	free_percpu(group->stats);
	kfree(group);
}

static void drop(struct weir_group *group)
{
	weir_tree_leave(group);
	hash_del_rcu(&group->node);
	weir_group_count--;
	if (group->parent)
		group->parent->children--;
	css_put(group->css);
	call_rcu(&group->rcu, free_group);
}

/* Knobs of a removed cgroup end; is its record still needed? */
static bool is_done(struct weir_group *group)
{
	if (weir_css_alive(group->css))
		return false;
	group->dirty_min_bytes = 0;
	WRITE_ONCE(group->floor, 0);
	WRITE_ONCE(group->ceiling.bytes, WEIR_UNLIMITED);
	WRITE_ONCE(group->ceiling.ratio_percent, 0);
	group->weight = WEIR_WEIGHT_DEFAULT;
	if (group->children)
		return false;
	return !holds_pages(group->css) || !weir_tree_bound(group);
}

/* Forget cgroups that are gone, or all; children before their parents. */
void weir_groups_drop(bool all)
{
	struct weir_group *group, *parent;
	struct hlist_node *next;
	bool again;
	int bucket;

	lockdep_assert_held(&weir_lock);
	do {
		again = false;
		hash_for_each_safe(groups, bucket, next, group, node) {
			parent = group->parent;
			if (all ? group->children : !is_done(group))
				continue;
			drop(group);
			again |= parent && !parent->children;
		}
	} while (again);
}

void weir_groups_each(void (*visit)(struct weir_group *group, void *arg),
		      void *arg)
{
	struct weir_group *group;
	int bucket;

	lockdep_assert_held(&weir_lock);
	hash_for_each(groups, bucket, group, node)
		visit(group, arg);
}

/* Sum the counters over all CPUs. */
void weir_group_stats(struct weir_group *group, struct weir_stats *sum)
{
	int cpu, by;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		struct weir_stats *part = per_cpu_ptr(group->stats, cpu);

		sum->passes += READ_ONCE(part->passes);
		sum->floor_admitted += READ_ONCE(part->floor_admitted);
		sum->floor_released += READ_ONCE(part->floor_released);
		sum->ceiling_held += READ_ONCE(part->ceiling_held);
		sum->would_admit += READ_ONCE(part->would_admit);
		sum->would_hold += READ_ONCE(part->would_hold);
		sum->throttled += READ_ONCE(part->throttled);
		sum->throttled_below_floor +=
			READ_ONCE(part->throttled_below_floor);
		sum->throttled_ns += READ_ONCE(part->throttled_ns);
		for (by = 0; by < WEIR_BY_COUNT; by++) {
			sum->by[by].pauses += READ_ONCE(part->by[by].pauses);
			sum->by[by].ns += READ_ONCE(part->by[by].ns);
		}
		sum->weight_held += READ_ONCE(part->weight_held);
		sum->weight_held_ns += READ_ONCE(part->weight_held_ns);
		sum->would_wait += READ_ONCE(part->would_wait);
	}
}
