// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.dirty_min, memory.dirty_ratio, memory.dirty_bytes, memory.dirty_weight,
 * memory.dirty_stat.
 *
 * Real cgroup v2 files of the memory controller, in every cgroup but the root.
 * One value per write; a refused write leaves the old value, and a default value
 * is never refused: a knob can be cleared whatever state weir is in.  Errors:
 *   EINVAL      not a value of the file's form; dirty_ratio above 100
 *   ERANGE      more bytes than fit, a ceiling under two pages, a weight outside
 *               1..10000
 *   EPERM       raising a floor without CAP_SYS_RESOURCE in the initial user
 *               namespace, judged by who opened the file: the files of a
 *               delegated subtree belong to its owner, and what one cgroup
 *               reserves the others go without
 *   ENOMEM      no memory for weir's record of the cgroup, which is charged to it
 *   ENODEV      the cgroup is being removed
 *   EBUSY       a livepatch, or another exclusive user of ftrace, has one of the
 *               functions that weir hooks
 *   ENODATA     hooks have no effect: kernel.ftrace_enabled is 0
 *   EAGAIN      hooks could not be placed at the moment; write again
 *   EPROTO      hooks see other limits than the kernel reports
 *
 * A write evaluates its own cgroup; what follows for others comes with the next
 * beat, 200 ms later at most on a host of a thousand cgroups (group.c).  Reading
 * makes nothing and takes no lock.
 */
#include "weir.h"
#include <linux/capability.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

enum knob { DIRTY_MIN, DIRTY_BYTES, DIRTY_RATIO, DIRTY_WEIGHT };

struct value {
	u64 bytes;
	u32 percent;
	u32 weight;
};

static int errno_of(enum weir_parsed parsed)
{
	switch (parsed) {
	case WEIR_PARSED: return 0;
	case WEIR_PARSE_RANGE: return -ERANGE;
	default: return -EINVAL;
	}
}

static int parse(enum knob knob, const char *text, size_t len,
		 struct value *value)
{
	enum weir_parsed parsed;

	if (knob == DIRTY_RATIO)
		return errno_of(weir_parse_percent(text, len, &value->percent));
	if (knob == DIRTY_WEIGHT)
		return errno_of(weir_parse_weight(text, len, &value->weight));
	parsed = weir_parse_bytes(text, len, &value->bytes);
	if (parsed == WEIR_PARSED && knob == DIRTY_BYTES)
		parsed = weir_check_ceiling_bytes(value->bytes);
	return errno_of(parsed);
}

static bool is_default(enum knob knob, const struct value *value)
{
	switch (knob) {
	case DIRTY_MIN: return !value->bytes;
	case DIRTY_BYTES: return value->bytes == WEIR_UNLIMITED;
	case DIRTY_WEIGHT: return value->weight == WEIR_WEIGHT_DEFAULT;
	default: return !value->percent;
	}
}

static struct value get(const struct weir_group *group, enum knob knob)
{
	switch (knob) {
	case DIRTY_MIN:
		return (struct value) { .bytes = group ? READ_ONCE(group->dirty_min_bytes) : 0 };
	case DIRTY_BYTES:
		return (struct value) { .bytes = group ? READ_ONCE(group->ceiling.bytes) : WEIR_UNLIMITED };
	case DIRTY_WEIGHT:
		return (struct value) { .weight = group ? READ_ONCE(group->weight) : WEIR_WEIGHT_DEFAULT };
	default:
		return (struct value) { .percent = group ? READ_ONCE(group->ceiling.ratio_percent) : 0 };
	}
}

static void put(struct weir_group *group, enum knob knob, struct value value)
{
	bool had = weir_group_has_any(group);

	switch (knob) {
	case DIRTY_MIN:
		WRITE_ONCE(group->dirty_min_bytes, value.bytes);
		break;
	case DIRTY_BYTES:
		WRITE_ONCE(group->ceiling.bytes, value.bytes);
		break;
	case DIRTY_WEIGHT:
		weir_weight_changed(group, group->weight, value.weight);
		WRITE_ONCE(group->weight, value.weight);
		break;
	default:
		/* what the ratio is of, before a pass can ask */
		WRITE_ONCE(group->avail, weir_memory_dirtyable(group));
		WRITE_ONCE(group->ceiling.ratio_percent, value.percent);
	}
	weir_group_knobs_changed(group, had);
}

