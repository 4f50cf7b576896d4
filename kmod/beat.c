// SPDX-License-Identifier: GPL-2.0-only
/*
 * The heartbeat: probes by need, proof that they work, floors evaluated live.
 *
 * No probe is registered until some cgroup has a knob set, and none is left
 * when the last one is cleared.  In between, five times a second, the beat
 *   - forgets cgroups that are gone and clean,
 *   - reads the global limits through the probed function and takes over a
 *     function of weir's own, and so knows whether probes still have effect:
 *     kernel.ftrace_enabled=0 and debugfs kprobes/enabled take them away
 *     without a word,
 *   - makes a group for every new cgroup below one with a knob, and brings all
 *     sums of subtrees up to date,
 *   - evaluates every floor and ratio against the live memory.max, memory.min,
 *     page cache and global limit.
 * A write to a knob does all that at once, so what is shown is what holds.
 */
#include "weir.h"
#include <linux/workqueue.h>

#define BEAT_JIFFIES	(HZ / 5)
/* Five beats missed: nobody can say that weir is in effect. */
#define STALE_MS	1000

struct weir_pool weir_pool;

static struct workqueue_struct *queue;
static u64 last_beat_ns;
static bool beating;
static bool proven;
static const char *patched;	/* by a livepatch: a probed function */
static u64 missed_before;	/* by probes registered earlier */

struct census {
	bool knobs;
	bool weights;
	u64 floors_wanted;
};

static void take(struct weir_group *group, void *arg)
{
	struct census *census = arg;

	census->weights |= group->weight != WEIR_WEIGHT_DEFAULT;
	census->knobs |= weir_group_has_knob(group) || census->weights;
	census->floors_wanted = weir_add(census->floors_wanted,
					 weir_memory_floor(group));
}

static void adopt(struct weir_group *group, void *arg)
{
	unsigned int *made = arg;

	if (weir_tree_bound(group))
		*made += weir_group_adopt(group);
}

/* A group for every cgroup below one with a knob; new ones may have children. */
static void adopt_all(void)
{
	unsigned int made;

	do {
		made = 0;
		weir_groups_each(adopt, &made);
	} while (made);
}

static void give(struct weir_group *group, void *arg)
{
	struct weir_floor_pool *pool = arg;

	if (READ_ONCE(group->ceiling.ratio_percent)) {
		weir_tree_update(group);
		WRITE_ONCE(group->avail, weir_memory_dirtyable(group));
	}
	WRITE_ONCE(group->floor, weir_floor_effective(weir_memory_floor(group), pool));
	weir_tree_update(group);
}

static void disarm(void)
{
	missed_before += weir_passes_missed() + weir_limits_missed();
	weir_passes_disarm();
	weir_limits_disarm();
	weir_redirect_end();
	weir_drain_end();
}

/* Passes are probed for cgroups' knobs only; nothing is beside a livepatch. */
static int arm(bool knobs)
{
	int err;

	patched = weir_livepatched();
	if (patched) {
		disarm();
		return -EBUSY;
	}
	err = weir_redirect_prove();
	if (!err && knobs)
		err = weir_passes_arm();
	if (!knobs && weir_passes_armed()) {
		missed_before += weir_passes_missed();
		weir_passes_disarm();
	}
	return err ?: weir_limits_arm();
}

/* A change of being in effect is told once. */
static void tell(int err)
{
	if (!err && !proven)
		pr_info("in effect\n");
	else if (patched && proven)
		pr_warn("no longer in effect: a livepatch has replaced %s(); stock behaviour until it is gone\n",
			patched);
	else if (err && proven)
		pr_warn("no longer in effect (error %d): probes are silenced, e.g. by kernel.ftrace_enabled=0 or debugfs kprobes/enabled; stock behaviour until they are back\n",
			err);
}

/* Evaluate every floor within the host's present limits. */
static void give_all(u64 thresh, u64 bg_thresh, u64 floors_wanted)
{
	struct weir_floor_pool pool = {
		.wanted_total = floors_wanted,
		.host_thresh = thresh,
	};

	WRITE_ONCE(weir_pool.host_thresh, thresh);
	WRITE_ONCE(weir_pool.host_bg_thresh, bg_thresh);
	WRITE_ONCE(weir_pool.floors_wanted, floors_wanted);
	WRITE_ONCE(weir_pool.floors_total, weir_floors_total(&pool));
	weir_groups_each(give, &pool);
	weir_reserve_watch();
}

/* Probes, proof, floors; the caller holds weir_lock. */
static int evaluate(void)
{
	struct census census = {};
	u64 thresh, bg_thresh;
	int err = 0;

	weir_groups_drop(false);
	weir_groups_each(take, &census);
	beating = (census.knobs || weir_drain_wanted()) && !weir_off;
	if (!beating) {
		disarm();
		weir_weights_enable(false);
		give_all(0, 0, 0);
		proven = false;
		return 0;
	}
	err = arm(census.knobs);
	weir_weights_enable(census.weights);
	if (!err)
		err = weir_limits_prove(&thresh, &bg_thresh);
	tell(err);
	proven = !err;
	if (err)
		return err;
	weir_drain_beat(thresh, bg_thresh);
	adopt_all();
	give_all(thresh, bg_thresh, census.floors_wanted);
	weir_weights_round();
	WRITE_ONCE(last_beat_ns, ktime_get_ns());
	return 0;
}

static void beat(struct work_struct *work)
{
	mutex_lock(&weir_lock);
	evaluate();
	if (beating)
		queue_delayed_work(queue, to_delayed_work(work), BEAT_JIFFIES);
	mutex_unlock(&weir_lock);
}

static DECLARE_DELAYED_WORK(beat_work, beat);

/*
 * A knob was written; the caller holds weir_lock.  An error means that the
 * probes could not be placed or do not work: nothing is in effect.
 */
int weir_knobs_changed(void)
{
	int err = evaluate();

	if (beating)
		queue_delayed_work(queue, &beat_work, BEAT_JIFFIES);
	return err;
}

/* The queue reclaims memory's way: the beat must go on while memory is short. */
int weir_beat_create(void)
{
	queue = alloc_workqueue("weir", WQ_MEM_RECLAIM, 1);
	return queue ? 0 : -ENOMEM;
}

/* Stop beating and take all probes away.  The cgroup files must be gone. */
void weir_beat_remove(void)
{
	mutex_lock(&weir_lock);
	weir_off = true;
	mutex_unlock(&weir_lock);
	cancel_delayed_work_sync(&beat_work);
	mutex_lock(&weir_lock);
	disarm();
	weir_weights_enable(false);
	give_all(0, 0, 0);
	mutex_unlock(&weir_lock);
	weir_reserve_end();
	mutex_lock(&weir_lock);
	weir_groups_drop(true);
	mutex_unlock(&weir_lock);
	destroy_workqueue(queue);
}

/* Milliseconds since the probes were last seen working. */
u64 weir_beat_age_ms(void)
{
	return (ktime_get_ns() - READ_ONCE(last_beat_ns)) / NSEC_PER_MSEC;
}

/* Is anything set that needs probes? */
bool weir_beating(void)
{
	return READ_ONCE(beating);
}

/* Are probes placed, and were they seen working within the last second? */
bool weir_in_effect(void)
{
	return READ_ONCE(beating) && READ_ONCE(proven) &&
	       weir_beat_age_ms() < STALE_MS;
}

/* Decisions lost since the module was loaded. */
u64 weir_missed(void)
{
	return missed_before + weir_passes_missed() + weir_limits_missed();
}
