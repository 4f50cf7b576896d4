// SPDX-License-Identifier: GPL-2.0-only
/*
 * Seconds of drain, sampled and put in force: see policy/drain.c.
 *
 * On every beat: how much was written back, what is dirty, how hard memory is to
 * come by.  All of it is the kernel's own: counters of /proc/vmstat, the figure
 * of dirtyable memory that the beat's question for the limits went by, and the
 * ten-second average of /proc/pressure/memory.  policy/amend.c amends by what
 * comes of it.
 *
 * A module parameter, not a file in /sys/kernel/weir: it can be given at boot
 * as the others are, and that directory is for reading.
 */
#include "weir.h"
#include <linux/module.h>
#include <linux/psi.h>
#include <linux/sched/loadavg.h>
#include <linux/vmstat.h>

static unsigned int seconds;
static bool tighten;
module_param_named(drain_tighten, tighten, bool, 0644);
MODULE_PARM_DESC(drain_tighten, "drain_seconds bounds what is dirty, and what sync waits for");

static struct weir_drain drain;		/* the beat's */
static u64 stock;			/* what drain.limit is instead of */

/* The counts at the last beat, from which flows are counted. */
static struct {
	u64 ns;
	u64 written;
	u64 kswapd_scanned;
	u64 kswapd_taken;
	u64 direct_scanned;
} last;

static u64 take_growth(u64 *before, u64 now)
{
	u64 flow = now - *before;

	*before = now;
	return flow;
}

/*
 * Pages of files whose writeback was completed.  The kernel counts what is swapped out
 * with them, which may go to memory (zram), and says nothing of disks.  It is known when
 * it begins, and so may be ahead: what is then too little counts in the next beats.
 */
static u64 take_written(u64 *before, u64 now)
{
	return (s64)(now - *before) > 0 ? take_growth(before, now) : 0;
}

#ifdef CONFIG_PSI
/* Percent of the last ten seconds in which some task waited for memory. */
static u32 memory_stall(void)
{
	static struct psi_group *record;

	if (!record)
		record = (void *)weir_symbol_address("psi_system");
	return record ? READ_ONCE(record->avg[PSI_MEM_SOME][0]) >> FSHIFT : 0;
}
#else
static u32 memory_stall(void)
{
	return 0;
}
#endif

/*
 * A count of /proc/vmstat.  all_vm_events() waits while a CPU comes or goes, and that waits
 * for tasks.  Here all CPUs are asked: what one had counted is added to another's as it
 * goes.  A sample at that moment is off, for one beat.
 */
static unsigned long count_events(enum vm_event_item item)
{
	unsigned long sum = 0;
#ifdef CONFIG_VM_EVENT_COUNTERS
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(vm_event_states, cpu).event[item]);
#endif
	return sum;
}

static void take_sample(struct weir_drain_beat *beat)
{
	u64 now = ktime_get_ns();

	*beat = (struct weir_drain_beat) {
		.seconds = READ_ONCE(seconds),
		.elapsed_ms = take_growth(&last.ns, now) / NSEC_PER_MSEC,
		.dirty = global_node_page_state(NR_FILE_DIRTY),
		.writeback = global_node_page_state(NR_WRITEBACK),
		.written = take_written(&last.written,
					global_node_page_state(NR_WRITTEN) -
					count_events(PSWPOUT)),
		.kswapd_scanned = take_growth(&last.kswapd_scanned,
					      count_events(PGSCAN_KSWAPD)),
		.kswapd_taken = take_growth(&last.kswapd_taken,
					    count_events(PGSTEAL_KSWAPD)),
		.direct_scanned = take_growth(&last.direct_scanned,
					      count_events(PGSCAN_DIRECT)),
		.memory_stall_percent = memory_stall(),
		.tighten = READ_ONCE(tighten),
	};
}

/* Is there anything to do on a beat?  Also after it was switched off, until all is withdrawn. */
bool weir_drain_wanted(void)
{
	return READ_ONCE(seconds) || READ_ONCE(drain.limit);
}

/* Is what a sync waits for bounded, too? */
bool weir_drain_bounds_sync(void)
{
	return READ_ONCE(seconds) && READ_ONCE(tighten) && !READ_ONCE(weir_observe);
}

/* The beat has the host's limits. */
void weir_drain_beat(u64 thresh, u64 bg_thresh)
{
	struct weir_drain_beat beat;
	u64 before = drain.limit ?: thresh;

	if (weir_drain_bounds_sync())
		weir_sync_hook_request();
	if (!weir_drain_wanted()) {
		last.ns = 0;
		return;
	}
	if (!last.ns) {
		weir_drain_start(&drain);
		take_sample(&beat);
		return;
	}
	/* a knob was written between two beats: too short to measure anything */
	if (ktime_get_ns() - last.ns < WEIR_DRAIN_LOOK_MS * NSEC_PER_MSEC)
		return;
	take_sample(&beat);
	beat.thresh = thresh;
	beat.bg_thresh = bg_thresh;
	beat.dirtyable = weir_limits_dirtyable();
	weir_drain_step(&drain, &beat);
	WRITE_ONCE(stock, thresh);
	if ((drain.limit ?: thresh) < before)
		weir_limits_lower_domain(drain.limit ?: thresh);
}

/* Stop at once, at an unload or when no knob is set: nothing is lifted any more. */
void weir_drain_end(void)
{
	if (drain.limit)
		weir_limits_lower_domain(max(stock, weir_count_host()));
	drain.limit = 0;
	last.ns = 0;
}

/* The part of weir_host_amendments() that is drain's. */
void weir_drain_fill_host(struct weir_drain_host *host)
{
	host->limit = READ_ONCE(drain.limit);
	host->stock = READ_ONCE(stock);
}

/* The host's limit in force, where the kernel's is @thresh. */
u64 weir_drain_thresh(u64 thresh)
{
	return (READ_ONCE(weir_observe) ? 0 : weir_drain_limit()) ?: thresh;
}

/* The same as passes that observe would have it, 0 for the kernel's. */
u64 weir_drain_limit(void)
{
	return READ_ONCE(drain.limit);
}

u64 weir_drain_rate(void)
{
	return READ_ONCE(drain.rate);
}

bool weir_drain_is_memory_scarce(void)
{
	return READ_ONCE(seconds) &&
	       READ_ONCE(drain.calm_ms) < WEIR_DRAIN_CALM_MS;
}

static int set_seconds(const char *text, const struct kernel_param *param)
{
	unsigned int value;
	int err = kstrtouint(text, 10, &value);

	if (err)
		return err;
	if (value > WEIR_DRAIN_SECONDS_MAX)
		return -ERANGE;
	err = weir_param_arm(value);
	if (!err)
		WRITE_ONCE(seconds, value);
	return err;
}

static const struct kernel_param_ops seconds_ops = {
	.set = set_seconds,
	.get = param_get_uint,
};

module_param_cb(drain_seconds, &seconds_ops, &seconds, 0644);
MODULE_PARM_DESC(drain_seconds, "writers run free up to what the disks write back in this many seconds, 0 = off");
