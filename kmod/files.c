// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.dirty_min, memory.dirty_ratio, memory.dirty_bytes, memory.dirty_bandwidth,
 * memory.dirty_weight, memory.writeback_bytes, memory.dirty_stat.
 *
 * Real cgroup v2 files of the memory controller, in every cgroup but the root.
 * One value per write; a refused write leaves the old value, and a default value
 * is never refused: a knob can be cleared whatever state weir is in.  Errors:
 *   EINVAL      not a value of the file's form; dirty_ratio above 100
 *   ERANGE      more bytes than fit, a ceiling under two pages, a bandwidth
 *               under 64 KiB, a window under 64 KiB, a weight outside 1..10000
 *   EPERM       without CAP_SYS_RESOURCE in the initial user namespace, judged by
 *               the opener of the file, as the files of a delegated subtree belong to
 *               its owner: raising a floor, as what one cgroup reserves the others go
 *               without; and, unless the parameter tenants_arm allows it, the first knob
 *               since load: hooks stay until unload, each pass on the host pays for
 *               them, and no livepatch can have these functions
 *   ENOMEM      no memory for weir's record of the cgroup, which is charged to it
 *   ENODEV      the cgroup is being removed
 *   EBUSY       a livepatch, or another exclusive user of ftrace, has one of the
 *               functions that weir hooks
 *   ENODATA     hooks have no effect: kernel.ftrace_enabled is 0
 *   EAGAIN      hooks could not be placed at the moment; write again
 *   EPROTO      hooks see other limits than the kernel reports
 *   EOPNOTSUPP  the limits of writers' passes do not come by the hook, as passes
 *               that had begun showed; or a bandwidth, on a kernel without what
 *               at_return.c calls
 *   EINTR       the writer was killed
 *
 * A write evaluates its own cgroup; what follows for others comes with the next
 * beat, 200 ms later at most on a host of a thousand cgroups (record.c).  Reading
 * makes nothing and takes no lock.
 */
#include "weir.h"
#include <linux/capability.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

static int knob_parse(enum weir_knob knob, const char *text, size_t len,
		      u64 *value)
{
	switch (weir_parse_knob(knob, text, len, PAGE_SIZE, value)) {
	case WEIR_PARSED: return 0;
	case WEIR_PARSE_RANGE: return -ERANGE;
	default: return -EINVAL;
	}
}

static u64 knob_value(const struct weir_record *record, enum weir_knob knob)
{
	if (!record)
		return weir_knob_unset(knob);
	switch (knob) {
	case WEIR_KNOB_DIRTY_MIN: return READ_ONCE(record->dirty_min_bytes);
	case WEIR_KNOB_DIRTY_BYTES: return READ_ONCE(record->ceiling.bytes);
	case WEIR_KNOB_DIRTY_WEIGHT: return READ_ONCE(record->weight);
	case WEIR_KNOB_DIRTY_BANDWIDTH: return READ_ONCE(record->bandwidth_bytes);
	case WEIR_KNOB_WRITEBACK_BYTES: return READ_ONCE(record->writeback_bytes);
	case WEIR_KNOB_DIRTY_RATIO: return READ_ONCE(record->ceiling.ratio_percent);
	default: return weir_knob_unset(knob);
	}
}

/* Note which of the two ceilings an unprivileged owner has set, and not cleared. */
static void note_owners_ceiling(struct weir_record *record, enum weir_knob knob, u64 value,
				bool privileged)
{
	u32 bit = BIT(knob == WEIR_KNOB_DIRTY_BYTES);
	bool owners = !privileged && value != weir_knob_unset(knob);

	WRITE_ONCE(record->owners_ceilings, owners ? record->owners_ceilings | bit :
						    record->owners_ceilings & ~bit);
}

