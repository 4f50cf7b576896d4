// SPDX-License-Identifier: GPL-2.0-only
/*
 * The weight, applied: writers wait for the time that their cgroup's pages cost.
 *
 * A pass of a writer whose cgroup is in a division (share.c) first pays for what
 * its cgroup's wb recorded as dirtied since the last pass, at the price of the
 * moment.  If that is paid until later than now, it waits when its call is over
 * (at_return.c).
 *
 * Whoever owns a subtree can have its tasks write to files of another cgroup in
 * it, or replace cgroups or tasks before they have paid.  So each ancestor that
 * competes by weight (a level) is charged with all that its subtree dirties, at
 * the price of its hweight: what accounts below it pay for comes to that hweight
 * at most, so it owes only what they evaded.  For its debt wait the writers of
 * cgroups that evade (policy/arrears.c), and nobody else.  This is so in the root's
 * division alone; below it the members of a division are not protected from what
 * another member evades.  A pass of a cgroup that weir has no record of yet, or
 * that is more than DEEPEST levels down, is that of its nearest ancestor.
 *
 * weir adds a wait to the throttle, it lets nobody past it, so the limits of the
 * host, of the cgroup and of the device hold as before.  The kernel counts the
 * wait as time the task took to think and sleeps that much shorter.
 *
 * The wait is fixed by the pass: what others dirty on the same wb meanwhile, real-time
 * tasks or other cgroups' writers of its files, makes the next pass wait, not this
 * one.  It is at most WEIR_WAIT_MOST_MS.  After each step it ends early if the host has
 * come down to its background level, if a floor has room by now, or if the cgroup does not
 * compete any more.  A task that the kernel gives way to does not wait: a real-time or
 * deadline task, one that is boosted to that, one that cleans pages by dirtying some.
 *
 * A call is not held, however much it dirties.  A writer of calls that cost more than
 * WEIR_WAIT_MOST_MS gets more than its share: its neighbours wait for no lock that it has.
 *
 * A task's count of dirtied pages is not of one device.  One that ends each pass on
 * an idle device would pay nowhere else, so while a sixteenth of what passes on a
 * device report is not recorded there, they pay for the cgroup's other contested
 * devices, too.
 *
 * A wait keeps numbers: of the device, by which the wb of the task's cgroup is looked up at
 * each step, and until when.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/writeback.h>

/* A pause in writing after which what was dirtied before is not charged. */
#define FORGET_JIFFIES	msecs_to_jiffies(WEIR_FORGET_MS)
/* The deepest level of the hierarchy that has accounts: a pass, a round walk the path. */
#define DEEPEST		16

/* What each task had dirtied at its last report to an account. */
static struct weir_reporters weight_reporters;

/* What a pass goes by; all of it is read with no lock held. */
struct look {
	struct weir_look wb;
	u64 host;
	struct weir_limits limits;
};

/* Who pays for pages that tasks of @css dirty, or NULL.  Under RCU. */
static struct weir_group *payer(struct cgroup_subsys_state *css)
{
	struct weir_group *group = weir_group_nearest(css);

	while (group && group->css->cgroup->level > DEEPEST)
		group = group->parent;
	return group;
}

/* At everything but a wb. */
static struct look look_around(void)
{
	u64 now_ns = ktime_get_ns();

	return (struct look) {
		.wb = { .begun_ns = now_ns, .ended_ns = now_ns },
		.host = weir_count_host(),
		.limits = weir_host_limits(),
	};
}

static struct look look(struct bdi_writeback *wb)
{
	struct look now = look_around();

	now.wb.dirtied = percpu_counter_sum_positive(&wb->stat[WB_DIRTIED]);
	/* off by a batch per CPU, which the next look has */
	now.wb.written = percpu_counter_read_positive(&wb->stat[WB_WRITTEN]);
	now.wb.queued = weir_count_wb(wb, WEIR_UNLIMITED);
	now.wb.unreported = max(current->nr_dirtied, 0);
	now.wb.ended_ns = ktime_get_ns();
	return now;
}

