// SPDX-License-Identifier: GPL-2.0-only
/*
 * Three functions of the kernel, replaced by wrappers of weir's: two of the
 * throttle's, and where sync waits, which is hooked for drain_tighten alone.
 *
 * An ftrace_ops with IPMODIFY sends whoever enters a hooked function to weir's
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
 * The call past the ftrace site is a static call: a direct call in the machine
 * code, which needs no ENDBR at its target.  Where the architecture has no static
 * calls (arm64), it is a call through a pointer: compat.h.
 *
 * Unloading.  A task may be anywhere in a wrapper, and one that sleeps counts as
 * gone for synchronize_rcu_tasks().  Where one may sleep, the wrapper counts
 * tasks inside, per CPU: a task may leave on another CPU than it entered on,
 * and once none can enter, the sum only falls.  A first grace period lets
 * those between the ftrace site and the count arrive, a second lets those
 * behind it return, and those in the wrapper of the limits.
 */
#include "weir.h"
#include "compat/ftrace.h"
#include <linux/delay.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

struct hook {
	const char *function;
	unsigned long wrapper;
	unsigned long address;
	bool of_pass;
	bool set;
	struct ftrace_ops ops;
};

static int no_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		   unsigned int flags)
{
	return 0;
}

static void no_limits(void *dtc)
{
}

DEFINE_STATIC_CALL(weir_rest_of_pass, no_pass);
DEFINE_STATIC_CALL(weir_rest_of_limits, no_limits);

/* Unloading says whom it waits for this often. */
#define TELL_AFTER_JIFFIES	(10 * HZ)

/* Tasks in a pass of weir's, and in its wait of a sync. */
DEFINE_PER_CPU(long, weir_inside);
DEFINE_PER_CPU(long, weir_syncing);
static atomic64_t misfit;
static bool armed;

/* The module is being unloaded: tasks in a pass of weir's are let go. */
bool weir_leaving __read_mostly;

int weir_kernel_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		     unsigned int flags)
{
	return static_call(weir_rest_of_pass)(wb, pages_dirtied, flags);
}

/*
 * Runs at the ftrace site.  The kernel passes the task's own nr_dirtied as the
 * second argument of a pass; a call with anything else is not what weir takes
 * it for and is left alone.
 */
static void notrace redirect(unsigned long ip, unsigned long parent_ip,
			     struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct hook *hook = container_of(ops, struct hook, ops);

	if (hook->of_pass &&
	    weir_ftrace_argument(fregs, 1) != current->nr_dirtied) {
		atomic64_inc(&misfit);
		return;
	}
	weir_ftrace_set_ip(fregs, hook->wrapper);
}

enum { PASS, LIMITS, THROTTLE, WAIT = THROTTLE };

/*
 * Of the throttle's, what a livepatch is likelier to have comes first: then nothing is
 * patched in vain.
 */
static struct hook hooks[] = {
	[PASS] = {
		.of_pass = true,
	},
	[WAIT] = {
		.function = "filemap_fdatawait_keep_errors",
		.address = (unsigned long)filemap_fdatawait_keep_errors,
	},
};

/*
 * Find the ftrace sites of the throttle's functions at these addresses, for @wrappers to be called
 * instead; a message names what has none.  Where sync waits is exported, and nobody needs it who
 * has not asked for drain_tighten.
 */
int weir_hooks_find(unsigned long pass, unsigned long limits,
		    const struct weir_wrappers *wrappers)
{
	unsigned long rest[THROTTLE];
	int i;

	hooks[PASS].function = weir_function(WEIR_FUNCTION_PASS)->name;
	hooks[PASS].address = pass;
	hooks[LIMITS].function = weir_function(WEIR_FUNCTION_LIMITS)->name;
	hooks[LIMITS].address = limits;
	hooks[PASS].wrapper = (unsigned long)wrappers->pass;
	hooks[LIMITS].wrapper = (unsigned long)wrappers->limits;
	hooks[WAIT].wrapper = (unsigned long)wrappers->wait;
	for (i = 0; i < THROTTLE; i++) {
		rest[i] = weir_ftrace_location(hooks[i].address);
		if (!rest[i]) {
			pr_err("refusing to load: %s() cannot be hooked: it has no ftrace site\n",
			       hooks[i].function);
			return -EOPNOTSUPP;
		}
		rest[i] += MCOUNT_INSN_SIZE;
	}
	static_call_update(weir_rest_of_limits, (void (*)(void *))rest[LIMITS]);
	static_call_update(weir_rest_of_pass,
			   (int (*)(struct bdi_writeback *, unsigned long,
				    unsigned int))rest[PASS]);
	return 0;
}

