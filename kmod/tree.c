// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of a subtree, known in time to decide by them.
 *
 * A ceiling or a floor of a cgroup is about its whole subtree, but exact counts
 * are of one cgroup each (counts.c), and a probe cannot visit a thousand of
 * them.  So every cgroup at or below one with a knob has a record, every record
 * remembers what it last reported of its own pages, and each of its passes, writer's
 * or flusher's, adds what has changed since to the sums of all its ancestors.
 * The beat does the same for every record, five times a second: 200 ms is the
 * aggregation period, and what a sum can miss is what flows in meanwhile from
 * cgroups that make no pass.
 *
 * Cgroups never move, so the path of records up to the root is fixed when a
 * record is made, and a sum cannot come apart (policy/subtree.c).  Each level is
 * changed under its lock, one at a time.
 *
 * A removed cgroup keeps its record until it is clean, or until its pages have
 * become its parent's (counts.c): they are still the subtree's.  A new cgroup gets its
 * record in the first pass of one of its tasks (record.c).
 *
 * Example.  A (ceiling 64M) has children B and C.  B reported 3,000 pages, C 5,000:
 * A's sum is 8,000.  A writer of B makes a pass and B now holds 3,400: 400 go
 * to B's and A's sum.  Cost: one exact count, and a lock and three additions per
 * level.
 */
#include "weir.h"

/*
 * Add @change to the sums of @record, under its lock.  What is left in it is for
 * the parent.
 */
static void add_change(struct weir_record *record, struct weir_tally *change)
{
	u64 floor = READ_ONCE(record->floor);
	u64 unused = weir_subtree_add(&record->subtree, change, floor,
				      floor ? weir_record_foreign(record) : 0);

	/* a fair part: of that, some is lent */
	if (!READ_ONCE(record->floor_given))
		unused = weir_fair_kept(floor, unused);
	if (floor || atomic64_read(&record->unused))
		weir_reserve_note(record, unused);
}

/* Report to the path that @record holds @own. */
static void tree_report(struct weir_record *record, const struct weir_counts *own,
			bool leaves)
{
	struct weir_tally change = {};

	raw_spin_lock(&record->lock);
	if (!record->detached) {
		change = weir_subtree_change(&record->reported, own);
		/* read without the lock by recount_some() */
		WRITE_ONCE(record->reported.dirty, own->dirty);
		WRITE_ONCE(record->reported.writeback, own->writeback);
		record->detached = leaves;
		add_change(record, &change);
	}
	raw_spin_unlock(&record->lock);
	while ((record = record->parent) &&
	       (change.dirty || change.writeback || change.claim)) {
		raw_spin_lock(&record->lock);
		add_change(record, &change);
		raw_spin_unlock(&record->lock);
	}
}

/* Of what no count shows and floors are charged with, some has come or gone. */
void weir_tree_review(struct weir_record *record)
{
	struct weir_tally change = {};

	do {
		raw_spin_lock(&record->lock);
		add_change(record, &change);
		raw_spin_unlock(&record->lock);
	} while ((record = record->parent) && change.claim);
}

/* Report changes to the path; returns the cgroup's own pages. */
struct weir_counts weir_tree_update(struct weir_record *record)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(record->css);
	struct weir_counts own;

	if (READ_ONCE(record->pages_are) == WEIR_INHERITED)
		own = weir_count_unfolded(memcg);
	else
		own = weir_count_own(memcg, &record->inherited);
	tree_report(record, &own, false);
	return own;
}

/*
 * See what pages of removed children are the cgroup's now.  @cost grows by what it
 * took, in reads.  As weir_count_inherited().
 */
void weir_tree_inherit(struct weir_record *record, u32 *cost)
{
	struct weir_inherited inherited = weir_count_inherited(record->css, cost);

	WRITE_ONCE(record->inherited.dirty, inherited.dirty);
	WRITE_ONCE(record->inherited.writeback, inherited.writeback);
	weir_tree_update(record);
}

/* Take a record that holds nothing more, or is forgotten, out of the sums for good. */
void weir_tree_detach(struct weir_record *record)
{
	struct weir_counts nothing = {};

	tree_report(record, &nothing, true);
}

/* Of the subtree's pages, what counts against the record's floor: what floors inside have no room for. */
u64 weir_tree_claim(const struct weir_record *record)
{
	return weir_subtree_pages(READ_ONCE(record->subtree.claim));
}

/* The next record with a floor, from @record upwards, or NULL. */
struct weir_record *weir_tree_floored(struct weir_record *record)
{
	while (record && !READ_ONCE(record->floor))
		record = record->parent;
	return record;
}

/* Is there a knob here or above? */
bool weir_tree_has_knob(const struct weir_record *record)
{
	for (; record; record = record->parent) {
		if (weir_record_has_knob(record))
			return true;
	}
	return false;
}

/* The tightest ceiling here and above, in pages; WEIR_UNLIMITED if none. */
u64 weir_tree_ceiling(const struct weir_record *record)
{
	u64 least = WEIR_UNLIMITED;

	for (; record; record = record->parent) {
		if (weir_record_has_ceiling(record))
			least = min(least, weir_record_ceiling(record));
	}
	return least;
}

/* weir_tree_nearest() of a cgroup that has no record. */
struct weir_record *weir_tree_nearest_with_knob(struct cgroup_subsys_state *css)
{
	struct weir_record *record = weir_record_nearest(css);

	return weir_tree_has_knob(record) ? record : NULL;
}

/* The walk of a stretch, and what the rest of the pass remembers of it. */
void weir_stretch_survey(struct weir_stretch *stretch)
{
	struct weir_pass_state *state = stretch->state;
	struct weir_record *record;

	for (record = stretch->record; record; record = record->parent) {
		if (!stretch->floored && READ_ONCE(record->floor))
			stretch->floored = record;
		stretch->capped |= weir_record_has_ceiling(record);
	}
	if (!state)
		return;
	state->counted &= weir_stretch_goes_on(state);
	state->switches = current->nvcsw;
	state->surveyed = true;
	state->floored = stretch->floored;
	state->capped = stretch->capped;
}

/*
 * Report the changes of the record, at most once between two sleeps of a writer: the count
 * costs a read for each possible CPU, and the steps of a pass follow each other in
 * microseconds.
 */
void weir_stretch_count(const struct weir_stretch *stretch)
{
	struct weir_pass_state *state = stretch->state;

	if (state && state->counted)
		return;
	weir_tree_update(stretch->record);
	if (state)
		state->counted = true;
}
