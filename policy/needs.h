/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * needs.c: what weir needs of a kernel that no header promises.
 *
 * The module asks for it when it is loaded, `weir doctor` of the running kernel,
 * `weir doctor --btf` of a kernel in a file.  What is needed is listed here and
 * nowhere else.
 */
#ifndef WEIR_POLICY_NEEDS_H
#define WEIR_POLICY_NEEDS_H

#include "btf.h"

/*
 * Functions by their plain names, which the compiler must have kept, with the
 * parameters they must have (btf.c says how), and what is done with them: FOUND
 * by a kprobe, CALLED, or HOOKED, which takes an ftrace site.
 */
#define WEIR_FUNCTIONS(FUNCTION)					\
	FUNCTION(LOOKUP, FOUND, "kallsyms_lookup_name", "*")		\
	FUNCTION(ADD, CALLED, "cgroup_add_dfl_cftypes",			\
		 "cgroup_subsys", "cftype")				\
	FUNCTION(REMOVE, CALLED, "cgroup_rm_cftypes", "cftype")		\
	FUNCTION(START, CALLED, "wb_start_background_writeback",	\
		 "bdi_writeback")					\
	FUNCTION(STATE, CALLED, "memcg_page_state", "mem_cgroup", "4")	\
	FUNCTION(HOST_LIMITS, CALLED, "global_dirty_limits", "*", "*")	\
	FUNCTION(LOCATION, CALLED, "ftrace_location", "8")		\
	FUNCTION(BDI, CALLED, "bdi_get_by_id", "8")			\
	FUNCTION(WB, CALLED, "wb_get_lookup",				\
		 "backing_dev_info", "cgroup_subsys_state")		\
	FUNCTION(RESCUER, CALLED, "current_is_workqueue_rescuer")	\
	FUNCTION(WRITEPAGES, HOOKED, "do_writepages",			\
		 "address_space", "writeback_control")			\
	FUNCTION(PASS, HOOKED, "balance_dirty_pages",			\
		 "bdi_writeback", "8", "4")				\
	FUNCTION(LIMITS, HOOKED, "domain_dirty_limits",			\
		 "dirty_throttle_control")

/* Members of struct dirty_throttle_control, each a word. */
#define WEIR_DTC_MEMBERS(MEMBER)					\
	MEMBER(dom)							\
	MEMBER(gdtc)							\
	MEMBER(wb)							\
	MEMBER(avail)							\
	MEMBER(dirty)							\
	MEMBER(thresh)							\
	MEMBER(bg_thresh)

/* Structs known from headers, which must be those that the kernel runs with. */
#define WEIR_STRUCTS(STRUCT)						\
	STRUCT(bdi_writeback)						\
	STRUCT(backing_dev_info)					\
	STRUCT(mem_cgroup)						\
	STRUCT(wb_domain)						\
	STRUCT(cftype)							\
	STRUCT(writeback_control)					\
	STRUCT(task_struct)

/* The tracepoint that tells whose limit put a task to sleep. */
#define WEIR_PAUSE_TRACEPOINT	"balance_dirty_pages"

enum weir_function_id {
#define WEIR_ENUMERATOR(ID, use, name, ...) WEIR_FUNCTION_##ID,
	WEIR_FUNCTIONS(WEIR_ENUMERATOR)
#undef WEIR_ENUMERATOR
	WEIR_FUNCTION_COUNT,
};

enum weir_use {
	WEIR_FOUND,
	WEIR_CALLED,
	WEIR_HOOKED,
};

struct weir_function {
	const char *name;
	enum weir_use use;
	const char *params[4];	/* up to a NULL */
};

enum weir_need_kind {
	WEIR_NEED_FUNCTION,
	WEIR_NEED_TRACEPOINT,
	WEIR_NEED_STRUCT,
	WEIR_NEED_MEMBER,
};

/* One thing that is needed, and whether a kernel has it. */
struct weir_need {
	enum weir_need_kind kind;
	enum weir_fit fit;
	const char *name;
	const char *of;		/* the struct of a member, else NULL */
	weir_u32 size_bytes;	/* of a member, here */
	weir_u32 wanted_bytes;
};

const char *weir_reparenting_function(void);
const struct weir_function *weir_function_wanted(weir_u32 id);
int weir_need_at(const struct weir_btf *btf, int reparents, weir_u32 index,
		 struct weir_need *need);
enum weir_fit weir_pause_form(const struct weir_btf *btf, int *with_dtc);
enum weir_fit weir_exit_form(const struct weir_btf *btf, int *with_group);
enum weir_fit weir_fork_form(const struct weir_btf *btf);

#endif
