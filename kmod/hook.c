// SPDX-License-Identifier: GPL-2.0-only
/*
 * Three functions of the kernel, replaced by wrappers of weir's: two of the
 * throttle's, and where sync waits, which is hooked for drain_tighten alone.
 *
 * An ftrace_ops with IPMODIFY sends each call of a hooked function to weir's
 * wrapper (wrapper.c) instead.  The wrapper is ordinary C in the same task: it may be
 * preempted, it may sleep, and it calls the kernel's function, or leaves it
 * out.  It calls it past its ftrace site, so other users of ftrace (a kprobe,
 * a BPF program) see each call once.
 *
 * IPMODIFY is exclusive per function.  Where a livepatch has one of the throttle's
 * already, arming fails with EBUSY and the patch stays alone; a livepatch that
 * comes later is refused by the kernel until weir is unloaded.  A kprobe that
 * changes the instruction pointer has no such promise: beside a BPF trampoline
 * or a livepatch the original may run although weir counted it as left out
 * (docs/experiments/0001-exclusive-redirection.md).
 *
 * The call past the ftrace site is a static call: on x86 a direct call or jump in the
 * machine code, with and without retpolines, inline or by a trampoline, which needs no
 * ENDBR at its target.  Where the architecture has no static calls (arm64), it is a call
 * through a pointer: compat.h.
 *
 * Unloading.  A task may be anywhere in a wrapper, and one that sleeps counts as
 * gone for synchronize_rcu_tasks().  Where one may sleep, the wrapper counts
 * tasks inside, per CPU: a task may leave on another CPU than it entered on,
 * and once none can enter, the sum only falls.  A first grace period lets
 * those between the ftrace site and the count arrive, a second lets those
 * behind it return, and those in the wrapper of the limits.
 *
 * Such a grace period lasts until each task that was preempted in the kernel has run
 * on, and the owner of a delegated cgroup with a small cpu.max puts that off.
 * unregister_ftrace_function() waits for one itself, as the ops are a module's, and
 * holds ftrace_lock meanwhile: nothing else on the host is traced or untraced.  So
 * nothing is unhooked before the module is unloaded, both functions of the throttle
 * share an ops, and what ends earlier is sent past its wrapper (bypass_hook()).  To look first
 * how long one takes was tried: a tenant that begins to hold it off then had ftrace_lock, and
 * so the writer of the next knob, wait for 118 s.  To point the ops at another function
 * instead needs no grace period, but does not tell a BPF trampoline that is there to go by it.
 */
#include "weir.h"
#include "compat.h"
#include "compat/ftrace.h"
#include <linux/delay.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

struct hook {
	const char *function;
	unsigned long address;
	unsigned long site;	/* ftrace's, in the function */
	unsigned long behind;	/* to the rest of the function */
	unsigned long target;	/* where a call goes on: in a wrapper, or behind */
};

static int no_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		   unsigned int flags)
{
	return 0;
}

static void no_limits(void *dtc)
{
}

static int no_sync(struct address_space *mapping)
{
	return 0;
}

static int no_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	return 0;
}

DEFINE_STATIC_CALL(weir_rest_of_pass, no_pass);
DEFINE_STATIC_CALL(weir_rest_of_limits, no_limits);
DEFINE_STATIC_CALL(weir_rest_of_sync, no_sync);
DEFINE_STATIC_CALL(weir_rest_of_writepages, no_writepages);
DEFINE_STATIC_CALL(weir_writepages, no_writepages);
WEIR_DEFINE_BEHIND(pass);
WEIR_DEFINE_BEHIND(sync);
WEIR_DEFINE_BEHIND(writepages);

/* Unloading names the tasks it waits for this often; a failed hook is tried again. */
#define TELL_AFTER_JIFFIES	(10 * HZ)

/* Tasks in a pass of weir's, in its wait of a sync, and flushers under a window. */
DEFINE_PER_CPU(long, weir_inside);
DEFINE_PER_CPU(long, weir_syncing);
DEFINE_PER_CPU(long, weir_flushing);
static atomic64_t misfit;
static bool armed;

/* The module is being unloaded: tasks in a pass of weir's are let go. */
bool weir_unloading __read_mostly;

int weir_kernel_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		     unsigned int flags)
{
	return static_call(weir_rest_of_pass)(wb, pages_dirtied, flags);
}

