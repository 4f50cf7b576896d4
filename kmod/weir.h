/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the module share, a header for each subsystem, in the
 * order that they use each other.  Page counts unless a name says otherwise.
 */
#ifndef WEIR_H
#define WEIR_H

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/backing-dev.h>
#include <linux/cgroup.h>
#include <linux/kprobes.h>
#include <linux/memcontrol.h>
#include <linux/static_call.h>
#include <linux/page_counter.h>
#include <linux/sched/prio.h>
#include <linux/workqueue.h>
#include "policy/policy.h"
#include "policy/needs.h"
#include "policy/tier.h"

struct dirty_throttle_control;
struct writeback_control;

#include "state.h"
#include "symbols.h"
#include "hook.h"
#include "layout.h"
#include "counts.h"
#include "record.h"
#include "device.h"
#include "tree.h"
#include "pass.h"
#include "reserve.h"
#include "drain.h"
#include "at_return.h"
#include "bandwidth.h"
#include "fair.h"
#include "beat.h"
#include "files.h"
#include "tiers.h"
#include "faults.h"

/* flusher.c, division.c: flushers submit in parts, by windows and weights */
#ifdef WEIR_FLUSHER
extern unsigned int weir_window_count;	/* cgroups with a window; weir_lock */
bool weir_flushers_any(void);
int weir_flushers_prove(void);
void weir_window_change(struct weir_record *record, u64 bytes);
int weir_flusher_write(struct address_space *mapping, struct writeback_control *wbc);
void weir_flushers_sweep(void);
void weir_flushers_end(void);
bool weir_weights_any(void);
void weir_weight_change(struct weir_record *record, u32 weight);
u32 weir_weight_portion(const struct weir_record *record);
#else
static inline bool weir_flushers_any(void) { return false; }
static inline int weir_flushers_prove(void) { return 0; }
static inline void weir_window_change(struct weir_record *record, u64 bytes) { }
static inline void weir_flushers_sweep(void) { }
static inline void weir_flushers_end(void) { }
static inline void weir_weight_change(struct weir_record *record, u32 weight) { }
static inline u32 weir_weight_portion(const struct weir_record *record) { return 0; }
#endif

#endif
