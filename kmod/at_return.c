// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits at the return to user mode, where a task holds no lock of a filesystem.
 *
 * A pass may be that of a fault in the middle of getdents() or read(), with a lock that
 * everybody takes, so it waits for a second at most (bandwidth.c).  What is left of its
 * wait the task makes up for when its system call, or its fault, is over: by task work.
 * (A virtual CPU does that in its KVM_RUN: hence the limit on how long.)
 *
 * A work is allocated, and belongs to its task from then on: the task runs it at its
 * return, or in its exit, where it does not wait.  There is one for each task; a later
 * pass of the same call changes what it waits for.  It keeps numbers only, by which the
 * wait looks up its level again.
 *
 * Works run newest first, and what lies behind one that waits can be neither woken nor
 * taken back: files to close, completions of a ring, a poisoned page.  So a work goes
 * behind the others first, up to four times, as they add others: closing a file of
 * overlayfs closes another.  A completion that is a task work ends the wait, as a signal
 * does; one of a ring with DEFER_TASKRUN is late by it.
 *
 * Unloading.  A task may be blocked for ever in a call after such a pass, so works are
 * taken back, task by task, from when none can be added (weir_hooks_drain()).  Those that
 * run already end within a step of their wait, as weir does not act any more; one behind a
 * file that is being closed waits for that, and the log says so.  They are counted until
 * they are about to return, and a grace period sees off the rest.
 *
 * Some kernels do not export what is called here; where it is missing or takes other
 * parameters (layout.c), nothing waits here.
 */
#include "weir.h"
#include "compat.h"
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/task_work.h>

/* Times that a work goes behind the others. */
#define ROUNDS_MOST		4

/* Unloading says how many it waits for this often. */
#define TELL_WORKS_JIFFIES	(10 * HZ)

struct at_return {
	struct callback_head work;
	weir_wait_fn wait;
	struct weir_bandwidth_hold hold;
	unsigned int rounds;
};

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

static void work_runs(struct callback_head *work);

static bool is_ours(struct callback_head *work, void *unused)
{
	return work->func == work_runs;
}

static struct at_return *take_back(struct task_struct *task)
{
	struct callback_head *work = static_call(weir_work_cancel)(task, is_ours, NULL);

	return work ? container_of(work, struct at_return, work) : NULL;
}

static void forget(struct at_return *at)
{
	kfree(at);
	atomic_long_dec(&works);
}

static void work_runs(struct callback_head *work)
{
	struct at_return *at = container_of(work, struct at_return, work);
	/* of a pass in a work that ran before this one */
	struct at_return *later = take_back(current);
	struct weir_bandwidth_hold hold;
	weir_wait_fn wait;

	if (later) {
		at->wait = later->wait;
		at->hold = later->hold;
		forget(later);
	}
	wait = at->wait;
	hold = at->hold;
	if (!(current->flags & PF_EXITING) && at->rounds < ROUNDS_MOST) {
		at->rounds++;
		/* from then on it may be taken back: not to be touched */
		if (!static_call(weir_work_add)(current, work, TWA_NONE))
			return;
	}
	kfree(at);
	if (!(current->flags & PF_EXITING))
		wait(&hold);
	atomic_long_dec(&works);
}

/* Look for what is called here, once weir_layout is read. */
void weir_at_return_find(void)
{
	unsigned long add = weir_symbol("task_work_add");
	unsigned long cancel = weir_symbol("task_work_cancel_match");

	weir_layout.has_task_work &= add && cancel;
	if (!weir_layout.has_task_work) {
		pr_info("a bandwidth is waited for in passes alone: this kernel's task_work_add() or task_work_cancel_match() is missing or another\n");
		return;
	}
	static_call_update(weir_work_add,
			   (int (*)(struct task_struct *, struct callback_head *,
				    enum task_work_notify_mode))add);
	static_call_update(weir_work_cancel,
			   (struct callback_head *(*)(struct task_struct *, match_fn,
						      void *))cancel);
}

/*
 * Have the current task, which is in a pass, @wait for @hold when it returns to user
 * mode.  Threads of the kernel's, of rings and of vhost do not return.  A task that was
 * killed dumps its core, and could not be killed again while it waits.
 */
void weir_at_return(weir_wait_fn wait, const struct weir_bandwidth_hold *hold)
{
	struct at_return *at;

	if (!weir_layout.has_task_work ||
	    current->flags &
	    (PF_KTHREAD | PF_IO_WORKER | WEIR_PF_USER_WORKER | PF_SIGNALED | PF_EXITING))
		return;
	at = take_back(current);
	if (!at) {
		at = kmalloc(sizeof(*at), GFP_NOWAIT | __GFP_NOWARN);
		if (!at)
			return;
		atomic_long_inc(&works);
	}
	at->wait = wait;
	at->hold = *hold;
	at->rounds = 0;
	init_task_work(&at->work, work_runs);
	if (static_call(weir_work_add)(current, &at->work, TWA_RESUME))
		forget(at);
}

static void take_back_all(void)
{
	struct task_struct *process, *task;
	struct at_return *at;

	rcu_read_lock();
	for_each_process(process) {
		/* for_each_thread() names a lock that is not exported, for lockdep */
		list_for_each_entry_rcu(task, &process->signal->thread_head, thread_node) {
			at = take_back(task);
			if (at)
				forget(at);
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
		take_back_all();
		if (time_after(jiffies, tell)) {
			tell = jiffies + TELL_WORKS_JIFFIES;
			pr_warn("unloading waits for %ld tasks on their way back to user mode, and they for a file that they close\n",
				atomic_long_read(&works));
		}
		schedule_timeout_uninterruptible(rest);
		rest = min(2 * rest, (long)HZ);
	}
	synchronize_rcu_tasks();
}
