// SPDX-License-Identifier: GPL-2.0-only
/*
 * The proof that hooks work, and what is seen of the host by the way.
 *
 * The beat asks global_dirty_limits(), which reaches the same function, and
 * compares what weir_limits() saw in the structure with what comes back.  That
 * proves, at load and five times a second, that hooks work, that the argument
 * is what weir takes it for and that the offsets are right.  Each writer's pass
 * is checked, too: one whose limits were not seen there is counted.
 */
#include "weir.h"
#include <linux/writeback.h>

struct weir_proof weir_proof;

/* Passes whose limits limits.c did not see: all; of the root's and of cgroups' since one was. */
static atomic64_t unseen;
static atomic_t unseen_in_a_row[2];

/* As many passes unseen, and none seen between them, are no coincidence. */
#define BYPASS_PASSES	16

/*
 * A pass is over: did the limits of each of its domains come by limits.c?  Root's passes
 * and those of cgroups are told apart, as a compiler may inline one call of the hooked
 * function and keep another.  Neither floors nor ceilings hold on a strictlimit device:
 * what is not seen there is missed, and proves nothing about others.
 */
void weir_passes_note(const struct weir_pass_state *state, const struct bdi_writeback *wb)
{
	bool in_cgroup = state->css->parent;
	bool by_hook = state->looks && (state->memcg_limits || !in_cgroup);
	atomic_t *in_a_row = &unseen_in_a_row[in_cgroup];

	if (!by_hook && (state->unwatched || !weir_acting()))
		return;
	if (!by_hook)
		atomic64_inc(&unseen);
	if (wb->bdi->capabilities & BDI_CAP_STRICTLIMIT)
		return;
	if (!by_hook)
		atomic_inc(in_a_row);
	else if (atomic_read(in_a_row))
		atomic_set(in_a_row, 0);
}

u64 weir_passes_unseen(void)
{
	return atomic64_read(&unseen);
}

/*
 * Do writers run a copy of the hooked function, which weir never sees?  A compiler may
 * inline it into one caller, or one call of it, and keep it for others, which prove the
 * hook.  The first such pass that is seen takes it back.  Not told: a copy that only
 * the later looks of a pass run, or only the flusher.
 */
static bool is_limits_hook_bypassed(void)
{
	return atomic_read(&unseen_in_a_row[false]) >= BYPASS_PASSES ||
	       atomic_read(&unseen_in_a_row[true]) >= BYPASS_PASSES;
}

/* The hooks are silent, as with kernel.ftrace_enabled=0: what was missed is no copy's. */
static void reset_unseen_passes(void)
{
	atomic_set(&unseen_in_a_row[false], 0);
	atomic_set(&unseen_in_a_row[true], 0);
}

/* The host's dirtyable memory, as of the last proof. */
u64 weir_limits_dirtyable(void)
{
	return READ_ONCE(weir_proof.avail);
}

/*
 * The host's limit was lowered to @limit by weir.  The kernel follows a lower
 * limit down by 1/32 in 200 ms, and only while a task is throttled; where the
 * sysctl is written it takes it over at once, and so does this.
 */
void weir_limits_lower_domain(u64 limit)
{
	struct wb_domain *domain = READ_ONCE(weir_proof.domain);

	if (!READ_ONCE(weir_observe) && domain &&
	    READ_ONCE(domain->dirty_limit) > limit)
		WRITE_ONCE(domain->dirty_limit, limit);
}

/*
 * Read the global limits and, when armed, prove by them that hooks work.
 * -ENODATA if weir_limits() did not run, -EPROTO if it saw other numbers, -EOPNOTSUPP
 * if passes of writers do not come by it.
 */
int weir_limits_prove(u64 *thresh, u64 *bg_thresh)
{
	unsigned long background, limit;

	weir_proof.seen = false;
	WRITE_ONCE(weir_proof.task, current);
	weir_global_limits(&background, &limit);
	WRITE_ONCE(weir_proof.task, NULL);
	*thresh = limit;
	*bg_thresh = background;
	if (!weir_hooks_armed())
		return 0;
	if (!weir_proof.seen) {
		reset_unseen_passes();
		return -ENODATA;
	}
	if (weir_proof.thresh != limit || weir_proof.bg_thresh != background)
		return -EPROTO;
	return is_limits_hook_bypassed() ? -EOPNOTSUPP : 0;
}
