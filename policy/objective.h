/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Objectives: how many dirty pages others may hold, or a device may have in flight,
 * while a cgroup's waits stay within a bound.
 *
 * For the agent, which writes memory.dirty_bytes and a device's queue/; no part of
 * weir.ko.  Page counts unless a name says otherwise.
 */
#ifndef WEIR_POLICY_OBJECTIVE_H
#define WEIR_POLICY_OBJECTIVE_H

#include "policy.h"

/* State between two looks; it begins without limits, and with 0 of each time.
 */
struct weir_objective {
	weir_u64 budget;	/* all limited cgroups together, WEIR_UNLIMITED if none is */
	weir_u64 wall;		/* the least budget that broke the bound, WEIR_UNLIMITED if none */
	weir_u64 held_ms;	/* the budget has been in effect for so long */
	weir_u64 used_ms;	/* half of it or more has been held for so long */
	weir_u64 calm_ms;	/* measured since the bound was last broken */
	weir_u64 idle_ms;	/* since anything was last measured that counts */
	weir_u64 vain_ms;	/* limits are in force, and the bound is not kept */
	weir_u64 stuck_ms;	/* of that, with the smallest budget, whatever it helps */
	weir_u64 without;	/* the value that made the budget */
	weir_u64 rest_ms;	/* none is limited for so long, as it was in vain */
	weir_u64 rested;	/* so often in a row */
	/* Of a budget that must not slow the device down. */
	weir_u64 full;		/* drained in a second without it */
	weir_u64 starved;	/* the greatest budget that slowed it down, 0 if none did */
	weir_u64 fed;		/* drained in a second with that one, 0 once that is judged */
	weir_u64 fed_pages;	/* drained since the budget was last judged for it */
	weir_u64 fed_ms;	/* for so long */
	weir_u64 late_pages;	/* drained in the second before, which counts if this one is full */
	weir_u64 late_ms;	/* that second, 0 if it does not count */
	weir_u64 kept_ms;	/* the rate was kept for so long */
};

/* A look at the cgroup, and at those that may be limited for it. */
struct weir_objective_look {
	weir_u64 value;		/* measured since the budget has been in effect */
	weir_u64 bound;		/* in the same unit */
	weir_u64 held;		/* dirty and in writeback, of those that may be limited */
	weir_u64 drained;	/* of them, written in a second; with @kept by the device */
	weir_u64 least;		/* no budget is below: what their floors come to */
	weir_u64 elapsed_ms;	/* since the look before */
	weir_u32 measured;	/* there is a value */
	weir_u32 kept;		/* of a thousand pages drained so many must be still; 0: any */
};

/* The amount that a disk takes at a time: files of its queue/. */
struct weir_queue {
	weir_u64 requests;	/* nr_requests */
	weir_u64 kib;		/* max_sectors_kb */
};

/* The narrowest queue, in pages: four requests of 16 KiB. */
#define WEIR_QUEUE_LEAST	16ULL

/* A value is made of waits no older than this. */
#define WEIR_OBJECTIVE_WINDOW_MS	10000ULL

void weir_objective_step(struct weir_objective *objective,
			 const struct weir_objective_look *look);
int weir_queue_narrow(struct weir_queue *queue, weir_u64 pages);
weir_u64 weir_objective_window_ms(const struct weir_objective *objective);
weir_u64 weir_objective_spare(weir_u64 count, weir_u32 per_mille);
weir_u64 weir_objective_level(weir_u64 budget, weir_u64 least,
			      const weir_u64 *held, weir_u64 count);

#endif
