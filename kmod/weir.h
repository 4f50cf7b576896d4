/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the module share.  Page counts unless a name says
 * otherwise.
 */
#ifndef WEIR_H
#define WEIR_H

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/backing-dev.h>
#include <linux/cgroup.h>
#include <linux/kprobes.h>
#include <linux/memcontrol.h>
#include <linux/static_call.h>
#include <linux/page_counter.h>
#include <linux/sched/prio.h>
#include <linux/workqueue.h>
#include "policy/policy.h"
#include "policy/needs.h"
#include "policy/tier.h"

struct dirty_throttle_control;
struct writeback_control;

/* state.c: how it was loaded, and what the beat found last */
extern bool weir_off;
extern bool weir_observe;
extern bool weir_tenants_arm;
extern bool weir_fair;
extern unsigned int weir_writer_count;	/* cgroups that write, where parts are fair */

struct weir_pool {
	u64 host_thresh;
	u64 host_bg_thresh;
	u64 floors_wanted;
	u64 floors_given;	/* sum of all floors; weir_lock */
	u64 floors_total;	/* of those that are set */
	u64 honoured;		/* with fair parts: above the limit, so many pages at most */
};

extern struct weir_pool weir_pool;
extern u64 weir_floors_epoch;	/* changes as floors come and go; weir_lock */
extern bool weir_proven;
extern unsigned long weir_last_beat;	/* jiffies */
extern unsigned long weir_flushers_proven;	/* jiffies */

/* It is not known that weir is in effect once ten beats are missed. */
#define WEIR_STALE_JIFFIES	msecs_to_jiffies(10 * WEIR_BEAT_MS)

/* Have hooks been seen working of late?  If not, passes are the kernel's own. */
static inline bool weir_acting(void)
{
	return READ_ONCE(weir_proven) &&
	       time_before(jiffies, READ_ONCE(weir_last_beat) + WEIR_STALE_JIFFIES);
}

/* The same of what holds flushers. */
static inline bool weir_flushers_acting(void)
{
	unsigned long proven = READ_ONCE(weir_flushers_proven);

	return proven && time_before(jiffies, proven + WEIR_STALE_JIFFIES);
}

/* symbols.c: functions the kernel does not export, called directly */
int weir_symbols_find(unsigned long *at);
unsigned long weir_symbol_address(const char *name);
unsigned long weir_ftrace_location(unsigned long address);
int weir_add_files(struct cftype *files);
int weir_remove_files(struct cftype *files);
void weir_start_background(struct bdi_writeback *wb);
unsigned long weir_memcg_page_state(struct mem_cgroup *memcg, int item);
void weir_global_limits(unsigned long *background, unsigned long *limit);
struct bdi_writeback *weir_wb_of(u64 bdi_id, struct cgroup_subsys_state *css);
struct backing_dev_info *weir_bdi_of(u64 bdi_id);
bool weir_current_rescues(void);

/* hook.c: functions of the kernel, replaced by wrappers */
struct weir_wrappers {
	int (*pass)(struct bdi_writeback *wb, unsigned long pages_dirtied,
		    unsigned int flags);
	void (*limits)(void *dtc);
	int (*wait)(struct address_space *mapping);
	int (*writepages)(struct address_space *mapping, struct writeback_control *wbc);
};

/* tasks in a pass of weir's, and in its wait of a sync: the wrappers count */
DECLARE_PER_CPU(long, weir_inside);
DECLARE_PER_CPU(long, weir_syncing);
DECLARE_PER_CPU(long, weir_flushing);
int weir_hooks_find(const unsigned long *at, const struct weir_wrappers *wrappers);
int weir_hooks_arm(void);
void weir_sync_hook_want(void);
bool weir_writepages_hooked(void);
int weir_writepages_hook(void);
extern bool weir_unloading;
void weir_hooks_disarm(void);
void weir_hooks_close(void);
void weir_hooks_quiesce(void (*show)(void));
void weir_hooks_remove(void);
bool weir_hooks_armed(void);
u64 weir_hooks_misfit(void);
int weir_kernel_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		     unsigned int flags);
int weir_call_writepages(struct address_space *mapping, struct writeback_control *wbc);
int weir_kernel_writepages(struct address_space *mapping, struct writeback_control *wbc);

/* wrapper.c: what is called instead of them */
extern const struct weir_wrappers weir_wrappers;

/* btf.c: the running kernel's own description of its types */
struct weir_btf_blob {
	struct weir_btf btf;
	void *bytes;
	u32 *type_offsets;
};