static int set(struct hook *hook)
{
	int tries = 100;
	int err;

	if (hook->set)
		return 0;

	hook->ops = (struct ftrace_ops) {
		.func = redirect,
		/* not PERMANENT: who switches ftrace off gets stock behaviour */
		.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_DYNAMIC,
	};
	err = ftrace_set_filter_ip(&hook->ops, hook->address, 0, 0);
	if (!err)
		err = register_ftrace_function(&hook->ops);
	/* a BPF program is being attached to the function */
	while (err == -EAGAIN && tries--) {
		msleep(1);
		err = register_ftrace_function(&hook->ops);
	}
	if (err)
		ftrace_free_filter(&hook->ops);
	hook->set = !err;
	return err;
}

static void unset(struct hook *hook)
{
	/* fails when ftrace has switched itself off after an error of its own */
	if (!hook->set || unregister_ftrace_function(&hook->ops))
		return;
	ftrace_free_filter(&hook->ops);
	hook->set = false;
}

/*
 * Hook both functions of the throttle.  Only the beat does.  -EBUSY, and the function in
 * @taken, if a livepatch or another exclusive user of ftrace has one of them.
 */
int weir_hooks_arm(const char **taken)
{
	int i, err = 0;

	if (armed)
		return 0;
	for (i = 0; !err && i < THROTTLE; i++) {
		err = set(&hooks[i]);
		if (err == -EBUSY)
			*taken = hooks[i].function;
	}
	WRITE_ONCE(armed, !err);
	while (err && i--)
		unset(&hooks[i]);
	return err;
}

/*
 * Hook where sync waits if that is @wanted, else let go of it.  Only the beat does.  What
 * has it already may go away, but not so soon that each beat should try, which patches
 * code for nothing.
 */
void weir_hooks_wait(bool wanted)
{
	static unsigned long next;	/* jiffies */
	int err;

	if (!wanted)
		unset(&hooks[WAIT]);
	if (!wanted || hooks[WAIT].set || (next && time_before(jiffies, next)))
		return;
	next = jiffies + TELL_AFTER_JIFFIES;
	err = set(&hooks[WAIT]);
	if (err)
		pr_warn_ratelimited("sync may wait for longer than drain_seconds: %s() cannot be hooked (error %d)\n",
				    hooks[WAIT].function, err);
}

/* Let the kernel's functions run again.  Tasks may still be in a wrapper. */
void weir_hooks_disarm(void)
{
	int i;

	WRITE_ONCE(armed, false);
	for (i = ARRAY_SIZE(hooks) - 1; i >= 0; i--)
		unset(&hooks[i]);
}

/*
 * For good: nobody enters a pass of weir's any more, and those inside are let
 * go by the limits (weir_limits()), which stay hooked until they are out.
 */
void weir_hooks_close(void)
{
	WRITE_ONCE(weir_leaving, true);
	WRITE_ONCE(armed, false);
	unset(&hooks[PASS]);
	unset(&hooks[WAIT]);
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

/* As unset(), however long it takes: code that ftrace still calls must stay. */
static void unset_surely(struct hook *hook)
{
	unset(hook);
	if (hook->set)
		pr_err("ftrace does not take its hooks back; unloading waits for the reboot\n");
	while (hook->set) {
		schedule_timeout_uninterruptible(HZ);
		unset(hook);
	}
}

/*
 * Unhook all and wait until no task is in this module's code.  A sync leaves when what
 * it waits for is written, and on a device that does not answer nothing ends that.  The
 * limits let a task go after the pause that it is in, at most 200 ms; they are hooked for
 * it if they are not.  One on a strictlimit device, such as a FUSE filesystem whose
 * server does not answer, stays until the device is below its limit or the task is
 * killed; so does any task while the limits cannot be hooked, kernel.ftrace_enabled=0
 * silences them, or one of its two domains does not come by them.  Every ten seconds the
 * log names such tasks, by @show.
 */
void weir_hooks_drain(void (*show)(void))
{
	unsigned int waited;

	unset_surely(&hooks[PASS]);
	unset_surely(&hooks[WAIT]);
	synchronize_rcu_tasks();
	/* may fail: then they leave when the kernel lets them */
	if (tasks_in(&weir_inside))
		set(&hooks[LIMITS]);
	for (waited = 1; tasks_in(&weir_inside) || tasks_in(&weir_syncing); waited++) {
		if (waited % TELL_AFTER_JIFFIES == 0) {
			show();
			if (tasks_in(&weir_syncing))
				pr_warn("unloading waits for %ld calls of sync, and they for their devices\n",
					tasks_in(&weir_syncing));
		}
		schedule_timeout_uninterruptible(1);
	}
	unset_surely(&hooks[LIMITS]);
	synchronize_rcu_tasks();
}

/* Passes whose arguments were not what weir takes them for. */
u64 weir_hooks_misfit(void)
{
	return atomic64_read(&misfit);
}
