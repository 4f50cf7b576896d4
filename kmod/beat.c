// SPDX-License-Identifier: GPL-2.0-only
/*
 * The heartbeat: hooks by need, proof that they work, floors evaluated live.
 *
 * Nothing is hooked until some cgroup has a knob set.  When the last one is
 * cleared, hooks stay for ten more seconds: to place and to remove them patches
 * kernel code on all CPUs, and the owner of a delegated cgroup must not be able
 * to have that done at each write.  While hooked, five times a second, the beat
 *   - reads the global limits through a hooked function, and so knows whether
 *     hooks have effect: kernel.ftrace_enabled=0 takes them away without a word,
 *   - evaluates every floor against the live memory.max, memory.min and limit,
 *   - goes on with the walk over all cgroups (group.c): groups for new ones below
 *     a knob, none for those that are gone and clean, sums of subtrees and bases
 *     of ratios brought up to date.
 * When no beat has proven anything for two seconds, passes and limits are left
 * to the kernel: nothing is decided by old values.
 *
 * Cost of a beat: BEAT_READS reads of counters, 131,072 or about 0.7 million
 * instructions, and for each floor that is set its path twice.
 */
#include "weir.h"
#include <linux/workqueue.h>

#define BEAT_JIFFIES	(HZ / 5)
#define BEAT_READS	(1 << 17)
/* Hooks outlast the last knob by this. */
#define QUIET_JIFFIES	(10 * HZ)

struct weir_pool weir_pool;
bool weir_proven;
unsigned long weir_last_beat;

/* All of it under weir_lock. */
static struct workqueue_struct *queue;
static bool beating;
static bool stopping;
static unsigned long needed_last;	/* jiffies */
static unsigned long tried_last;	/* jiffies of an arming that failed */
static int failure;			/* its error; 0: none */

/* Is anything set that needs hooks?  Without a lock only an impression. */
bool weir_needed(void)
{
	return READ_ONCE(weir_knob_count) || weir_drain_wanted();
}

static void disarm(void)
{
	WRITE_ONCE(weir_proven, false);
	weir_hooks_disarm();
	weir_events_disarm();
	weir_drain_end();
	weir_groups_rest();
	failure = 0;
}

static const char *reason(int err)
{
	switch (err) {
	case -EBUSY: return "a livepatch or another exclusive user of ftrace has";
	case -ENODATA: return "kernel.ftrace_enabled=0 silences the hook of";
	default: return "a hook does not see what the kernel reports for";
	}
}

/* A change of being in effect is told once. */
static void tell(int err, const char *function)
{
	if (!err && !weir_proven)
		pr_info_ratelimited("in effect\n");
	else if (err && (weir_proven || !failure))
		pr_warn_ratelimited("not in effect (error %d): %s %s(); stock behaviour until that ends\n",
				    err, reason(err), function);
}

/* Place hooks where they are missing, and see whether they work. */
static int prove(u64 *thresh, u64 *bg_thresh)
{
	const char *function = "domain_dirty_limits";
	int err;

	err = weir_events_arm() ?: weir_hooks_arm(&function) ?:
	      weir_limits_prove(thresh, bg_thresh);
	tell(err, function);
	if (err && !weir_hooks_armed())
		weir_events_disarm();
	failure = err;
	tried_last = jiffies;
	WRITE_ONCE(weir_proven, !err);
	if (!err)
		WRITE_ONCE(weir_last_beat, jiffies);
	return err;
}

static struct weir_floor_pool pool(void)
{
	return (struct weir_floor_pool) {
		.wanted_total = weir_pool.floors_wanted,
		.host_thresh = weir_pool.host_thresh,
	};
}

/* What the group's caps leave of its floor, before the pool's scale. */
static void wish(struct weir_group *group)
{
	u64 wanted = weir_memory_floor(group);

	WRITE_ONCE(weir_pool.floors_wanted,
		   weir_pool.floors_wanted + wanted - group->floor_wanted);
	group->floor_wanted = wanted;
}

static void scale(struct weir_group *group, const struct weir_floor_pool *pool)
{
	WRITE_ONCE(group->floor,
		   weir_floor_effective(group->floor_wanted, pool));
	weir_tree_update(group);
}

