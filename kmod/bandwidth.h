/* SPDX-License-Identifier: GPL-2.0-only */
/* Writers wait for what their cgroups may dirty in a second.  Included by weir.h. */
#ifndef WEIR_BANDWIDTH_H
#define WEIR_BANDWIDTH_H

/* bandwidth.c: writers wait for what their cgroups may dirty in a second */
#ifdef WEIR_BANDWIDTH
extern unsigned int weir_bandwidth_count;

static inline bool weir_bandwidth_any(void)
{
	return READ_ONCE(weir_bandwidth_count);
}

void weir_bandwidth_change(struct weir_record *record, u64 bytes);
void weir_bandwidth_init(struct weir_record *record);
void weir_bandwidth_detach(struct weir_record *record);
void weir_bandwidth_pass(u64 pages, unsigned int flags, struct weir_bandwidth_hold *hold);
void weir_bandwidth_exit(void);
void weir_bandwidth_fork(struct task_struct *child);
#else
static inline bool weir_bandwidth_any(void) { return false; }
static inline void weir_bandwidth_change(struct weir_record *record, u64 bytes) { }
static inline void weir_bandwidth_init(struct weir_record *record) { }
static inline void weir_bandwidth_detach(struct weir_record *record) { }
static inline void weir_bandwidth_pass(u64 pages, unsigned int flags,
				       struct weir_bandwidth_hold *hold) { }
static inline void weir_bandwidth_exit(void) { }
static inline void weir_bandwidth_fork(struct task_struct *child) { }
#endif

#endif
