/* SPDX-License-Identifier: GPL-2.0-only */
/* The weight: what it keeps of a cgroup, and its interface to the rest. */
#ifndef WEIR_SHARE_H
#define WEIR_SHARE_H

#include <linux/list.h>
#include <linux/types.h>
#include "policy/policy.h"

struct bdi_writeback;
struct weir_group;

#ifdef WEIR_WEIGHT

/* Devices that a division divides; the root's divides more. */
#define WEIR_CONTESTS		4
#define WEIR_ROOT_CONTESTS	16
/* Those a cgroup is held on at a time: as many, or who writes to all would be free on one. */
#define WEIR_ACCOUNTS		WEIR_ROOT_CONTESTS

struct weir_contest;
struct weir_share;

/* What a cgroup's own tasks do on one device.  Under group->lock unless said otherwise. */
struct weir_account {
	u64 bdi_id;		/* 0: unused */
	struct weir_group *group;
	struct weir_bill bill;	/* cleaned, dirtied: in this round */
	u64 asleep_ns;		/* in the throttle, in this round, all tasks */
	unsigned long seen;	/* jiffies; 0: never */
	unsigned long noted;	/* jiffies of the last look at the wb; 0: never */
	unsigned long slept;	/* jiffies of the last sleep; 0: none */
	/* set by rounds, read without a lock */
	u32 hweight;
	u32 nested;
	u32 behind;
	u64 wb_rate;
	u64 queue;
	/* of rounds, under weir_lock */
	u64 got;		/* dirtied in a round, smoothed, in 1/256 page */
	u64 asleep_us;		/* in a round, smoothed */
	u64 number;		/* of the last round it competed in */
	struct weir_contest *contest;	/* NULL: among the joining, if anywhere */
	struct list_head node;
};

/*
 * What tasks of a cgroup and below dirtied on one device, together, where the
 * cgroup competes with siblings by weight.  Under group->lock unless said otherwise.
 */
struct weir_level {
	u64 bdi_id;		/* 0: unused; read without a lock */
	u64 due_ns;
	unsigned long given;	/* jiffies of the last round that set the rest */
	u64 number;		/* of that round */
	u32 hweight;
	u64 wb_rate;
	u64 queue;
};

/* A device and a division that divides it.  Under weir_lock. */
struct weir_contest {
	u64 bdi_id;		/* 0: unused */
	struct weir_share *scope;
	struct list_head node;	/* in line for a round */
	struct list_head members;
	struct list_head visited;
	enum { WEIR_ROUND_NONE, WEIR_ROUND_ENTERS, WEIR_ROUND_GIVES } phase;
	u64 number;		/* of the round, unlike any other contest's */
	u64 before;		/* of the one before */
	u64 since_ns;		/* the round began */
	u64 elapsed_ms;		/* the one before took */
	u64 wb_rate;
	u64 cleaned;
	u64 queued;
	u64 got;
	u32 runners;
	struct weir_account *behind;
	struct weir_account *next_behind;
};

/* Of a cgroup; all 0 at first. */
struct weir_share {
	u64 made_ns;		/* nothing was saved before */
	u64 looked;		/* which cgroup looked at other devices, when, and found what */
	u32 weighted;		/* children whose weight is not the default */
	u32 levels_used;	/* of levels, ever, the first ones; read without a lock */
	bool gone;		/* under group->lock: enters no list any more */
	struct weir_account *accounts;	/* WEIR_ACCOUNTS: all in one would take two pages */
	struct weir_level levels[WEIR_ACCOUNTS];
	struct weir_contest contests[WEIR_CONTESTS];
	/* of the children that compete, in the round of this number */
	u64 round;
	u64 children_weight;
	u64 levelled;		/* round that set the levels from here upwards */
};

/* share.c: divisions, and their rounds */
bool weir_share_any(void);
struct weir_share *weir_share_scope(struct weir_group *group);
struct weir_account *weir_share_account(struct weir_group *group, u64 bdi_id);
struct weir_account *weir_share_enlist(struct weir_group *group, u64 bdi_id);
struct weir_level *weir_share_level(struct weir_group *group, u64 bdi_id);
u64 weir_share_contested(int i);
/* Weir's own mark in wb->dirty_exceeded; the kernel writes 0 and 1, and reads whether it is 0. */
#define WEIR_OWING		2
void weir_weight_look_later(struct bdi_writeback *wb);

/* For the rest of the module. */
void weir_weight_changed(struct weir_group *group, u32 old, u32 now);
bool weir_weight_made(struct weir_group *group, gfp_t gfp);
void weir_weight_free(struct weir_group *group);
void weir_weight_drop(struct weir_group *group);
void weir_weights_round(void);
u32 weir_hweight_now(const struct weir_group *group);

/* weight.c: writers pay for their pages in time */
void weir_weight_pass(struct bdi_writeback *wb);
void weir_weight_leave(struct bdi_writeback *wb, u64 pages, u64 slept_ns, bool refused);

#else

struct weir_share { };

static inline bool weir_share_any(void) { return false; }
static inline struct weir_share *
weir_share_scope(struct weir_group *group) { return NULL; }
static inline void weir_weight_changed(struct weir_group *group, u32 old, u32 now) { }
static inline bool weir_weight_made(struct weir_group *group, gfp_t gfp) { return true; }
static inline void weir_weight_free(struct weir_group *group) { }
static inline void weir_weight_drop(struct weir_group *group) { }
static inline void weir_weights_round(void) { }
static inline u32 weir_hweight_now(const struct weir_group *group) { return 0; }
static inline void weir_weight_pass(struct bdi_writeback *wb) { }
static inline void weir_weight_leave(struct bdi_writeback *wb, u64 pages, u64 slept_ns, bool refused) { }

static inline void weir_weight_look_later(struct bdi_writeback *wb) { }

#endif
#endif
