/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions the kernel does not export, called directly.  Included by weir.h. */
#ifndef WEIR_SYMBOLS_H
#define WEIR_SYMBOLS_H

/* symbols.c: functions the kernel does not export, called directly */
int weir_symbols_find(unsigned long *at);
unsigned long weir_symbol_address(const char *name);
unsigned long weir_ftrace_location(unsigned long address);
int weir_add_files(struct cftype *files);
int weir_remove_files(struct cftype *files);
void weir_start_background(struct bdi_writeback *wb);
unsigned long weir_memcg_page_state(struct mem_cgroup *memcg, int item);
void weir_global_limits(unsigned long *background, unsigned long *limit);
struct bdi_writeback *weir_wb_of(u64 bdi_id, struct cgroup_subsys_state *css);
struct backing_dev_info *weir_bdi_of(u64 bdi_id);
bool weir_current_rescues(void);

#endif
