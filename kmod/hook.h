/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of the kernel, replaced by wrappers.  Included by weir.h. */
#ifndef WEIR_HOOK_H
#define WEIR_HOOK_H

/* hook.c: functions of the kernel, replaced by wrappers */
struct weir_wrappers {
	int (*pass)(struct bdi_writeback *wb, unsigned long pages_dirtied,
		    unsigned int flags);
	void (*limits)(void *dtc);
	int (*wait)(struct address_space *mapping);
	int (*writepages)(struct address_space *mapping, struct writeback_control *wbc);
};

/* tasks in a pass of weir's, and in its wait of a sync: the wrappers count */
DECLARE_PER_CPU(long, weir_inside);
DECLARE_PER_CPU(long, weir_syncing);
DECLARE_PER_CPU(long, weir_flushing);
int weir_hooks_find(const unsigned long *at, const struct weir_wrappers *wrappers);
int weir_hooks_arm(void);
void weir_sync_hook_request(void);
bool weir_writepages_hooked(void);
int weir_writepages_hook(void);
extern bool weir_unloading;
void weir_hooks_disarm(void);
void weir_hooks_close(void);
void weir_hooks_quiesce(void (*show)(void));
void weir_hooks_remove(void);
bool weir_hooks_armed(void);
u64 weir_hooks_misfit_count(void);
int weir_kernel_pass(struct bdi_writeback *wb, unsigned long pages_dirtied,
		     unsigned int flags);
int weir_call_writepages(struct address_space *mapping, struct writeback_control *wbc);
int weir_kernel_writepages(struct address_space *mapping, struct writeback_control *wbc);

/* wrapper.c: what is called instead of them */
extern const struct weir_wrappers weir_wrappers;

#endif
