// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits at the return to user mode, where a task holds no lock.
 *
 * A pass may be that of a fault in the middle of getdents() or read(), with a lock that
 * everybody takes, so it waits for a second at most (bandwidth.c).  What is left of its
 * wait the task makes up for when its system call, or its fault, is over: by task work,
 * as the kernel has those wait who are above memory.high.
 *
 * A work is allocated, and belongs to its task from then on: the task runs it at its
 * return, or in its exit, where it does not wait.  There is one for each task at most; a
 * later pass of the same call changes what it waits for.  It keeps numbers only, by which
 * the wait looks up its level again.
 *
 * Unloading.  A task may be blocked for ever in a call after such a pass, so works are
 * taken back, task by task, from when none can be added (weir_hooks_drain()).  Those that
 * run already end within a step of their wait, as weir does not act any more.  They are
 * counted until they are about to return, and a grace period sees off the rest.
 *
 * Functions of the kernel that are not exported; without them (layout.c) nothing waits here.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/task_work.h>

struct at_return {
	struct callback_head work;
	weir_wait_fn wait;
	struct weir_bandwidth_hold hold;
};

typedef bool (*match_fn)(struct callback_head *work, void *data);

static int no_add(struct task_struct *task, struct callback_head *work,
		  enum task_work_notify_mode mode)
{
	return -ENOSYS;
}

static struct callback_head *no_cancel(struct task_struct *task, match_fn match, void *data)
{
	return NULL;
}

DEFINE_STATIC_CALL(weir_work_add, no_add);
DEFINE_STATIC_CALL(weir_work_cancel, no_cancel);

/* Works that a task has, or runs. */
static atomic_long_t works;

static void run(struct callback_head *work)
{
	struct at_return *at = container_of(work, struct at_return, work);
	struct weir_bandwidth_hold hold = at->hold;
	weir_wait_fn wait = at->wait;

	kfree(at);
	if (!(current->flags & PF_EXITING))
		wait(&hold);
	atomic_long_dec(&works);
}

static bool is_ours(struct callback_head *work, void *unused)
{
	return work->func == run;
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

/* Look for what is called here, once weir_layout is read. */
void weir_at_return_find(void)
{
	unsigned long add = weir_symbol("task_work_add");
	unsigned long cancel = weir_symbol("task_work_cancel_match");

	if (!add || !cancel || !weir_layout.has_task_work)
		return;
	static_call_update(weir_work_add,
			   (int (*)(struct task_struct *, struct callback_head *,
				    enum task_work_notify_mode))add);
	static_call_update(weir_work_cancel,
			   (struct callback_head *(*)(struct task_struct *, match_fn,
						      void *))cancel);
}

/*
 * Have the current task, which is in a pass, @wait for @hold when it returns to user
 * mode.  Threads of the kernel's do not return, and those that work for a ring do so for
 * several of its calls.
 */
void weir_at_return(weir_wait_fn wait, const struct weir_bandwidth_hold *hold)
{
	struct at_return *at;

	if (current->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING))
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
	init_task_work(&at->work, run);
	if (static_call(weir_work_add)(current, &at->work, TWA_RESUME))
		forget(at);
}

/* No task is in a pass of weir's any more, and none will be: leave no work behind. */
void weir_at_return_end(void)
{
	struct task_struct *process, *task;
	struct at_return *at;

	while (atomic_long_read(&works)) {
		rcu_read_lock();
		for_each_process_thread(process, task) {
			at = take_back(task);
			if (at)
				forget(at);
		}
		rcu_read_unlock();
		schedule_timeout_uninterruptible(1);
	}
	synchronize_rcu_tasks();
}
