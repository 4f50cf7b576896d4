// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.toptier_min, _low, _high, _max, memory.toptier_ratio, memory.tier_stat.
 *
 * In every cgroup but the root while tiers are named (tier.c).  The first four show
 * what of memory.min, low, high and max is for the top tier, by policy/tier.c and the
 * capacities of the moment.  toptier_ratio is the one that is written:
 *   EINVAL      neither a percentage nor "default"
 *   EPERM       a ratio that grants more than the one before, without
 *               CAP_SYS_RESOURCE in the initial user namespace (as dirty_min)
 *
 * tier_stat has what the cgroup and its descendants hold where.  Pages on the LRU
 * lists are counted as the kernel does it for reclaim, one sum per cgroup and node:
 * exact, no flush; with MGLRU they are in its generations and not in the lists, so
 * both are added up.  Its budgets bind: they are the least on the way to the root.
 *
 * Example.  On 3 GiB + 1 GiB, in a cgroup with memory.max 400M of a parent with 200M:
 *   memory.toptier_max  314572800              (300M)
 *   memory.tier_stat    tier0 nodes=0 capacity=3221225472 bytes=230686720 budget=157286400
 *                       tier1 nodes=1 capacity=1073741824 bytes=0 budget=52428800
 *                       swap bytes=0
 */
#include "weir.h"
#include <linux/capability.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

enum limit { TOP_MIN, TOP_LOW, TOP_HIGH, TOP_MAX };

static u64 limit_pages(struct mem_cgroup *memcg, enum limit limit)
{
	switch (limit) {
	case TOP_MIN: return weir_pages_max(READ_ONCE(memcg->memory.min));
	case TOP_LOW: return weir_pages_max(READ_ONCE(memcg->memory.low));
	case TOP_HIGH: return weir_pages_max(READ_ONCE(memcg->memory.high));
	default: return weir_pages_max(READ_ONCE(memcg->memory.max));
	}
}

static u32 ratio_of(struct cgroup_subsys_state *css)
{
	const struct weir_record *record = weir_record_find(css);

	return record ? READ_ONCE(record->tier_ratio) : WEIR_TIER_BY_CAPACITY;
}

static void print_pages(struct seq_file *seq, u64 pages)
{
	if (pages == WEIR_UNLIMITED)
		seq_puts(seq, "max\n");
	else
		seq_printf(seq, "%llu\n", pages << PAGE_SHIFT);
}

static int show_limit(struct seq_file *seq, void *unused)
{
	struct cgroup_subsys_state *css = seq_css(seq);
	u64 pages = limit_pages(mem_cgroup_from_css(css), seq_cft(seq)->private);
	struct weir_tiers tiers;
	int err = weir_lock_killable();

	if (err)
		return err;
	weir_tiers_now(&tiers);
	pages = weir_tier_upto(&tiers, ratio_of(css), pages, 0);
	spin_unlock(&weir_lock);
	print_pages(seq, pages);
	return 0;
}

static int show_ratio(struct seq_file *seq, void *unused)
{
	u32 ratio;

	rcu_read_lock();
	ratio = ratio_of(seq_css(seq));
	rcu_read_unlock();
	if (ratio == WEIR_TIER_BY_CAPACITY)
		seq_puts(seq, "default\n");
	else
		seq_printf(seq, "%u\n", ratio);
	return 0;
}

/*
 * Checks that the writer may set it.  Under weir_lock: the ratio must not change until
 * it is set.
 */
static int check_may_set_ratio(struct kernfs_open_file *of, u32 ratio)
{
	struct weir_tiers tiers;

	weir_tiers_now(&tiers);
	if (weir_tier_raises(&tiers, ratio_of(of_css(of)), ratio) &&
	    !file_ns_capable(of->file, &init_user_ns, CAP_SYS_RESOURCE))
		return -EPERM;
	return 0;
}

/* No hook depends on it, so there is nothing to undo. */
static ssize_t write_ratio(struct kernfs_open_file *of, char *text, size_t len,
			   loff_t offset)
{
	struct cgroup_subsys_state *css = of_css(of);
	struct weir_record *record;
	u32 ratio;
	int err;

	if (weir_parse_ratio(text, len, &ratio) != WEIR_PARSED)
		return -EINVAL;
	/* a writer that may not set it makes nothing */
	err = weir_lock_killable();
	if (err)
		return err;
	err = check_may_set_ratio(of, ratio);
	spin_unlock(&weir_lock);
	if (!err && ratio != WEIR_TIER_BY_CAPACITY)
		err = weir_record_make(css);
	if (!err)
		err = weir_lock_killable();
	if (err)
		return err;
	record = weir_record_find(css);
	if (!record && ratio != WEIR_TIER_BY_CAPACITY)
		err = -ENODEV;
	else
		err = check_may_set_ratio(of, ratio);
	if (record && !err)
		WRITE_ONCE(record->tier_ratio, ratio);
	spin_unlock(&weir_lock);
	return err ?: len;
}

