/* SPDX-License-Identifier: GPL-2.0-only */
/* Exact counts of pages.  Included by weir.h. */
#ifndef WEIR_COUNTS_H
#define WEIR_COUNTS_H

/* counts.c: exact counts, a read for each possible CPU */
int weir_counts_create(void);
void weir_counts_remove(void);
u32 weir_count_cost(void);
struct weir_counts weir_count_memcg(struct mem_cgroup *memcg);

/* Counts that a removed child's counters keep for pages that are its parent's. */
struct weir_inherited {
	s64 dirty;
	s64 writeback;
};

struct weir_inherited weir_count_inherited(struct cgroup_subsys_state *css, u32 *cost);
struct weir_counts weir_count_unfolded(struct mem_cgroup *memcg);
struct weir_counts weir_count_own(struct mem_cgroup *memcg,
				  const struct weir_inherited *inherited);
u64 weir_count_wb(struct bdi_writeback *wb, u64 known);
u64 weir_count_host(void);

#endif
