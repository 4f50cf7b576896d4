// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every wait that weir adds: at the return to user mode, where a task holds no lock.
 *
 * A pass may be made anywhere: with the lock of a file or a directory held, below the
 * mutex that all renames take, in the fault of a getdents() or a read().  A task that
 * sleeps there makes others wait, for as long as the call has pages.  So a pass only
 * notes what its task owes, by bandwidth, by weight or to a full ceiling; the task waits for
 * that when its system call, or its fault, is over: by task work, as memory.high does it.
 * A call is never held for what it owes; a task that owes begins no other.
 *
 * What is noted is a struct weir_call, one for each task that owes.  It is allocated, and
 * belongs to its task: the task frees it when it has waited, or in its exit, where it does not
 * wait.  It keeps numbers only, by which each step looks up its cgroup and device.
 *
 * The wait is in steps of 200 ms at most, after each of which it is computed anew: all
 * debts together, and as long as the longest.  It is killable, and ends when the system is
 * about to sleep.  What is to stop the task, a debugger, SIGSTOP or cgroup.freeze, ends it
 * after WEIR_STOP_AFTER_MS, as long as memory.high makes them wait at most; other signals
 * are handled when it is over, as those that come in a long write() are.  (If they ended it,
 * a timer would do away with every bound.)  What has not been waited for remains owed by the
 * cgroup: a tenant that stops its tasks all the time gets a call past its bound each time.
 * What tasks owe that die is waited for by those that are made after them (bandwidth.c).
 *
 * Works run newest first, and what lies behind one that waits can be neither woken nor
 * taken back: files to close, completions of a ring, a poisoned page.  So a work goes
 * behind the others first, up to four times, as they add others (closing a file of
 * overlayfs closes another), and again when others come while it waits.
 *
 * A worker of a ring runs its works between two requests, and waits there, no longer than
 * WEIR_STOP_AFTER_MS: requests for the same file stand behind it, and the task that closes
 * the ring.  Threads of the kernel's, of vhost, and the one that polls a ring's queue do
 * not wait at all: they do not return, or are waited for by others with a lock held.  Nor
 * does a task in the midst of execve(), which cancels the requests of its rings.
 *
 * A virtual CPU runs works on its way into the guest, and waits there: a virtual machine
 * whose memory is a file below a bandwidth stands still for what its cgroup owes.
 *
 * Unloading.  A task may be blocked for ever in a call after such a pass, so works are
 * taken back, task by task, from when none can be added (weir_hooks_quiesce()).  Those that
 * run already end within a step of their wait, as weir does not act any more; one behind a
 * file that is being closed waits for that, and the log says so.  They are counted until
 * they are about to return; the grace period of weir_hooks_remove() sees off the rest.
 *
 * Where a kernel has other functions for this (layout.c), nothing waits: bandwidth and
 * weight are refused (files.c).
 */
#include "weir.h"
#include "compat.h"
#include <linux/freezer.h>
#include <linux/rcupdate.h>
#include <linux/sched/jobctl.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/task_work.h>

/* Times that a work goes behind the others: those before, and those that came meanwhile. */
#define ROUNDS_MOST		4
#define ROUNDS_AGAIN		2

/* A task that is to stop waits for so long, and a worker of a ring at most. */
#define WEIR_STOP_AFTER_MS	2000ULL

/* Unloading says how many it waits for this often. */
#define TELL_WORKS_JIFFIES	(10 * HZ)

typedef bool (*match_fn)(struct callback_head *work, void *data);

static int no_work_add(struct task_struct *task, struct callback_head *work,
		       enum task_work_notify_mode mode)
{
	return -EINVAL;
}

static struct callback_head *no_work_cancel(struct task_struct *task, match_fn match, void *data)
{
	return NULL;
}

DEFINE_STATIC_CALL(weir_work_add, no_work_add);
DEFINE_STATIC_CALL(weir_work_cancel, no_work_cancel);

/* Works that a task has, or runs. */
static atomic_long_t works;

static void run_weir_work(struct callback_head *work);

static bool is_weir_work(struct callback_head *work, void *unused)
{
	return work->func == run_weir_work;
}

/* As is_weir_work(), but leaves it where it is. */
static bool note_weir_work(struct callback_head *work, void *found)
{
	if (work->func == run_weir_work)
		*(struct callback_head **)found = work;
	return false;
}