/* As the kernel itself calls it: by the hook, if there is one and it works. */
int weir_call_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	return static_call(weir_writepages)(mapping, wbc);
}

int weir_kernel_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	return static_call(weir_rest_of_writepages)(mapping, wbc);
}

enum {
	HOOK_PASS,
	HOOK_LIMITS,
	NR_THROTTLE_HOOKS,
	HOOK_SYNC = NR_THROTTLE_HOOKS,
	HOOK_WRITEPAGES,
	NR_HOOKS,
};

static struct hook hooks[NR_HOOKS] = {
	[HOOK_SYNC] = {
		.function = "filemap_fdatawait_keep_errors",
		.address = (unsigned long)filemap_fdatawait_keep_errors,
	},
};

static __always_inline void redirect_to(struct ftrace_regs *fregs, const struct hook *hook)
{
	weir_ftrace_set_ip(fregs, READ_ONCE(hook->target));
}

/*
 * Runs at the ftrace sites of the throttle.  The kernel passes the task's own nr_dirtied
 * as the second argument of a pass; a call with anything else is not what weir takes
 * it for and is left alone.
 */
static void notrace redirect_throttle(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	if (ip != hooks[HOOK_PASS].site) {
		redirect_to(fregs, &hooks[HOOK_LIMITS]);
		return;
	}
	if (weir_ftrace_argument(fregs, 1) != current->nr_dirtied) {
		atomic64_inc(&misfit);
		weir_ftrace_set_ip(fregs, hooks[HOOK_PASS].behind);
		return;
	}
	redirect_to(fregs, &hooks[HOOK_PASS]);
}

/* Runs at the ftrace site of what sync waits in. */
static void notrace redirect_sync(unsigned long ip, unsigned long parent_ip,
				  struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	redirect_to(fregs, &hooks[HOOK_SYNC]);
}

/* Runs at the ftrace site of what a flusher writes an inode's pages by. */
static void notrace redirect_writepages(unsigned long ip, unsigned long parent_ip,
					struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	redirect_to(fregs, &hooks[HOOK_WRITEPAGES]);
}

/* Functions that are hooked and let go together. */
struct hook_set {
	ftrace_func_t redirect;
	int first, behind;	/* of hooks[] */
	bool registered;
	struct ftrace_ops ops;
};

static struct hook_set throttle = {
	.redirect = redirect_throttle,
	.first = HOOK_PASS,
	.behind = NR_THROTTLE_HOOKS,
};

static struct hook_set sync_wait = {
	.redirect = redirect_sync,
	.first = HOOK_SYNC,
	.behind = HOOK_WRITEPAGES,
};

static struct hook_set window = {
	.redirect = redirect_writepages,
	.first = HOOK_WRITEPAGES,
	.behind = NR_HOOKS,
};

/*
 * Find the ftrace sites of the throttle's functions at these addresses, for @wrappers to be called
 * instead; a message names what has none.  What sync waits in is exported, and needed by
 * drain_tighten alone.
 */
int weir_hooks_find(const unsigned long *at, const struct weir_wrappers *wrappers)
{
	int i;

	hooks[HOOK_PASS].function = weir_function_wanted(WEIR_FUNCTION_PASS)->name;
	hooks[HOOK_PASS].address = at[WEIR_FUNCTION_PASS];
	hooks[HOOK_LIMITS].function = weir_function_wanted(WEIR_FUNCTION_LIMITS)->name;
	hooks[HOOK_LIMITS].address = at[WEIR_FUNCTION_LIMITS];
	hooks[HOOK_WRITEPAGES].function = weir_function_wanted(WEIR_FUNCTION_WRITEPAGES)->name;
	hooks[HOOK_WRITEPAGES].address = at[WEIR_FUNCTION_WRITEPAGES];
	hooks[HOOK_PASS].target = (unsigned long)wrappers->pass;
	hooks[HOOK_LIMITS].target = (unsigned long)wrappers->limits;
	hooks[HOOK_SYNC].target = (unsigned long)wrappers->wait;
	hooks[HOOK_WRITEPAGES].target = (unsigned long)wrappers->writepages;
	for (i = 0; i < NR_HOOKS; i++) {
		hooks[i].site = weir_ftrace_location(hooks[i].address);
		if (!hooks[i].site && i < NR_THROTTLE_HOOKS) {
			pr_err("refusing to load: %s() cannot be hooked: it has no ftrace site\n",
			       hooks[i].function);
			return -EOPNOTSUPP;
		}
	}
	static_call_update(weir_rest_of_limits,
			   (void (*)(void *))(hooks[HOOK_LIMITS].site + MCOUNT_INSN_SIZE));
	static_call_update(weir_rest_of_pass,
			   (int (*)(struct bdi_writeback *, unsigned long,
				    unsigned int))(hooks[HOOK_PASS].site + MCOUNT_INSN_SIZE));
	if (hooks[HOOK_SYNC].site)
		static_call_update(weir_rest_of_sync,
				   (int (*)(struct address_space *))(hooks[HOOK_SYNC].site +
								     MCOUNT_INSN_SIZE));
	static_call_update(weir_writepages,
			   (int (*)(struct address_space *,
				    struct writeback_control *))at[WEIR_FUNCTION_WRITEPAGES]);
	if (hooks[HOOK_WRITEPAGES].site)
		static_call_update(weir_rest_of_writepages,
				   (int (*)(struct address_space *,
					    struct writeback_control *))(hooks[HOOK_WRITEPAGES].site +
									 MCOUNT_INSN_SIZE));
	hooks[HOOK_PASS].behind = weir_behind(pass, hooks[HOOK_PASS].site);
	hooks[HOOK_SYNC].behind = weir_behind(sync, hooks[HOOK_SYNC].site);
	hooks[HOOK_WRITEPAGES].behind = weir_behind(writepages, hooks[HOOK_WRITEPAGES].site);
	return 0;
}

