// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fair parts: which cgroups write, and the floor that gives each: policy/fair.c.
 *
 * A pass notes that its cgroup writes: for all but the first a store.  The first adds it to
 * the sums of weights up its path, as far as those above do not count already, and gives it
 * its floor at once.  The beat goes round all that write: it takes out those that have ceased
 * to, and evaluates the others, some at a time and so many in a beat.  So another's part
 * follows within a beat, or, beside thousands that write, within some.
 *
 * From then on it is a floor like any: record->floor, which passes, sums and the recount go
 * by.  Only where nothing is set, here or above: what was written to memory.dirty_min replaces
 * it, for all below.
 *
 * fair_lock guards sums and the list.  It is taken under weir_lock, and the lock of a
 * record under it.  It is a raw one, as a pass must neither wait for a task nor fail to be
 * noted: whatever is held under it is bounded.
 */
#include "weir.h"
#include <linux/module.h>

/* A cgroup deeper than that has no part of its own. */
#define LEVELS_MOST	32
/* Writers that are evaluated under one hold of the lock, and in one beat. */
#define WRITERS_AT_ONCE	32
#define WRITERS_A_BEAT	1024

static DEFINE_RAW_SPINLOCK(fair_lock);
static LIST_HEAD(writers);		/* the one that the beat saw longest ago first */
static struct weir_fair_level top;	/* above the topmost records */
static bool others;			/* the rest of the host counts in it */
/* the beat's: their number, and what was counted in this one */
static u32 beats = 1;
static u64 counted;

/* The level that @record is a child of. */
static struct weir_fair_level *level_above(struct weir_record *record)
{
	return record->parent ? &record->parent->fair : &top;
}

/* The sum of all floors: fair parts fill what floors may take. */
void weir_fair_fill_pool(void)
{
	const struct weir_floor_pool filled = {
		.wanted_total = WEIR_UNLIMITED,
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
	};

	WRITE_ONCE(weir_pool.honoured, READ_ONCE(weir_writer_count) ?
					       weir_floors_total(&filled) :
					       READ_ONCE(weir_pool.floors_total));
}

static void add_writer(struct weir_record *record)
{
	struct weir_record *at;

	record->fair.weights += WEIR_WEIGHT_DEFAULT;
	for (at = record; at && !at->fair.counting++; at = at->parent) {
		at->fair.weight = READ_ONCE(at->weight);
		level_above(at)->weights += at->fair.weight;
	}
	list_add_tail(&record->fair_writers, &writers);
	WRITE_ONCE(record->writes, true);
	WRITE_ONCE(weir_writer_count, weir_writer_count + 1);
	if (weir_writer_count == 1)
		weir_fair_fill_pool();
}

/* Its floor ends with that, if it is a part. */
static void remove_writer(struct weir_record *record)
{
	struct weir_record *at;

	record->fair.weights -= WEIR_WEIGHT_DEFAULT;
	for (at = record; at && !--at->fair.counting; at = at->parent)
		level_above(at)->weights -= at->fair.weight;
	list_del(&record->fair_writers);
	WRITE_ONCE(record->writes, false);
	WRITE_ONCE(weir_writer_count, weir_writer_count - 1);
}

static void set_floor(struct weir_record *record, u64 floor)
{
	if (floor == record->floor)
		return;
	WRITE_ONCE(record->floor, floor);
	weir_tree_review(record);
}

/* Parts on the path of @record, by the weights of the moment, from the top down. */
static void update_parts_on_path(struct weir_record *record, u64 pool)
{
	struct weir_record *path[LEVELS_MOST];
	struct weir_fair_level *above;
	int depth = 0;

	for (; record; record = record->parent)
		path[depth++] = record;
	while (depth--) {
		record = path[depth];
		above = level_above(record);
		above->weights -= record->fair.weight;
		record->fair.weight = READ_ONCE(record->weight);
		above->weights += record->fair.weight;
		pool = weir_fair_part(pool, record->fair.weight, above->weights);
		WRITE_ONCE(record->fair.part, pool);
	}
}

/* The floor of the record's own tasks. */
static u64 compute_floor(struct weir_record *record)
{
	const struct weir_floor_pool set = {
		.wanted_total = READ_ONCE(weir_pool.floors_total),
		.host_thresh = weir_drain_thresh(READ_ONCE(weir_pool.host_thresh)),
	};
	u64 pool = weir_fair_pool(&set), part;

	update_parts_on_path(record, pool);
	part = weir_fair_part(record->fair.part, WEIR_WEIGHT_DEFAULT, record->fair.weights);
	return weir_memory_floor(record, weir_fair_floor(part, pool));
}

