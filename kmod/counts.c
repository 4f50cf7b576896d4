// SPDX-License-Identifier: GPL-2.0-only
/*
 * The number of dirty pages, exactly and cheaply.
 *
 * A memcg keeps each counter per CPU and folds the CPUs' changes into a total
 * now and then: every 2 s, or when memory.stat is read.  The total is
 * what the kernel's own throttle goes by, so it is seconds old.  But the CPUs'
 * words are never reset: they are the running sum of all changes made on that
 * CPU, and folding only remembers how far it got.  So the sum of the words over
 * all possible CPUs *is* the cgroup's own count, exact up to updates in flight,
 * without a lock, a flush or a sleep: one cache line per CPU.
 *
 * It counts by the folio's owner, on every filesystem, and does not include
 * descendants.  docs/experiments/0003-counting-dirty-pages.md has the
 * measurements behind the choice.
 *
 * Removed cgroups.  Since 7.1 the kernel makes the folios of a removed cgroup its
 * parent's, but leaves the counters: the words keep +N for ever, and cleaning
 * takes N off the parent's.  What a cgroup owns is then its words and what it
 * inherited: what the words of its removed children keep, those long freed
 * included.  The folded totals tell it, as folding goes up the tree and forgets
 * none.  For a cgroup with living and removed children
 *
 *   inherited = all + pending - own - the sum of all of its living children
 *
 * where `all` is the subtree's total, `pending` is what children have folded and
 * the cgroup is yet to take up, and `own` is what was folded of its own words.
 * What a removed cgroup has not folded yet stays its own: words - own + pending.
 * That is nothing after 2 s.
 *
 * Example.  C below P dirties 500 pages, of which 200 are folded, and is removed;
 * 100 are cleaned.  C's words keep +500, P's -100.  P has all = 200 and inherited
 * 200: it owns 100, and C the 300 that are not folded.  Folded, P has all = 400,
 * own = -100: it inherited 500 and owns 400, and C is forgotten.
 *
 * None of this needs a notice of the removal, or a look at the child before it.
 */
#include "weir.h"
#include <linux/slab.h>
#include <linux/vmstat.h>

/* Distance of each possible CPU's copy of per-CPU data from its address. */
static unsigned long *offsets;
static unsigned int copies;

int weir_counts_create(void)
{
	int cpu;

	offsets = kvmalloc_array(num_possible_cpus(), sizeof(*offsets),
				 GFP_KERNEL);
	if (!offsets)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		offsets[copies++] = per_cpu_offset(cpu);
	return 0;
}

void weir_counts_remove(void)
{
	kvfree(offsets);
}

/*
 * The words of dirty pages and pages in writeback.  One walk for both, over
 * plain offsets: with 256 CPUs the walk is most of what a pass costs.
 */
static struct weir_inherited words_of(struct mem_cgroup *memcg)
{
	/* the kernel's type is private; only the address matters */
	unsigned long words = (unsigned long)memcg->vmstats_percpu;
	unsigned long dirty_at = words + weir_layout.stat_dirty;
	unsigned long writeback_at = words + weir_layout.stat_writeback;
	long dirty = 0, writeback = 0;
	unsigned int i;

	/*
	 * Words that CPUs change meanwhile, and plain loads of them: the
	 * compiler adds from memory then, two instructions less each.
	 */
#pragma GCC unroll 8
	for (i = 0; i < copies; i++) {
		unsigned long offset = offsets[i];

		dirty += data_race(*(long *)(dirty_at + offset));
		writeback += data_race(*(long *)(writeback_at + offset));
	}
	return (struct weir_inherited) {
		.dirty = dirty,
		.writeback = writeback,
	};
}

/* A page that is dirtied on one CPU and cleaned on another may be seen half. */
static struct weir_counts at_least_none(const struct weir_inherited *sum)
{
	return (struct weir_counts) {
		.dirty = max(sum->dirty, 0LL),
		.writeback = max(sum->writeback, 0LL),
	};
}

/* The cgroup's own pages, of which it inherited some. */
struct weir_counts weir_count_own(struct mem_cgroup *memcg,
				  const struct weir_inherited *inherited)
{
	struct weir_inherited words = words_of(memcg);

	words.dirty += READ_ONCE(inherited->dirty);
	words.writeback += READ_ONCE(inherited->writeback);
	return at_least_none(&words);
}

