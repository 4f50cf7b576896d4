// SPDX-License-Identifier: GPL-2.0-only
/*
 * The heartbeat: hooks by need, proof that they work, floors evaluated live.
 *
 * Nothing is hooked until some cgroup has a knob set.  From then on hooks stay
 * until the module is unloaded: to remove one waits for tenants' tasks (hook.c), and
 * the beat waits for none.  Without a knob a hook passes everything on.
 *
 * While a knob is set, five times a second, the beat
 *   - reads the global limits through a hooked function, and so knows whether
 *     hooks have effect: kernel.ftrace_enabled=0 takes them away without a word,
 *   - evaluates every floor against the live memory.max, memory.min and limit
 *     (evaluate.c),
 *   - goes on with the walk over all cgroups (record.c): records for new ones below
 *     a knob, none for those that are gone and clean, sums of subtrees and bases
 *     of ratios brought up to date.
 * When no beat has proven anything for two seconds, passes and limits are left
 * to the kernel: nothing is decided by old values.  While no knob is set the walk
 * alone goes on, every ten seconds, as long as there is a record.
 *
 * All of it is done by one work item.  The task that writes the first knob waits for
 * it (arm.c) rather than doing it: a writer may be throttled in the middle, a kernel
 * worker is not.  For the same reason weir_lock is a spinlock.
 *
 * What a build may leave out is called by name, with an empty function in its place.
 * A table of features (wanted, period, end) was tried: 35 lines more, as it has two
 * entries, of which only drain.c's has more than one function.
 *
 * Cost of a beat: BEAT_READS reads of counters, 131,072 or about 0.7 million
 * instructions, and for each floor that is set its path three times at most, some floors
 * at a time.
 */
#include "weir.h"
#include <linux/workqueue.h>

#define BEAT_JIFFIES	msecs_to_jiffies(WEIR_BEAT_MS)
#define BEAT_READS	(1 << 17)
/* A task that asked for hooks sets its knob within this time. */
#define ASKED_JIFFIES	(2 * HZ)

/* of the work item */
static unsigned long tried_last;	/* jiffies */
static unsigned long ran_last;		/* jiffies */

/* Is anything set that needs hooks?  Without a lock only an impression. */
bool weir_hooks_needed(void)
{
	return READ_ONCE(weir_knob_count) || weir_drain_wanted() || READ_ONCE(weir_fair) ||
	       READ_ONCE(weir_writer_count);
}

static const char *failure_reason(int err)
{
	switch (err) {
	case -EBUSY: return "a livepatch or another exclusive user of ftrace has balance_dirty_pages() or domain_dirty_limits()";
	case -ENODATA: return "kernel.ftrace_enabled=0 silences the hook of domain_dirty_limits()";
	case -EOPNOTSUPP: return "this kernel's writers run an inlined copy of domain_dirty_limits()";
	default: return "a hook does not work on domain_dirty_limits()";
	}
}

/* Being in effect ends, or begins after it had failed. */
static void log_effect_change(int err)
{
	if (!err && weir_beat.failure)
		pr_info_ratelimited("in effect\n");
	else if (err && err != weir_beat.failure)
		pr_warn_ratelimited("not in effect (error %d): %s; stock behaviour until that ends\n",
				    err, failure_reason(err));
}

/* Place hooks where they are missing, and see whether they work. */
static void prove_hooks(void)
{
	u64 thresh, bg_thresh;
	int err;

	/* each attempt patches code for nothing where a livepatch is in the way */
	if (weir_beat.failure && !weir_hooks_armed() &&
	    time_before(jiffies, tried_last + HZ))
		return;
	err = weir_events_arm() ?: weir_hooks_arm() ?:
	      weir_limits_prove(&thresh, &bg_thresh);
	log_effect_change(err);
	tried_last = jiffies;
	WRITE_ONCE(weir_beat.failure, err);
	if (!err) {
		WRITE_ONCE(weir_pool.host_thresh, thresh);
		WRITE_ONCE(weir_pool.host_bg_thresh, bg_thresh);
		/* 0 is never */
		WRITE_ONCE(weir_last_beat, jiffies ?: 1);
	}
	WRITE_ONCE(weir_proven, !err);
}