static int hook_functions(struct hook_set *set)
{
	int tries = 100;
	int i, err = 0;

	if (set->registered)
		return 0;

	set->ops = (struct ftrace_ops) {
		.func = set->redirect,
		/* not PERMANENT: ftrace switched off is to mean stock behaviour */
		.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_DYNAMIC,
	};
	for (i = set->first; !err && i < set->behind; i++)
		err = ftrace_set_filter_ip(&set->ops, hooks[i].address, 0, 0);
	if (!err)
		err = register_ftrace_function(&set->ops);
	/* a BPF program is being attached to one of the functions */
	while (err == -EAGAIN && tries--) {
		msleep(1);
		err = register_ftrace_function(&set->ops);
	}
	if (err)
		ftrace_free_filter(&set->ops);
	/* read without a lock by weir_sync_hook_request() */
	WRITE_ONCE(set->registered, !err);
	return err;
}

static void unhook_functions(struct hook_set *set)
{
	/* fails when ftrace has switched itself off after an error of its own */
	if (!set->registered || unregister_ftrace_function(&set->ops))
		return;
	ftrace_free_filter(&set->ops);
	set->registered = false;
}

/* As unhook_functions(), however long it takes: code that ftrace still calls must stay. */
static void unhook_until_done(struct hook_set *set)
{
	unhook_functions(set);
	if (set->registered)
		pr_err("ftrace does not take its hooks back; unloading waits for the reboot\n");
	while (set->registered) {
		schedule_timeout_uninterruptible(HZ);
		unhook_functions(set);
	}
}

/*
 * Hook both functions of the throttle.  Only the beat does.  -EBUSY if a livepatch or
 * another exclusive user of ftrace has one of them.
 *
 * This waits for ftrace_lock, which another tracer may hold for a grace period.  Nothing
 * is in effect then that the beat would have to keep up.
 */
int weir_hooks_arm(void)
{
	int err;

	if (armed)
		return 0;
	err = hook_functions(&throttle);
	WRITE_ONCE(armed, !err);
	return err;
}

/* Prove at load, and let go.  Tasks may still be in a wrapper. */
void weir_hooks_disarm(void)
{
	WRITE_ONCE(armed, false);
	unhook_functions(&throttle);
}

static void hook_sync(struct work_struct *work)
{
	int err = READ_ONCE(weir_unloading) ? 0 : hook_functions(&sync_wait);

	if (err)
		pr_warn_ratelimited("sync may wait for longer than drain_seconds: %s() cannot be hooked (error %d)\n",
				    hooks[HOOK_SYNC].function, err);
}

static DECLARE_WORK(sync_work, hook_sync);

/*
 * Have the function hooked in which sync waits; from then on it stays so.  Only the beat
 * asks.  In a work of its own, as ftrace_lock may be held for as long as a tenant likes.
 * Another exclusive user of the function may go away: it is tried again, but not on
 * each beat, as each attempt patches code.
 */