/* A cgroup's own LRU pages on a node. */
static long lru_pages(struct mem_cgroup *memcg, int node)
{
	const struct mem_cgroup_per_node *here = memcg->nodeinfo[node];
	long pages = 0;
	int zone, lru;

	if (!here)
		return 0;
	for (zone = 0; zone < MAX_NR_ZONES; zone++) {
		for_each_lru(lru)
			pages += READ_ONCE(here->lru_zone_size[zone][lru]);
#ifdef CONFIG_LRU_GEN
		for (lru = 0; lru < MAX_NR_GENS * ANON_AND_FILE; lru++)
			pages += READ_ONCE(here->lruvec.lrugen.nr_pages
				[lru / ANON_AND_FILE][lru % ANON_AND_FILE][zone]);
#endif
	}
	return pages;
}

/*
 * With descendants, removed ones that still have pages included.  Any task may
 * ask, of a tree of any size: so in short turns, without a lock, and until the
 * task that asked is killed.
 */
static u64 pages_held(struct cgroup_subsys_state *css, const nodemask_t *nodes)
{
	struct cgroup_subsys_state *pos = NULL, *kept = NULL;
	unsigned int visits = 0;
	long pages = 0;
	int node;

	rcu_read_lock();
	while ((pos = css_next_descendant_pre(pos, css))) {
		if (kept)
			css_put(kept);
		kept = NULL;
		for_each_node_mask(node, *nodes)
			pages += lru_pages(mem_cgroup_from_css(pos), node);
		if (++visits % 32 || !weir_css_get(pos))
			continue;
		kept = pos;
		if (fatal_signal_pending(current))
			break;
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	if (kept)
		css_put(kept);
	/* pages that move between two sums meanwhile may be missed in both */
	return max(pages, 0L);
}

/* The part of the limits from @css to the root that may lie in tiers 0 to @last. */
static u64 budget_upto(const struct weir_tiers *tiers, struct cgroup_subsys_state *css,
		       u32 last)
{
	u64 least = WEIR_UNLIMITED;

	for (; css->parent; css = css->parent) {
		struct mem_cgroup *memcg = mem_cgroup_from_css(css);
		u64 limit = weir_tier_limit(limit_pages(memcg, TOP_HIGH),
					    limit_pages(memcg, TOP_MAX));

		least = min(least, weir_tier_upto(tiers, ratio_of(css), limit, last));
	}
	return least;
}

static int show_tier_stat(struct seq_file *seq, void *unused)
{
	struct cgroup_subsys_state *css = seq_css(seq);
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	u64 budget[WEIR_TIERS_MAX], above = 0;
	nodemask_t *nodes;
	struct weir_tiers tiers;
	u32 tier;
	int err;

	/* too large for the stack, where there may be 1,024 nodes */
	nodes = kmalloc_array(WEIR_TIERS_MAX, sizeof(*nodes), GFP_KERNEL_ACCOUNT);
	if (!nodes)
		return -ENOMEM;
	err = weir_lock_killable();
	if (err) {
		kfree(nodes);
		return err;
	}
	weir_tiers_now(&tiers);
	for (tier = 0; tier < tiers.count; tier++)
		nodes[tier] = *weir_tier_nodes(tier);
	spin_unlock(&weir_lock);
	/* any task may read this, of a cgroup of any depth: none waits for it */
	rcu_read_lock();
	for (tier = 0; tier < tiers.count; tier++)
		budget[tier] = budget_upto(&tiers, css, tier);
	rcu_read_unlock();
	for (tier = 0; tier < tiers.count; tier++) {
		seq_printf(seq, "tier%u nodes=%*pbl capacity=%llu bytes=%llu budget=",
			   tier, nodemask_pr_args(&nodes[tier]),
			   tiers.capacity[tier] << PAGE_SHIFT,
			   pages_held(css, &nodes[tier]) << PAGE_SHIFT);
		print_pages(seq, budget[tier] == WEIR_UNLIMITED ?
			    budget[tier] : budget[tier] - above);
		above = budget[tier];
	}
	kfree(nodes);
	seq_printf(seq, "swap bytes=%llu\n",
		   (u64)page_counter_read(&memcg->swap) << PAGE_SHIFT);
	return 0;
}

static struct cftype tier_files[] = {
	{
		.name = "toptier_min",
		.private = TOP_MIN,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_limit,
	},
	{
		.name = "toptier_low",
		.private = TOP_LOW,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_limit,
	},
	{
		.name = "toptier_high",
		.private = TOP_HIGH,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_limit,
	},
	{
		.name = "toptier_max",
		.private = TOP_MAX,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_limit,
	},
#define RATIO(ID, file, unset)						\
	{								\
		.name = file,						\
		.flags = CFTYPE_NOT_ON_ROOT,				\
		.seq_show = show_ratio,					\
		.write = write_ratio,					\
	},
	WEIR_KNOBS_TIERS(RATIO)
#undef RATIO
	{
		.name = "tier_stat",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_tier_stat,
	},
	{ }
};

/* Add the files to all cgroups, present and to come. */
int weir_tier_files_create(void)
{
	const char *taken = weir_files_find_taken(tier_files);
	int err;

	if (taken) {
		pr_err("tiers: this kernel has a memory.%s of its own; use that one\n",
		       taken);
		return -EEXIST;
	}
	err = weir_add_files(tier_files);
	if (err)
		pr_err("tiers: the cgroup files could not be added (error %d)\n", err);
	return err;
}

/* Remove the files; waits for those who are reading or writing one. */
void weir_tier_files_remove(void)
{
	weir_remove_files(tier_files);
}
