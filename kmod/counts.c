// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many dirty pages, exactly and cheaply.
 *
 * A memcg keeps each counter per CPU and folds the CPUs' changes into a total
 * now and then: every 2 s, or when somebody reads memory.stat.  The total is
 * what the kernel's own throttle goes by, so it is seconds old.  But the CPUs'
 * words are never reset: they are the running sum of all changes made on that
 * CPU, and folding only remembers how far it got.  So the sum of the words over
 * all possible CPUs *is* the cgroup's own count, exact up to updates in flight,
 * without a lock, a flush or a sleep: one cache line per CPU.
 *
 * It counts by the folio's owner, on every filesystem, and does not include
 * descendants.  docs/experiments/0003-counting-dirty-pages.md has the
 * measurements behind the choice.
 */
#include "weir.h"
#include <linux/slab.h>
#include <linux/vmstat.h>

/* Where each possible CPU's copy of per-CPU data lies, from its address. */
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
 * The cgroup's own dirty pages and pages in writeback.  One walk for both, over
 * plain offsets: with 256 CPUs the walk is most of what a pass costs.
 */
struct weir_counts weir_count_memcg(struct mem_cgroup *memcg)
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
	/* a page dirtied on one CPU and cleaned on another, seen half */
	return (struct weir_counts) {
		.dirty = max(dirty, 0L),
		.writeback = max(writeback, 0L),
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