/* @privileged: set by root of the host, not by the owner of a delegated cgroup. */
static void store_knob(struct weir_record *record, enum weir_knob knob, u64 value,
		       u64 avail, bool privileged)
{
	bool had = weir_record_has_any(record);

	switch (knob) {
	case WEIR_KNOB_DIRTY_MIN:
		WRITE_ONCE(record->dirty_min_bytes, value);
		break;
	case WEIR_KNOB_DIRTY_BYTES:
		note_owners_ceiling(record, knob, value, privileged);
		WRITE_ONCE(record->ceiling.bytes, value);
		break;
	case WEIR_KNOB_DIRTY_WEIGHT:
		weir_weight_change(record, value);
		break;
	case WEIR_KNOB_DIRTY_BANDWIDTH:
		weir_bandwidth_change(record, value);
		break;
	case WEIR_KNOB_WRITEBACK_BYTES:
		weir_window_change(record, value);
		break;
	case WEIR_KNOB_DIRTY_RATIO:
		note_owners_ceiling(record, knob, value, privileged);
		/* the base of the ratio, before a pass can ask: weir_record_ceiling() */
		WRITE_ONCE(record->avail, avail);
		smp_store_release(&record->ceiling.ratio_percent, value);
		break;
	/* the agent's, which have no file here */
	default:
		break;
	}
	weir_record_knobs_changed(record, had);
}

static bool is_privileged(struct kernfs_open_file *of)
{
	return file_ns_capable(of->file, &init_user_ns, CAP_SYS_RESOURCE);
}

static bool may_set(struct kernfs_open_file *of, enum weir_knob knob, u64 old,
		    u64 value)
{
	return knob != WEIR_KNOB_DIRTY_MIN || value <= old || is_privileged(of);
}

/* Knobs of flushers need another function hooked than those of writers. */
static bool is_of_flushers(enum weir_knob knob)
{
	return knob == WEIR_KNOB_WRITEBACK_BYTES || knob == WEIR_KNOB_DIRTY_WEIGHT;
}

/* A kernel that is hooked stays so: then there is nothing to be refused. */
static bool may_arm(struct kernfs_open_file *of, enum weir_knob knob)
{
	bool hooked = is_of_flushers(knob) ? weir_writepages_hooked() : weir_hooks_armed();

	return hooked || READ_ONCE(weir_tenants_arm) || is_privileged(of);
}

/*
 * Set under weir_lock, or leave everything as it was.  @avail: what a ratio is
 * of.
 */
static int knob_set(struct kernfs_open_file *of, enum weir_knob knob, u64 value,
		    u64 avail)
{
	struct weir_record *record = weir_record_find(of_css(of));
	u64 old = knob_value(record, knob);

	if (!record || !weir_css_alive(of_css(of)))
		return value == weir_knob_unset(knob) ? 0 : -ENODEV;
	if (!may_set(of, knob, old, value))
		return -EPERM;
	store_knob(record, knob, value, avail, is_privileged(of));
	weir_floor_evaluate(record);
	return 0;
}

/*
 * Counts the subtree, and returns the base of a ratio: before weir_lock is
 * taken, as it takes the longer the deeper the cgroup is.
 */
static u64 count_for(struct cgroup_subsys_state *css, enum weir_knob knob)
{
	struct weir_record *record;
	u64 avail = 0;

	rcu_read_lock();
	record = weir_record_find(css);
	if (record) {
		weir_tree_update(record);
		if (knob == WEIR_KNOB_DIRTY_RATIO)
			avail = weir_memory_dirtyable(record);
	}
	rcu_read_unlock();
	return avail;
}

/*
 * Hooks are placed, and a record is made, before the lock is taken, and only for
 * what is not the default.
 */
static int prepare_set(struct kernfs_open_file *of, enum weir_knob knob, u64 value)
{
	u64 old = weir_knob_unset(knob);
	int err;

	if (value == old)
		return 0;
	if (!weir_layout.has_task_work && knob == WEIR_KNOB_DIRTY_BANDWIDTH)
		return -EOPNOTSUPP;
	/* a task that may not set it makes nothing; knob_set() has the last word */
	if (!may_set(of, knob, old, value)) {
		rcu_read_lock();
		old = knob_value(weir_record_find(of_css(of)), knob);
		rcu_read_unlock();
		if (!may_set(of, knob, old, value))
			return -EPERM;
	}
	if (!may_arm(of, knob))
		return -EPERM;
	err = is_of_flushers(knob) ? weir_writepages_hook() : weir_arm();
	return err ?: weir_record_make(of_css(of));
}

