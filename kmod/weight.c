// SPDX-License-Identifier: GPL-2.0-only
/*
 * The weight, applied: writers wait for the time that their cgroup's pages cost.
 *
 * A pass of a writer whose cgroup is in a division (share.c) first pays for what
 * its cgroup's wb recorded as dirtied since the last pass, at the price of the
 * moment.  If that is paid until later than now, it waits, and then makes the
 * kernel's own pass.
 *
 * Whoever owns a subtree can have its tasks write to files of another cgroup in
 * it, or replace cgroups or tasks before they have paid.  So what a task dirtied
 * that its cgroup's wb did not record, or that is more than the cgroup can owe,
 * is paid for by each ancestor that competes by weight (a level), at the price of
 * its portion.  Only writers of cgroups that do so wait for it: a quarter or more
 * of what they dirty.  This is so in the root's division alone; within others it
 * is among a tenant's own.  A pass of a cgroup that weir has no record of yet is
 * its nearest ancestor's.
 *
 * weir adds a wait to the throttle, it lets nobody past it, so the limits of the
 * host, of the cgroup and of the device hold as before.  The kernel counts the
 * wait as time the task took to think and sleeps that much shorter.
 *
 * The wait is bounded.  It is fixed when it begins: what others dirty on the same
 * wb meanwhile, real-time tasks or other cgroups' writers of its files, makes
 * the next pass wait, not this one.  It is at most WEIR_WAIT_MOST_MS, in steps
 * of 200 ms at most, killable.  After each step it ends early if the host has
 * come down to its background level, if a floor has room by now, if the cgroup
 * does not compete any more, or if weir stops acting.  A task that the kernel
 * gives way to does not wait: a real-time or deadline task, one that is boosted
 * to that, one that cleans pages by dirtying some.
 *
 * A wait keeps nothing but the wb: the group is looked up anew after each step.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/writeback.h>

/* A pause in writing after which what was dirtied before is not charged. */
#define FORGET_JIFFIES	msecs_to_jiffies(WEIR_FORGET_MS)
/* What tasks of a cgroup may have dirtied and made no pass for: 64 times 32 pages. */
#define AHEAD_MOST	2048ULL
/* Of what tasks of a cgroup dirtied, that many pages and more are remembered. */
#define LATELY		1024

/* What a pass goes by; all of it is read with no lock held. */
struct look {
	u64 dirtied;		/* on the wb, since it was made */
	u64 written;
	u64 queued;
	u64 host;
	u64 now_ns;
	struct weir_limits limits;
};

static struct look look(struct bdi_writeback *wb)
{
	return (struct look) {
		.dirtied = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]),
		/* off by a batch per CPU, which the next look has */
		.written = percpu_counter_read_positive(&wb->stat[WB_WRITTEN]),
		.queued = weir_count_wb(wb, WEIR_UNLIMITED),
		.host = weir_count_host(),
		.now_ns = ktime_get_ns(),
		.limits = weir_host_limits(),
	};
}

static struct weir_turn turn_of(const struct weir_account *account, u64 host,
				const struct weir_limits *limits)
{
	return (struct weir_turn) {
		.portion = READ_ONCE(account->portion),
		.nested = READ_ONCE(account->nested),
		.behind = READ_ONCE(account->behind),
		.pace = READ_ONCE(account->pace),
		.queued = READ_ONCE(account->queue),
		.host_dirty = host,
		.host_thresh = limits->thresh,
		.host_bg_thresh = limits->bg_thresh,
	};
}

/* Note what was dirtied and cleaned since the last look; returns what was dirtied. */
static u64 note(struct weir_account *account, const struct look *now)
{
	bool first = !account->noted ||
		     time_after(jiffies, account->noted + FORGET_JIFFIES);
	u64 pages = 0;

	/* a look on another CPU may have been the later one; a wb made anew starts from 0 */
	if (!first) {
		pages = now->dirtied - min(now->dirtied, account->paid);
		account->cleaned += now->written - min(now->written, account->written);
		account->dirtied += pages;
	}
	account->paid = now->dirtied;
	account->written = now->written;
	account->queued = now->queued;
	account->noted = jiffies ?: 1;
	account->ahead = min(account->ahead + pages, AHEAD_MOST);
	return pages;
}