static void total(const struct weir_floor_pool *pool)
{
	WRITE_ONCE(weir_pool.floors_total, weir_floors_total(pool));
	weir_reserve_watch();
}

/*
 * Evaluate the floor and the base of the ratio of one group, and what its
 * subtree holds.  The caller holds weir_lock.
 */
void weir_evaluate(struct weir_group *group)
{
	struct weir_floor_pool all;

	if (READ_ONCE(group->ceiling.ratio_percent)) {
		weir_tree_update(group);
		WRITE_ONCE(group->avail, weir_memory_dirtyable(group));
	}
	if (!group->dirty_min_bytes && !group->floor_wanted) {
		weir_tree_update(group);
		return;
	}
	wish(group);
	all = pool();
	scale(group, &all);
	total(&all);
}

/* Evaluate every floor within the host's present limits. */
void weir_floors_evaluate(void)
{
	struct weir_floor_pool all;
	struct weir_group *group;

	list_for_each_entry(group, &weir_floors, floors)
		wish(group);
	all = pool();
	list_for_each_entry(group, &weir_floors, floors)
		scale(group, &all);
	total(&all);
}

static void run(void)
{
	u64 thresh, bg_thresh;

	if (!prove(&thresh, &bg_thresh)) {
		WRITE_ONCE(weir_pool.host_thresh, thresh);
		WRITE_ONCE(weir_pool.host_bg_thresh, bg_thresh);
		weir_drain_beat(thresh, bg_thresh);
	}
	weir_groups_make_wanted();
	weir_floors_evaluate();
	weir_groups_walk(BEAT_READS, weir_evaluate);
	weir_weights_round();
}

static void beat(struct work_struct *work)
{
	mutex_lock(&weir_lock);
	if (weir_needed())
		needed_last = jiffies;
	beating = !stopping &&
		  time_before(jiffies, needed_last + QUIET_JIFFIES);
	if (beating) {
		run();
		queue_delayed_work(queue, to_delayed_work(work), BEAT_JIFFIES);
	} else {
		disarm();
	}
	mutex_unlock(&weir_lock);
}

static DECLARE_DELAYED_WORK(beat_work, beat);

/*
 * Something is about to be set; the caller holds weir_lock.  0 if hooks work.
 * An error means that the kernel's own behaviour is all there is, and that what
 * is to be set would promise too much.  An attempt that failed is not repeated
 * within a beat, however often somebody writes.
 */
int weir_arm(void)
{
	u64 thresh, bg_thresh;

	if (stopping)
		return -ENODEV;
	if (weir_acting()) {
		needed_last = jiffies;
		return 0;
	}
	if (failure && time_before(jiffies, tried_last + BEAT_JIFFIES))
		return failure;
	if (prove(&thresh, &bg_thresh))
		goto out;
	WRITE_ONCE(weir_pool.host_thresh, thresh);
	WRITE_ONCE(weir_pool.host_bg_thresh, bg_thresh);
out:
	/* also after a failure: what was hooked for it goes after a quiet time */
	needed_last = jiffies;
	beating = true;
	queue_delayed_work(queue, &beat_work, BEAT_JIFFIES);
	return failure;
}

/* The queue reclaims memory's way: the beat must go on while memory is short. */
int weir_beat_create(void)
{
	queue = alloc_workqueue("weir", WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	return queue ? 0 : -ENOMEM;
}

/* Stop beating and unhook.  The cgroup files must be gone. */
void weir_beat_remove(void)
{
	mutex_lock(&weir_lock);
	stopping = true;
	mutex_unlock(&weir_lock);
	cancel_delayed_work_sync(&beat_work);
	mutex_lock(&weir_lock);
	disarm();
	WRITE_ONCE(weir_pool.floors_total, 0);
	mutex_unlock(&weir_lock);
	weir_reserve_end();
	destroy_workqueue(queue);
}

/* Milliseconds since hooks were last seen working. */
u64 weir_beat_age_ms(void)
{
	return jiffies_to_msecs(jiffies - READ_ONCE(weir_last_beat));
}

/* Is anything set, and were hooks seen working of late? */
bool weir_in_effect(void)
{
	return weir_needed() && weir_acting();
}