static bool may_set(struct kernfs_open_file *of, enum knob knob,
		    const struct value *old, const struct value *value)
{
	return knob != DIRTY_MIN || value->bytes <= old->bytes ||
	       file_ns_capable(of->file, &init_user_ns, CAP_SYS_RESOURCE);
}

/* Set under weir_lock, or leave everything as it was. */
static int set(struct kernfs_open_file *of, enum knob knob, struct value value)
{
	struct weir_group *group = weir_group_find(of_css(of));
	struct value old = get(group, knob);

	if (!group || !weir_css_alive(of_css(of)))
		return is_default(knob, &value) ? 0 : -ENODEV;
	if (!may_set(of, knob, &old, &value))
		return -EPERM;
	put(group, knob, value);
	if (knob == DIRTY_MIN && value.bytes > old.bytes)
		weir_floors_evaluate();
	else
		weir_evaluate(group);
	return 0;
}

/*
 * Hooks are placed, and a group is made, before the lock is taken, and only for
 * what is not the default.
 */
static int prepare(struct kernfs_open_file *of, enum knob knob,
		   const struct value *value)
{
	struct value old = get(NULL, knob);
	int err;

	if (is_default(knob, value))
		return 0;
	/* who may not set it, makes nothing; set() has the last word */
	if (!may_set(of, knob, &old, value)) {
		rcu_read_lock();
		old = get(weir_group_find(of_css(of)), knob);
		rcu_read_unlock();
		if (!may_set(of, knob, &old, value))
			return -EPERM;
	}
	err = weir_arm();
	return err ?: weir_group_make(of_css(of));
}

static ssize_t write_knob(struct kernfs_open_file *of, char *text, size_t len,
			  loff_t offset)
{
	enum knob knob = of_cft(of)->private;
	struct value value = {};
	int err = parse(knob, text, len, &value) ?: prepare(of, knob, &value);

	if (err)
		return err;
	spin_lock(&weir_lock);
	err = set(of, knob, value);
	spin_unlock(&weir_lock);
	if (!err && !is_default(knob, &value))
		weir_beat_now();
	return err ?: len;
}

static void print_bytes(struct seq_file *seq, const char *label, u64 bytes)
{
	if (bytes == WEIR_UNLIMITED)
		seq_printf(seq, "%smax\n", label);
	else
		seq_printf(seq, "%s%llu\n", label, bytes);
}

static int show_knob(struct seq_file *seq, void *unused)
{
	enum knob knob = seq_cft(seq)->private;
	struct value value;

	rcu_read_lock();
	value = get(weir_group_find(seq_css(seq)), knob);
	rcu_read_unlock();
	if (knob == DIRTY_RATIO)
		seq_printf(seq, "%u\n", value.percent);
	else if (knob == DIRTY_WEIGHT)
		seq_printf(seq, "%u\n", value.weight);
	else
		print_bytes(seq, "", value.bytes);
	return 0;
}

/* The tightest ceiling that holds now, in bytes. */
static u64 effective_ceiling(const struct weir_group *group)
{
	u64 pages = weir_tree_ceiling(group);

	return pages == WEIR_UNLIMITED ? pages : pages << PAGE_SHIFT;
}

static const char *const deciders[WEIR_BY_COUNT] = {
	[WEIR_BY_UNKNOWN] = "unknown",
	[WEIR_BY_HOST] = "host",
	[WEIR_BY_CGROUP] = "cgroup",
	[WEIR_BY_CEILING] = "ceiling",
	[WEIR_BY_ANCESTOR] = "ancestor",
	[WEIR_BY_DEVICE] = "device",
};

static u64 bytes(u64 pages)
{
	return pages << PAGE_SHIFT;
}