/* Pay for @pages of the account's cgroup; how long is its writer to wait, in ms? */
static u64 pay(struct weir_account *account, const struct look *now, u64 pages)
{
	struct weir_turn turn = turn_of(account, now->host, &now->limits);

	account->price_ns = weir_turn_price_ns(&turn);
	account->due_ns = weir_turn_pay(&turn, account->due_ns, now->now_ns, pages);
	return weir_turn_wait_ms(&turn, account->due_ns, now->now_ns);
}

/*
 * Of @pages that a price was to be paid for, those that the most that a cgroup can
 * owe left out: it was paid until @before_ns.
 */
static u64 forgiven(const struct weir_account *account, u64 before_ns, u64 pages)
{
	u64 covered;

	if (!account->price_ns || account->due_ns < before_ns)
		return 0;
	covered = div64_u64(account->due_ns - before_ns, account->price_ns);
	return pages - min(pages, covered);
}

/* The same for a level. */
static u64 pay_level(struct weir_group *group, u64 bdi_id, const struct look *now,
		     u64 pages)
{
	struct weir_level *level;
	unsigned long flags;
	u64 wait_ms = 0;

	if (!weir_share_level(group, bdi_id))
		return 0;
	raw_spin_lock_irqsave(&group->lock, flags);
	level = weir_share_level(group, bdi_id);
	if (level) {
		struct weir_turn turn = {
			.portion = level->portion,
			.pace = level->pace,
			.queued = level->queue,
			.host_dirty = now->host,
			.host_thresh = now->limits.thresh,
			.host_bg_thresh = now->limits.bg_thresh,
		};

		level->due_ns = weir_turn_pay(&turn, level->due_ns, now->now_ns, pages);
		wait_ms = weir_turn_wait_ms(&turn, level->due_ns, now->now_ns);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	return wait_ms;
}

/* Pay for @pages at all levels from @group upwards; the longest wait, in ms. */
static u64 pay_levels(struct weir_group *group, u64 bdi_id, const struct look *now,
		      u64 pages)
{
	u64 wait_ms = 0;

	for (; group; group = group->parent)
		wait_ms = max(wait_ms, pay_level(group, bdi_id, now, pages));
	return wait_ms;
}

/* Do tasks dirty what their account does not pay for, or is it too early to tell? */
static bool evades(const struct weir_account *account)
{
	return 4 * account->unpaid >= account->passed;
}

/* Before a pass on @wb of @group, or of one below it that has no record. */
static u64 pay_pass_of(struct weir_group *group, struct bdi_writeback *wb)
{
	bool own = group->css == wb->memcg_css;
	struct weir_account *account;
	struct look now = look(wb);
	u64 wait_ms = 0, level_ms;
	bool levels = !own;
	unsigned long flags;
	u64 left_out = 0;

	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_enlist(group, wb->bdi->id);
	if (account) {
		u64 pages = own ? note(account, &now) : 0;
		u64 before_ns = account->due_ns;

		wait_ms = pay(account, &now, pages);
		left_out = forgiven(account, before_ns, pages);
		account->unpaid += left_out;
		levels |= evades(account);
		WRITE_ONCE(account->seen, jiffies ?: 1);
		if (wait_ms)
			WRITE_ONCE(account->slept, jiffies ?: 1);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	if (!levels && !left_out)
		return wait_ms;
	level_ms = pay_levels(group, wb->bdi->id, &now, left_out);
	return levels ? max(wait_ms, level_ms) : wait_ms;
}

/* How long is a pass on @wb to wait, in ms?  0 if its cgroup is in no division. */
static u64 pay_pass(struct bdi_writeback *wb)
{
	struct weir_group *group;
	u64 wait_ms = 0;

	rcu_read_lock();
	group = weir_group_nearest(wb->memcg_css);
	if (group && weir_share_scope(group))
		wait_ms = pay_pass_of(group, wb);
	if (wait_ms && READ_ONCE(weir_observe)) {
		weir_count(group, would_wait);
		wait_ms = 0;
	}
	rcu_read_unlock();
	return wait_ms;
}

/*
 * Of @pages that a task dirtied, those its cgroup's wb has not recorded.  An @own
 * account's; any other has none.
 */
static u64 unpaid(struct weir_account *account, bool own, u64 pages)
{
	u64 recorded = own ? min(account->ahead, pages) : 0;

	account->ahead -= recorded;
	account->passed += pages;
	account->unpaid += pages - recorded;
	if (account->passed >= LATELY) {
		account->passed /= 2;
		account->unpaid /= 2;
	}
	return pages - recorded;
}

/*
 * A task of @group slept in the throttle for @slept_ns, or not: then it competes.
 * Copies the account, if there is one.
 */
static bool note_sleep(struct weir_group *group, u64 bdi_id, u64 slept_ns,
		       struct weir_account *copy)
{
	struct weir_account *account;
	unsigned long flags;

	if (!weir_share_account(group, bdi_id))
		return false;
	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_account(group, bdi_id);
	if (account) {
		if (slept_ns)
			WRITE_ONCE(account->slept, jiffies ?: 1);
		account->asleep_ns += slept_ns;
		copy->price_ns = account->price_ns;
		copy->portion = READ_ONCE(account->portion);
		copy->nested = READ_ONCE(account->nested);
		copy->behind = READ_ONCE(account->behind);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	return account;
}

/* Is there room under a floor on @group's path, by now? */
static bool admitted(struct weir_group *group, struct bdi_writeback *wb)
{
	struct weir_floor_pass pass;

	if (!weir_tree_floored(group))
		return false;
	pass = weir_floor_look(group, wb, NULL);
	return weir_floor_decide(&pass) == WEIR_FLOOR_ADMIT;
}

/* Does anything on the path of @group compete?  @account is a copy of its own. */
static bool competes(struct weir_group *group, u64 bdi_id,
		     const struct weir_account *account)
{
	if (account->portion && !account->behind)
		return true;
	for (; group; group = group->parent) {
		if (weir_share_level(group, bdi_id))
			return true;
	}
	return false;
}

/* Is there a reason to wait for still?  @account is a copy. */
static bool is_held(struct weir_group *group, struct bdi_writeback *wb,
		    const struct weir_account *account)
{
	if (READ_ONCE(weir_observe) || !weir_acting() ||
	    !weir_share_scope(group))
		return false;
	return competes(group, wb->bdi->id, account) &&
	       weir_count_host() > weir_host_limits().bg_thresh &&
	       !admitted(group, wb);
}

/* A step of a wait has taken @slept_ns; true if there is to be another. */
static bool goes_on(struct bdi_writeback *wb, u64 slept_ns)
{
	struct weir_account account = {};
	struct weir_group *group;
	bool held = false;

	rcu_read_lock();
	group = weir_group_nearest(wb->memcg_css);
	if (group) {
		this_cpu_add(group->stats->weight_held_ns, slept_ns);
		note_sleep(group, wb->bdi->id, slept_ns, &account);
		held = is_held(group, wb, &account);
	}
	rcu_read_unlock();
	return held && !fatal_signal_pending(current);
}

static void count_wait(struct bdi_writeback *wb)
{
	struct weir_group *group;

	rcu_read_lock();
	group = weir_group_nearest(wb->memcg_css);
	if (group)
		weir_count(group, weight_held);
	rcu_read_unlock();
}

/* Tell the device's writeback throttling that a writer sleeps, as the kernel's pause does. */
static void tell_device(struct bdi_writeback *wb)
{
	void *field = NULL;

	if (weir_layout.bdi_last_sleep)
		field = (void *)wb->bdi + weir_layout.bdi_last_sleep;
	else if (weir_layout.wb_last_sleep)
		field = (void *)wb + weir_layout.wb_last_sleep;
	if (field)
		WRITE_ONCE(*(unsigned long *)field, jiffies);
}

/*
 * Let the kernel look at tasks of @wb after 8 pages, as where a limit is exceeded.
 * A new task is looked at after 32 otherwise, and its cgroup owes already.  Cleared
 * with the first pass that ends without a pause.
 */
static void look_sooner(struct bdi_writeback *wb)
{
	if (!READ_ONCE(wb->dirty_exceeded))
		WRITE_ONCE(wb->dirty_exceeded, 1);
}

static void sleep_for(struct bdi_writeback *wb, u64 wait_ms)
{
	u64 start_ns = ktime_get_ns();
	u64 until_ns = start_ns + wait_ms * NSEC_PER_MSEC;
	u64 now_ns = start_ns;
	u64 before_ns;

	count_wait(wb);
	do {
		wait_ms = min(div_u64(until_ns - now_ns, NSEC_PER_MSEC) + 1,
			      WEIR_ROUND_MS);
		__set_current_state(TASK_KILLABLE);
		tell_device(wb);
		look_sooner(wb);
		io_schedule_timeout(msecs_to_jiffies(wait_ms));
		before_ns = now_ns;
		now_ns = ktime_get_ns();
	} while (goes_on(wb, now_ns - before_ns) && now_ns < until_ns);
}

/*
 * Before the kernel's pass of a writer on @wb, in its context, with no lock held:
 * wait for what the cgroup's pages cost.  False if @flags forbid a wait that is
 * due: the pass ends with -EAGAIN.
 */
bool weir_weight_wait(struct bdi_writeback *wb, unsigned int flags)
{
	u64 wait_ms;

	if (!weir_share_any() || current->prio < MAX_RT_PRIO ||
	    current->flags & PF_LOCAL_THROTTLE)
		return true;
	wait_ms = pay_pass(wb);
	if (!wait_ms)
		return true;
	weir_wake_flusher(wb);
	if (flags & BDP_ASYNC)
		return false;
	sleep_for(wb, wait_ms);
	return true;
}

/* The kernel has let its task go without a pause: nothing is exceeded. */
static void look_later(struct bdi_writeback *wb)
{
	if (READ_ONCE(wb->dirty_exceeded))
		WRITE_ONCE(wb->dirty_exceeded, 0);
}

/* Pay for @pages that a task dirtied, as far as its cgroup's wb did not record them. */
static void pay_unpaid(struct weir_group *group, struct bdi_writeback *wb, u64 pages)
{
	bool own = group->css == wb->memcg_css;
	struct weir_account *account;
	struct look now = {
		.host = weir_count_host(),
		.now_ns = ktime_get_ns(),
		.limits = weir_host_limits(),
	};
	unsigned long flags;

	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_account(group, wb->bdi->id);
	if (account) {
		pages = unpaid(account, own, pages);
		if (!own)
			pay(account, &now, pages);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	if (pages)
		pay_levels(group, wb->bdi->id, &now, pages);
}

/*
 * A kernel's pass on @wb ends.  The task slept in it for @slept_ns, or not at all,
 * and had dirtied @pages.  If it pays, it must not dirty much more before the next
 * one.  Under RCU.
 */
void weir_weight_leave(struct bdi_writeback *wb, u64 pages, u64 slept_ns)
{
	struct weir_account account;
	struct weir_group *group;

	if (!weir_share_any())
		return;
	if (!slept_ns)
		look_later(wb);
	group = weir_group_nearest(wb->memcg_css);
	if (!group || !weir_share_scope(group))
		return;
	pay_unpaid(group, wb, pages);
	if (note_sleep(group, wb->bdi->id, slept_ns, &account) &&
	    !READ_ONCE(weir_observe))
		current->nr_dirtied_pause =
			weir_turn_poll(account.price_ns,
				       current->nr_dirtied_pause);
}