static ssize_t write_knob(struct kernfs_open_file *of, char *text, size_t len,
			  loff_t offset)
{
	enum weir_knob knob = of_cft(of)->private;
	u64 value = 0;
	int err = knob_parse(knob, text, len, &value) ?: prepare_set(of, knob, value);
	u64 avail;

	if (err)
		return err;
	avail = count_for(of_css(of), knob);
	err = weir_lock_killable();
	if (err)
		return err;
	err = knob_set(of, knob, value, avail);
	spin_unlock(&weir_lock);
	if (!err && value != weir_knob_unset(knob))
		weir_beat_expedite();
	return err ?: len;
}

static void print_value(struct seq_file *seq, u64 value)
{
	if (value == WEIR_UNLIMITED)
		seq_puts(seq, "max\n");
	else
		seq_printf(seq, "%llu\n", value);
}

static u64 pages_to_bytes(u64 pages)
{
	return pages << PAGE_SHIFT;
}

static int show_knob(struct seq_file *seq, void *unused)
{
	enum weir_knob knob = seq_cft(seq)->private;
	struct weir_record *record;
	u64 value, floor = 0;

	rcu_read_lock();
	record = weir_record_find(seq_css(seq));
	value = knob_value(record, knob);
	if (record)
		floor = READ_ONCE(record->floor);
	rcu_read_unlock();
	if (knob == WEIR_KNOB_DIRTY_MIN && !value && READ_ONCE(weir_fair))
		seq_printf(seq, "auto %llu\n", pages_to_bytes(floor));
	else
		print_value(seq, value);
	return 0;
}

/* The tightest ceiling that holds now, in bytes. */
static u64 effective_ceiling_bytes(const struct weir_record *record)
{
	u64 pages = weir_tree_ceiling(record);

	return pages == WEIR_UNLIMITED ? pages : pages << PAGE_SHIFT;
}

static struct weir_counts count_without_record(struct cgroup_subsys_state *css)
{
	struct weir_inherited inherited = {};
	u32 cost = 0;

	if (weir_layout.reparents)
		inherited = weir_count_inherited(css, &cost);
	return weir_count_own(mem_cgroup_from_css(css), &inherited);
}

/* Fills in the pages of the cgroup, and the effect of its knobs and of those above it. */
static void fill_levels(struct cgroup_subsys_state *css, struct weir_record *record,
			u64 *stat)
{
	struct weir_counts own = record ? weir_tree_update(record) :
				 count_without_record(css);
	struct weir_counts subtree = record ? weir_tree_counts(record) : own;
	/* a new cgroup's own record comes with the next beat */
	struct weir_record *judged_by = weir_tree_nearest(css);

	stat[WEIR_STAT_IN_EFFECT] = weir_in_effect();
	stat[WEIR_STAT_DIRTY] = pages_to_bytes(own.dirty);
	stat[WEIR_STAT_WRITEBACK] = pages_to_bytes(own.writeback);
	stat[WEIR_STAT_SUBTREE_DIRTY] = pages_to_bytes(subtree.dirty);
	stat[WEIR_STAT_SUBTREE_WRITEBACK] = pages_to_bytes(subtree.writeback);
	stat[WEIR_STAT_CEILING] = weir_in_effect() ? effective_ceiling_bytes(judged_by) :
						     WEIR_UNLIMITED;
	if (!record)
		return;
	stat[WEIR_STAT_FOREIGN] = pages_to_bytes(weir_record_foreign(record));
	if (!weir_in_effect())
		return;
	stat[WEIR_STAT_FLOOR] = pages_to_bytes(READ_ONCE(record->floor));
	stat[WEIR_STAT_FLOOR_UNUSED] = pages_to_bytes(atomic64_read(&record->unused));
	stat[WEIR_STAT_WEIGHT_PORTION] = weir_weight_portion(record);
}

