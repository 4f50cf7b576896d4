// SPDX-License-Identifier: GPL-2.0-only
/*
 * The heartbeat: probes by need, proof that they work, floors evaluated live.
 *
 * No probe is registered until some cgroup has a knob set, and none is left
 * when the last one is cleared.  In between, five times a second, the beat
 *   - forgets cgroups that are gone,
 *   - reads the global limits through the probed function and takes over a
 *     function of weir's own, and so knows whether probes still have effect:
 *     kernel.ftrace_enabled=0 and debugfs kprobes/enabled take them away
 *     without a word,
 *   - evaluates every floor against the live memory.max, memory.min and global
 *     limit.
 * A write to a knob does all that at once, so what is shown is what holds.
 */
#include "weir.h"
#include <linux/page_counter.h>
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
	u64 floors_wanted;
};

static u64 own_floor(struct weir_group *group)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(group->css);
	u64 max = READ_ONCE(memcg->memory.max);
	struct weir_floor_caps caps = {
		.wanted = weir_bytes_to_pages(group->dirty_min_bytes),
		.memory_max = max == PAGE_COUNTER_MAX ? WEIR_UNLIMITED : max,
		.memory_min = READ_ONCE(memcg->memory.min),
	};

	return weir_floor_own(&caps);
}

static bool has_child(struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *child;
	bool found = false;

	rcu_read_lock();
	list_for_each_entry_rcu(child, &css->children, sibling)
		found |= weir_css_alive(child);
	rcu_read_unlock();
	return found;
}

static void take(struct weir_group *group, void *arg)
{
	struct census *census = arg;
	bool had_children = group->has_children;

	WRITE_ONCE(group->has_children, has_child(group->css));
	if (group->has_children && !had_children && weir_group_has_ceiling(group))
		pr_notice("memory.dirty_bytes/dirty_ratio of cgroup %llu is suspended: it has children now, and a ceiling does not bound a subtree yet\n",
			  cgroup_id(group->css->cgroup));
	census->knobs |= weir_group_has_knob(group);
	census->floors_wanted = weir_add(census->floors_wanted,
					 own_floor(group));
}

static void give(struct weir_group *group, void *arg)
{
	struct weir_floor_pool *pool = arg;

	WRITE_ONCE(group->floor, weir_floor_effective(own_floor(group), pool));
	weir_reserve_refresh(group);
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
		give_all(0, 0, 0);
		proven = false;
		return 0;
	}
	err = arm(census.knobs);
	if (!err)
		err = weir_limits_prove(&thresh, &bg_thresh);
	tell(err);
	proven = !err;
	if (err)
		return err;
	weir_drain_beat(thresh, bg_thresh);
	give_all(thresh, bg_thresh, census.floors_wanted);
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
