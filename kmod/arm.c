// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asking for the beat, which beat.c does: hooks that are wanted, a knob that was set, a
 * record that was made.  Below all that asks.
 */
#include "weir.h"
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

struct weir_beat weir_beat;
static bool params_open;	/* a parameter may hook */
static bool params_closed;	/* nothing can be switched on any more */

/* There is a record, so there is one to be dropped some day. */
void weir_beat_start(void)
{
	if (!READ_ONCE(weir_beat.stopping))
		queue_delayed_work(weir_beat.queue, &weir_beat.work, WEIR_IDLE_JIFFIES);
}

/* A knob was set after weir_arm() said it could be. */
void weir_beat_expedite(void)
{
	if (!(weir_acting() && weir_flushers_acting()) && !READ_ONCE(weir_beat.stopping))
		mod_delayed_work(weir_beat.queue, &weir_beat.work, 0);
}

/*
 * Wait for a beat that begins from now on.  Killable: it may wait for ftrace_lock, which
 * another tracer holds for as long as a tenant holds off a grace period (hook.c).
 */
static int wait_for_beat(void)
{
	unsigned int begun = READ_ONCE(weir_beat.begun);

	mod_delayed_work(weir_beat.queue, &weir_beat.work, 0);
	while ((int)(smp_load_acquire(&weir_beat.ended) - begun) <= 0) {
		if (READ_ONCE(weir_beat.stopping))
			return -ENODEV;
		if (fatal_signal_pending(current))
			return -EINTR;
		schedule_timeout_killable(1);
	}
	return 0;
}

/*
 * Something is about to be set.  0 if hooks work by now.  An error means that the
 * kernel's own behaviour is all there is, and that what is to be set would
 * promise too much.  Waits for the beat: the caller holds no lock.
 */
int weir_arm(void)
{
	int tries = 10, err;

	WRITE_ONCE(weir_beat.asked_last, jiffies);
	WRITE_ONCE(weir_beat.asked, true);
	if (weir_acting())
		return 0;
	if (READ_ONCE(weir_beat.stopping))
		return -ENODEV;
	/* a proof of the beat may be old by now, where CPUs are scarce */
	do {
		/* another task, which failed meanwhile, has taken it back */
		WRITE_ONCE(weir_beat.asked, true);
		err = wait_for_beat();
		/* asked of the beat for two seconds more: hooks without a knob do no harm */
		if (err)
			return err;
		if (weir_acting())
			return 0;
	} while (!READ_ONCE(weir_beat.failure) && --tries);
	/* nothing will be set, so nothing is to be hooked for it later */
	WRITE_ONCE(weir_beat.asked, false);
	return READ_ONCE(weir_beat.failure) ?: -EAGAIN;
}

/*
 * A parameter that hooks is being set, to something else than off if it is @wanted.
 * Switching off never fails.  The kernel lets in one writer at a time.
 */
int weir_param_arm(bool wanted)
{
	if (!wanted)
		return 0;
	if (params_closed)
		return -ENODEV;
	return params_open ? weir_arm() : 0;
}

/* From here on writes to parameters take effect; what was given at load does now. */
int weir_params_open(bool wanted)
{
	int err;

	kernel_param_lock(THIS_MODULE);
	params_open = true;
	err = wanted ? weir_arm() : 0;
	kernel_param_unlock(THIS_MODULE);
	if (err)
		pr_err("refusing to load: drain_seconds or fair is given, but hooks do not work (error %d)\n",
		       err);
	return err;
}

/*
 * The beat is about to end.  A parameter's file is there until the module's
 * memory is freed, and a write to it holds no reference: wait for the one under
 * way, which may be about to queue a beat, and let none do so any more.
 */
void weir_params_close(void)
{
	kernel_param_lock(THIS_MODULE);
	params_closed = true;
	kernel_param_unlock(THIS_MODULE);
}
