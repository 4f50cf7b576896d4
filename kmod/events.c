// SPDX-License-Identifier: GPL-2.0-only
/*
 * The deciders of pauses, counted and shown.
 *
 * The kernel's own tracepoint writeback:balance_dirty_pages fires before every
 * pause with the limit and the count of the domain that decided.  While weir is
 * armed it listens, and compares with what limits.c saw of the cgroup's domain in
 * the same pass.  policy/pause.c decides.
 *
 * The state of a pass is in a struct on its task's stack, which is in a
 * table by task while the kernel's function runs.  Only its own task reads or
 * writes it.  The first task of a bucket has that without a lock, as most do; others
 * are in a list that the bucket's lock guards.
 *
 * A pause is settled when the next one begins or the pass returns; the time
 * since is its length.
 */
#include "weir.h"
#include <linux/hash.h>
#include <linux/tracepoint.h>
#define CREATE_TRACE_POINTS
#include "weir_trace.h"

/* One tenant may have many tasks asleep, and the passes of all tenants look here. */
#define BUCKET_BITS	12

static struct bucket {
	struct task_struct *first;
	struct weir_pass_state *state;		/* of the first, who alone may look at it */
	raw_spinlock_t lock;
	struct hlist_head tasks;
} buckets[1 << BUCKET_BITS];

static struct tracepoint *pauses, *exits, *forks;
static bool listening, listening_to_exits, listening_to_forks;

static struct bucket *bucket_of(struct task_struct *task)
{
	return &buckets[hash_ptr(task, BUCKET_BITS)];
}

/* The record of the current task's pass; NULL if it is in none that weir watches. */
struct weir_pass_state *weir_events_current(void)
{
	struct bucket *bucket = bucket_of(current);
	struct weir_pass_state *state;

	if (READ_ONCE(bucket->first) == current)
		return bucket->state;
	if (hlist_empty(&bucket->tasks))
		return NULL;
	raw_spin_lock(&bucket->lock);
	hlist_for_each_entry(state, &bucket->tasks, node) {
		if (state->task == current)
			break;
	}
	raw_spin_unlock(&bucket->lock);
	return state;
}

/* The current task begins a pass through the kernel's function. */
void weir_events_list(struct weir_pass_state *state)
{
	struct bucket *bucket = bucket_of(current);

	if (!READ_ONCE(bucket->first) && !cmpxchg(&bucket->first, NULL, current)) {
		bucket->state = state;
		return;
	}
	state->task = current;
	raw_spin_lock(&bucket->lock);
	hlist_add_head(&state->node, &bucket->tasks);
	raw_spin_unlock(&bucket->lock);
}

/* Count the pause that is over, if one was. */
static void account_pause(struct weir_pass_state *state)
{
	struct weir_record *record;
	u64 slept_ns;

	if (!state->paused)
		return;
	state->paused = false;
	slept_ns = ktime_get_ns() - state->since_ns;
	rcu_read_lock();
	/* again: the record may have gone while the task slept */
	record = weir_tree_nearest(state->css);
	if (record) {
		this_cpu_inc(record->stats->by[state->by].pauses);
		this_cpu_add(record->stats->by[state->by].ns, slept_ns);
		if (state->below_floor)
			this_cpu_inc(record->stats->throttled_below_floor);
	}
	rcu_read_unlock();
}

/* The pass returns. */
void weir_events_unlist(struct weir_pass_state *state)
{
	struct bucket *bucket = bucket_of(current);

	account_pause(state);
	if (READ_ONCE(bucket->first) == current && bucket->state == state) {
		smp_store_release(&bucket->first, NULL);
		return;
	}
	raw_spin_lock(&bucket->lock);
	hlist_del(&state->node);
	raw_spin_unlock(&bucket->lock);
}

static void trace_pause(const struct weir_pass_state *state, struct bdi_writeback *wb,
			u64 thresh, u64 dirty, u64 pages, long pause)
{
	struct weir_stretch stretch =
		weir_stretch_open(state->css, weir_tree_nearest(state->css), NULL);

	trace_dirty_pause(cgroup_id(state->css->cgroup), bdi_dev_name(wb->bdi),
			  state->by, thresh, dirty,
			  stretch.floored ? READ_ONCE(stretch.floored->floor) : 0,
			  weir_tree_ceiling(stretch.record), pages,
			  jiffies_to_msecs(pause));
}

/* A pause of the current task is about to begin, judged by these numbers. */
static void begin_pause(struct bdi_writeback *wb, unsigned long thresh,
			unsigned long dirty, unsigned long dirtied, long pause)
{
	struct weir_pass_state *state = weir_events_current();
	struct weir_pause_facts facts;

	if (!state || state->unwatched)
		return;
	/* newer kernels call the probes of a tracepoint without RCU */
	rcu_read_lock();
	account_pause(state);
	if (pause <= 0 || state->async)
		goto out;
	facts = (struct weir_pause_facts) {
		.thresh = thresh,
		.dirty = dirty,
		.cgroup_thresh = state->thresh,
		.cgroup_dirty = state->dirty,
		.cgroup_seen = state->cgroup_limits,
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
		.judged_by = state->judged_by,
	};
	state->by = weir_pause_by(&facts);
	state->since_ns = ktime_get_ns();
	state->paused = true;
	if (trace_dirty_pause_enabled())
		trace_pause(state, wb, thresh, dirty, dirtied, pause);
out:
	rcu_read_unlock();
}

