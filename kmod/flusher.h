/* SPDX-License-Identifier: GPL-2.0-only */
/* Flushers that a window or a weight is about, as window.c and division.c share them. */
#ifndef WEIR_FLUSHER_H
#define WEIR_FLUSHER_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include "policy/policy.h"

struct bdi_writeback;
struct weir_division;
struct weir_contender;

/*
 * The flusher of a cgroup on a device.  One work item runs it, so it makes one call of
 * do_writepages() at a time.  All is under weir_flushers_lock, but the rate, which is the
 * call's own.
 */
struct weir_flusher {
	struct hlist_node node;		/* by device */
	struct bdi_writeback *wb;	/* referenced */
	bool inside;			/* a call is under way */
	u64 in_flight;			/* pages under writeback, when looked at */
	u64 written;			/* pages, since the wb was made */
	u64 listed_at;			/* of these, when it was listed */
	unsigned long looked;		/* jiffies */
	struct weir_window_rate rate;
	/* where weights divide the device */
	struct weir_division *division;	/* NULL: not in one */
	struct weir_contender *contender;	/* the division's child that it is below */
	u64 vtime;
	u64 charged;			/* pages submitted that vtime has */
	u64 counted;			/* pages written that the division's rate has */
	u32 hweight;
	unsigned long asked;		/* jiffies: when it last wanted to submit */
	unsigned long submitted;	/* jiffies: when it last did */
};

/* Windows and weights that lie deeper have no effect: each look walks up the path. */
#define WEIR_FLUSHER_LEVELS	32

/* flushers.c */
#define WEIR_FLUSHERS_BITS	5

extern spinlock_t weir_flushers_lock;
extern struct hlist_head weir_flushers[1 << WEIR_FLUSHERS_BITS];	/* by device */
struct weir_siblings *weir_siblings_of(struct weir_group *group);
const struct weir_siblings *weir_division_scope(struct weir_group *group);
struct weir_group *weir_flusher_group(const struct weir_flusher *flusher);
struct hlist_head *weir_flushers_on(const struct backing_dev_info *bdi);
void weir_flusher_look(struct weir_flusher *flusher);

/* division.c */
struct weir_turn_wait {
	u64 excess;		/* pages that are to be written before; 0: none */
	u64 part;		/* that may be submitted then */
	u64 written;		/* by all that compete */
};

bool weir_division_enter(struct weir_flusher *flusher);
bool weir_division_needs(const struct weir_flusher *flusher);
void weir_division_leave(struct weir_flusher *flusher);
bool weir_division_look(struct weir_flusher *flusher, struct weir_turn_wait *turn);

#endif
