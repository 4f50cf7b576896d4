/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of tasks that hold nothing, at their return to user mode.  Included by weir.h. */
#ifndef WEIR_AT_RETURN_H
#define WEIR_AT_RETURN_H

/* at_return.c: waits of tasks that hold nothing, at their return to user mode */
enum { WEIR_DEBT_BANDWIDTH, WEIR_DEBT_LEFT, WEIR_DEBT_CEILING, WEIR_DEBTS };

struct weir_call;

/* A way to wait for a debt. */
struct weir_debt {
	/* For how long still, in ms?  A step has taken @slept_ns; 0 when the wait begins. */
	u64 (*due_ms)(struct weir_call *call, u64 slept_ns);
	void (*sleep)(long timeout);
	/* The task dies with this debt; NULL: then it is gone. */
	void (*leave)(const struct weir_call *call);
};

/* The debts of a system call, or a fault, of a task by now.  The task's own. */
struct weir_call {
	struct callback_head work;
	unsigned int rounds;		/* that the work has gone behind others */
	u64 slept_ns;			/* at its return */
	const struct weir_debt *debts[WEIR_DEBTS];	/* NULL: none */
	union {
		struct weir_bandwidth_hold hold;
		struct {
			u64 number, part_number, ticket;
		} left;
		struct {
			u64 bdi_id;
			u64 pages;	/* past a ceiling */
		};
	} owed[WEIR_DEBTS];
};

void weir_at_return_find(void);
bool weir_call_may_wait(void);
bool weir_call_is_dying(void);
struct weir_call *weir_call_current(void);
struct weir_call *weir_call_get(void);
struct weir_call *weir_call_add_to(struct task_struct *child);
void weir_at_return_end(void);

#endif
