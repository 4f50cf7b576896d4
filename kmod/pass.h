/* SPDX-License-Identifier: GPL-2.0-only */
/* A pass of a writer: its state, its stretches, and what amends and counts it.  Included by weir.h. */
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

/*
 * One trip of a task through the throttle as seen so far, on that task's stack.
 * Kept across sleeps, so no pointer in it but the css, which the pass's wb
 * holds.
 */
struct weir_pass_state {
	struct hlist_node node;		/* in events.c's table */
	struct task_struct *task;
	struct cgroup_subsys_state *css;
	bool below_floor;		/* was, when it began */
	bool async;			/* must not sleep */
	bool unwatched;			/* weir does not act: nothing is counted */
	/* of its path, until the task sleeps: weir_stretch_goes_on() */
	unsigned long switches;		/* of the task, when that was found */
	bool surveyed;
	bool counted;			/* its sums are fresh */
	bool floored;			/* there is a floor on it */
	bool capped;			/* a ceiling */
	/* came by limits.c, in this pass */
	u32 looks;			/* the global domain */
	bool memcg_limits;		/* the cgroup's */
	bool released;			/* by a floor, in this look of the kernel */
	u64 released_poll;
	bool uncapped;			/* a full ceiling that an owner set is left to its return */
	/* the cgroup's domain as last amended */
	bool cgroup_limits;
	u64 poll;			/* by the ceilings on the path, if there are any */
	u64 thresh;
	u64 dirty;
	enum weir_pause_by judged_by;
	/* the pause the task is in */
	bool paused;
	enum weir_pause_by by;
	u64 since_ns;
};

/*
 * A stretch of a pass, between two sleeps: its path, by one look-up and one walk.  Of the
 * RCU section that it is opened in, and never kept beyond.
 */
struct weir_stretch {
	struct weir_pass_state *state;	/* NULL but for a writer's */
	struct weir_record *record;	/* that judges the pass, or NULL: weir_tree_nearest() */
	struct weir_record *floored;	/* the next with a floor, from it upwards, or NULL */
	bool own;			/* the record is the cgroup's own */
	bool capped;			/* there is a ceiling on the path */
};

/* Does what was found on the path still hold: has the task not slept since? */
static inline bool weir_stretch_goes_on(const struct weir_pass_state *state)
{
	return state->surveyed && state->switches == current->nvcsw;
}

/* tree.c */
void weir_stretch_survey(struct weir_stretch *stretch);
void weir_stretch_count(const struct weir_stretch *stretch);

/*
 * Open a stretch of a pass on a wb of @css, which @record judges.  A writer's pass that
 * knows its path, and that there is no floor on it, walks no more until its task has slept.
 * Under RCU.
 */
static inline struct weir_stretch weir_stretch_open(struct cgroup_subsys_state *css,
						    struct weir_record *record,
						    struct weir_pass_state *state)
{
	struct weir_stretch stretch = {
		.state = state,
		.record = record,
		.own = record && record->css == css,
	};

	if (state && weir_stretch_goes_on(state) && !state->floored)
		/* its record may have gone since, without a sleep of its own */
		stretch.capped = record && state->capped;
	else
		weir_stretch_survey(&stretch);
	return stretch;
}

/* events.c: who decided each pause */
int weir_events_find(void);
int weir_events_arm(void);
void weir_events_disarm(void);
void weir_events_log_waiting(void);
struct weir_pass_state *weir_events_current(void);
void weir_events_list(struct weir_pass_state *state);
void weir_events_unlist(struct weir_pass_state *state);
void weir_events_admit(struct weir_record *record, struct bdi_writeback *wb,
		       const struct weir_floor_pass *pass, u64 pages);

/* limits.c: both domains' limits, amended for ceilings and reservations */
void weir_limits(void *dtc);

/* proof.c: do hooks work, and what limits.c saw meanwhile */
struct weir_proof {
	struct task_struct *task;
	bool seen;
	u64 thresh;
	u64 bg_thresh;
	u64 avail;
	struct wb_domain *domain;
};

extern struct weir_proof weir_proof;
int weir_limits_prove(u64 *thresh, u64 *bg_thresh);
void weir_passes_note(const struct weir_pass_state *state, const struct bdi_writeback *wb);
u64 weir_passes_unseen(void);

/* the host's, seen at the last proof, and its smoothed limit pulled down */
u64 weir_limits_dirtyable(void);
void weir_limits_lower_domain(u64 limit);

/* floor.c: what a writer's pass finds under the floors of its path */
struct weir_floor_pass weir_floor_for_pass(const struct weir_stretch *stretch,
					   struct bdi_writeback *wb);

/* ceiling.c: writers that are let past a full ceiling */
void weir_ceiling_past(struct bdi_writeback *wb, u64 pages);

/*
 * After the kernel's pass of a writer.  Where the domain was at its limit when the kernel
 * last looked, it lets go for no other reason than that its wb has next to nothing; and
 * where ceilings were left out, for that.
 */
static inline void weir_ceiling_pass(struct bdi_writeback *wb, u64 pages,
				     const struct weir_pass_state *state)
{
	if (state->uncapped || (state->cgroup_limits && state->dirty >= state->thresh &&
				!state->released))
		weir_ceiling_past(wb, pages);
}

/* pass.c: the writer's pass, left out for a floor and timed for all others */
int weir_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
	      unsigned int flags);

#endif
