/* SPDX-License-Identifier: GPL-2.0-only */
/* The module as it was loaded, and what the beat found last.  Included by weir.h. */
#ifndef WEIR_STATE_H
#define WEIR_STATE_H

/* state.c: how it was loaded, and what the beat found last */
extern bool weir_off;
extern bool weir_observe;
extern bool weir_tenants_arm;
extern bool weir_fair;
extern unsigned int weir_writer_count;	/* cgroups that write, where parts are fair */

struct weir_pool {
	u64 host_thresh;
	u64 host_bg_thresh;
	u64 floors_wanted;
	u64 floors_given;	/* sum of all floors; weir_lock */
	u64 floors_total;	/* of those that are set */
	u64 honoured;		/* with fair parts: above the limit, so many pages at most */
};

extern struct weir_pool weir_pool;
extern u64 weir_floors_epoch;	/* changes as floors come and go; weir_lock */
extern bool weir_proven;
extern unsigned long weir_last_beat;	/* jiffies */
extern unsigned long weir_flushers_proven;	/* jiffies */

/* It is not known that weir is in effect once ten beats are missed. */
#define WEIR_STALE_JIFFIES	msecs_to_jiffies(10 * WEIR_BEAT_MS)

/* Have hooks been seen working of late?  If not, passes are the kernel's own. */
static inline bool weir_acting(void)
{
	return READ_ONCE(weir_proven) &&
	       time_before(jiffies, READ_ONCE(weir_last_beat) + WEIR_STALE_JIFFIES);
}

/* The same of what holds flushers. */
static inline bool weir_flushers_acting(void)
{
	unsigned long proven = READ_ONCE(weir_flushers_proven);

	return proven && time_before(jiffies, proven + WEIR_STALE_JIFFIES);
}

#endif