int weir_btf_load(struct weir_btf_blob *blob);
void weir_btf_free(struct weir_btf_blob *blob);

/* layout.c: where the private fields are */
struct weir_layout {
#define WEIR_OFFSET(member) u32 dtc_##member;
	WEIR_DTC_MEMBERS(WEIR_OFFSET)
#undef WEIR_OFFSET
	u32 stat_dirty, stat_writeback;	/* in memcg_vmstats_percpu */
	/* the same counters in memcg_vmstats, from its arrays' begin */
	u32 flushed_dirty, flushed_writeback;
	/* these arrays; but the first, read only where pages are handed to the parent */
	u32 flushed_all, flushed_pending, flushed_own;
	bool reparents;			/* pages of removed cgroups, to the parent */
	/* time at which a writer last slept, for blk-wbt; 0 if not there */
	u32 bdi_last_sleep;		/* in backing_dev_info */
	u32 wb_last_sleep;		/* in bdi_writeback, before */
	bool pause_with_dtc;		/* what its tracepoint passes */
	bool exit_known, exit_with_record;	/* the same of sched_process_exit */
	bool fork_known;		/* that of sched:sched_process_fork */
	bool has_task_work;		/* functions that at_return.c calls */
};

extern struct weir_layout weir_layout;
int weir_layout_read(void);

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

/* device.c: what tasks below a floor dirtied, and what their wbs recorded */
void weir_device_charge(struct weir_record *record, struct weir_record *floored,
			struct bdi_writeback *wb, u64 reported, bool admitted);

/* Foreign pages that count against the record's floor. */
static inline u64 weir_record_foreign(const struct weir_record *record)
{
	return weir_credit_foreign(READ_ONCE(record->credit));
}

/* Have cgroups with fair parts below it dirtied as much of others' as its own part? */
static inline bool weir_fair_filled(const struct weir_record *record)
{
	u64 foreign = weir_record_foreign(record);

	return foreign && !READ_ONCE(record->floor_given) &&
	       foreign >= READ_ONCE(record->fair.part);
}

#define WEIR_REPORTERS_BITS	15
struct weir_reporters { atomic_t last[1 << WEIR_REPORTERS_BITS]; };
u64 weir_dirtied_by_current(struct weir_reporters *reporters, u64 reported);
void weir_device_exit(void);

/*
 * One trip of a task through the throttle as seen so far, on that task's stack.
 * Kept across sleeps, so no pointer in it but the css, which the pass's wb
 * holds.
 */
struct weir_pass_state {
	struct hlist_node node;		/* in events.c's table */
	struct task_struct *task;
	struct cgroup_subsys_state *css;
	bool below_floor;		/* was, when it began */
	bool async;			/* must not sleep */
	bool unwatched;			/* weir does not act: nothing is counted */
	/* of its path, until the task sleeps: weir_stretch_goes_on() */
	unsigned long switches;		/* of the task, when that was found */
	bool surveyed;
	bool counted;			/* its sums are fresh */
	bool floored;			/* there is a floor on it */
	bool capped;			/* a ceiling */
	/* came by limits.c, in this pass */
	u32 looks;			/* the global domain */
	bool memcg_limits;		/* the cgroup's */
	bool released;			/* by a floor, in this look of the kernel */
	u64 released_poll;
	bool uncapped;			/* a full ceiling that an owner set is left to its return */
	/* the cgroup's domain as last amended */
	bool cgroup_limits;
	u64 poll;			/* by the ceilings on the path, if there are any */
	u64 thresh;
	u64 dirty;
	enum weir_pause_by judged_by;
	/* the pause the task is in */
	bool paused;
	enum weir_pause_by by;
	u64 since_ns;
};

/*
 * What a pass finds on its path between two sleeps, by one look-up and one walk.  Of the
 * RCU section that it is opened in, and never kept beyond.
 */
struct weir_stretch {
	struct weir_pass_state *state;	/* NULL but for a writer's */
	struct weir_record *record;	/* that judges the pass, or NULL: weir_tree_nearest() */
	struct weir_record *floored;	/* the next with a floor, from it upwards, or NULL */
	bool own;			/* the record is the cgroup's own */
	bool capped;			/* there is a ceiling on the path */
};

/* Does what was found on the path still hold: has the task not slept since? */
static inline bool weir_stretch_goes_on(const struct weir_pass_state *state)
{
	return state->surveyed && state->switches == current->nvcsw;
}

