/* SPDX-License-Identifier: GPL-2.0-only */
/* Private fields of the kernel, by its own description of its types.  Included by weir.h. */
#ifndef WEIR_LAYOUT_H
#define WEIR_LAYOUT_H

/* btf.c: the running kernel's own description of its types */
struct weir_btf_blob {
	struct weir_btf btf;
	void *bytes;
	u32 *type_offsets;
};

int weir_btf_load(struct weir_btf_blob *blob);
void weir_btf_free(struct weir_btf_blob *blob);

/* layout.c: where the private fields are */
struct weir_layout {
#define WEIR_OFFSET(member) u32 dtc_##member;
	WEIR_DTC_MEMBERS(WEIR_OFFSET)
#undef WEIR_OFFSET
	u32 stat_dirty, stat_writeback;	/* in memcg_vmstats_percpu */
	/* the same counters in memcg_vmstats, from its arrays' begin */
	u32 flushed_dirty, flushed_writeback;
	/* these arrays; but the first, read only where pages are handed to the parent */
	u32 flushed_all, flushed_pending, flushed_own;
	bool reparents;			/* pages of removed cgroups, to the parent */
	/* time at which a writer last slept, for blk-wbt; 0 if not there */
	u32 bdi_last_sleep;		/* in backing_dev_info */
	u32 wb_last_sleep;		/* in bdi_writeback, before */
	bool pause_with_dtc;		/* what its tracepoint passes */
	bool exit_known, exit_with_record;	/* the same of sched_process_exit */
	bool fork_known;		/* that of sched:sched_process_fork */
	bool has_task_work;		/* functions that at_return.c calls */
};

extern struct weir_layout weir_layout;
int weir_layout_read(void);

#endif
