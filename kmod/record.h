/* SPDX-License-Identifier: GPL-2.0-only */
/* The record of a cgroup: knobs, sums, counters, and how it is found.  Included by weir.h. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H

/* record.c: what weir knows of one cgroup */
struct weir_slept {
	u64 pauses;
	u64 ns;
};

/* Counters alone, each a u64: weir_record_stats(). */
struct weir_stats {
	u64 passes;
	u64 floor_admitted;
	u64 floor_released;
	u64 ceiling_held;
	u64 would_admit;
	u64 would_hold;
	u64 throttled_below_floor;
	struct weir_slept by[WEIR_BY_COUNT];
	u64 weight_held;
	u64 weight_held_ns;
	u64 would_wait;
	u64 bandwidth_held;
	u64 bandwidth_held_ns;
	u64 would_pace;
	u64 window_held;
	u64 window_held_ns;
};

/* A host may have two dozen disks. */
#define WEIR_DEVICES	32

/*
 * The pages that the record's wb on a device had recorded as dirtied, when last looked
 * at.
 */
struct weir_device {
	u64 bdi_id;
	u64 recorded;
};

/* The owner of a cgroup's pages, as far as the beat has seen. */
enum weir_pages_are {
	WEIR_OWN,
	WEIR_REPARENTED,	/* the parent's, which is yet to count them */
	WEIR_INHERITED,		/* counted by the parent, but for what is not folded */
};

/* A child's part of a line that a bandwidth makes (bandwidth.c). */
struct weir_part {
	struct weir_bandwidth line;
	struct weir_bandwidth left;	/* by tasks that ended, to those that follow */
	struct list_head node;	/* among the line's parts that count */
	u64 until_ms;		/* it counts */
	bool gone;		/* with its cgroup: not to be listed any more */
};

/* Those that write at or below a cgroup, for fair parts; under fair.c's lock. */
struct weir_fair_level {
	u64 weights;			/* of children that count, and of its own tasks */
	u32 counting;			/* their number */
	u32 weight;			/* the cgroup's own, as it counts above */
	u64 part;			/* of the pool */
};

struct weir_record {
	struct hlist_node node;
	struct list_head all;			/* weir_lock */
	struct list_head floors;		/* if it has one; weir_lock */
	struct cgroup_subsys_state *css;	/* referenced */
	struct weir_record *parent;	/* NULL below the root */
	u32 children;			/* records whose parent this is */
	raw_spinlock_t lock;			/* up to next_device */
	bool detached;			/* reports nothing more to its path */
	struct weir_inherited inherited;
	enum weir_pages_are pages_are;	/* of a removed cgroup, once reparented */
	/* own pages as last reported to the path, and what the subtree reported */
	struct weir_counts reported;
	struct weir_subtree subtree;
	s64 credit;			/* of a floor, for all it covers: policy/credit.c */
	struct weir_device devices[WEIR_DEVICES];
	u32 next_device;
	/* knobs, as written */
	u64 dirty_min_bytes;
	struct weir_ceiling ceiling;
	u32 owners_ceilings;		/* set without CAP_SYS_RESOURCE: a bit each; weir_lock */
	u32 weight;
	u32 tier_ratio;
	u64 writeback_bytes;		/* the window; changed under weir_lock */
	u64 bandwidth_bytes;		/* per second; changed under lock, too */
	struct weir_bandwidth bandwidth;	/* of the subtree; under lock */
	struct weir_part part;		/* of the parent's line; under the parent's lock */
	struct weir_part own_part;	/* of its own line, for its own tasks; under lock */
	struct list_head part_list;	/* parts that count, of the line; under lock */
	u32 parts;			/* in the list */
	/* evaluated by the beat and when written */
	u64 floor_wanted;		/* after caps, before the pool's scale */
	u64 floor_given;		/* after that; weir_lock */
	u64 floor;			/* in force: that, or the fair part */
	struct weir_fair_level fair;
	struct list_head fair_writers;	/* if it writes; under fair.c's lock, and these two */
	bool writes;
	bool fair_ended;		/* it is about to be freed */
	unsigned long wrote;		/* jiffies */
	u32 fair_beat;			/* that counted its subtree; the beat's */
	u64 unfloored;			/* epoch in which no floor was on the path */
	/* of the floor, kept from others when last counted */
	atomic64_t unused;
	u64 avail;			/* what a ratio is of */
	/* seen in passes: the freerun level its ceiling makes */
	u64 last_freerun;
	u64 past_ns;			/* when its full ceiling lets the next past; under lock */
	unsigned long woken;		/* flushers below, for that ceiling: jiffies */
	u32 weighted;			/* children whose weight is not the default; weir_lock */
	u32 hweight;			/* of what is divided where it competes */
	unsigned long hweight_set;	/* jiffies; 0: never */
	struct weir_stats __percpu *stats;
	struct rcu_head rcu;
};