/* tree.c: what a subtree holds */
struct weir_counts weir_tree_update(struct weir_record *record);
void weir_stretch_survey(struct weir_stretch *stretch);
void weir_stretch_count(const struct weir_stretch *stretch);
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
bool weir_tree_bound(const struct weir_record *record);
bool weir_tree_capped(const struct weir_record *record);
u64 weir_tree_ceiling(const struct weir_record *record);
struct weir_record *weir_tree_bound_above(struct cgroup_subsys_state *css);

/*
 * The record that passes of @css are judged by: its own, or, if there was no way to make
 * one, its nearest ancestor's for the sake of a knob above.  Under RCU.
 */
static inline struct weir_record *weir_tree_nearest(struct cgroup_subsys_state *css)
{
	return weir_record_find(css) ?: weir_tree_bound_above(css);
}

/*
 * Open a stretch of a pass on a wb of @css, which @record judges.  A writer's pass that
 * knows its path, and that there is no floor on it, walks no more until its task has slept.
 * Under RCU.
 */
static inline struct weir_stretch weir_stretch_open(struct cgroup_subsys_state *css,
						    struct weir_record *record,
						    struct weir_pass_state *state)
{
	struct weir_stretch stretch = {
		.state = state,
		.record = record,
		.own = record && record->css == css,
	};

	if (state && weir_stretch_goes_on(state) && !state->floored)
		stretch.capped = state->capped;
	else
		weir_stretch_survey(&stretch);
	return stretch;
}

/* memory.c: what memory leaves a cgroup */
static inline u64 weir_pages_max(unsigned long pages)
{
	return pages == PAGE_COUNTER_MAX ? WEIR_UNLIMITED : pages;
}

u64 weir_memory_room(struct cgroup_subsys_state *css);
u64 weir_memory_floor(struct weir_record *record, u64 wanted);
u64 weir_memory_dirtyable(struct weir_record *record);

/* events.c: who decided each pause */
int weir_events_find(void);
int weir_events_arm(void);
void weir_events_disarm(void);
void weir_events_show(void);
struct weir_pass_state *weir_events_current(void);
void weir_events_list(struct weir_pass_state *state);
void weir_events_unlist(struct weir_pass_state *state);
void weir_events_admit(struct weir_record *record, struct bdi_writeback *wb,
		       const struct weir_floor_pass *pass, u64 pages);

/* files.c */
int weir_files_create(void);
void weir_files_remove(void);
const char *weir_files_taken(const struct cftype *wanted);

/* tier.c: tiers of memory, as named in the parameter */
#ifdef WEIR_TIERS
int weir_tier_create(void);
void weir_tier_remove(void);

/* tier_now.c */
#define WEIR_TIERS_TEXT_MAX	256

struct weir_tier_nodes {
	nodemask_t tier[WEIR_TIERS_MAX];
	u32 count;
	char text[WEIR_TIERS_TEXT_MAX];
};

extern struct weir_tier_nodes weir_tier_lists;
extern unsigned int weir_tier_ratio;
void weir_tiers_now(struct weir_tiers *now);
const nodemask_t *weir_tier_nodes(u32 tier);

/* tier_files.c */
int weir_tier_files_create(void);
void weir_tier_files_remove(void);
#else
static inline int weir_tier_create(void) { return 0; }
static inline void weir_tier_remove(void) { }
#endif

/* host.c: the host's limits as passes find them */
void weir_reserve_note(struct weir_record *record, u64 unused);
u64 weir_unused_pages(void);
struct weir_drain_host weir_host_amendments(void);
struct weir_limits weir_host_limits(void);
void weir_wake_flusher(struct bdi_writeback *wb);

/* reserve.c: what floors reserve and do not use, kept fresh */
extern struct list_head weir_holders, weir_others;	/* all records; weir_lock */
/* Cost of a visit to a record besides counting, in reads. */
#define WEIR_VISIT_COST	16
void weir_reserve_watch(void);
void weir_reserve_end(void);

/* limits.c: both domains' limits, amended for ceilings and reservations */
void weir_limits(void *dtc);

/* proof.c: do hooks work, and what limits.c saw meanwhile */
struct weir_proof {
	struct task_struct *task;
	bool seen;
	u64 thresh;
	u64 bg_thresh;
	u64 avail;
	struct wb_domain *domain;
};

extern struct weir_proof weir_proof;
int weir_limits_prove(u64 *thresh, u64 *bg_thresh);
void weir_passes_note(const struct weir_pass_state *state, const struct bdi_writeback *wb);
u64 weir_passes_unseen(void);

