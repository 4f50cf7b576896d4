// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floor, applied: leave out a writer's pass; and everybody's pass, timed.
 *
 * Two probes on balance_dirty_pages(), registered while any knob is set.
 *
 * The entry probe decides.  If the policy admits the writer, the probe leaves
 * the task as a free-running pass would (its dirtied pages taken off, its clock
 * set, its next look scheduled) and returns into free_running() below instead
 * of the kernel's function.  That runs as ordinary code in the task's context
 * and does what the kernel does for a free-running writer: start the flusher if
 * the host is over its background level.  The kernel's limits are not touched,
 * so there is nothing to undo and nothing a lost probe could leave behind.
 *
 * A task that is asleep in the throttle when a floor gets room for it is
 * let go after the step it is in, at most 200 ms: limits.c.
 *
 * The return probe measures.  The only place where the function gives up the CPU
 * of its own accord is the pause, so each voluntary switch of the task is one,
 * and a pass with any was spent asleep but for microseconds.
 *
 * Trust is checked per call: the kernel passes the task's own nr_dirtied as the
 * second argument.  If the registers say otherwise the compiler has changed the
 * function's arguments; the pass is left to the kernel and counted as misfit.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/writeback.h>

struct pause {
	struct cgroup_subsys_state *css;
	u64 bdi_id;
	u64 start_ns;
	unsigned long switches;
	bool below_floor;
};

static bool armed;
static atomic64_t misfit;
/* What the entry probe found, for the return probe's entry on the same instruction. */
static DEFINE_PER_CPU(enum weir_floor_verdict, verdict);

/* Start background writeback if it is due. */
void weir_wake_flusher(struct bdi_writeback *wb)
{
	if (!laptop_mode && !writeback_in_progress(wb) &&
	    global_node_page_state(NR_FILE_DIRTY) >
	    weir_host_limits().bg_thresh)
		weir_start_background(wb);
}

/* What remains of balance_dirty_pages() for an admitted writer. */
static int free_running(struct bdi_writeback *wb, unsigned long pages_dirtied,
			unsigned int flags)
{
	weir_wake_flusher(wb);
	return 0;
}

/* Decide a pass of @group on @wb; true if the kernel's is to be left out. */
static bool admit(struct weir_group *group, struct bdi_writeback *wb,
		 unsigned long pages_dirtied)
{
	struct weir_group *floored = weir_tree_floored(group);
	bool observe = READ_ONCE(weir_observe);
	enum weir_floor_verdict found;
	struct weir_floor_pass pass;
	bool admitted;

	__this_cpu_write(verdict, WEIR_FLOOR_NONE);
	if (!floored)
		return false;
	pass = weir_floor_look(group, wb);
	found = weir_floor_decide(&pass);
	admitted = found == WEIR_FLOOR_ADMIT;
	__this_cpu_write(verdict, found);
	weir_device_charge(group, floored, wb, pages_dirtied, admitted && !observe);
	if (!admitted)
		return false;
	if (observe) {
		weir_count(group, would_admit);
		return false;
	}
	weir_count(group, floor_admitted);
	weir_events_admit(group, wb, &pass, pages_dirtied);
	current->dirty_paused_when = jiffies;
	current->nr_dirtied = 0;
	current->nr_dirtied_pause = weir_floor_poll(&pass);
	return true;
}

static int enter_pass(struct kprobe *kp, struct pt_regs *regs)
{
	struct bdi_writeback *wb = (void *)regs_get_kernel_argument(regs, 0);
	unsigned long pages_dirtied = regs_get_kernel_argument(regs, 1);
	struct weir_group *group;

	if (pages_dirtied != current->nr_dirtied) {
		atomic64_inc(&misfit);
		return 0;
	}
	/* RCU is held: handlers run with preemption disabled */
	group = weir_tree_nearest(wb->memcg_css);
	if (!group || group->css != wb->memcg_css)
		weir_weight_stranger(wb->memcg_css);
	if (!group)
		return 0;
	weir_count(group, passes);
	if (weir_fault())
		return 0;
	if (admit(group, wb, pages_dirtied)) {
		instruction_pointer_set(regs, (unsigned long)free_running);
		return 1;
	}
	if (weir_weight_holds(group, wb)) {
		instruction_pointer_set(regs, (unsigned long)weir_weight_wait);
		return 1;
	}
	return 0;
}

static int enter_pause(struct kretprobe_instance *instance,
		       struct pt_regs *regs)
{
	struct pause *pause = (void *)instance->data;
	struct bdi_writeback *wb = (void *)regs_get_kernel_argument(regs, 0);

	struct weir_group *group = weir_tree_nearest(wb->memcg_css);

	if (!group || regs_get_kernel_argument(regs, 1) != current->nr_dirtied)
		return 1;
	/* alive until the pass returns: the caller holds the wb, the wb its css */
	pause->css = wb->memcg_css;
	pause->bdi_id = wb->bdi->id;
	pause->start_ns = ktime_get_mono_fast_ns();
	pause->switches = current->nvcsw;
	weir_events_enter(group);
	pause->below_floor = __this_cpu_read(verdict) == WEIR_FLOOR_ADMIT ||
			     __this_cpu_read(verdict) == WEIR_FLOOR_HOST_FULL;
	return 0;
}