/* Is a floor set, or is one about to end that was, here or above? */
static bool has_set_floor(struct weir_record *record)
{
	for (; record; record = record->parent) {
		if (READ_ONCE(record->dirty_min_bytes) || READ_ONCE(record->floor_given))
			return true;
	}
	return false;
}

/* The record's cgroup writes, for the first time of late. */
void weir_fair_start(struct weir_record *record)
{
	if (record->css->cgroup->level > LEVELS_MOST || !weir_css_alive(record->css) ||
	    has_set_floor(record))
		return;
	raw_spin_lock(&fair_lock);
	if (!record->writes && !record->fair_ended && !has_set_floor(record)) {
		WRITE_ONCE(record->wrote, jiffies);
		add_writer(record);
		set_floor(record, compute_floor(record));
	}
	raw_spin_unlock(&fair_lock);
}

/* A floor is set for the record, or ended, or its cgroup is gone for good. */
void weir_fair_leave(struct weir_record *record, bool for_good)
{
	raw_spin_lock(&fair_lock);
	record->fair_ended |= for_good;
	if (record->writes) {
		remove_writer(record);
		set_floor(record, 0);
	}
	raw_spin_unlock(&fair_lock);
}

static bool still_writes(struct weir_record *record)
{
	return READ_ONCE(weir_fair) && !has_set_floor(record) &&
	       time_before(jiffies, READ_ONCE(record->wrote) +
				    msecs_to_jiffies(WEIR_FAIR_LINGERS_MS));
}

/*
 * A beat for @record and those above it, as far as they had none from another below.  Then what
 * the topmost holds is counted: also what those of its cgroups have left that have ceased to
 * write.
 */
static void count_path(struct weir_record *record)
{
	struct weir_counts all;

	for (; record && record->fair_beat != beats; record = record->parent) {
		record->fair_beat = beats;
		if (!record->parent) {
			all = weir_tree_counts(record);
			counted += all.dirty + all.writeback;
		}
		/* of a floor that is set weir_floors_evaluate() does */
		if (READ_ONCE(record->floor_given))
			continue;
		raw_spin_lock(&record->lock);
		weir_credit_forgive(&record->credit, record->fair.part);
		raw_spin_unlock(&record->lock);
	}
}

/* A beat: a floor is set for @record. */
void weir_fair_count(struct weir_record *record)
{
	if (!READ_ONCE(weir_writer_count))
		return;
	raw_spin_lock(&fair_lock);
	count_path(record);
	raw_spin_unlock(&fair_lock);
}

/* Evaluate the next one that writes. */
static void evaluate_next(void)
{
	struct weir_record *record = list_first_entry(&writers, struct weir_record,
						      fair_writers);

	if (!still_writes(record)) {
		remove_writer(record);
		set_floor(record, 0);
		return;
	}
	list_rotate_left(&writers);
	weir_tree_update(record);
	set_floor(record, compute_floor(record));
	count_path(record);
}

/* Pages that the host holds besides count as one more that writes, or do not. */
static void count_others(void)
{
	bool now;

	raw_spin_lock(&fair_lock);
	now = weir_fair_others(weir_count_host(), counted, READ_ONCE(weir_pool.host_thresh));
	if (now != others)
		top.weights += now ? WEIR_WEIGHT_DEFAULT : -(u64)WEIR_WEIGHT_DEFAULT;
	others = now;
	raw_spin_unlock(&fair_lock);
}

/* A beat, after weir_floors_evaluate(): go round those that write. */
void weir_fair_beat(void)
{
	unsigned int all = READ_ONCE(weir_writer_count);
	unsigned int left = min(all, WRITERS_A_BEAT);
	unsigned int now;

	weir_fair_fill_pool();
	if (!all)
		return;
	while (left) {
		now = min(left, WRITERS_AT_ONCE);
		left -= now;
		raw_spin_lock(&fair_lock);
		for (; now && !list_empty(&writers); now--)
			evaluate_next();
		raw_spin_unlock(&fair_lock);
		cond_resched();
	}
	if (all <= WRITERS_A_BEAT)
		count_others();
	beats++;
	counted = 0;
	weir_reserve_watch();
}

static int set_fair(const char *text, const struct kernel_param *param)
{
	bool value;
	int err = kstrtobool(text, &value) ?: weir_param_arm(value);

	if (!err)
		WRITE_ONCE(weir_fair, value);
	return err;
}

static const struct kernel_param_ops fair_ops = {
	.set = set_fair,
	.get = param_get_bool,
};

module_param_cb(fair, &fair_ops, &weir_fair, 0644);
MODULE_PARM_DESC(fair, "each cgroup that dirties pages has a floor: its fair part of what floors may take");