extern unsigned int weir_record_count;
extern unsigned int weir_knob_count;	/* records with any knob; weir_lock */

int weir_record_make(struct cgroup_subsys_state *css);
struct weir_record *weir_record_make_in_pass(struct cgroup_subsys_state *css);
void weir_record_knobs_changed(struct weir_record *record, bool had);
void weir_records_restart_walk(void);
void weir_records_walk(u32 budget);
void weir_records_drop_all(void);
void weir_record_stats(struct weir_record *record, struct weir_stats *sum);

/* lookup.c: the record of a cgroup, and the lock that records are changed under */
extern spinlock_t weir_lock;
int weir_lock_killable(void);
void weir_lookup_add(struct weir_record *record);
struct weir_record *weir_record_find(struct cgroup_subsys_state *css);
struct weir_record *weir_record_nearest(struct cgroup_subsys_state *css);

/*
 * The current task is never to be delayed: the kernel gives way to it (real-time,
 * deadline, or boosted to that), or it exits.  Then nothing kills it, and what it still
 * writes is the host's: process accounting does with a lock that all exits take.
 */
static inline bool weir_task_urgent(void)
{
	return current->prio < MAX_RT_PRIO || (current->flags & PF_EXITING);
}

/* Coarse clock of one tick's resolution: a dozen times cheaper than ktime_get_ns(). */
static inline u64 weir_now_ms(void)
{
	return get_jiffies_64() * MSEC_PER_SEC / HZ;
}

/* Not removed: rmdir marks a css at once and takes it offline some time later. */
static inline bool weir_css_alive(struct cgroup_subsys_state *css)
{
	return (READ_ONCE(css->flags) & CSS_ONLINE) && !css_is_dying(css);
}

/*
 * Hold a cgroup that a walk has come to.  One that is about to come online may fail
 * to: then the kernel frees it after a grace period, held or not.
 */
static inline bool weir_css_get(struct cgroup_subsys_state *css)
{
	return (READ_ONCE(css->flags) & CSS_ONLINE || css_is_dying(css)) &&
	       css_tryget(css);
}

/*
 * Let others run, and RCU go on, at each 256th in a walk over the children of a
 * cgroup that the caller holds.  Under RCU: @child stays in the list while it is held.
 */
static inline void weir_rest_at(struct cgroup_subsys_state *child, u32 nth)
{
	if (nth % 256 || !weir_css_get(child))
		return;
	rcu_read_unlock();
	cond_resched();
	rcu_read_lock();
	css_put(child);
}

static inline bool weir_record_has_ceiling(const struct weir_record *record)
{
	return READ_ONCE(record->ceiling.bytes) != WEIR_UNLIMITED ||
	       READ_ONCE(record->ceiling.ratio_percent);
}

/* The ceiling in pages; without one WEIR_UNLIMITED. */
static inline u64 weir_record_ceiling(const struct weir_record *record)
{
	const struct weir_ceiling ceiling = {
		.bytes = READ_ONCE(record->ceiling.bytes),
		/* before what it is of: a first ratio is published after that */
		.ratio_percent = smp_load_acquire(&record->ceiling.ratio_percent),
	};

	return weir_ceiling_pages(&ceiling, READ_ONCE(record->avail));
}

static inline bool weir_record_has_knob(const struct weir_record *record)
{
	return READ_ONCE(record->dirty_min_bytes) || weir_record_has_ceiling(record);
}

/* Anything that needs hooks. */
static inline bool weir_record_has_any(const struct weir_record *record)
{
	return weir_record_has_knob(record) ||
	       READ_ONCE(record->bandwidth_bytes) != WEIR_UNLIMITED;
}

#define weir_count(record, field) this_cpu_inc((record)->stats->field)

#endif