/* The same of one that has not inherited any, or for which that does not matter. */
struct weir_counts weir_count_memcg(struct mem_cgroup *memcg)
{
	static const struct weir_inherited nothing;

	return weir_count_own(memcg, &nothing);
}

static s64 flushed_count(struct mem_cgroup *memcg, u32 array, u32 counter)
{
	return READ_ONCE(*(long *)((void *)memcg->vmstats + array + counter));
}

/* Add what children have folded, or are said to have, and was not their own. */
static void add_folded(struct weir_inherited *sum, struct mem_cgroup *memcg,
		       u32 array, int times)
{
	sum->dirty += times * flushed_count(memcg, array, weir_layout.flushed_dirty);
	sum->writeback +=
		times * flushed_count(memcg, array, weir_layout.flushed_writeback);
}

/* Folded by the cgroup's children, ever, or about to be taken up. */
static struct weir_inherited by_children(struct mem_cgroup *memcg)
{
	struct weir_inherited sum = {};

	add_folded(&sum, memcg, weir_layout.flushed_all, 1);
	add_folded(&sum, memcg, weir_layout.flushed_pending, 1);
	add_folded(&sum, memcg, weir_layout.flushed_own, -1);
	return sum;
}

/*
 * Pages that a removed cgroup has not folded.  Pages that are folded meanwhile
 * may be in neither sum, or in both, for as long as it takes to read it.
 */
struct weir_counts weir_count_unfolded(struct mem_cgroup *memcg)
{
	struct weir_inherited words = words_of(memcg);

	add_folded(&words, memcg, weir_layout.flushed_own, -1);
	add_folded(&words, memcg, weir_layout.flushed_pending, 1);
	return at_least_none(&words);
}

/* Folded by living children, ever.  @cost grows by the reads it took. */
static struct weir_inherited by_living(struct cgroup_subsys_state *css, u32 *cost)
{
	struct cgroup_subsys_state *child;
	struct weir_inherited sum = {};
	u32 nth = 0;

	list_for_each_entry_rcu(child, &css->children, sibling) {
		*cost += 2;
		weir_rest_at(child, ++nth);
		/* cleared once the kernel has made its folios the parent's */
		if (READ_ONCE(child->flags) & CSS_ONLINE)
			add_folded(&sum, mem_cgroup_from_css(child),
				   weir_layout.flushed_all, 1);
	}
	return sum;
}

/*
 * Pages that @css inherited.  If children fold meanwhile it is read anew, three
 * times at most: a tenant may have them fold at all times.  Under RCU, which is
 * left for a moment now and then: the caller holds @css.  @cost grows by the
 * reads it took.
 */
struct weir_inherited weir_count_inherited(struct cgroup_subsys_state *css, u32 *cost)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(css);
	struct weir_inherited all, living, after;
	int tries = 3;

	do {
		all = by_children(memcg);
		living = by_living(css, cost);
		/* folding on the way up comes by here */
		after = by_children(memcg);
	} while (--tries && (after.dirty != all.dirty ||
			     after.writeback != all.writeback));
	return (struct weir_inherited) {
		.dirty = all.dirty - living.dirty,
		.writeback = all.writeback - living.writeback,
	};
}

/* Reads that one weir_count_memcg() takes, the unit of the beat's budget. */
u32 weir_count_cost(void)
{
	return 2 * copies;
}

/*
 * Dirty + writeback of one wb, by the inode's owner.  The quick reading is off
 * by up to a batch per CPU; the exact one takes a lock, so it is made only
 * where the quick one is more than @known, the count it would replace.
 */
u64 weir_count_wb(struct bdi_writeback *wb, u64 known)
{
	u64 quick = percpu_counter_read_positive(&wb->stat[WB_RECLAIMABLE]) +
		    percpu_counter_read_positive(&wb->stat[WB_WRITEBACK]);

	if (quick <= known)
		return quick;
	return percpu_counter_sum_positive(&wb->stat[WB_RECLAIMABLE]) +
	       percpu_counter_sum_positive(&wb->stat[WB_WRITEBACK]);
}

/* The host's dirty + writeback, as the global domain counts it. */
u64 weir_count_host(void)
{
	return global_node_page_state(NR_FILE_DIRTY) +
	       global_node_page_state(NR_WRITEBACK);
}