/* the host's, seen at the last proof, and its smoothed limit pulled down */
u64 weir_limits_dirtyable(void);
void weir_limits_lowered(u64 limit);

/* drain.c: the host's limits by what its disks drain */
#ifdef WEIR_DRAIN
bool weir_drain_wanted(void);
void weir_drain_beat(u64 thresh, u64 bg_thresh);
void weir_drain_end(void);
void weir_drain_now(struct weir_drain_host *host);
u64 weir_drain_thresh(u64 thresh);
u64 weir_drain_limit(void);
u64 weir_drain_rate(void);
bool weir_drain_scarce(void);
bool weir_drain_bounds_sync(void);
#else
static inline bool weir_drain_wanted(void) { return false; }
static inline void weir_drain_beat(u64 thresh, u64 bg_thresh) { }
static inline void weir_drain_end(void) { }
static inline void weir_drain_now(struct weir_drain_host *host) { }
static inline u64 weir_drain_thresh(u64 thresh) { return thresh; }
static inline u64 weir_drain_limit(void) { return 0; }
static inline u64 weir_drain_rate(void) { return 0; }
static inline bool weir_drain_scarce(void) { return false; }
static inline bool weir_drain_bounds_sync(void) { return false; }
#endif

/* flusher.c, division.c: flushers submit in parts, by windows and weights */
#ifdef WEIR_FLUSHER
extern unsigned int weir_window_count;	/* cgroups with a window; weir_lock */
bool weir_flushers_any(void);
int weir_flushers_prove(void);
void weir_window_change(struct weir_record *record, u64 bytes);
int weir_flusher_write(struct address_space *mapping, struct writeback_control *wbc);
void weir_flushers_sweep(void);
void weir_flushers_end(void);
bool weir_weights_any(void);
void weir_weight_change(struct weir_record *record, u32 weight);
u32 weir_weight_portion(const struct weir_record *record);
#else
static inline bool weir_flushers_any(void) { return false; }
static inline int weir_flushers_prove(void) { return 0; }
static inline void weir_window_change(struct weir_record *record, u64 bytes) { }
static inline void weir_flushers_sweep(void) { }
static inline void weir_flushers_end(void) { }
static inline void weir_weight_change(struct weir_record *record, u32 weight) { }
static inline u32 weir_weight_portion(const struct weir_record *record) { return 0; }
#endif

/* sync.c: what sync waits for; hooked for drain_tighten alone */
#ifdef WEIR_DRAIN
int weir_sync_wait(struct address_space *mapping);
#else
static inline int weir_sync_wait(struct address_space *mapping) { return 0; }
#endif

/* floor.c: what a writer's pass finds under the floors of its path */
struct weir_floor_pass weir_floor_for_pass(const struct weir_stretch *stretch,
					   struct bdi_writeback *wb);

/* at_return.c: waits of tasks that hold nothing, at their return to user mode */
enum { WEIR_DEBT_BANDWIDTH, WEIR_DEBT_LEFT, WEIR_DEBT_CEILING, WEIR_DEBTS };

struct weir_call;

/* A way to wait for a debt. */
struct weir_debt {
	/* For how long still, in ms?  A step has taken @slept_ns; 0 when the wait begins. */
	u64 (*due_ms)(struct weir_call *call, u64 slept_ns);
	void (*sleep)(long timeout);
	/* The task dies with this debt; NULL: then it is gone. */
	void (*leave)(const struct weir_call *call);
};

/* The debts of a system call, or a fault, of a task by now.  The task's own. */
struct weir_call {
	struct callback_head work;
	unsigned int rounds;		/* that the work has gone behind others */
	u64 slept_ns;			/* at its return */
	const struct weir_debt *debts[WEIR_DEBTS];	/* NULL: none */
	union {
		struct weir_bandwidth_hold hold;
		struct {
			u64 number, part_number, ticket;
		} left;
		struct {
			u64 bdi_id;
			u64 pages;	/* past a ceiling */
		};
	} owed[WEIR_DEBTS];
};

void weir_at_return_find(void);
bool weir_call_returns(void);
bool weir_call_dies(void);
struct weir_call *weir_call_current(void);
struct weir_call *weir_call_get(void);
struct weir_call *weir_call_give(struct task_struct *child);
void weir_at_return_end(void);

/* bandwidth.c: writers wait for what their cgroups may dirty in a second */
#ifdef WEIR_BANDWIDTH
extern unsigned int weir_bandwidth_count;

