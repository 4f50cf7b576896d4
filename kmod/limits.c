// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ceiling, reservation and drain, applied: amend the result of domain_dirty_limits().
 *
 * A return probe on the function that computes a domain's limits, registered
 * while any knob is set.  A cgroup's domain is lowered for the ceilings on its
 * path, its own and its ancestors', each compared with the subtree it is about;
 * the global domain for what floors reserve and do not use, if any floor is set;
 * both move first with the host's limit by drain (drain.c), if that is in force.
 * Everything else is let through untouched.
 *
 * The heartbeat asks global_dirty_limits(), which reaches the same function,
 * and compares what the probe saw in the structure with what
 * comes back.  That proves, at load and five times a second, that the probe
 * fires, that its argument is what weir takes it for and that the offsets are
 * right.
 */
#include "weir.h"
#include <linux/workqueue.h>
#include <linux/writeback.h>

struct call {
	void *dtc;
};

static struct {
	struct task_struct *task;
	bool seen;
	u64 thresh;
	u64 bg_thresh;
	u64 avail;
	struct wb_domain *domain;
} proof;

static bool armed;

#define FIELD(dtc, name) (*(unsigned long *)((dtc) + weir_layout.dtc_##name))
#define POINTER(dtc, name) (*(void **)((dtc) + weir_layout.dtc_##name))

/* Keep the argument of the calls that concern weir; let all others go. */
static int enter(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct call *call = (void *)instance->data;
	void *dtc = (void *)regs_get_kernel_argument(regs, 0);
	struct bdi_writeback *wb = POINTER(dtc, wb);

	call->dtc = dtc;
	if (wb && weir_drain_limit())
		return 0;
	if (!POINTER(dtc, gdtc)) {
		if (wb)
			return READ_ONCE(weir_pool.floors_total) ? 0 : 1;
		return READ_ONCE(proof.task) == current ? 0 : 1;
	}
	return wb && weir_tree_nearest(wb->memcg_css) ? 0 : 1;
}

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

static void put_limits(void *dtc, const struct weir_limits *limits)
{
	struct wb_domain *domain = POINTER(dtc, dom);

	FIELD(dtc, thresh) = limits->thresh;
	FIELD(dtc, bg_thresh) = limits->bg_thresh;
	FIELD(dtc, dirty) = limits->dirty;
	/* unlocked, as dom->lock sleeps on PREEMPT_RT: a racing update is lowered next pass */
	if (limits->dom_limit < READ_ONCE(domain->dirty_limit))
		WRITE_ONCE(domain->dirty_limit, limits->dom_limit);
}

/*
 * A writer below a floor gets here only if it was above when its
 * pass began and has slept since: the kernel looks again after each step.  Let
 * it go: with nothing dirty both domains are in freerun.  Decided once, in
 * the global domain; a global domain without dirty pages tells the cgroup's.
 */
static void release(void *dtc, struct bdi_writeback *wb,
		    struct weir_group *group)
{
	struct weir_floor_pass pass;

	if (!weir_tree_floored(group))
		return;
	pass = weir_floor_look(group, wb);
	if (weir_floor_decide(&pass) != WEIR_FLOOR_ADMIT ||
	    READ_ONCE(weir_observe))
		return;
	FIELD(dtc, dirty) = 0;
	weir_count(group, floor_released);
}

/* Was it in the global domain?  @dtc is the cgroup's of the same pass. */
static bool released(void *dtc, struct weir_group *group)
{
	return weir_tree_floored(group) && !READ_ONCE(weir_observe) &&
	       !FIELD(POINTER(dtc, gdtc), dirty);
}

static void amend_host(void *dtc, struct bdi_writeback *wb,
		       struct weir_group *group, enum weir_pass kind)
{
	struct weir_limits limits = limits_of(dtc);
	struct weir_host host;

	if (kind == WEIR_PASS_FLUSHER && weir_tree_floored(group))
		weir_tree_update(group);
	host = weir_host();
	if (weir_host_amend(&limits, &host, kind))
		put_limits(dtc, &limits);
	if (group && kind == WEIR_PASS_WRITER)
		release(dtc, wb, group);
}

/* Hold @limits to every ceiling on the path; returns what its position is judged by. */
static enum weir_judged_by cap(struct weir_limits *limits, struct weir_group *group,
		enum weir_pass kind)
{
	const struct weir_limits stock = *limits;
	enum weir_judged_by by = WEIR_JUDGED_BY_KERNEL;
	struct weir_group *own = group;

	for (; group; group = group->parent) {
		struct weir_counts counts;
		u64 ceiling;

		if (!weir_group_has_ceiling(group))
			continue;
		counts = weir_tree_counts(group);
		ceiling = weir_ceiling_pages(&group->ceiling,
					     READ_ONCE(group->avail));
		if (weir_ceiling_amend(limits, ceiling, &counts, kind))
			by = group == own ? WEIR_JUDGED_BY_CEILING :
			     WEIR_JUDGED_BY_ANCESTOR;
		WRITE_ONCE(group->last_freerun,
			   weir_ceiling_freerun(ceiling, &stock));
	}
	return by;
}

