/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's limits, and syncs, by what its disks drain.  Included by weir.h. */
#ifndef WEIR_DRAIN_H
#define WEIR_DRAIN_H

/* drain.c: the host's limits by what its disks drain */
#ifdef WEIR_DRAIN
bool weir_drain_wanted(void);
void weir_drain_beat(u64 thresh, u64 bg_thresh);
void weir_drain_end(void);
void weir_drain_fill_host(struct weir_drain_host *host);
u64 weir_drain_thresh(u64 thresh);
u64 weir_drain_limit(void);
u64 weir_drain_rate(void);
bool weir_drain_is_memory_scarce(void);
bool weir_drain_bounds_sync(void);
#else
static inline bool weir_drain_wanted(void) { return false; }
static inline void weir_drain_beat(u64 thresh, u64 bg_thresh) { }
static inline void weir_drain_end(void) { }
static inline void weir_drain_fill_host(struct weir_drain_host *host) { }
static inline u64 weir_drain_thresh(u64 thresh) { return thresh; }
static inline u64 weir_drain_limit(void) { return 0; }
static inline u64 weir_drain_rate(void) { return 0; }
static inline bool weir_drain_is_memory_scarce(void) { return false; }
static inline bool weir_drain_bounds_sync(void) { return false; }
#endif

/* sync.c: what sync waits for; hooked for drain_tighten alone */
#ifdef WEIR_DRAIN
int weir_sync_wait(struct address_space *mapping);
#else
static inline int weir_sync_wait(struct address_space *mapping) { return 0; }
#endif

#endif