static struct weir_call *call_of(struct callback_head *work)
{
	return work ? container_of(work, struct weir_call, work) : NULL;
}

static struct weir_call *cancel_call(struct task_struct *task)
{
	return call_of(static_call(weir_work_cancel)(task, is_weir_work, NULL));
}

static void free_call(struct weir_call *call)
{
	kfree(call);
	atomic_long_dec(&works);
}

/* Look for what is called here, once weir_layout is read. */
void weir_at_return_find(void)
{
	unsigned long add = weir_symbol_address("task_work_add");
	unsigned long cancel = weir_symbol_address("task_work_cancel_match");

	weir_layout.has_task_work &= add && cancel;
	if (!weir_layout.has_task_work) {
		pr_info("no dirty_bandwidth and no dirty_weight: this kernel's task_work_add() or task_work_cancel_match() is missing or another\n");
		return;
	}
	static_call_update(weir_work_add,
			   (int (*)(struct task_struct *, struct callback_head *,
				    enum task_work_notify_mode))add);
	static_call_update(weir_work_cancel,
			   (struct callback_head *(*)(struct task_struct *, match_fn,
						      void *))cancel);
}

/* The record of the current task's call, or NULL. */
struct weir_call *weir_call_current(void)
{
	struct callback_head *found = NULL;

	if (READ_ONCE(current->task_works))
		static_call(weir_work_cancel)(current, note_weir_work, &found);
	return call_of(found);
}

/*
 * Can the current task not be killed any more?  It exits, by itself or as it was killed, and
 * a debugger that stops it at that has its works run; or it dumps its core.
 */
static bool is_dying(void)
{
	return current->flags & (PF_SIGNALED | PF_EXITING) ||
	       READ_ONCE(current->signal->flags) & SIGNAL_GROUP_EXIT;
}

/* Will the current task not wait, as it ends? */
bool weir_call_is_dying(void)
{
	return is_dying() || fatal_signal_pending(current);
}

/* Is the current task one that waits at its return? */
bool weir_call_may_wait(void)
{
	if (!weir_layout.has_task_work || current->in_execve || is_dying() ||
	    current->flags & PF_KTHREAD)
		return false;
	/* of a ring, the polling thread runs its works with a lock that others take */
	if (current->flags & PF_IO_WORKER)
		return current->worker_private;
	return !(current->flags & WEIR_PF_USER_WORKER);
}

/* Add a call to @task; NULL if it exits, or memory is short. */
static struct weir_call *add_call(struct task_struct *task)
{
	struct weir_call *call;

	call = kzalloc(sizeof(*call), GFP_NOWAIT | __GFP_NOWARN);
	if (!call)
		return NULL;
	atomic_long_inc(&works);
	init_task_work(&call->work, run_weir_work);
	if (static_call(weir_work_add)(task, &call->work, TWA_RESUME)) {
		free_call(call);
		return NULL;
	}
	return call;
}

/* The same, made if need be; NULL if its return is not seen, or memory is short. */
struct weir_call *weir_call_get(void)
{
	struct weir_call *call = weir_call_current();

	if (call || !weir_call_may_wait())
		return call;
	return add_call(current);
}

/* Of a task that is being made: it waits before it is in user mode for the first time. */
struct weir_call *weir_call_add_to(struct task_struct *child)
{
	if (!weir_layout.has_task_work ||
	    child->flags & (PF_KTHREAD | PF_IO_WORKER | WEIR_PF_USER_WORKER))
		return NULL;
	return add_call(child);
}

/* Is the current task about to be stopped, by a signal, a debugger or cgroup.freeze? */
static bool has_stop_pending(void)
{
	return READ_ONCE(current->jobctl) & (JOBCTL_PENDING_MASK | JOBCTL_TRAP_FREEZE) ||
	       sigismember(&current->pending.signal, SIGSTOP) ||
	       sigismember(&current->signal->shared_pending.signal, SIGSTOP);
}

/* Does anything end the wait of @call, of which the task has slept @slept_ns in all? */
static bool must_end_wait(u64 slept_ns)
{
	if (READ_ONCE(weir_observe) || !weir_acting() || weir_task_urgent() ||
	    current->in_execve || is_dying() || fatal_signal_pending(current) ||
	    freezing(current))
		return true;
	return slept_ns >= WEIR_STOP_AFTER_MS * NSEC_PER_MSEC &&
	       (has_stop_pending() || current->flags & PF_IO_WORKER);
}

