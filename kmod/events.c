// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who decided each pause, counted and shown.
 *
 * The kernel's own tracepoint writeback:balance_dirty_pages fires before every
 * pause with the limit and the count of the domain that decided.  While a knob
 * is set weir listens to it, and compares with what its probe saw of the
 * cgroup's domain in the same pass (limits.c).  policy/pause.c decides.
 *
 * What a pass has seen is kept in a slot of its task from the entry of
 * balance_dirty_pages() to its return.  A slot is found by the task's address,
 * at most NEAR slots from where it belongs, and only its own task uses it: a
 * compare-and-exchange takes it, a store gives it back.  A task that finds none
 * is timed all the same; its pauses are counted as by nobody knows whom.
 *
 * A pause is settled when the next one begins or the pass returns: what the
 * task's voluntary switches grew by was slept, and the time since is its length.
 */
#include "weir.h"
#include <linux/hash.h>
#include <linux/tracepoint.h>
#define CREATE_TRACE_POINTS
#include "weir_trace.h"

/* Tasks asleep in the throttle at a time, with room to spare. */
#define SLOT_BITS	13
#define NEAR		16

struct slot {
	struct task_struct *task;
	struct weir_group *group;	/* lives as long as the cgroup, which the pass holds */
	unsigned long switches;
	u64 since_ns;
	u64 thresh;
	u64 dirty;
	enum weir_judged_by judged_by;
	enum weir_pause_by by;
	bool seen;
	bool paused;
};

static struct slot slots[1 << SLOT_BITS];
static struct tracepoint *pauses;
static bool listening;

static struct slot *slot_at(unsigned int i)
{
	return &slots[(hash_ptr(current, SLOT_BITS) + i) % ARRAY_SIZE(slots)];
}

static struct slot *find(void)
{
	unsigned int i;

	for (i = 0; i < NEAR; i++) {
		if (READ_ONCE(slot_at(i)->task) == current)
			return slot_at(i);
	}
	return NULL;
}

/* A pass of the current task begins. */
void weir_events_enter(struct weir_group *group)
{
	struct slot *slot;
	unsigned int i;

	for (i = 0; i < NEAR; i++) {
		slot = slot_at(i);
		if (READ_ONCE(slot->task) ||
		    cmpxchg(&slot->task, NULL, current))
			continue;
		slot->group = group;
		slot->switches = current->nvcsw;
		slot->seen = false;
		slot->paused = false;
		return;
	}
}

/* The current task's pass computed its cgroup's limits, as they are now. */
void weir_events_limits(const struct weir_limits *limits,
			enum weir_judged_by judged_by)
{
	struct slot *slot = find();

	if (!slot)
		return;
	slot->thresh = limits->thresh;
	slot->dirty = limits->dirty;
	slot->judged_by = judged_by;
	slot->seen = true;
}

static void settle(struct slot *slot)
{
	unsigned long slept = current->nvcsw - slot->switches;
	struct weir_stats __percpu *stats = slot->group->stats;

	if (slot->paused && slept) {
		this_cpu_add(stats->by[slot->by].pauses, slept);
		this_cpu_add(stats->by[slot->by].ns,
			     ktime_get_mono_fast_ns() - slot->since_ns);
	}
	slot->switches = current->nvcsw;
	slot->paused = false;
}

/* The pass returns. */
void weir_events_leave(void)
{
	struct slot *slot = find();

	if (!slot)
		return;
	settle(slot);
	smp_store_release(&slot->task, NULL);
}

/* The next floor from @group upwards. */
static u64 floor_of(struct weir_group *group)
{
	group = weir_tree_floored(group);
	return group ? READ_ONCE(group->floor) : 0;
}

/* The arguments are those of writeback:balance_dirty_pages, checked by layout.c. */
static void on_pause(void *unused, struct bdi_writeback *wb,
		     unsigned long thresh, unsigned long bg_thresh,
		     unsigned long dirty, unsigned long bdi_thresh,
		     unsigned long bdi_dirty, unsigned long dirty_ratelimit,
		     unsigned long task_ratelimit, unsigned long dirtied,
		     unsigned long period, long pause, unsigned long start_time)
{
	struct slot *slot = find();
	struct weir_pause_facts facts;

	if (!slot)
		return;
	settle(slot);
	if (pause <= 0)
		return;
	facts = (struct weir_pause_facts) {
		.thresh = thresh,
		.dirty = dirty,
		.cgroup_thresh = slot->thresh,
		.cgroup_dirty = slot->dirty,
		.cgroup_seen = slot->seen,
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.judged_by = slot->judged_by,
	};
	slot->by = weir_pause_by(&facts);
	slot->since_ns = ktime_get_mono_fast_ns();
	slot->paused = true;
	if (trace_dirty_pause_enabled())
		trace_dirty_pause(cgroup_id(slot->group->css->cgroup),
				  bdi_dev_name(wb->bdi), slot->by, thresh, dirty,
				  floor_of(slot->group),
				  weir_tree_ceiling(slot->group), dirtied,
				  jiffies_to_msecs(pause));
}

/* A floor left a pass out. */
void weir_events_admit(struct weir_group *group, struct bdi_writeback *wb,
		       const struct weir_floor_pass *pass, u64 pages)
{
	if (trace_dirty_admit_enabled())
		trace_dirty_admit(cgroup_id(group->css->cgroup),
				  bdi_dev_name(wb->bdi), pass->floor,
				  max(pass->memcg_dirty, pass->wb_dirty), pages);
}

static void look_for(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "balance_dirty_pages"))
		pauses = tracepoint;
}

/* Find the kernel's tracepoint; -ENOENT, with a message, if there is none. */
int weir_events_find(void)
{
	for_each_kernel_tracepoint(look_for, NULL);
	if (pauses)
		return 0;
	pr_err("refusing to load: this kernel has no tracepoint balance_dirty_pages\n");
	return -ENOENT;
}

/* Listen.  The caller holds weir_lock. */
int weir_events_arm(void)
{
	int err;

	if (listening)
		return 0;
	err = tracepoint_probe_register(pauses, on_pause, NULL);
	listening = !err;
	return err;
}

/* Stop listening, after the return probe is gone: passes under way end unrecorded. */
void weir_events_disarm(void)
{
	if (!listening)
		return;
	tracepoint_probe_unregister(pauses, on_pause, NULL);
	tracepoint_synchronize_unregister();
	memset(slots, 0, sizeof(slots));
	listening = false;
}