static struct weir_turn turn_of(const struct weir_account *account, u64 host,
				const struct weir_limits *limits)
{
	return (struct weir_turn) {
		.hweight = READ_ONCE(account->hweight),
		.nested = READ_ONCE(account->nested),
		.behind = READ_ONCE(account->behind),
		.wb_rate = READ_ONCE(account->wb_rate),
		.queued = READ_ONCE(account->queue),
		.host_dirty = host,
		.host_thresh = limits->thresh,
		.host_bg_thresh = limits->bg_thresh,
	};
}

/* Note what was dirtied and cleaned since the last look; returns what was dirtied. */
static u64 note(struct weir_account *account, struct weir_look *wb)
{
	wb->first = !account->noted ||
		    time_after(jiffies, account->noted + FORGET_JIFFIES);
	account->noted = jiffies ?: 1;
	return weir_bill_note(&account->bill, wb);
}

/* Pay for @pages of the account's cgroup; how long is its writer to wait, in ms? */
static u64 pay(struct weir_account *account, const struct look *now, u64 pages)
{
	struct weir_turn turn = turn_of(account, now->host, &now->limits);

	return weir_bill_charge(&account->bill, &turn, now->wb.ended_ns, pages);
}

/* The same for a level; false if there is none.  @wait_ms grows to what is owed. */
static bool pay_level(struct weir_group *group, u64 bdi_id, const struct look *now,
		      u64 pages, u64 *wait_ms)
{
	struct weir_level *level;
	unsigned long flags;

	if (!weir_share_level(group, bdi_id))
		return false;
	raw_spin_lock_irqsave(&group->lock, flags);
	level = weir_share_level(group, bdi_id);
	if (level) {
		struct weir_turn turn = {
			.hweight = level->hweight,
			.wb_rate = level->wb_rate,
			.queued = level->queue,
			.host_dirty = now->host,
			.host_thresh = now->limits.thresh,
			.host_bg_thresh = now->limits.bg_thresh,
		};

		level->due_ns = weir_turn_pay(&turn, level->due_ns, now->wb.ended_ns,
					      pages).due_ns;
		*wait_ms = max(*wait_ms, weir_turn_wait_ms(&turn, level->due_ns,
							   now->wb.ended_ns));
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	return level;
}

/* Pay for @pages at all levels from @group upwards; false if there are none. */
static bool pay_levels(struct weir_group *group, u64 bdi_id, const struct look *now,
		       u64 pages, u64 *wait_ms)
{
	bool paid = false;

	for (; group; group = group->parent)
		paid |= pay_level(group, bdi_id, now, pages, wait_ms);
	return paid;
}

/*
 * Before a pass of @group, or of one below it that has no account, pay for what is
 * new on @wb.  The pass may be on another device, @elsewhere: the cgroup competes
 * for this one then without sleeping.  @strays tells whether passes here are about
 * pages of other devices.
 */
static u64 pay_pass_of(struct weir_group *group, struct bdi_writeback *wb,
		       bool elsewhere, bool *strays)
{
	bool own = group->css == wb->memcg_css;
	u64 pages = 0, wait_ms = 0, level_ms = 0;
	struct weir_account *account;
	struct look now = look(wb);
	unsigned long flags;
	bool evades = !own;

	*strays = true;
	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_enlist(group, wb->bdi->id);
	if (account) {
		/* one that is dying has a successor */
		pages = own && !wb_dying(wb) ? note(account, &now.wb) : 0;
		wait_ms = pay(account, &now, pages);
		evades |= weir_arrears_evades(&account->bill.arrears);
		*strays = !own || weir_arrears_strays(&account->bill.arrears);
		WRITE_ONCE(account->seen, jiffies ?: 1);
		if (wait_ms || (elsewhere && pages))
			WRITE_ONCE(account->slept, jiffies ?: 1);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	/* more devices than accounts: what it dirties, levels alone are charged with */
	evades |= !account;
	if (evades || pages)
		pay_levels(group, wb->bdi->id, &now, pages, &level_ms);
	return evades ? max(wait_ms, level_ms) : wait_ms;
}

/* The same, if the cgroup of @css is in a division: how long is it to wait, in ms? */
static u64 pay_pass(struct bdi_writeback *wb, struct cgroup_subsys_state *css,
		    bool elsewhere, bool *strays)
{
	struct weir_group *group;
	u64 wait_ms = 0;

	rcu_read_lock();
	group = payer(css);
	if (group && weir_share_scope(group))
		wait_ms = pay_pass_of(group, wb, elsewhere, strays);
	if (wait_ms && READ_ONCE(weir_observe)) {
		weir_count(group, would_wait);
		wait_ms = 0;
	}
	rcu_read_unlock();
	return wait_ms;
}

/* The current tick, and whether something is owed. */
#define OWES	1ULL
static u64 this_tick(void)
{
	/* 0 is never */
	return (u64)(u32)jiffies << 1 | 1ULL << 33;
}

/*
 * Has a pass in this very tick looked at the cgroup's other devices, and found nothing
 * owed?  Each look takes a lock of the whole host's.  All cgroups that one account
 * pays for share the look, or two of them would take turns looking.
 */
static bool just_looked(struct cgroup_subsys_state *css)
{
	struct weir_group *group = payer(css);

	return group && READ_ONCE(group->share.looked) == this_tick();
}

static void note_looked(struct cgroup_subsys_state *css, bool owes)
{
	struct weir_group *group;

	rcu_read_lock();
	group = payer(css);
	/* that one of those it pays for owes nothing is not said of the others */
	if (group && (owes || group->css == css))
		WRITE_ONCE(group->share.looked, this_tick() | (owes ? OWES : 0));
	rcu_read_unlock();
}

/*
 * The cgroup whose tasks' pages a pass on @wb is about, referenced; NULL if it is
 * gone, if it needs no look elsewhere, or if it is the root, which is not held and
 * whose wbs nothing counts.  A filesystem without cgroup writeback has the root's wb
 * alone.
 */
static struct cgroup_subsys_state *css_of_pass(struct bdi_writeback *wb)
{
	struct cgroup_subsys_state *css = wb->memcg_css;

	rcu_read_lock();
	if (!css->parent)
		css = task_css(current, memory_cgrp_id);
	if (!css->parent || just_looked(css) || !css_tryget(css))
		css = NULL;
	rcu_read_unlock();
	return css;
}

/*
 * Pay for what the cgroup has dirtied on other devices that the root divides.
 * Returns the wb to wait on, referenced, if that is for longer than @wait_ms, which
 * is set to it, or NULL.
 */
static struct bdi_writeback *pay_elsewhere(struct bdi_writeback *wb, u64 *wait_ms)
{
	struct cgroup_subsys_state *css = css_of_pass(wb);
	struct bdi_writeback *longest = NULL, *other;
	bool strays, owes = false;
	u64 id, ms;
	int i;

	if (!css)
		return NULL;
	for (i = 0; i < WEIR_ROOT_CONTESTS; i++) {
		id = weir_share_contested(i);
		/* the root's wb may be on the same device as the cgroup's own */
		other = id && (id != wb->bdi->id || !wb->memcg_css->parent) ?
			weir_wb_of(id, css) : NULL;
		if (!other)
			continue;
		ms = pay_pass(other, css, true, &strays);
		owes |= ms;
		if (ms > *wait_ms) {
			*wait_ms = ms;
			swap(longest, other);
		}
		if (other)
			wb_put(other);
	}
	/* that nothing is owed is for who owes nothing here, either */
	if (owes || !*wait_ms)
		note_looked(css, owes);
	css_put(css);
	return longest;
}

/*
 * A task of @group slept in the throttle for @slept_ns; it competes if that is more
 * than 0, or if it was @refused because it may not sleep.  Copies the account, if
 * there is one.
 */
static bool note_sleep(struct weir_group *group, u64 bdi_id, u64 slept_ns,
		       bool refused, struct weir_account *copy)
{
	struct weir_account *account;
	unsigned long flags;

	if (!weir_share_account(group, bdi_id))
		return false;
	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_account(group, bdi_id);
	if (account) {
		if (slept_ns || refused)
			WRITE_ONCE(account->slept, jiffies ?: 1);
		account->asleep_ns += slept_ns;
		copy->bill = account->bill;
		copy->hweight = READ_ONCE(account->hweight);
		copy->nested = READ_ONCE(account->nested);
		copy->behind = READ_ONCE(account->behind);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
	return account;
}

/* Is there room under a floor on the path, by now?  Of any depth: not the payer's alone. */
static bool admitted(struct bdi_writeback *wb)
{
	struct weir_group *group = weir_tree_nearest(wb->memcg_css);
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
	if (account->hweight && !account->behind)
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
	       !admitted(wb);
}

static void count_wait(struct bdi_writeback *wb)
{
	struct weir_group *group;

	rcu_read_lock();
	group = payer(wb->memcg_css);
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
 * Let the kernel look at tasks of @wb after 8 pages, as where a limit is exceeded:
 * a new task is looked at after 32 otherwise, and its cgroup owes already.  Weir
 * takes back no mark but its own, and only when the cgroup owes nothing.
 */
static void look_sooner(struct bdi_writeback *wb)
{
	if (!READ_ONCE(wb->dirty_exceeded))
		WRITE_ONCE(wb->dirty_exceeded, WEIR_OWING);
}

/* A step has taken @slept_ns; is the wait on @wb to go on?  Notes it, where somebody looks. */
static bool goes_on(struct bdi_writeback *wb, u64 slept_ns)
{
	struct weir_account account = {};
	struct weir_group *group;
	bool held = false;

	rcu_read_lock();
	group = payer(wb->memcg_css);
	if (group) {
		this_cpu_add(group->stats->weight_held_ns, slept_ns);
		note_sleep(group, wb->bdi->id, slept_ns, false, &account);
		held = is_held(group, wb, &account);
	}
	rcu_read_unlock();
	if (held) {
		tell_device(wb);
		look_sooner(wb);
	} else {
		/* no pass there may come to take the mark back */
		weir_weight_look_later(wb);
	}
	return held;
}

/* The wb of the current task's cgroup on a device, referenced, or NULL. */
static struct bdi_writeback *wb_of_current(u64 bdi_id)
{
	struct cgroup_subsys_state *css;
	struct bdi_writeback *wb;

	rcu_read_lock();
	css = task_css(current, memory_cgrp_id);
	if (!css_tryget(css))
		css = NULL;
	rcu_read_unlock();
	if (!css)
		return NULL;
	wb = weir_wb_of(bdi_id, css);
	css_put(css);
	return wb;
}

/*
 * For how long is the current task still to wait for its weight, in ms?  If its cgroup has
 * no wb there by now, as +io was switched or the task moved, it waits all the same.
 */
static u64 weight_due_ms(struct weir_call *call, u64 slept_ns)
{
	struct bdi_writeback *wb = wb_of_current(call->owed[WEIR_DEBT_WEIGHT].bdi_id);
	u64 until_ns = call->owed[WEIR_DEBT_WEIGHT].until_ns, now_ns = ktime_get_ns();
	bool held = true;

	if (wb) {
		held = goes_on(wb, slept_ns);
		if (now_ns >= until_ns)
			weir_weight_look_later(wb);
		wb_put(wb);
	}
	return held && now_ns < until_ns ? div_u64(until_ns - now_ns, NSEC_PER_MSEC) + 1 : 0;
}

/* Its name is what /proc/PID/wchan says of a task that waits: weir explain looks there. */
static noinline void weir_weight_sleep(long timeout)
{
	__set_current_state(TASK_KILLABLE);
	io_schedule_timeout(timeout);
	/* not a tail call */
	barrier();
}

static const struct weir_debt weight_debt = {
	.due_ms = weight_due_ms,
	.sleep = weir_weight_sleep,
};

static void owe_weight(struct weir_call *call, struct bdi_writeback *wb, u64 wait_ms)
{
	u64 until_ns = ktime_get_ns() + wait_ms * NSEC_PER_MSEC;

	if (!call->debts[WEIR_DEBT_WEIGHT])
		count_wait(wb);
	call->debts[WEIR_DEBT_WEIGHT] = &weight_debt;
	call->owed[WEIR_DEBT_WEIGHT].bdi_id = wb->bdi->id;
	call->owed[WEIR_DEBT_WEIGHT].until_ns = until_ns;
	look_sooner(wb);
}

/*
 * Before the kernel's pass of a writer on @wb, in its context: pay for the cgroup's pages.
 * What they cost the task waits for when its call is over.
 */
void weir_weight_pass(struct bdi_writeback *wb)
{
	struct bdi_writeback *other = NULL;
	/* whom no cgroup writeback tells apart dirty nothing that is theirs here */
	bool strays = !wb->memcg_css->parent && current->nr_dirtied;
	struct weir_call *call;
	u64 wait_ms;

	if (!weir_share_any() || weir_task_urgent() ||
	    current->flags & PF_LOCAL_THROTTLE)
		return;
	wait_ms = pay_pass(wb, wb->memcg_css, false, &strays);
	if (strays)
		other = pay_elsewhere(wb, &wait_ms);
	call = wait_ms ? weir_call_get() : NULL;
	if (call)
		owe_weight(call, other ?: wb, wait_ms);
	if (other) {
		weir_wake_flusher(other);
		wb_put(other);
	}
}

/* Of @pages that a task reports, those that none of its cgroup's wbs recorded. */
static u64 not_recorded(struct weir_group *group, struct weir_account *account, u64 pages)
{
	u64 strayed = weir_arrears_match(&account->bill.arrears, pages);
	u64 rest = strayed;
	int i;

	for (i = 0; rest && i < WEIR_ACCOUNTS; i++)
		rest = weir_arrears_match(&group->share.accounts[i].bill.arrears,
					  rest);
	weir_arrears_report(&account->bill.arrears, pages, strayed, rest);
	return rest;
}

/*
 * A task dirtied @pages: those that its cgroup's wb did not record are charged to
 * levels, and to the account itself if it is not its own wb's, or if nobody above
 * competes for it.
 */
static void pay_unpaid(struct weir_group *group, struct bdi_writeback *wb, u64 pages)
{
	bool own = group->css == wb->memcg_css;
	struct weir_account *account;
	unsigned long flags;
	struct look now;
	u64 wait_ms = 0;
	bool paid;

	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_account(group, wb->bdi->id);
	if (account && own)
		pages = not_recorded(group, account, pages);
	raw_spin_unlock_irqrestore(&group->lock, flags);
	if (!pages)
		return;
	now = look_around();
	paid = pay_levels(group, wb->bdi->id, &now, pages, &wait_ms);
	if (own && paid)
		return;
	raw_spin_lock_irqsave(&group->lock, flags);
	account = weir_share_account(group, wb->bdi->id);
	if (account)
		pay(account, &now, pages);
	raw_spin_unlock_irqrestore(&group->lock, flags);
}

/*
 * weir_weight_leave() where a weight divides, apart from it: compilers clear what is
 * on the stack, and most passes need none of this.  Does the cgroup owe?
 */
static noinline bool leave_owing(struct weir_group *group, struct bdi_writeback *wb,
				 u64 pages, u64 slept_ns, bool refused)
{
	struct weir_account account;

	if (pages)
		pay_unpaid(group, wb, weir_dirtied_by_current(&weight_reporters, pages));
	if (!note_sleep(group, wb->bdi->id, slept_ns, refused, &account))
		return false;
	if (!READ_ONCE(weir_observe))
		current->nr_dirtied_pause =
			weir_turn_poll(account.bill.cost_ns,
				       current->nr_dirtied_pause);
	return account.bill.due_ns > ktime_get_ns() ||
	       weir_arrears_evades(&account.bill.arrears);
}

/*
 * A kernel's pass on @wb ends.  The task slept in it for @slept_ns, or not at all,
 * or was @refused because it may not sleep.  The kernel took @pages off it that it
 * had dirtied.  If it pays, it must not dirty much more before the next one.  Under
 * RCU.
 */
void weir_weight_leave(struct bdi_writeback *wb, u64 pages, u64 slept_ns, bool refused)
{
	struct weir_group *group = weir_share_any() ? payer(wb->memcg_css) : NULL;

	if (!group || !weir_share_scope(group) ||
	    !leave_owing(group, wb, pages, slept_ns, refused))
		weir_weight_look_later(wb);
}