/* The work of a beat besides proving. */
static void beat_evaluate(void)
{
	/* writers that are refused have the beat run as often as they like */
	if (time_before(jiffies, ran_last + BEAT_JIFFIES / 2))
		return;
	ran_last = jiffies;
	if (!weir_beat.failure)
		weir_drain_beat(weir_pool.host_thresh, weir_pool.host_bg_thresh);
	weir_floors_evaluate();
	weir_fair_beat();
	weir_records_walk(BEAT_READS);
}

static void beat_idle(void)
{
	WRITE_ONCE(weir_proven, false);
	weir_drain_end();
	weir_records_walk(BEAT_READS);
	/* with no record this was the last for now, wherever it got to */
	if (!READ_ONCE(weir_record_count))
		weir_records_restart_walk();
}

static void beat(struct work_struct *work)
{
	bool needed, flushers;

	/* before it looks at what is asked: who asks waits for one that begins later */
	smp_store_mb(weir_beat.begun, weir_beat.begun + 1);
	needed = weir_hooks_needed();
	flushers = weir_flushers_any();
	weir_flushers_sweep();
	if (flushers && !weir_fault_stalls())
		weir_flushers_prove();
	if (READ_ONCE(weir_beat.asked))
		WRITE_ONCE(weir_beat.asked,
			   time_before(jiffies, READ_ONCE(weir_beat.asked_last) +
						ASKED_JIFFIES));
	needed |= READ_ONCE(weir_beat.asked);
	if (weir_fault_stalls()) {
		/* nothing, as if the workqueue were stuck */
	} else if (needed) {
		prove_hooks();
		beat_evaluate();
	} else {
		beat_idle();
	}
	smp_store_release(&weir_beat.ended, weir_beat.begun);
	if (READ_ONCE(weir_beat.stopping))
		return;
	/* not queue_: a record that was made meanwhile has queued it for later */
	if (needed || flushers)
		mod_delayed_work(weir_beat.queue, to_delayed_work(work), BEAT_JIFFIES);
	else if (READ_ONCE(weir_record_count))
		queue_delayed_work(weir_beat.queue, to_delayed_work(work),
				   WEIR_IDLE_JIFFIES);
}

/* The queue reclaims memory's way: the beat must go on while memory is short. */
int weir_beat_create(void)
{
	INIT_DELAYED_WORK(&weir_beat.work, beat);
	ran_last = jiffies - BEAT_JIFFIES;
	weir_beat.queue = alloc_workqueue("weir", WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	return weir_beat.queue ? 0 : -ENOMEM;
}

/* Stop beating and unhook passes.  The cgroup files must be gone. */
void weir_beat_remove(void)
{
	/* a pass may be making a record, under this lock, and start the beat for it */
	spin_lock(&weir_lock);
	WRITE_ONCE(weir_beat.stopping, true);
	spin_unlock(&weir_lock);
	cancel_delayed_work_sync(&weir_beat.work);
	destroy_workqueue(weir_beat.queue);
	WRITE_ONCE(weir_proven, false);
	weir_hooks_close();
	weir_events_disarm();
	weir_drain_end();
}

/* Milliseconds since hooks were last seen working; 0 if they never were. */
u64 weir_beat_age_ms(void)
{
	/* jiffies do not begin at 0 */
	if (!READ_ONCE(weir_last_beat))
		return 0;
	return jiffies_to_msecs(jiffies - READ_ONCE(weir_last_beat));
}

/* Is anything set, and were hooks seen working of late? */
bool weir_in_effect(void)
{
	bool needed = weir_hooks_needed(), flushers = weir_flushers_any();

	return (needed || flushers) && (!needed || weir_acting()) &&
	       (!flushers || weir_flushers_acting());
}