/*
 * The two forms of writeback:balance_dirty_pages; layout.c tells which one the
 * running kernel has.  Each has its own probe: an indirect call of another type
 * is an error to kernels that check control flow.
 */
static void on_pause_numbers(void *unused, struct bdi_writeback *wb,
			     unsigned long thresh, unsigned long bg_thresh,
			     unsigned long dirty, unsigned long bdi_thresh,
			     unsigned long bdi_dirty,
			     unsigned long dirty_ratelimit,
			     unsigned long task_ratelimit,
			     unsigned long dirtied, unsigned long period,
			     long pause, unsigned long start_time)
{
	begin_pause(wb, thresh, dirty, dirtied, pause);
}

static void on_pause_dtc(void *unused, struct bdi_writeback *wb,
			 struct dirty_throttle_control *dtc,
			 unsigned long dirty_ratelimit,
			 unsigned long task_ratelimit, unsigned long dirtied,
			 unsigned long period, long pause,
			 unsigned long start_time)
{
	const void *domain = dtc;

	begin_pause(wb, *(unsigned long *)(domain + weir_layout.dtc_thresh),
		    *(unsigned long *)(domain + weir_layout.dtc_dirty),
		    dirtied, pause);
}

/* The two forms of sched:sched_process_exit, called by the task that exits. */
static void on_exit_task(void *unused, struct task_struct *task)
{
	weir_device_charge_exit();
	weir_bandwidth_exit();
}

static void on_exit_with_record(void *unused, struct task_struct *task,
				bool group_dead)
{
	weir_device_charge_exit();
	weir_bandwidth_exit();
}

/* sched:sched_process_fork, called by the task that forks; the child does not run yet. */
static void on_fork(void *unused, struct task_struct *parent, struct task_struct *child)
{
	weir_bandwidth_fork(child);
}

static void *exit_probe(void)
{
	return weir_layout.exit_with_record ? (void *)on_exit_with_record :
					     (void *)on_exit_task;
}

static void *pause_probe(void)
{
	return weir_layout.pause_with_dtc ? (void *)on_pause_dtc :
					    (void *)on_pause_numbers;
}

/* A floor left a pass out. */
void weir_events_admit(struct weir_record *record, struct bdi_writeback *wb,
		       const struct weir_floor_pass *pass, u64 pages)
{
	if (trace_dirty_admit_enabled())
		trace_dirty_admit(cgroup_id(record->css->cgroup),
				  bdi_dev_name(wb->bdi), pass->floor,
				  max(pass->memcg_dirty, pass->wb_dirty), pages);
}

static void show_task(struct task_struct *task)
{
	pr_info("unloading waits for task %d (%s), which sleeps in the throttle (is kernel.ftrace_enabled 1?)\n",
		task_pid_nr(task), task->comm);
}

/* Say which tasks are in the kernel's function, some of them. */
void weir_events_log_waiting(void)
{
	struct task_struct *first;
	struct weir_pass_state *state;
	int left = 8;
	int i;

	for (i = 0; i < ARRAY_SIZE(buckets) && left > 0; i++) {
		/* it may leave and exit meanwhile: a task is freed after a grace period */
		rcu_read_lock();
		first = READ_ONCE(buckets[i].first);
		if (first && left--)
			show_task(first);
		rcu_read_unlock();
		raw_spin_lock(&buckets[i].lock);
		hlist_for_each_entry(state, &buckets[i].tasks, node) {
			if (left > 0)
				show_task(state->task);
			left--;
		}
		raw_spin_unlock(&buckets[i].lock);
	}
}

static void note_tracepoint(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, WEIR_PAUSE_TRACEPOINT))
		pauses = tracepoint;
	if (!strcmp(tracepoint->name, "sched_process_exit"))
		exits = tracepoint;
	if (!strcmp(tracepoint->name, "sched_process_fork"))
		forks = tracepoint;
}

/* Find the kernel's tracepoint; -ENOENT, with a message, if there is none. */
int weir_events_find(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(buckets); i++)
		raw_spin_lock_init(&buckets[i].lock);
	for_each_kernel_tracepoint(note_tracepoint, NULL);
	if (pauses)
		return 0;
	pr_err("refusing to load: this kernel has no tracepoint " WEIR_PAUSE_TRACEPOINT "\n");
	return -ENOENT;
}

/* Listen.  Only the beat does. */
int weir_events_arm(void)
{
	int err;

	if (listening)
		return 0;
	err = tracepoint_probe_register(pauses, pause_probe(), NULL);
	listening = !err;
	/* without it floors do not count what exited tasks had not reported */
	if (!err && exits && weir_layout.exit_known)
		listening_to_exits =
			!tracepoint_probe_register(exits, exit_probe(), NULL);
	if (!err && forks && weir_layout.fork_known)
		listening_to_forks =
			!tracepoint_probe_register(forks, (void *)on_fork, NULL);
	return err;
}

/* Stop listening; pauses of passes under way end unrecorded. */
void weir_events_disarm(void)
{
	if (!listening)
		return;
	tracepoint_probe_unregister(pauses, pause_probe(), NULL);
	if (listening_to_exits)
		tracepoint_probe_unregister(exits, exit_probe(), NULL);
	if (listening_to_forks)
		tracepoint_probe_unregister(forks, (void *)on_fork, NULL);
	listening_to_exits = false;
	listening_to_forks = false;
	tracepoint_synchronize_unregister();
	listening = false;
}
