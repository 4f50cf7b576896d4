/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Windows for an objective: how much others may have under writeback at once while a
 * cgroup's waits stay within a bound.
 *
 * For the agent, which writes memory.writeback_bytes; no part of weir.ko.  Page counts
 * unless a name says otherwise.
 */
#ifndef WEIR_POLICY_NARROW_H
#define WEIR_POLICY_NARROW_H

#include "policy.h"

/* State between two looks; it begins without a window, and with 0 of each time.
 */
struct weir_narrow {
	weir_u64 window;	/* all limited cgroups together, WEIR_UNLIMITED if none is */
	weir_u64 wall;		/* the least window that broke the bound, WEIR_UNLIMITED if none */
	weir_u64 set_ms;	/* the window was last changed so long ago */
	weir_u64 held_ms;	/* it has been in effect for so long */
	weir_u64 used_ms;	/* it has been filled for so long */
	weir_u64 wrote;		/* pages written meanwhile */
	weir_u64 narrower;	/* the window before this wider one, 0 once that is judged */
	weir_u64 slower;	/* what was written in a second with it */
	weir_u64 calm_ms;	/* measured since the bound was last broken */
	weir_u64 idle_ms;	/* since anything was last measured that counts */
	weir_u64 vain_ms;	/* the least window is in force, and the bound is not kept */
	weir_u64 rest_ms;	/* no window for so long, as it was in vain */
};

/* A look at the cgroup, and at those that may be limited for it. */
struct weir_narrow_look {
	weir_u64 value;		/* measured since the window has been in effect */
	weir_u64 bound;		/* in the same unit */
	weir_u64 wait_us;	/* for what is in flight, that the bound allows */
	weir_u64 in_flight;	/* under writeback, of those that may be limited */
	weir_u64 written;	/* of them, in a second */
	weir_u64 least;		/* no window is below */
	weir_u64 elapsed_ms;	/* since the look before */
	weir_u32 measured;	/* there is a value */
	weir_u32 frozen;	/* other limits are in force, too: they are relaxed first */
};

void weir_narrow_step(struct weir_narrow *narrow, const struct weir_narrow_look *look);
int weir_narrow_is_spent(const struct weir_narrow *narrow,
			 const struct weir_narrow_look *look);
weir_u64 weir_narrow_since_ms(const struct weir_narrow *narrow);

#endif
