/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Assistants of a flusher: how many threads start writeback beside it.
 *
 * For the agent and the twin; no part of weir.ko.
 */
#ifndef WEIR_POLICY_ASSIST_H
#define WEIR_POLICY_ASSIST_H

#include "policy.h"

/* State between two looks at a device; all 0 at first. */
struct weir_assist {
	weir_u64 threads;	/* that start writeback now */
	weir_u64 bound_ms;	/* all who submit have run for so long, and none waited */
	weir_u64 idle_ms;	/* assistants have mostly waited or found nothing, for so long */
	weir_u64 rest_ms;	/* no further thread for so long */
	weir_u64 rested_ms;	/* how long the last rest was */
};

/* One look: what changed since the look before. */
struct weir_assist_look {
	weir_u64 elapsed_ms;
	weir_u64 flusher_ran;	/* permille of looks: on a CPU, or in line for one */
	weir_u64 flusher_waited; /* permille of looks: for the disk, the journal or memory */
	weir_u64 ran;		/* permille of the time of all assistants on a CPU */
	weir_u64 most;		/* threads that may be had */
};

void weir_assist_step(struct weir_assist *assist,
		      const struct weir_assist_look *look);

#endif