static void fill_counters(struct weir_record *record, u64 *stat)
{
	struct weir_stats stats = {};
	int by;

	weir_record_stats(record, &stats);
	stat[WEIR_STAT_PASSES] = stats.passes;
	stat[WEIR_STAT_FLOOR_ADMITTED] = stats.floor_admitted;
	stat[WEIR_STAT_FLOOR_RELEASED] = stats.floor_released;
	stat[WEIR_STAT_CEILING_HELD] = stats.ceiling_held;
	stat[WEIR_STAT_WOULD_ADMIT] = stats.would_admit;
	stat[WEIR_STAT_WOULD_HOLD] = stats.would_hold;
	stat[WEIR_STAT_BELOW_FLOOR] = stats.throttled_below_floor;
	for (by = 0; by < WEIR_BY_COUNT; by++) {
		stat[WEIR_STAT_BY_UNKNOWN + 2 * by] = stats.by[by].pauses;
		stat[WEIR_STAT_BY_UNKNOWN_USEC + 2 * by] =
			stats.by[by].ns / NSEC_PER_USEC;
		stat[WEIR_STAT_THROTTLED] += stats.by[by].pauses;
		stat[WEIR_STAT_THROTTLED_USEC] += stats.by[by].ns / NSEC_PER_USEC;
	}
	stat[WEIR_STAT_WEIGHT_HELD] = stats.weight_held;
	stat[WEIR_STAT_WEIGHT_HELD_USEC] = stats.weight_held_ns / NSEC_PER_USEC;
	stat[WEIR_STAT_WOULD_WAIT] = stats.would_wait;
	stat[WEIR_STAT_BANDWIDTH_HELD] = stats.bandwidth_held;
	stat[WEIR_STAT_BANDWIDTH_HELD_USEC] = stats.bandwidth_held_ns / NSEC_PER_USEC;
	stat[WEIR_STAT_WOULD_PACE] = stats.would_pace;
	stat[WEIR_STAT_WINDOW_HELD] = stats.window_held;
	stat[WEIR_STAT_WINDOW_HELD_USEC] = stats.window_held_ns / NSEC_PER_USEC;
}

static int show_stat(struct seq_file *seq, void *unused)
{
	u64 stat[WEIR_STAT_COUNT] = {};
	struct weir_record *record;
	int key;

	rcu_read_lock();
	record = weir_record_find(seq_css(seq));
	fill_levels(seq_css(seq), record, stat);
	if (record)
		fill_counters(record, stat);
	rcu_read_unlock();
	stat[WEIR_STAT_MISSED] = weir_passes_unseen();
	for (key = 0; key < WEIR_STAT_COUNT; key++) {
		seq_printf(seq, "%s ", weir_stat_key(key)->name);
		print_value(seq, stat[key]);
	}
	return 0;
}

static struct cftype knob_files[] = {
#define KNOB(ID, file, unset)						\
	{								\
		.name = file,						\
		.private = WEIR_KNOB_##ID,				\
		.flags = CFTYPE_NOT_ON_ROOT,				\
		.seq_show = show_knob,					\
		.write = write_knob,					\
	},
	WEIR_KNOBS_CORE(KNOB)
#ifdef WEIR_BANDWIDTH
	WEIR_KNOBS_BANDWIDTH(KNOB)
#endif
#ifdef WEIR_FLUSHER
	WEIR_KNOBS_WEIGHT(KNOB)
	WEIR_KNOBS_WINDOW(KNOB)
#endif
#undef KNOB
	{
		.name = WEIR_STAT_FILE,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_stat,
	},
	{ }
};

/*
 * Does the kernel bring a file of one of the names in @wanted?  The list of files
 * changes only while controllers and modules like this one are set up.
 */
const char *weir_files_find_taken(const struct cftype *wanted)
{
	struct cftype *set, *file;
	int i;

	list_for_each_entry(set, &memory_cgrp_subsys.cfts, node) {
		for (file = set; file->name[0]; file++) {
			for (i = 0; wanted[i].name[0]; i++) {
				if (!strcmp(file->name, wanted[i].name))
					return wanted[i].name;
			}
		}
	}
	return NULL;
}

/* Add the files to all cgroups, present and to come. */
int weir_files_create(void)
{
	const char *taken = weir_files_find_taken(knob_files);
	int err;

	if (taken) {
		pr_err("refusing to load: this kernel has a memory.%s of its own; use that one\n",
		       taken);
		return -EEXIST;
	}
	err = weir_add_files(knob_files);
	if (err)
		pr_err("refusing to load: the cgroup files could not be added (error %d)\n",
		       err);
	return err;
}

/* Remove the files; waits for those who are reading or writing one. */
void weir_files_remove(void)
{
	weir_remove_files(knob_files);
}
