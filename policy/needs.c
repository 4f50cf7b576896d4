// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir's needs of a kernel, judged by what the kernel says of its types.
 *
 * weir uses functions that are not exported, and structs that are private to
 * their source files.  Both change between releases, so each is asked for, and
 * no release is asked for its number:
 *
 *   domain_dirty_limits(struct dirty_throttle_control *)	fits
 *   the same, with a second parameter				other
 *   none of that name: inlined, or gone			missing
 *
 * A kernel without a fault in this list may still be refused: the module then
 * looks for the functions' symbols and ftrace sites, and tries what it has found
 * (kmod/layout.c, kmod/main.c).
 */
#include "needs.h"

#define ARRAY_COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define TOTALS			"memcg_vmstats"
#define WORD_BYTES		8

static const struct weir_function functions[] = {
#define WEIR_ROW(ID, how, symbol, ...)					\
	{ .name = symbol, .use = WEIR_##how, .params = { __VA_ARGS__ } },
	WEIR_FUNCTIONS(WEIR_ROW)
#undef WEIR_ROW
};

static const char *const dtc_members[] = {
#define WEIR_ROW(name) #name,
	WEIR_DTC_MEMBERS(WEIR_ROW)
#undef WEIR_ROW
};

static const char *const structs[] = {
#define WEIR_ROW(name) #name,
	WEIR_STRUCTS(WEIR_ROW)
#undef WEIR_ROW
};

/*
 * Arrays of counters of a memcg, by word of memcg_page_state(): as long as that
 * of the totals.
 */
static const struct counters {
	const char *of;
	const char *name;
	int where_reparented;
} counters[] = {
	{ TOTALS, "state", 0 },
	{ "memcg_vmstats_percpu", "state", 0 },
	/*
	 * Since "mm: vmscan: prepare for reparenting traditional LRU folios"
	 * (7.1) and what follows it, these are needed: kmod/counts.c.
	 */
	{ TOTALS, "state_pending", 1 },
	{ TOTALS, "state_local", 1 },
};

/* Kernels with this function hand the pages of removed cgroups to the parent. */
const char *weir_reparenting_function(void)
{
	return "lru_reparent_memcg";
}

/* The function with this number in enum weir_function_id; NULL beyond. */
const struct weir_function *weir_function_wanted(weir_u32 id)
{
	return id < WEIR_FUNCTION_COUNT ? &functions[id] : (void *)0;
}

/*
 * Since "writeback: Fix calculations in trace_balance_dirty_pages() for cgwb"
 * (6.15) the tracepoint passes the domain, and not numbers read from it.
 */
enum weir_fit weir_pause_form(const struct weir_btf *btf, int *with_dtc)
{
	static const char callback[] = "btf_trace_" WEIR_PAUSE_TRACEPOINT;
	static const char *const numbers[] = {
		"*", "bdi_writeback", "8", "8", "8", "8", "8", "8", "8", "8",
		"8", "8", "8", (void *)0,
	};
	static const char *const dtc[] = {
		"*", "bdi_writeback", "dirty_throttle_control", "8", "8", "8",
		"8", "8", "8", (void *)0,
	};

	*with_dtc = weir_btf_tracepoint(btf, callback, dtc) == WEIR_FITS;
	return *with_dtc ? WEIR_FITS :
			   weir_btf_tracepoint(btf, callback, numbers);
}

/*
 * sched_process_exit also says whether the whole process ends since "exit: move
 * and extend sched_process_exit() tracepoint" (6.16).  Without either form
 * weir does not listen, and nothing else is lost.
 */
enum weir_fit weir_exit_form(const struct weir_btf *btf, int *with_group)
{
	static const char callback[] = "btf_trace_sched_process_exit";
	static const char *const params[] = {
		"*", "task_struct", "1", (void *)0,
	};
	static const char *const alone[] = { "*", "task_struct", (void *)0 };

	*with_group = weir_btf_tracepoint(btf, callback, params) == WEIR_FITS;
	return *with_group ? WEIR_FITS :
			     weir_btf_tracepoint(btf, callback, alone);
}

/* Without it, tasks that are made wait for nothing (kmod/bandwidth.c). */
enum weir_fit weir_fork_form(const struct weir_btf *btf)
{
	static const char *const params[] = { "*", "task_struct", "task_struct", (void *)0 };

	return weir_btf_tracepoint(btf, "btf_trace_sched_process_fork", params);
}

static struct weir_need need_function(const struct weir_btf *btf,
				      const struct weir_function *wanted)
{
	return (struct weir_need) {
		.kind = WEIR_NEED_FUNCTION,
		.name = wanted->name,
		.fit = weir_btf_function(btf, wanted->name, wanted->params),
	};
}

static struct weir_need need_tracepoint(const struct weir_btf *btf)
{
	int with_dtc;

	return (struct weir_need) {
		.kind = WEIR_NEED_TRACEPOINT,
		.name = WEIR_PAUSE_TRACEPOINT,
		.fit = weir_pause_form(btf, &with_dtc),
	};
}

static struct weir_need need_struct(const struct weir_btf *btf, const char *name)
{
	return (struct weir_need) {
		.kind = WEIR_NEED_STRUCT,
		.name = name,
		.fit = weir_btf_size(btf, name) < 0 ? WEIR_MISSING : WEIR_FITS,
	};
}

static struct weir_need need_member(const struct weir_btf *btf, const char *of,
				    const char *name, weir_u32 wanted_bytes)
{
	struct weir_member found = { 0 };
	struct weir_need need = {
		.kind = WEIR_NEED_MEMBER,
		.name = name,
		.of = of,
		.fit = weir_btf_member(btf, of, name, &found),
		.size_bytes = found.size_bytes,
		.wanted_bytes = wanted_bytes,
	};

	if (need.fit == WEIR_FITS && found.size_bytes != wanted_bytes)
		need.fit = WEIR_OTHER;
	return need;
}

static struct weir_need need_counter(const struct weir_btf *btf,
				     const struct counters *wanted, int reparents)
{
	struct weir_member totals;
	struct weir_need need;

	if (weir_btf_member(btf, TOTALS, "state", &totals) != WEIR_FITS)
		totals.size_bytes = 0;
	need = need_member(btf, wanted->of, wanted->name, totals.size_bytes);
	if (wanted->where_reparented && !reparents)
		need.fit = WEIR_FITS;
	else if (need.fit == WEIR_FITS && totals.size_bytes < WORD_BYTES)
		need.fit = WEIR_OTHER;
	return need;
}

/*
 * Need number @index, from 0, in @need; returns 0 once there is no more.
 * @reparents: the kernel has the function weir_reparenting_function().
 */
int weir_need_at(const struct weir_btf *btf, int reparents, weir_u32 index,
		 struct weir_need *need)
{
	if (index < ARRAY_COUNT(functions)) {
		*need = need_function(btf, &functions[index]);
		return 1;
	}
	index -= ARRAY_COUNT(functions);
	if (!index) {
		*need = need_tracepoint(btf);
		return 1;
	}
	index -= 1;
	if (index < ARRAY_COUNT(structs)) {
		*need = need_struct(btf, structs[index]);
		return 1;
	}
	index -= ARRAY_COUNT(structs);
	if (index < ARRAY_COUNT(dtc_members)) {
		*need = need_member(btf, "dirty_throttle_control",
				    dtc_members[index], WORD_BYTES);
		return 1;
	}
	index -= ARRAY_COUNT(dtc_members);
	if (index < ARRAY_COUNT(counters)) {
		*need = need_counter(btf, &counters[index], reparents);
		return 1;
	}
	return 0;
}