/* What the cgroup holds, and what its knobs and those above it come to. */
static void print_levels(struct seq_file *seq, struct weir_group *group)
{
	struct cgroup_subsys_state *css = seq_css(seq);
	struct weir_counts own = group ? weir_tree_update(group) :
				 weir_count_memcg(mem_cgroup_from_css(css));
	struct weir_counts subtree = group ? weir_tree_counts(group) : own;
	/* a new cgroup's own group comes with the next beat */
	struct weir_group *judged_by = weir_tree_nearest(css);
	bool holds = group && weir_in_effect();

	seq_printf(seq, "in_effect %d\n", weir_in_effect());
	seq_printf(seq, "dirty %llu\n", bytes(own.dirty));
	seq_printf(seq, "writeback %llu\n", bytes(own.writeback));
	seq_printf(seq, "subtree_dirty %llu\n", bytes(subtree.dirty));
	seq_printf(seq, "subtree_writeback %llu\n", bytes(subtree.writeback));
	seq_printf(seq, "foreign %llu\n",
		   group ? bytes(weir_device_foreign(group)) : 0);
	seq_printf(seq, "floor %llu\n",
		   holds ? bytes(READ_ONCE(group->floor)) : 0);
	seq_printf(seq, "floor_unused %llu\n",
		   holds ? bytes(atomic64_read(&group->unused)) : 0);
	print_bytes(seq, "ceiling ",
		    weir_in_effect() ? effective_ceiling(judged_by) :
				       WEIR_UNLIMITED);
	seq_printf(seq, "weight_portion %u\n",
		   holds ? weir_weight_portion_now(group) : 0);
}

static void print_counters(struct seq_file *seq, const struct weir_stats *stats)
{
	int by;

	seq_printf(seq, "nr_passes %llu\n", stats->passes);
	seq_printf(seq, "nr_floor_admitted %llu\n", stats->floor_admitted);
	seq_printf(seq, "nr_floor_released %llu\n", stats->floor_released);
	seq_printf(seq, "nr_ceiling_held %llu\n", stats->ceiling_held);
	seq_printf(seq, "nr_would_admit %llu\n", stats->would_admit);
	seq_printf(seq, "nr_would_hold %llu\n", stats->would_hold);
	seq_printf(seq, "nr_throttled %llu\n", stats->throttled);
	seq_printf(seq, "nr_throttled_below_floor %llu\n",
		   stats->throttled_below_floor);
	seq_printf(seq, "throttled_usec %llu\n",
		   stats->throttled_ns / NSEC_PER_USEC);
	for (by = 0; by < WEIR_BY_COUNT; by++) {
		seq_printf(seq, "nr_throttled_by_%s %llu\n", deciders[by],
			   stats->by[by].pauses);
		seq_printf(seq, "throttled_by_%s_usec %llu\n", deciders[by],
			   stats->by[by].ns / NSEC_PER_USEC);
	}
	seq_printf(seq, "nr_weight_held %llu\n", stats->weight_held);
	seq_printf(seq, "weight_held_usec %llu\n",
		   stats->weight_held_ns / NSEC_PER_USEC);
	seq_printf(seq, "nr_would_wait %llu\n", stats->would_wait);
	seq_printf(seq, "nr_missed %llu\n", weir_passes_unseen());
}

static int show_stat(struct seq_file *seq, void *unused)
{
	struct weir_stats stats = {};
	struct weir_group *group;

	rcu_read_lock();
	group = weir_group_find(seq_css(seq));
	print_levels(seq, group);
	if (group)
		weir_group_stats(group, &stats);
	rcu_read_unlock();
	print_counters(seq, &stats);
	return 0;
}

static struct cftype files[] = {
	{
		.name = "dirty_min",
		.private = DIRTY_MIN,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_knob,
		.write = write_knob,
	},
	{
		.name = "dirty_bytes",
		.private = DIRTY_BYTES,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_knob,
		.write = write_knob,
	},
	{
		.name = "dirty_ratio",
		.private = DIRTY_RATIO,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_knob,
		.write = write_knob,
	},
#ifdef WEIR_WEIGHT
	{
		.name = "dirty_weight",
		.private = DIRTY_WEIGHT,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_knob,
		.write = write_knob,
	},
#endif
	{
		.name = "dirty_stat",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_stat,
	},
	{ }
};

/*
 * Does the kernel bring a file of one of the names in @wanted?  The list of files
 * changes only while controllers and modules like this one are set up.
 */
const char *weir_files_taken(const struct cftype *wanted)
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
	const char *taken = weir_files_taken(files);
	int err;

	if (taken) {
		pr_err("refusing to load: this kernel has a memory.%s of its own; use that one\n",
		       taken);
		return -EEXIST;
	}
	err = weir_add_files(files);
	if (err)
		pr_err("refusing to load: the cgroup files could not be added (error %d)\n",
		       err);
	return err;
}

/* Remove the files; waits for those who are reading or writing one. */
void weir_files_remove(void)
{
	weir_remove_files(files);
}