static void amend(void *dtc, struct weir_group *group, enum weir_pass kind)
{
	struct weir_limits limits = limits_of(dtc);
	struct weir_limits stock = limits;
	enum weir_judged_by by;
	bool held;

	weir_tree_update(group);
	by = cap(&limits, group, kind);
	held = by != WEIR_JUDGED_BY_KERNEL && kind == WEIR_PASS_WRITER &&
	       weir_limits_brake(&limits);
	if (READ_ONCE(weir_observe)) {
		if (held)
			weir_count(group, would_hold);
		weir_events_limits(&stock, WEIR_JUDGED_BY_KERNEL);
		return;
	}
	if (kind == WEIR_PASS_WRITER)
		weir_events_limits(&limits, by);
	if (held)
		weir_count(group, ceiling_held);
	put_limits(dtc, &limits);
}

/* Both domains of a pass move along with the host's limit by drain. */
static void amend_for_drain(void *dtc)
{
	struct weir_drain_host host = weir_drain_host();
	struct weir_limits limits = limits_of(dtc);
	void *gdtc = POINTER(dtc, gdtc);

	if (gdtc) {
		host.thresh = FIELD(gdtc, thresh);
		host.unused = weir_host().unused;
		host.avail = FIELD(gdtc, avail);
		weir_drain_follow(&limits, FIELD(dtc, avail), &host);
	} else {
		weir_drain_amend(&limits, host.limit, host.stock);
	}
	put_limits(dtc, &limits);
}

static int leave(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	void *dtc = ((struct call *)instance->data)->dtc;
	struct bdi_writeback *wb = POINTER(dtc, wb);
	struct weir_pass_facts facts;
	struct weir_group *group;
	enum weir_pass kind;

	if (!wb) {
		proof.thresh = FIELD(dtc, thresh);
		proof.bg_thresh = FIELD(dtc, bg_thresh);
		proof.avail = FIELD(dtc, avail);
		proof.domain = POINTER(dtc, dom);
		proof.seen = true;
		return 0;
	}
	if (weir_fault())
		return 0;
	facts = facts_of(dtc, wb);
	kind = weir_pass_kind(&facts);
	if (kind != WEIR_PASS_READER)
		amend_for_drain(dtc);
	group = weir_tree_nearest(wb->memcg_css);
	if (weir_pass_may_reserve(&facts))
		amend_host(dtc, wb, group, kind);
	if (!weir_pass_may_cap(&facts))
		return 0;
	if (kind == WEIR_PASS_WRITER && released(dtc, group))
		FIELD(dtc, dirty) = 0;
	else if (group)
		amend(dtc, group, kind);
	return 0;
}

static struct kretprobe probe;

/* Register the probe.  The caller holds weir_lock. */
int weir_limits_arm(void)
{
	int err;

	if (armed)
		return 0;
	probe = (struct kretprobe) {
		.kp.symbol_name = "domain_dirty_limits",
		.entry_handler = enter,
		.handler = leave,
		.data_size = sizeof(struct call),
		/* the function does not sleep, but may be preempted */
		.maxactive = max(64U, 16 * num_possible_cpus()),
	};
	err = register_kretprobe(&probe);
	armed = !err;
	return err;
}

void weir_limits_disarm(void)
{
	if (armed)
		unregister_kretprobe(&probe);
	armed = false;
}

/* Decisions lost since the probe was registered. */
u64 weir_limits_missed(void)
{
	return armed ? probe.nmissed + probe.kp.nmissed : 0;
}

/* The host's dirtyable memory, as of the last proof. */
u64 weir_limits_dirtyable(void)
{
	return proof.avail;
}

/*
 * The host's limit was lowered to @limit by weir.  The kernel follows a lower
 * limit down by 1/32 in 200 ms, and only while somebody is throttled; where the
 * sysctl is written it takes it over at once, and so does this.
 */
void weir_limits_lowered(u64 limit)
{
	if (proof.domain && READ_ONCE(proof.domain->dirty_limit) > limit)
		WRITE_ONCE(proof.domain->dirty_limit, limit);
}

/*
 * Read the global limits and, with the probe registered, prove it by them.
 * -ENODATA if the probe did not fire, -EPROTO if it saw other numbers.
 */
int weir_limits_prove(u64 *thresh, u64 *bg_thresh)
{
	unsigned long background, limit;

	proof.seen = false;
	WRITE_ONCE(proof.task, current);
	weir_global_limits(&background, &limit);
	WRITE_ONCE(proof.task, NULL);
	*thresh = limit;
	*bg_thresh = background;
	if (!armed)
		return 0;
	if (!proof.seen)
		return -ENODATA;
	return proof.thresh == limit && proof.bg_thresh == background ?
	       0 : -EPROTO;
}
