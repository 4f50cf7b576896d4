/* SPDX-License-Identifier: GPL-2.0-only */
/* Flushers that a window or a weight is about, as flusher.c and those below it share them. */
#ifndef WEIR_FLUSHER_H
#define WEIR_FLUSHER_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include "policy/policy.h"

struct backing_dev_info;
struct bdi_writeback;
struct cgroup_subsys_state;
struct weir_record;

/* Flushers that sleep at or below a cgroup, and the cgroups right below it that ask: places.c. */
struct weir_places {
	u32 held;
	u32 asking, asked_before;	/* in this second, in the one before */
	unsigned long second;		/* that asking is of */
	unsigned long asked;		/* the second in which it last asked itself */
};

/*
 * A cgroup at or below which there are flushers on a device; the topmost is the device's own.
 * It is there as long as one of them is listed, whose wb holds the cgroup.
 */
struct weir_branch {
	struct weir_branch *parent;	/* NULL: the device's own */
	struct cgroup_subsys_state *css;	/* memory's */
	u32 users;			/* flushers of its own, and branches right below */
	struct hlist_head flushers;	/* of its own */
	u64 in_flight;			/* pages, of all below, when each was looked at */
	u64 paced[WEIR_PACES];		/* of these, by how their flushers' pages get on */
	u64 written;			/* pages, by all below, since it was made */
	unsigned long forced;		/* jiffies: a part went past its window; 0: never */
	struct weir_flusher *first;	/* that waits for such a turn, for longest; or NULL */
	struct weir_places places;
	/* division.c: flushers below that compete */
	u32 competing;
	u32 own_competing;		/* of these, its own */
	u32 weight;			/* as the parent has it, while any competes */
	u64 weights;			/* of branches right below that compete, and of its own */
	/* as a child of a division */
	u32 members;			/* flushers that are in it as such */
	u32 queued;			/* of these, in by_vtime */
	struct rb_root_cached by_vtime;	/* members that compete */
	struct rb_node node;		/* in contenders of the parent, while it competes */
	u64 vtime;
	u32 hweight;
	unsigned long held;		/* jiffies: it waits for its turn since then; 0: it does not */
	unsigned long room_due;		/* jiffies: slow if it has none by then; 0: it has room */
	unsigned long slow;		/* jiffies: when it last had none for long; 0: never */
	/* as a division */
	struct rb_root_cached contenders;
	struct weir_budget budget;
	/*
	 * The virtual time that one below had while none competed with it, of contenders or, in a
	 * child of a division, of members: who comes back owes nothing of that, and is not owed.
	 */
	u64 reached;
};

/*
 * The flusher of a cgroup on a device.  One work item runs it, so it makes one call of
 * do_writepages() at a time.  All is under the disk's lock, but the rate, which is the
 * call's own.
 */
struct weir_flusher {
	struct hlist_node node;		/* of its branch */
	struct list_head listed;	/* of its disk */
	struct weir_branch *branch;
	struct bdi_writeback *wb;	/* referenced */
	bool inside;			/* a call is under way */
	u64 in_flight;			/* pages under writeback, when looked at, and reserved */
	u64 reserved;			/* of these: it was let submit them, and may not have yet */
	u64 written;			/* pages, since the wb was made */
	u64 moved;			/* pages of these, while they were not known to be held */
	enum weir_pace pace;		/* when looked at */
	struct weir_window_mark mark;
	unsigned long looked;		/* jiffies */
	unsigned long waits;		/* jiffies: for a turn since then; 0: it does not */
	unsigned long waited;		/* jiffies: when it last asked for a turn */
	struct weir_window_rate rate;
	/* division.c */
	struct weir_branch *contender;	/* the division's child that it is below; NULL: in none */
	struct list_head asking;	/* of its disk, while it competes */
	struct rb_node by_vtime;	/* of its contender, while it competes */
	u64 vtime;
	u64 charged;			/* pages submitted that vtime has */
	u64 used;			/* pages submitted by used_since */
	unsigned long used_since;	/* jiffies; 0: nothing is known yet */
	bool uses_little;		/* since then, and was not held */
	u32 hweight;
	unsigned long held;		/* as the contender's, among the flushers below it */
	unsigned long asked;		/* jiffies: when it last wanted to submit */
};

/* A device with flushers. */
struct weir_disk {
	struct hlist_node node;
	const struct backing_dev_info *bdi;	/* to be compared; each flusher's wb holds it */
	spinlock_t lock;
	struct weir_branch top;
	struct weir_window_device pages;	/* their speed */
	u64 moved;			/* pages, by all flushers while they were not held */
	struct xarray branches;		/* by the id of the cgroup's css */
	struct list_head flushers;	/* the one looked at longest ago first */
	/* those that compete, inside of a call and not; the one that asked longest ago first */
	struct list_head inside, outside;
	unsigned long counted;		/* jiffies: a sum of the device's was begun; 0: never */
	u64 written;			/* pages, by all of the device */
	u64 written_ns;			/* time of that; 0: never */
};

/* Windows and weights that lie deeper have no effect: each look walks up the path. */
#define WEIR_FLUSHER_LEVELS	32
/* Of branches: the device's, and a flusher's own below the others. */
#define WEIR_BRANCH_LEVELS	(WEIR_FLUSHER_LEVELS + 2)

/* A level of a flusher's path: its branch, and the record that it or the next above has. */
struct weir_level {
	struct weir_branch *branch;
	struct weir_record *record;
};

/* flushers.c */
struct weir_disk *weir_disk_lock(const struct backing_dev_info *bdi);
void weir_disks_visit(void (*visit)(struct weir_disk *disk));
struct weir_flusher *weir_flusher_find(struct weir_disk *disk, const struct bdi_writeback *wb);
bool weir_flusher_add(struct weir_disk *disk, struct weir_flusher *flusher);
void weir_flusher_remove(struct weir_disk *disk, struct weir_flusher *flusher);
void weir_flusher_update(struct weir_disk *disk, struct weir_flusher *flusher);
void weir_flusher_end_wait(struct weir_flusher *flusher);
void weir_flusher_reserve(struct weir_flusher *flusher, u64 pages);
struct weir_record *weir_flusher_record(const struct weir_flusher *flusher);
struct weir_level weir_flusher_level(const struct weir_flusher *flusher);
void weir_level_up(struct weir_level *at);
struct weir_record *weir_level_record(const struct weir_level *at);
bool weir_level_divides(const struct weir_level *at);

/* places.c */
bool weir_place_take(struct weir_branch *branch);
bool weir_place_asked(const struct weir_branch *branch);
void weir_place_give(struct weir_branch *branch);

/* division.c */
struct weir_turn_wait {
	u64 excess;		/* pages that are to be written before; 0: none */
	u64 part;		/* that may be submitted then */
	u64 written;		/* by all that compete */
};

void weir_division_enter(struct weir_disk *disk, struct weir_flusher *flusher);
void weir_division_exit(struct weir_disk *disk, struct weir_flusher *flusher, bool held);
void weir_division_leave(struct weir_flusher *flusher);
void weir_division_expire(struct weir_disk *disk);
void weir_division_charge_flusher(struct weir_flusher *flusher);
void weir_division_sample_device(struct weir_disk *disk, const struct weir_flusher *flusher);
bool weir_division_must_keep(const struct weir_flusher *flusher);
bool weir_division_ask_turn(struct weir_disk *disk, struct weir_flusher *flusher,
			    struct weir_turn_wait *turn);

#endif