static inline bool weir_bandwidth_any(void)
{
	return READ_ONCE(weir_bandwidth_count);
}

void weir_bandwidth_change(struct weir_record *record, u64 bytes);
void weir_bandwidth_made(struct weir_record *record);
void weir_bandwidth_drop(struct weir_record *record);
void weir_bandwidth_pass(u64 pages, unsigned int flags, struct weir_bandwidth_hold *hold);
void weir_bandwidth_exit(void);
void weir_bandwidth_fork(struct task_struct *child);
#else
static inline bool weir_bandwidth_any(void) { return false; }
static inline void weir_bandwidth_change(struct weir_record *record, u64 bytes) { }
static inline void weir_bandwidth_made(struct weir_record *record) { }
static inline void weir_bandwidth_drop(struct weir_record *record) { }
static inline void weir_bandwidth_pass(u64 pages, unsigned int flags,
				       struct weir_bandwidth_hold *hold) { }
static inline void weir_bandwidth_exit(void) { }
static inline void weir_bandwidth_fork(struct task_struct *child) { }
#endif

/* ceiling.c: writers that are let past a full ceiling */
void weir_ceiling_past(struct bdi_writeback *wb, u64 pages);

/*
 * After the kernel's pass of a writer.  Where the domain was at its limit when the kernel
 * last looked, it lets go for no other reason than that its wb has next to nothing; and
 * where ceilings were left out, for that.
 */
static inline void weir_ceiling_pass(struct bdi_writeback *wb, u64 pages,
				     const struct weir_pass_state *state)
{
	if (state->uncapped || (state->cgroup_limits && state->dirty >= state->thresh &&
				!state->released))
		weir_ceiling_past(wb, pages);
}

/* pass.c: the writer's pass, left out for a floor and timed for all others */
int weir_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
	      unsigned int flags);

/* arm.c: asking for the beat */
#define WEIR_IDLE_JIFFIES	(10 * HZ)

struct weir_beat {
	struct workqueue_struct *queue;
	struct delayed_work work;
	bool stopping;
	unsigned int begun, ended;	/* beats; written by the beat */
	bool asked;
	unsigned long asked_last;	/* jiffies */
	int failure;			/* of the last attempt; 0: none */
};

extern struct weir_beat weir_beat;
int weir_arm(void);
int weir_param_arm(bool wanted);
int weir_params_open(bool wanted);
void weir_params_close(void);
void weir_beat_start(void);
void weir_beat_now(void);

/* fair.c: a floor for each cgroup that writes */
void weir_fair_start(struct weir_record *record);
void weir_fair_leave(struct weir_record *record, bool for_good);
void weir_fair_fill_pool(void);
void weir_fair_count(struct weir_record *record);
void weir_fair_beat(void);

/* A task of the record's own cgroup is in a pass. */
static inline void weir_fair_note(struct weir_record *record)
{
	if (!READ_ONCE(weir_fair))
		return;
	if (!READ_ONCE(record->writes))
		weir_fair_start(record);
	else if (READ_ONCE(record->wrote) != jiffies)
		WRITE_ONCE(record->wrote, jiffies);
}

/* evaluate.c: floors and ceilings evaluated live */
extern struct list_head weir_floors;	/* records with a floor; weir_lock */
extern unsigned int weir_floor_count;	/* their number; weir_lock */
void weir_record_evaluate(struct weir_record *record);
void weir_floor_evaluate(struct weir_record *record);
void weir_floors_evaluate(void);

/* beat.c: arming by need, heartbeat */
int weir_beat_create(void);
void weir_beat_remove(void);
bool weir_hooks_needed(void);
bool weir_in_effect(void);
u64 weir_beat_age_ms(void);

/* status.c */
int weir_status_create(void);
void weir_status_remove(void);

/* faults.c, for tests only */
#ifdef WEIR_FAULTS
bool weir_fault_loses(void);
bool weir_fault_stalls(void);
bool weir_fault_hides(const char *name);
void weir_fault_rename(void *blob, size_t size);
struct cftype *weir_fault_files(void);
#else
static inline bool weir_fault_loses(void) { return false; }
static inline bool weir_fault_stalls(void) { return false; }
static inline bool weir_fault_hides(const char *name) { return false; }
static inline void weir_fault_rename(void *blob, size_t size) { }
static inline struct cftype *weir_fault_files(void) { return NULL; }
#endif

#endif
