/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints for trace-cmd, perf and bpftrace: weir:dirty_pause, fired before a
 * task is put to sleep in the throttle, names the domain that decided, which the
 * kernel's own writeback:balance_dirty_pages does not; weir:dirty_admit, when a
 * floor leaves a writer's pass out.  Page counts; `ceiling` and `limit` are ~0
 * and `floor` 0 where there is none.  Fields are added at the end, never changed.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM weir

#if !defined(WEIR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define WEIR_TRACE_H

#include <linux/tracepoint.h>
#include "policy/policy.h"

/* the list of deciders as __print_symbolic() takes it, without a first comma */
#define WEIR_BY_NAME(arg, ID, name)	, { WEIR_BY_##ID, name }
#define WEIR_BY_REST(none, ...)		__VA_ARGS__
#define WEIR_BY_LIST(...)		WEIR_BY_REST(__VA_ARGS__)
#define WEIR_BY_NAMES			WEIR_BY_LIST(WEIR_DECIDERS(WEIR_BY_NAME,))

/* numbers, as perf and trace-cmd cannot know the enumerators */
#define WEIR_BY_ENUM(arg, ID, name)	TRACE_DEFINE_ENUM(WEIR_BY_##ID);
WEIR_DECIDERS(WEIR_BY_ENUM,)

TRACE_EVENT(dirty_pause,
	TP_PROTO(u64 cgroup, const char *bdi, u32 by, u64 limit, u64 dirty,
		 u64 floor, u64 ceiling, u64 pages, u32 pause_ms),
	TP_ARGS(cgroup, bdi, by, limit, dirty, floor, ceiling, pages, pause_ms),
	TP_STRUCT__entry(
		__field(u64, cgroup)
		__array(char, bdi, 32)
		__field(u32, by)
		__field(u64, limit)
		__field(u64, dirty)
		__field(u64, floor)
		__field(u64, ceiling)
		__field(u64, pages)
		__field(u32, pause_ms)
	),
	TP_fast_assign(
		__entry->cgroup = cgroup;
		strscpy(__entry->bdi, bdi, sizeof(__entry->bdi));
		__entry->by = by;
		__entry->limit = limit;
		__entry->dirty = dirty;
		__entry->floor = floor;
		__entry->ceiling = ceiling;
		__entry->pages = pages;
		__entry->pause_ms = pause_ms;
	),
	TP_printk("cgroup=%llu bdi=%s by=%s limit=%llu dirty=%llu floor=%llu ceiling=%lld pages=%llu pause_ms=%u",
		  __entry->cgroup, __entry->bdi,
		  __print_symbolic(__entry->by, WEIR_BY_NAMES),
		  __entry->limit, __entry->dirty, __entry->floor,
		  (s64)__entry->ceiling, __entry->pages, __entry->pause_ms)
);

TRACE_EVENT(dirty_admit,
	TP_PROTO(u64 cgroup, const char *bdi, u64 floor, u64 dirty, u64 pages),
	TP_ARGS(cgroup, bdi, floor, dirty, pages),
	TP_STRUCT__entry(
		__field(u64, cgroup)
		__array(char, bdi, 32)
		__field(u64, floor)
		__field(u64, dirty)
		__field(u64, pages)
	),
	TP_fast_assign(
		__entry->cgroup = cgroup;
		strscpy(__entry->bdi, bdi, sizeof(__entry->bdi));
		__entry->floor = floor;
		__entry->dirty = dirty;
		__entry->pages = pages;
	),
	TP_printk("cgroup=%llu bdi=%s floor=%llu dirty=%llu pages=%llu",
		  __entry->cgroup, __entry->bdi, __entry->floor,
		  __entry->dirty, __entry->pages)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE weir_trace
#include <trace/define_trace.h>
