// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ceiling, reservation and drain, applied: domain_dirty_limits(), amended.
 *
 * weir_limits() runs after the function that computes a domain's limits
 * (hook.c).  What a domain is amended by and in which order is policy/amend.c's;
 * here are what the pass finds, the walk over the path's ceilings, each compared
 * with the subtree it is about, and what is counted.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <linux/writeback.h>

#define FIELD(dtc, name) (*(unsigned long *)((dtc) + weir_layout.dtc_##name))
#define POINTER(dtc, name) (*(void **)((dtc) + weir_layout.dtc_##name))

static struct weir_pass_facts facts_of(void *dtc, struct bdi_writeback *wb)
{
	void *gdtc = POINTER(dtc, gdtc);

	return (struct weir_pass_facts) {
		.has_wb = wb != NULL,
		.has_gdtc = gdtc != NULL,
		.gdtc_has_wb = gdtc && POINTER(gdtc, wb),
		.in_flusher = current_work() == &wb->dwork.work,
		.strictlimit = !!(wb->bdi->capabilities & BDI_CAP_STRICTLIMIT),
	};
}

static struct weir_limits limits_of(void *dtc)
{
	struct wb_domain *domain = POINTER(dtc, dom);

	return (struct weir_limits) {
		.thresh = FIELD(dtc, thresh),
		.bg_thresh = FIELD(dtc, bg_thresh),
		.dirty = FIELD(dtc, dirty),
		.dom_limit = READ_ONCE(domain->dirty_limit),
	};
}

/* @was: what the kernel computed. */
static void put_limits(void *dtc, const struct weir_limits *limits,
		       const struct weir_limits *was)
{
	struct wb_domain *domain = POINTER(dtc, dom);

	FIELD(dtc, thresh) = limits->thresh;
	FIELD(dtc, bg_thresh) = limits->bg_thresh;
	FIELD(dtc, dirty) = limits->dirty;
	/* unlocked, as dom->lock sleeps on PREEMPT_RT: a racing update is lowered next pass */
	if (limits->dom_limit < was->dom_limit &&
	    limits->dom_limit < READ_ONCE(domain->dirty_limit))
		WRITE_ONCE(domain->dirty_limit, limits->dom_limit);
}

/*
 * The module is being unloaded and the task, in a pass of weir's, must not keep
 * it.  Let it dirty one page, then the next pass is the kernel's own.  Not in its
 * first look: until the pass is unhooked it could come back at once, again and
 * again, and never be held.  Nor where one of its two domains is not seen: the other is
 * never lifted alone.
 */
static void release_for_unload(void *dtc, struct weir_pass_state *state)
{
	if (state->looks < 2 || (state->css->parent && !state->memcg_limits))
		return;
	FIELD(dtc, dirty) = 0;
	state->released = true;
	state->released_poll = 1;
}

/*
 * amend_global() below a floor, apart from it: compilers clear what is on the stack, and
 * most passes need none of this.
 */
static noinline void amend_floored(struct weir_limits *limits, struct bdi_writeback *wb,
				   const struct weir_stretch *stretch, enum weir_pass kind)
{
	struct weir_pass_state *state = stretch->state;
	struct weir_floor_pass floor, *below = NULL;
	struct weir_drain_host host;

	weir_stretch_count(stretch);
	if (state && kind == WEIR_PASS_WRITER && !READ_ONCE(weir_observe)) {
		floor = weir_floor_for_pass(stretch, wb);
		below = &floor;
	}
	/* after those counts, which change what is unused */
	host = weir_host_amendments();
	if (weir_amend_global(limits, kind, &host, below)) {
		state->released = true;
		state->released_poll = weir_floor_poll(below);
		weir_count(stretch->record, floor_released);
	}
}

static void amend_global(void *dtc, struct bdi_writeback *wb,
			 const struct weir_stretch *stretch, enum weir_pass kind)
{
	const struct weir_limits was = limits_of(dtc);
	struct weir_limits limits = was;

	if (stretch->floored) {
		amend_floored(&limits, wb, stretch, kind);
	} else {
		const struct weir_drain_host host = weir_host_amendments();

		weir_amend_global(&limits, kind, &host, NULL);
	}
	put_limits(dtc, &limits, &was);
}