/*
 * The debt that is to be waited for longest, and for how many ms.  Forgets those that
 * are paid.
 */
static const struct weir_debt *longest_debt(struct weir_call *call, u64 slept_ns, u64 *due_ms)
{
	const struct weir_debt *longest = NULL;
	u64 due;
	int i;

	*due_ms = 0;
	for (i = 0; i < WEIR_DEBTS; i++) {
		if (!call->debts[i])
			continue;
		due = call->debts[i]->due_ms(call, slept_ns);
		if (!due)
			call->debts[i] = NULL;
		if (due > *due_ms) {
			*due_ms = due;
			longest = call->debts[i];
		}
	}
	return longest;
}

/* Wait for all that @call owes; true if other works have come, which are to run first. */
static bool wait_for_debts(struct weir_call *call)
{
	const struct weir_debt *debt;
	u64 due_ms, before_ns, slept_ns = 0;

	for (;;) {
		debt = longest_debt(call, slept_ns, &due_ms);
		if (!debt || must_end_wait(call->slept_ns))
			return false;
		if (READ_ONCE(current->task_works))
			return true;
		before_ns = ktime_get_ns();
		debt->sleep(msecs_to_jiffies(min(due_ms, WEIR_STEP_MS)));
		slept_ns = ktime_get_ns() - before_ns;
		call->slept_ns += slept_ns;
	}
}

/* Let the works that are there run before @call's.  False: the task exits. */
static bool requeue_call(struct weir_call *call, unsigned int rounds)
{
	call->rounds = rounds;
	/* from then on it may be taken back: not to be touched */
	return !static_call(weir_work_add)(current, &call->work, TWA_NONE);
}

static void merge_debts(struct weir_call *call, const struct weir_call *later)
{
	int i;

	for (i = 0; i < WEIR_DEBTS; i++) {
		if (!later->debts[i])
			continue;
		call->debts[i] = later->debts[i];
		call->owed[i] = later->owed[i];
	}
}

/* The current task dies with what it owes. */
static void leave_unpaid_debts(const struct weir_call *call)
{
	int i;

	for (i = 0; i < WEIR_DEBTS; i++) {
		if (call->debts[i] && call->debts[i]->leave)
			call->debts[i]->leave(call);
	}
}

static void run_weir_work(struct callback_head *work)
{
	struct weir_call *call = call_of(work);
	/* of a pass in a work that ran before this one */
	struct weir_call *later = cancel_call(current);

	if (later) {
		merge_debts(call, later);
		free_call(later);
	}
	if (!(current->flags & PF_EXITING)) {
		if (call->rounds < ROUNDS_MOST && requeue_call(call, call->rounds + 1))
			return;
		if (wait_for_debts(call)) {
			/* the works woke the task; a worker's call may be for its ring's end */
			if (!(current->flags & PF_IO_WORKER))
				clear_notify_signal();
			if (requeue_call(call, ROUNDS_MOST - ROUNDS_AGAIN))
				return;
		}
	}
	if (weir_call_is_dying())
		leave_unpaid_debts(call);
	free_call(call);
}

static void cancel_all_calls(void)
{
	struct task_struct *process, *task;
	struct weir_call *call;

	rcu_read_lock();
	for_each_process(process) {
		/* for_each_thread() names a lock that is not exported, for lockdep */
		list_for_each_entry_rcu(task, &process->signal->thread_head, thread_node) {
			call = cancel_call(task);
			if (call)
				free_call(call);
		}
	}
	rcu_read_unlock();
}

/* No task is in a pass of weir's any more, and none will be: leave no work behind. */
void weir_at_return_end(void)
{
	unsigned long tell = jiffies + TELL_WORKS_JIFFIES;
	long rest = 1;

	while (atomic_long_read(&works)) {
		cancel_all_calls();
		if (time_after(jiffies, tell)) {
			tell = jiffies + TELL_WORKS_JIFFIES;
			pr_warn("unloading waits for %ld tasks on their way back to user mode, and they for a file that they close\n",
				atomic_long_read(&works));
		}
		schedule_timeout_uninterruptible(rest);
		rest = min(2 * rest, (long)HZ);
	}
}