/* Under a ceiling many writers must not each dirty a large share of the room. */
static void shorten_poll(struct weir_group *group)
{
	struct weir_counts counts;
	u64 ceiling;

	for (; group; group = group->parent) {
		if (!weir_group_has_ceiling(group))
			continue;
		counts = weir_tree_counts(group);
		ceiling = weir_ceiling_pages(&group->ceiling,
					     READ_ONCE(group->avail));
		current->nr_dirtied_pause =
			weir_ceiling_poll(ceiling, READ_ONCE(group->last_freerun),
					  &counts, current->nr_dirtied_pause);
	}
}

static int leave_pause(struct kretprobe_instance *instance,
		       struct pt_regs *regs)
{
	struct pause *pause = (void *)instance->data;
	struct weir_group *group = weir_tree_nearest(pause->css);
	unsigned long pauses = current->nvcsw - pause->switches;

	weir_events_leave();
	if (!group)
		return 0;
	if (pauses) {
		this_cpu_add(group->stats->throttled, pauses);
		if (pause->below_floor)
			this_cpu_add(group->stats->throttled_below_floor,
				     pauses);
		this_cpu_add(group->stats->throttled_ns,
			     ktime_get_mono_fast_ns() - pause->start_ns);
	}
	if (weir_tree_capped(group) && !READ_ONCE(weir_observe)) {
		weir_tree_update(group);
		shorten_poll(group);
	}
	if (group->css == pause->css)
		weir_weight_leave(group, pause->bdi_id, pauses);
	return 0;
}

static struct kprobe entry_probe;
static struct kretprobe pause_probe;

static void set_up(struct kprobe *probe, const char *symbol,
		   kprobe_pre_handler_t handler)
{
	*probe = (struct kprobe) {
		.symbol_name = symbol,
		.pre_handler = handler,
	};
}

/*
 * Register the probes.  The caller holds weir_lock.  The entry probe goes last:
 * probes on one function run newest first, and an admitted pass need not be
 * timed.
 */
int weir_passes_arm(void)
{
	int err;

	if (armed)
		return 0;
	pause_probe = (struct kretprobe) {
		.kp.symbol_name = "balance_dirty_pages",
		.entry_handler = enter_pause,
		.handler = leave_pause,
		.data_size = sizeof(struct pause),
		/* one per task asleep in the throttle at a time */
		.maxactive = 4096,
	};
	err = weir_events_arm();
	if (err)
		return err;
	err = register_kretprobe(&pause_probe);
	if (err)
		goto no_pauses;
	set_up(&entry_probe, "balance_dirty_pages", enter_pass);
	err = register_kprobe(&entry_probe);
	/* without an ftrace site a return into free_running() would be optimised away */
	if (!err && !kprobe_ftrace(&entry_probe)) {
		unregister_kprobe(&entry_probe);
		err = -EOPNOTSUPP;
	}
	if (err)
		goto no_entries;
	armed = true;
	return 0;

no_entries:
	unregister_kretprobe(&pause_probe);
no_pauses:
	weir_events_disarm();
	return err;
}

void weir_passes_disarm(void)
{
	if (!armed)
		return;
	unregister_kprobe(&entry_probe);
	unregister_kretprobe(&pause_probe);
	weir_events_disarm();
	armed = false;
}

bool weir_passes_armed(void)
{
	return armed;
}

/* Passes decided or timed by nobody since the probes were registered. */
u64 weir_passes_missed(void)
{
	return armed ? entry_probe.nmissed + pause_probe.nmissed +
		       pause_probe.kp.nmissed : 0;
}

/* Passes whose arguments were not what weir takes them for. */
u64 weir_passes_misfit(void)
{
	return atomic64_read(&misfit);
}

static noinline int not_redirected(struct bdi_writeback *wb,
				   unsigned long pages, unsigned int flags)
{
	/* keep the compiler from knowing the result at the call */
	OPTIMIZER_HIDE_VAR(flags);
	return flags;
}

static noinline int redirected(struct bdi_writeback *wb, unsigned long pages,
			       unsigned int flags)
{
	return -1;
}

static int redirect(struct kprobe *kp, struct pt_regs *regs)
{
	if (regs_get_kernel_argument(regs, 1) != 42)
		return 0;
	instruction_pointer_set(regs, (unsigned long)redirected);
	return 1;
}

static struct kprobe sentinel;
static bool sentinel_set;

/*
 * Prove that a probe can take over a function on this kernel, now, on one of
 * weir's own.  Everything that silences probes (ftrace_enabled, debugfs
 * kprobes/enabled) silences this one too.  -ENODATA if it had no effect.
 */
int weir_redirect_prove(void)
{
	int err;

	if (!sentinel_set) {
		set_up(&sentinel, NULL, redirect);
		sentinel.addr = (void *)not_redirected;
		err = register_kprobe(&sentinel);
		if (err)
			return err;
		sentinel_set = true;
		if (!kprobe_ftrace(&sentinel))
			return -EOPNOTSUPP;
	}
	return not_redirected(NULL, 42, 7) == -1 ? 0 : -ENODATA;
}

/* Remove the probe of weir_redirect_prove(). */
void weir_redirect_end(void)
{
	if (sentinel_set)
		unregister_kprobe(&sentinel);
	sentinel_set = false;
}
