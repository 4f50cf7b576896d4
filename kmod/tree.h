/* SPDX-License-Identifier: GPL-2.0-only */
/* Sums of a subtree, and the room that memory leaves it.  Included by weir.h. */
#ifndef WEIR_TREE_H
#define WEIR_TREE_H

/* tree.c: what a subtree holds */
struct weir_counts weir_tree_update(struct weir_record *record);
void weir_tree_inherit(struct weir_record *record, u32 *cost);
void weir_tree_review(struct weir_record *record);
void weir_tree_detach(struct weir_record *record);
u64 weir_tree_claim(const struct weir_record *record);

/* The pages of the subtree, the cgroup itself included. */
static inline struct weir_counts weir_tree_counts(const struct weir_record *record)
{
	return (struct weir_counts) {
		.dirty = weir_subtree_pages(READ_ONCE(record->subtree.dirty)),
		.writeback = weir_subtree_pages(READ_ONCE(record->subtree.writeback)),
	};
}

struct weir_record *weir_tree_floored(struct weir_record *record);
bool weir_tree_has_knob(const struct weir_record *record);
u64 weir_tree_ceiling(const struct weir_record *record);
struct weir_record *weir_tree_nearest_with_knob(struct cgroup_subsys_state *css);

/*
 * The record that passes of @css are judged by: its own, or, if there was no way to make
 * one, its nearest ancestor's for the sake of a knob above.  Under RCU.
 */
static inline struct weir_record *weir_tree_nearest(struct cgroup_subsys_state *css)
{
	return weir_record_find(css) ?: weir_tree_nearest_with_knob(css);
}

/* memory.c: what memory leaves a cgroup */
static inline u64 weir_pages_max(unsigned long pages)
{
	return pages == PAGE_COUNTER_MAX ? WEIR_UNLIMITED : pages;
}

u64 weir_memory_room(struct cgroup_subsys_state *css);
u64 weir_memory_floor(struct weir_record *record, u64 wanted);
u64 weir_memory_dirtyable(struct weir_record *record);

#endif
