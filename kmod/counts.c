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
 * descendants.  docs/how-it-works.md has the measurements behind the choice.
 */
#include "weir.h"
#include <linux/vmstat.h>

static u64 sum(struct mem_cgroup *memcg, u32 offset)
{
	/* the kernel's type is private; only the address matters */
	void __percpu *all = (void __percpu *)memcg->vmstats_percpu;
	long total = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		void *words = per_cpu_ptr(all, cpu);

		total += READ_ONCE(*(long *)(words + offset));
	}
	/* a page dirtied on one CPU and cleaned on another, seen half */
	return total > 0 ? total : 0;
}

/* The cgroup's own dirty pages and pages in writeback. */
struct weir_counts weir_count_memcg(struct mem_cgroup *memcg)
{
	return (struct weir_counts) {
		.dirty = sum(memcg, weir_layout.stat_dirty),
		.writeback = sum(memcg, weir_layout.stat_writeback),
	};
}

/*
 * Dirty + writeback of one wb, by the inode's owner.  The quick reading is off
 * by up to a batch per CPU; the exact one takes a lock, so it is made only
 * where the quick one is more than @at_least, the count it would replace.
 */
u64 weir_count_wb(struct bdi_writeback *wb, u64 at_least)
{
	u64 quick = percpu_counter_read_positive(&wb->stat[WB_RECLAIMABLE]) +
		    percpu_counter_read_positive(&wb->stat[WB_WRITEBACK]);

	if (quick <= at_least)
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