void weir_sync_hook_request(void)
{
	static unsigned long next;	/* jiffies */

	if (READ_ONCE(sync_wait.registered) || (next && time_before(jiffies, next)))
		return;
	next = (jiffies + TELL_AFTER_JIFFIES) ?: 1;
	queue_work(weir_unbound_wq, &sync_work);
}

static int window_failure;

static void hook_window(struct work_struct *work)
{
	window_failure = READ_ONCE(weir_unloading) ? -ENODEV : hook_functions(&window);
}

static DECLARE_WORK(window_work, hook_window);

bool weir_writepages_hooked(void)
{
	return READ_ONCE(window.registered);
}

/*
 * Hook what a flusher writes an inode by, for the first window.  In a work, as a writer that
 * is killed or stopped must not hold ftrace_lock; nor waits one that is killed.
 */
int weir_writepages_hook(void)
{
	if (weir_writepages_hooked())
		return 0;
	if (!hooks[HOOK_WRITEPAGES].site)
		return -EOPNOTSUPP;
	queue_work(weir_unbound_wq, &window_work);
	while (work_busy(&window_work)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		schedule_timeout_killable(1);
	}
	return READ_ONCE(window_failure);
}

/* From now on a call of the function goes on in itself, although it is hooked. */
static void bypass_hook(struct hook *hook)
{
	WRITE_ONCE(hook->target, hook->behind);
}

/*
 * For good: no task enters a pass of weir's any more, and those inside are let
 * go by the limits (weir_limits()), which stay hooked until they are out.
 */
void weir_hooks_close(void)
{
	WRITE_ONCE(weir_unloading, true);
	WRITE_ONCE(armed, false);
	cancel_work_sync(&sync_work);
	cancel_work_sync(&window_work);
	bypass_hook(&hooks[HOOK_PASS]);
	bypass_hook(&hooks[HOOK_WRITEPAGES]);
	bypass_hook(&hooks[HOOK_SYNC]);
}

bool weir_hooks_armed(void)
{
	return READ_ONCE(armed);
}

static long tasks_in(long __percpu *where)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(where, cpu));
	return sum;
}

/*
 * Wait until no task is in a pass of weir's, or in its wait of a sync; after
 * weir_hooks_close().  A sync leaves when what it waits for is written, and on a device that
 * does not answer nothing ends that.  The limits let a task go after the pause that it is
 * in, at most 200 ms; they are hooked for it if they are not.  One on a strictlimit device,
 * such as a FUSE filesystem whose server does not answer, stays until the device is below
 * its limit or the task is killed; so does any task while the limits cannot be hooked,
 * kernel.ftrace_enabled=0 silences them, or one of its two domains does not come by them.
 * Every ten seconds the log names such tasks, by @show.
 */
void weir_hooks_quiesce(void (*show)(void))
{
	unsigned int waited;

	/*
	 * Those on their way arrive: unregistering waits for a grace period, too.  With
	 * nothing hooked since the proof at load, that one has waited for them.
	 */
	if (sync_wait.registered)
		unhook_until_done(&sync_wait);
	if (window.registered)
		unhook_until_done(&window);
	else if (throttle.registered)
		synchronize_rcu_tasks();
	/* may fail: then they leave when the kernel lets them */
	if (tasks_in(&weir_inside))
		hook_functions(&throttle);
	for (waited = 1; tasks_in(&weir_inside) || tasks_in(&weir_syncing) ||
	     tasks_in(&weir_flushing); waited++) {
		if (waited % TELL_AFTER_JIFFIES == 0) {
			show();
			if (tasks_in(&weir_syncing))
				pr_warn("unloading waits for %ld calls of sync, and they for their devices\n",
					tasks_in(&weir_syncing));
			if (tasks_in(&weir_flushing))
				pr_warn("unloading waits for %ld flushers, and they for their devices\n",
					tasks_in(&weir_flushing));
		}
		schedule_timeout_uninterruptible(1);
	}
}

/*
 * Unhook the rest, and see off tasks that are about to return from this module's code,
 * after the last count of them has come to 0: that grace period is for all of them.
 */
void weir_hooks_remove(void)
{
	if (throttle.registered)
		unhook_until_done(&throttle);
	else
		synchronize_rcu_tasks();
}

/* Passes whose arguments were not what weir takes them for. */
u64 weir_hooks_misfit_count(void)
{
	return atomic64_read(&misfit);
}