/*
 * Pages until the next look of a call that waits at its return: a pass for each, as a ceiling
 * of two pages has it, takes a call of 2 GiB seconds longer.
 */
#define UNCAPPED_POLL	32ULL

/*
 * A ceiling that an unprivileged owner set holds no writer's call: the task waits at its
 * return while it is full (ceiling.c).  One of two pages would hold a call of 2 GiB for
 * days, and a hundred calls of a tenant in turn, and with them others that wait for what
 * they have locked.  What root sets holds calls, too.
 */
static void leave_to_return(u64 ceiling, const struct weir_counts *counts,
			    struct weir_pass_state *state)
{
	struct weir_call *call;

	if (!weir_ceiling_full(ceiling, counts))
		return;
	state->uncapped = true;
	call = weir_call_current();
	if (call && call->debts[WEIR_DEBT_CEILING])
		state->poll = max(state->poll, UNCAPPED_POLL);
}

/*
 * Hold @limits, which were @stock, to every ceiling on the path; returns what its position
 * is judged by.
 */
static enum weir_pause_by hold_to_ceilings(struct weir_limits *limits,
					   const struct weir_limits *stock,
					   const struct weir_stretch *stretch,
					   enum weir_pass kind)
{
	enum weir_pause_by by = WEIR_BY_CGROUP;
	struct weir_pass_state *state = stretch->state;
	struct weir_record *record;

	for (record = stretch->record; record; record = record->parent) {
		struct weir_counts counts;
		u64 ceiling, freerun;

		if (!weir_record_has_ceiling(record))
			continue;
		counts = weir_tree_counts(record);
		ceiling = weir_record_ceiling(record);
		freerun = weir_ceiling_freerun(ceiling, stock);
		WRITE_ONCE(record->last_freerun, freerun);
		if (state)
			state->poll = weir_ceiling_poll(ceiling, freerun, &counts, state->poll);
		if (READ_ONCE(record->owners_ceilings) && state) {
			leave_to_return(ceiling, &counts, state);
			continue;
		}
		if (weir_ceiling_amend(limits, ceiling, &counts, kind))
			by = stretch->own && record == stretch->record ? WEIR_BY_CEILING :
									 WEIR_BY_ANCESTOR;
	}
	return by;
}

static void limits_note(struct weir_pass_state *state, u64 thresh, u64 dirty,
			enum weir_pause_by by)
{
	if (!state)
		return;
	state->thresh = thresh;
	state->dirty = dirty;
	state->judged_by = by;
	state->cgroup_limits = true;
}

/* @limits, which were @stock, by the ceilings on the path. */
static void apply_ceilings(struct weir_limits *limits, const struct weir_limits *stock,
			   const struct weir_stretch *stretch, enum weir_pass kind)
{
	struct weir_pass_state *state = stretch->state;
	enum weir_pause_by by;
	bool held;

	weir_stretch_count(stretch);
	if (state)
		state->poll = WEIR_UNLIMITED;
	by = hold_to_ceilings(limits, stock, stretch, kind);
	held = (by != WEIR_BY_CGROUP && kind == WEIR_PASS_WRITER &&
		weir_limits_brake(limits)) ||
	       (state && state->uncapped);
	if (READ_ONCE(weir_observe)) {
		if (held)
			weir_count(stretch->record, would_hold);
		*limits = *stock;
		by = WEIR_BY_CGROUP;
	} else if (held) {
		weir_count(stretch->record, ceiling_held);
	}
	limits_note(state, limits->thresh, limits->dirty, by);
}

static void amend_memcg(void *dtc, const struct weir_stretch *stretch,
			const struct weir_pass_facts *facts, enum weir_pass kind)
{
	const struct weir_limits was = limits_of(dtc);
	struct weir_limits limits = was;
	struct weir_drain_host host = weir_host_amendments();
	void *gdtc = POINTER(dtc, gdtc);

	host.thresh = FIELD(gdtc, thresh);
	host.avail = FIELD(gdtc, avail);
	if (weir_amend_memcg(&limits, facts, &host, FIELD(dtc, avail),
			     stretch->state && stretch->state->released)) {
		const struct weir_limits stock = limits;

		if (stretch->capped)
			apply_ceilings(&limits, &stock, stretch, kind);
		else
			limits_note(stretch->state, limits.thresh, limits.dirty,
				    WEIR_BY_CGROUP);
	}
	put_limits(dtc, &limits, &was);
}

