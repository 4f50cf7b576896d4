// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pass contract: who is asking for the limits, and what may be amended.
 *
 * Linux computes a domain's dirty limits in one function, but for three kinds
 * of callers.  A *writer* in balance_dirty_pages() may be put to sleep by the
 * result.  A *flusher* in wb_over_bg_thresh() stops or goes on writing by it.
 * A *reader* (/proc/vmstat, debugfs, tracepoints) only reports it.
 *
 * The rules, and where each is kept:
 *
 * 1. No cgroup's knob raises the limits of the global domain.  A floor is made
 *    by leaving the writer's whole pass out (floor.c), so there is no pass in
 *    which one domain is lifted and the other is not, and nothing a cgroup is
 *    told can raise global_wb_domain.dirty_limit above stock's, or a dirty_ratelimit
 *    above what the device was seen to do.  (A pass left out does not lower
 *    them either, as a free-running one does not.)  A decision that is lost
 *    leaves no trace.
 *    A writer that sleeps while its cgroup falls below its floor is let go by
 *    taking the dirty counts of that pass, not the limits: both domains are then
 *    in freerun, and nothing that outlives the pass has risen.  Should the decision
 *    reach only the first of the two domains, the pass goes on and may move that
 *    cgroup's own dirty_ratelimit by a step, towards no more than the device's
 *    bandwidth.
 *    The host's own option, seconds of drain (drain.c), raises them as the
 *    sysctl would: for every writer and flusher, strictlimit devices included,
 *    and for a cgroup's domain by what the same pass found in the host's.
 * 2. For cgroups' knobs both domains are only ever lowered: a cgroup's for its
 *    ceiling (ceiling.c), the global one for what floors reserve and do not use
 *    (reserve.c).  For writers and flushers alike, with bg_thresh below thresh
 *    afterwards.
 * 3. A flusher's dirty count excludes writeback: pages already on their way
 *    must not keep it working.  A writer's includes it.
 * 4. Readers see stock values.  They are told by their domain structures: a
 *    global reader has no wb, a reader of a cgroup's limit has a global
 *    counterpart without one.
 * 5. A strictlimit device knows neither floor nor ceiling.  Its share of the
 *    global limit falls along with that limit, as every device's does.
 *
 * In which order a pass is amended: amend.c.
 *
 * The flusher is told by the work item that is running, not by task flags:
 * loop devices write from workqueues and nfsd from kernel threads, and both
 * are writers.
 */
#include "policy.h"

/* Tell writer, flusher and reader apart. */
enum weir_pass weir_pass_kind(const struct weir_pass_facts *facts)
{
	if (!facts->has_wb || (facts->has_gdtc && !facts->gdtc_has_wb))
		return WEIR_PASS_READER;
	return facts->in_flusher ? WEIR_PASS_FLUSHER : WEIR_PASS_WRITER;
}

/* Non-zero if a ceiling may be applied to the domain in this pass. */
int weir_pass_may_cap(const struct weir_pass_facts *facts)
{
	return facts->has_gdtc && !facts->strictlimit &&
	       weir_pass_kind(facts) != WEIR_PASS_READER;
}
