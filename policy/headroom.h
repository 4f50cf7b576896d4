/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Seconds of drain, found by looking: how many help a host now.
 *
 * For the agent and the twin; no part of weir.ko.
 */
#ifndef WEIR_POLICY_HEADROOM_H
#define WEIR_POLICY_HEADROOM_H

#include "policy.h"

/* State between two beats; all 0 at first. */
struct weir_headroom {
	weir_u64 seen_ms;	/* busy time that the two averages are made of */
	weir_u64 ran;		/* permille of it with a flusher on a CPU or in line for one */
	weir_u64 waited;	/* permille of it with one waiting for a disk, journal or memory */
	weir_u64 rest_ms;	/* lifts nothing for so long, as memory got scarce */
	weir_u64 seconds;	/* found in the last beat, 0 = none */
};

/* A beat's figures besides those of struct weir_drain_beat. */
struct weir_headroom_look {
	weir_u64 available;	/* MemAvailable, in pages */
	weir_u32 ran;		/* a flusher was on a CPU or in line for one */
	weir_u32 waited;	/* one waited for a disk, a journal or memory */
};

weir_u64 weir_headroom_step(struct weir_headroom *headroom,
			    const struct weir_drain *drain,
			    const struct weir_drain_beat *beat,
			    const struct weir_headroom_look *look);

#endif