static noinline void amend_pass(void *dtc, struct bdi_writeback *wb,
				struct weir_pass_state *state)
{
	struct weir_pass_facts facts = facts_of(dtc, wb);
	enum weir_pass kind = weir_pass_kind(&facts);
	struct cgroup_subsys_state *css = wb->memcg_css;
	struct weir_stretch stretch;
	struct weir_record *record;

	if (kind == WEIR_PASS_READER)
		return;
	if (state)
		state->released &= facts.has_gdtc;
	if (weir_fault_loses())
		return;
	record = weir_tree_nearest(css);
	/* a pass may go on for minutes */
	if (state && !facts.has_gdtc && record && record->css == css)
		weir_fair_note(record);
	stretch = weir_stretch_open(css, record, state);
	if (facts.has_gdtc)
		amend_memcg(dtc, &stretch, &facts, kind);
	else
		amend_global(dtc, wb, &stretch, kind);
}

/* amend_memcg() for a writer below ceilings, and nothing else. */
static noinline void amend_capped(void *dtc, struct weir_pass_state *state)
{
	const struct weir_limits was = limits_of(dtc);
	struct weir_limits limits = was;
	struct weir_stretch stretch = { .state = state, .capped = true };

	rcu_read_lock();
	stretch.record = weir_tree_nearest(state->css);
	stretch.own = stretch.record && stretch.record->css == state->css;
	if (stretch.record)
		apply_ceilings(&limits, &was, &stretch, WEIR_PASS_WRITER);
	rcu_read_unlock();
	put_limits(dtc, &limits, &was);
}

/* amend_global() for what floors reserve, and nothing else. */
static noinline void amend_reserved(void *dtc, u64 unused)
{
	const struct weir_host host = { .unused = unused };
	const struct weir_limits was = limits_of(dtc);
	struct weir_limits limits = was;

	weir_host_amend(&limits, &host, WEIR_PASS_WRITER);
	put_limits(dtc, &limits, &was);
}

/*
 * The same for a writer whose path is known, as most: what is not on the path is not looked
 * for.  False if that is not all there is to do.
 */
static bool amend_surveyed(void *dtc, struct bdi_writeback *wb, struct weir_pass_state *state)
{
	u64 unused;

	if (!weir_stretch_goes_on(state) || weir_drain_limit() || state->floored)
		return false;
	if (!POINTER(dtc, gdtc)) {
		unused = READ_ONCE(weir_observe) ? 0 : weir_unused_pages();
		if (unused && !weir_fault_loses())
			amend_reserved(dtc, unused);
	} else if (!state->capped || wb->bdi->capabilities & BDI_CAP_STRICTLIMIT) {
		limits_note(state, FIELD(dtc, thresh), FIELD(dtc, dirty), WEIR_BY_CGROUP);
	} else if (!weir_fault_loses()) {
		amend_capped(dtc, state);
	}
	return true;
}

/*
 * Runs after the kernel's domain_dirty_limits(), in whatever context that was
 * called: a writer, a flusher, a reader.  Without a recent proof that hooks work
 * it leaves the kernel's result as it is.
 */
void weir_limits(void *dtc)
{
	struct bdi_writeback *wb = POINTER(dtc, wb);
	struct weir_pass_state *state;

	if (wb) {
		state = weir_events_current();
		if (state) {
			/* each look of the kernel begins with the global domain */
			if (POINTER(dtc, gdtc))
				state->memcg_limits = true;
			else
				state->looks++;
		}
		if (READ_ONCE(weir_unloading)) {
			if (state)
				release_for_unload(dtc, state);
			return;
		}
		if (!weir_acting() || (state && amend_surveyed(dtc, wb, state)))
			return;
		if (POINTER(dtc, gdtc))
			weir_fault_late();
		rcu_read_lock();
		amend_pass(dtc, wb, state);
		rcu_read_unlock();
	} else if (READ_ONCE(weir_proof.task) == current) {
		weir_proof.thresh = FIELD(dtc, thresh);
		weir_proof.bg_thresh = FIELD(dtc, bg_thresh);
		WRITE_ONCE(weir_proof.avail, FIELD(dtc, avail));
		WRITE_ONCE(weir_proof.domain, POINTER(dtc, dom));
		weir_proof.seen = true;
	}
}
