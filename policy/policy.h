/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * weir's decisions, free of any kernel or libc header.
 *
 * The same source is compiled into weir.ko, into the property tests and the
 * fuzzer, and into the simulated host, so that a decision exists once.  Pure
 * functions over small structs: nothing here allocates, locks, loops over
 * cgroups or keeps state of its own.
 *
 * Units: page counts unless a name says otherwise (_bytes, _ms, _percent).
 * Linux keeps dirty limits within 32 bits of pages (16 TiB); every count that
 * enters is saturated to WEIR_PAGES_MAX first, so products of two counts fit
 * in 64 bits.
 */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

typedef unsigned long long weir_u64;	/* what the kernel calls u64 */
typedef unsigned int weir_u32;
typedef long long weir_s64;

/*
 * The size of a page: a kernel's own, from its build (kmod/Kbuild).  Programs count in
 * units of 4 KiB on any kernel, and so does the simulated host, so the constants below
 * are as many bytes for them; they convert what a kernel counts in larger pages.
 */
#ifndef WEIR_PAGE_SHIFT
#define WEIR_PAGE_SHIFT		12
#endif
#define WEIR_PAGES_MAX		0xffffffffULL
/* "No ceiling", and memory.max without a limit. */
#define WEIR_UNLIMITED		(~0ULL)

#include "names.h"
#include "arith.h"

/* pass.c: who is asking, and what may be amended for them. */

enum weir_pass {
	/* balance_dirty_pages(): a task that dirtied pages may be put to sleep */
	WEIR_PASS_WRITER,
	/* wb_over_bg_thresh(): the flusher asks whether to go on writing */
	WEIR_PASS_FLUSHER,
	/* all others, which only want to know the limits, e.g. /proc/vmstat */
	WEIR_PASS_READER,
};

struct weir_pass_facts {
	/* the domain's dtc belongs to a bdi_writeback */
	weir_u32 has_wb;
	/* the domain is a cgroup's, not the global one */
	weir_u32 has_gdtc;
	/* that cgroup domain's global counterpart belongs to a bdi_writeback */
	weir_u32 gdtc_has_wb;
	/* the flusher work of this very bdi_writeback is what is running */
	weir_u32 in_flusher;
	/* the device asked for strict per-device limits (FUSE) */
	weir_u32 strictlimit;
};

enum weir_pass weir_pass_kind(const struct weir_pass_facts *facts);
int weir_pass_may_cap(const struct weir_pass_facts *facts);

/* floor.c: may this writer go on without being looked at by the throttle? */

struct weir_floor_caps {
	weir_u64 wanted;	/* memory.dirty_min */
	weir_u64 memory_max;	/* live memory.max, WEIR_UNLIMITED if none */
	weir_u64 memory_min;	/* live memory.min */
};

struct weir_floor_pool {
	weir_u64 wanted_total;	/* sum of weir_floor_own() over all cgroups */
	weir_u64 host_thresh;	/* the global dirty limit */
};

struct weir_floor_pass {
	weir_u64 floor;		/* effective: own cap and pool scale applied */
	weir_u64 memcg_dirty;	/* what it covers of dirty + writeback, by folio owner */
	weir_u64 wb_dirty;	/* the same by inode owner, as far as the writer's wb shows */
	weir_u64 foreign;	/* pages dirtied below it lately that are in neither count */
	weir_u64 host_dirty;	/* the host's dirty + writeback */
	weir_u64 host_thresh;	/* the global dirty limit */
	weir_u64 floors_total;	/* sum of all effective floors */
	weir_u64 left;		/* to the nearest ceiling, or memory, on the path; 0 if full */
	weir_u32 strictlimit;	/* the device asked for strict per-device limits */
	weir_u32 cgroup_domain;	/* the writer is throttled on a wb of its own cgroup */
};

/* One floor on the writer's path, as a pass finds it. */
struct weir_floor_cover {
	weir_u64 floor;		/* effective */
	weir_u64 claim;		/* pages that claim it */
	weir_u64 by_folio;	/* dirty + writeback of its subtree */
	weir_u64 in_wb;		/* dirty + writeback of the writer's wb */
	weir_u64 foreign;
};

enum weir_floor_verdict {
	WEIR_FLOOR_ADMIT,	/* below the floor: no throttling in this pass */
	WEIR_FLOOR_NONE,	/* no floor, or one that does not apply here */
	WEIR_FLOOR_FULL,	/* what it covers fills the floor already */
	WEIR_FLOOR_HOST_FULL,	/* the host cannot honour more of any floor */
	WEIR_FLOOR_CAPPED,	/* a ceiling or memory on the way up wins */
};

#define WEIR_FLOORS_PERCENT_OF_LIMIT	80
#define WEIR_FLOOR_PERCENT_OF_MEMORY	50

weir_u64 weir_floor_own(const struct weir_floor_caps *caps);
weir_u64 weir_floor_effective(weir_u64 own, const struct weir_floor_pool *pool);
weir_u64 weir_floor_step(weir_u64 now, weir_u64 effective, weir_u64 others,
			 const struct weir_floor_pool *pool);
weir_u64 weir_floors_total(const struct weir_floor_pool *pool);
weir_u64 weir_floor_left(weir_u64 room, weir_u64 held);
void weir_floor_cover(struct weir_floor_pass *pass,
		      const struct weir_floor_cover *cover);
enum weir_floor_verdict weir_floor_decide(const struct weir_floor_pass *pass);
weir_u64 weir_floor_poll(const struct weir_floor_pass *pass);
weir_u64 weir_floor_unused(const struct weir_floor_pass *pass);

/* fair.c: a floor for each cgroup that dirties pages, without a knob. */

/* A cgroup counts as one that writes for so long after its last pass. */
#define WEIR_FAIR_LINGERS_MS		2000ULL
/* A filesystem's own pages are less of the limit. */
#define WEIR_FAIR_OTHERS_PERCENT	4

weir_u64 weir_fair_pool(const struct weir_floor_pool *set);
weir_u64 weir_fair_part(weir_u64 part, weir_u32 weight, weir_u64 siblings);
weir_u64 weir_fair_floor(weir_u64 part, weir_u64 pool);
weir_u64 weir_fair_claimable(weir_u64 floor, weir_u64 host_dirty, weir_u64 host_thresh);
weir_u64 weir_fair_kept(weir_u64 floor, weir_u64 unused);
int weir_fair_others(weir_u64 host_dirty, weir_u64 counted, weir_u64 host_thresh);

/* recorded.c: what a wb has newly recorded as dirtied. */

/* The counts of a wb, as one pass reads them. */
struct weir_wb_snapshot {
	weir_u64 begun_ns;	/* before the first count was read */
	weir_u64 ended_ns;	/* after the last */
	weir_u64 dirtied;	/* WB_DIRTIED, since it was made */
	weir_u64 written;	/* WB_WRITTEN, the same */
	weir_u64 queued;	/* dirty + writeback */
	weir_u64 unreported;	/* what the pass's task dirtied, for the first look */
	weir_u32 first;		/* ever, or after a pause */
};

/* All 0 at first. */
struct weir_recorded {
	weir_u64 pages;		/* WB_DIRTIED, as far as it is known */
	weir_u64 ended_ns;	/* of the look that said so */
};

/*
 * Pages that tasks of a cgroup may have dirtied and not reported, 8 MiB: 64 times 32
 * pages of 4 KiB.
 */
#define WEIR_AHEAD_MOST		(8ULL << (20 - WEIR_PAGE_SHIFT))

weir_u64 weir_recorded_note(struct weir_recorded *recorded,
			    const struct weir_wb_snapshot *look);

/* credit.c: pages that tasks below a floor dirtied and that belong to other cgroups. */

void weir_credit_charge(weir_s64 *balance, weir_u64 most, weir_u64 own,
			weir_u64 recorded, int admitted);
void weir_credit_forgive(weir_s64 *balance, weir_u64 most);
weir_u64 weir_credit_foreign(weir_s64 balance);

/* parse.c: what people and container runtimes write into the files. */

enum weir_parsed {
	WEIR_PARSED,
	WEIR_PARSE_INVALID,	/* not a number in the file's form: EINVAL */
	WEIR_PARSE_RANGE,	/* a number no such file takes: ERANGE */
};

#define WEIR_BYTES_MAX	0x7fffffffffffffffULL

enum weir_parsed weir_parse_bytes(const char *text, weir_u64 len,
				  weir_u64 *bytes);
enum weir_parsed weir_parse_percent(const char *text, weir_u64 len,
				    weir_u32 *percent);
enum weir_parsed weir_parse_weight(const char *text, weir_u64 len,
				   weir_u32 *weight);
enum weir_parsed weir_check_ceiling_bytes(weir_u64 bytes, weir_u64 page_bytes);
enum weir_parsed weir_check_bandwidth(weir_u64 bytes);
enum weir_parsed weir_check_window(weir_u64 bytes);
enum weir_parsed weir_parse_knob(enum weir_knob knob, const char *text,
				 weir_u64 len, weir_u64 page_bytes,
				 weir_u64 *value);

/* ceiling.c: the most a cgroup may hold, and the limits that keep it there. */

struct weir_ceiling {
	weir_u64 bytes;		/* memory.dirty_bytes, WEIR_UNLIMITED if none */
	weir_u32 ratio_percent;	/* memory.dirty_ratio, 0 = off */
};

/* The result of one domain's limit calculation, and the domain's smoothed limit. */
struct weir_limits {
	weir_u64 thresh;
	weir_u64 bg_thresh;
	weir_u64 dirty;
	weir_u64 dom_limit;
};

struct weir_counts {
	weir_u64 dirty;
	weir_u64 writeback;
};

/* The memory that a ratio is a share of. */
struct weir_memory {
	weir_u64 file;		/* page cache of the cgroup and below */
	weir_u64 dirty;		/* of it, dirty or in writeback */
	weir_u64 headroom;	/* what memory.max and memory.high still leave */
	weir_u64 host_avail;	/* the host's dirtyable memory */
	weir_u64 host_dirty;
};

/*
 * Of the pages left to a limit, the part that a task without a pace may dirty until its
 * next look: 300 such tasks stay within them.
 */
#define WEIR_LOOK_PART		512

/* Linux refuses a vm.dirty_bytes below two pages; so does weir. */
#define WEIR_CEILING_MIN	2ULL

weir_u64 weir_ceiling_pages(const struct weir_ceiling *ceiling, weir_u64 avail);
weir_u64 weir_memory_headroom(weir_u64 headroom, weir_u64 limit, weir_u64 used);
weir_u64 weir_ceiling_avail(const struct weir_memory *memory);
int weir_ceiling_amend(struct weir_limits *limits, weir_u64 ceiling,
		       const struct weir_counts *counts, enum weir_pass kind);
int weir_limits_brake(const struct weir_limits *limits);
weir_u64 weir_ceiling_freerun(weir_u64 ceiling, const struct weir_limits *stock);
weir_u64 weir_ceiling_poll(weir_u64 ceiling, weir_u64 freerun,
			   const struct weir_counts *counts, weir_u64 stock_poll);
weir_u64 weir_ceiling_limit(weir_u64 ceiling);
weir_u64 weir_ceiling_left(weir_u64 ceiling, const struct weir_counts *counts);
int weir_ceiling_full(weir_u64 ceiling, const struct weir_counts *counts);
int weir_ceiling_lets_past(weir_u64 *next_ns, weir_u64 now_ns, weir_u64 pages);

/* reserve.c: the host's limits, less what floors reserve and do not use. */

struct weir_host {
	weir_u64 unused;	/* sum of weir_floor_unused() over all cgroups */
};

weir_u64 weir_reserve_unused(weir_u64 floor, weir_u64 claimed);
weir_u64 weir_reserve_beyond(weir_u64 floor, weir_u64 claimed);
int weir_host_amend(struct weir_limits *limits, const struct weir_host *host,
		    enum weir_pass kind);

/* subtree.c: what a subtree holds, summed up one level at a time. */

/* A change of pages, which one level adds to its sums and hands to the next. */
struct weir_tally {
	weir_s64 dirty;
	weir_s64 writeback;
	weir_s64 claim;		/* of them, what no floor further down has room for */
};

/* The sums of one level; all 0 at first. */
struct weir_subtree {
	weir_s64 dirty;
	weir_s64 writeback;
	weir_s64 claim;
	weir_s64 beyond;	/* of the claims, those reported to the parent */
};

struct weir_tally weir_subtree_change(const struct weir_counts *reported,
				      const struct weir_counts *own);
weir_u64 weir_subtree_add(struct weir_subtree *subtree, struct weir_tally *change,
			  weir_u64 floor, weir_u64 foreign);

/* drain.c: the host's limit by what its disks drain in some seconds. */

struct weir_drain {
	weir_u64 rate;		/* completed pages per second */
	weir_u64 seen_ms;	/* busy time that the rate is made of */
	weir_u64 in_flight;	/* when last busy, and not completed since */
	weir_u64 silent_ms;	/* without a completion, to be added to the next */
	weir_u64 calm_ms;	/* since memory was last seen scarce */
	weir_u64 dirtyable;	/* as it was of late */
	weir_u64 limit;		/* in force instead of the kernel's, 0 = none */
};

/* One beat's figures; flows are since the beat before. */
struct weir_drain_beat {
	weir_u64 seconds;	/* drain_seconds, 0 = off */
	weir_u64 elapsed_ms;
	weir_u64 thresh;	/* the host's limits as the kernel has them */
	weir_u64 bg_thresh;
	weir_u64 dirtyable;
	weir_u64 dirty;
	weir_u64 writeback;
	weir_u64 written;	/* writeback completed */
	weir_u64 kswapd_scanned;
	weir_u64 kswapd_taken;
	weir_u64 direct_scanned;
	weir_u32 memory_stall_percent;	/* PSI memory, some, ten seconds */
	weir_u32 tighten;	/* the limit is for so many seconds, not freerun */
};

/* The figures that amend the host's domain, and those that a cgroup's domain follows. */
struct weir_drain_host {
	weir_u64 limit;		/* as in struct weir_drain */
	weir_u64 stock;		/* what it is in force instead of */
	weir_u64 unused;	/* as in struct weir_host */
	/* for the cgroup's domain, as this pass found the host's */
	weir_u64 thresh;	/* amended: @unused is taken out of it already */
	weir_u64 avail;		/* dirtyable memory */
};

#define WEIR_DRAIN_PERCENT_OF_DIRTYABLE	60
#define WEIR_DRAIN_SECONDS_MAX	3600ULL
/* Memory is taken for plentiful again after this long without a sign. */
#define WEIR_DRAIN_CALM_MS	10000ULL
/* A tightened limit leaves this much, the host's and a cgroup's: 4 MiB. */
#define WEIR_DRAIN_LEAST	(4ULL << (20 - WEIR_PAGE_SHIFT))

void weir_drain_start(struct weir_drain *drain);
void weir_drain_step(struct weir_drain *drain,
		     const struct weir_drain_beat *beat);
/* drain_limits.c: what that limit makes of a pass's. */

void weir_drain_amend(struct weir_limits *limits, weir_u64 limit,
		      weir_u64 stock);
void weir_drain_follow(struct weir_limits *limits, weir_u64 avail,
		       const struct weir_drain_host *host);

/* amend.c: the order of amendments in one pass. */

int weir_amend_global(struct weir_limits *limits, enum weir_pass kind,
		      const struct weir_drain_host *host,
		      const struct weir_floor_pass *below);
int weir_amend_memcg(struct weir_limits *limits,
		     const struct weir_pass_facts *facts,
		     const struct weir_drain_host *host, weir_u64 avail,
		     int released);

/* pause.c: whose limit put a task to sleep. */

struct weir_pause_facts {
	/* of the domain the kernel decided by */
	weir_u64 thresh;
	weir_u64 dirty;
	/* of the cgroup's domain in the same pass, amended */
	weir_u64 cgroup_thresh;
	weir_u64 cgroup_dirty;
	weir_u32 cgroup_seen;
	weir_u32 strictlimit;
	/* within that: WEIR_BY_CGROUP, WEIR_BY_CEILING or WEIR_BY_ANCESTOR */
	enum weir_pause_by judged_by;
};

enum weir_pause_by weir_pause_by(const struct weir_pause_facts *facts);

/* division.c: the order in which flushers of competing cgroups submit.  In pages. */

#define WEIR_WEIGHT_MIN		1U
#define WEIR_WEIGHT_MAX		10000U
#define WEIR_WEIGHT_DEFAULT	100U
/* The whole device, as a hweight: a weight among its siblings', times its parent's. */
#define WEIR_HWEIGHT_ONE	(1U << 20)
/* The same, as people read it. */
#define WEIR_HWEIGHT_SHOWN	10000U

/* The rate at which pages were written of late; all 0 at first. */
struct weir_window_rate {
	weir_u64 pages;
	weir_u64 ns;
};

weir_u32 weir_hweight(weir_u32 hweight, weir_u32 weight, weir_u64 siblings);
weir_u32 weir_weight_shown(weir_u32 hweight);
weir_u64 weir_division_charge(weir_u64 vtime, weir_u64 pages, weir_u32 hweight);
weir_u64 weir_division_join(weir_u64 vtime, weir_u64 least, weir_u64 budget);
weir_u64 weir_division_lead(weir_u64 vtime, weir_u64 least, weir_u64 ahead);
weir_u64 weir_division_cap(weir_u64 vtime, weir_u64 least, weir_u64 ahead, weir_u64 part,
			   weir_u32 hweight);

/* The pages that a division's flushers may have in flight; all 0 at first. */
struct weir_budget {
	weir_u64 pages;		/* that the device wrote in 25 ms, of late; 0: not known */
	weir_u64 own;		/* and the division */
	weir_u64 written;	/* pages, by the division, when last noted */
	weir_u64 of_device;	/* and by all */
	weir_u64 since_ns;
	weir_u32 shared;	/* with others, who write much */
};

void weir_budget_note(struct weir_budget *budget, weir_u64 written, weir_u64 of_device,
		      weir_u64 now_ns);
weir_u64 weir_budget_ahead(const struct weir_budget *budget);
weir_u64 weir_budget_part(const struct weir_budget *budget, weir_u32 hweight);
weir_u64 weir_budget_excess(const struct weir_budget *budget, weir_u32 hweight,
			    weir_u64 in_flight);
/* A flusher competes for so long after it submitted something. */
#define WEIR_COMPETES_MS	20ULL
/* One that has waited for so long is held by nothing that sync submits meanwhile. */
#define WEIR_DIVISION_TURN_MS		1000ULL
int weir_division_uses_little(const struct weir_budget *budget, weir_u32 hweight, weir_u64 pages,
			      weir_u64 ms);
weir_u64 weir_budget_patience_ms(const struct weir_budget *budget, weir_u64 in_flight);

/* bandwidth.c: how fast a cgroup and all below it may dirty pages. */

/* 64 KiB a second; a large folio of xfs, 2 MiB, takes half a minute. */
#define WEIR_BANDWIDTH_MIN		(64ULL << 10)
#define WEIR_BANDWIDTH_OWED_MOST_MS	120000ULL
/* A part of a line counts for so long after all that it owed was paid. */
#define WEIR_BANDWIDTH_PART_LINGERS_MS	1000ULL

/* Of a cgroup with a bound, in bytes; all 0 at first, then started. */
struct weir_bandwidth {
	weir_u64 charged;	/* ever; it wraps */
	weir_u64 paid;		/* of that; ahead of it: saved */
	weir_u64 rest;		/* of a byte paid, in millionths */
	weir_u64 usual;		/* pages of a pass lately, in parts of one */
	weir_u64 now_us;
};

/*
 * The debt that a pass waits for, on the path of its task; all but its pages 0 at
 * first.
 */
struct weir_bandwidth_hold {
	weir_u64 pages;		/* dirtied since the pass before */
	weir_u64 due_ms;	/* where that is longest */
	weir_u64 ticket;	/* there */
	weir_u64 part_ticket;	/* in the task's part of it */
	weir_u64 part_number;	/* of that part, the caller's */
	weir_u64 bound;		/* of that level when it was charged, the caller's */
	weir_u64 number;	/* of that level, the caller's; 0: no level */
	weir_u64 poll;		/* the fewest pages that a level leaves until the next look, in parts of one */
	weir_u64 least;		/* bound on the path */
};

void weir_bandwidth_start(struct weir_bandwidth *level, weir_u64 now_ns);
void weir_bandwidth_advance(struct weir_bandwidth *level, weir_u64 bound,
			    weir_u64 now_ns);
weir_u64 weir_bandwidth_due_ms(struct weir_bandwidth *level, struct weir_bandwidth *part,
			       weir_u64 parts, weir_u64 bound, weir_u64 now_ns,
			       const struct weir_bandwidth_hold *hold);
void weir_bandwidth_charge(struct weir_bandwidth *level, struct weir_bandwidth *part,
			   weir_u64 parts, weir_u64 bound, weir_u64 now_ns,
			   weir_u64 number, struct weir_bandwidth_hold *hold);
void weir_bandwidth_leave(struct weir_bandwidth *left, weir_u64 parts, weir_u64 bound,
			  weir_u64 now_ns, weir_u64 pages);
weir_u64 weir_bandwidth_left_ms(struct weir_bandwidth *left, weir_u64 parts, weir_u64 bound,
				weir_u64 now_ns, weir_u64 ticket);
int weir_bandwidth_waits(weir_u64 due_ms);
int weir_bandwidth_holds(const struct weir_bandwidth_hold *hold);
weir_u64 weir_bandwidth_poll(const struct weir_bandwidth_hold *hold,
			     weir_u64 stock_poll);

/* window.c: what a cgroup's flushers have under writeback at once.  In pages. */

/* 64 KiB: what a flusher submits at a time at the least. */
#define WEIR_WINDOW_MIN			(64ULL << 10)
/* One call of a filesystem's writepages is held no longer, all its parts together. */
#define WEIR_WINDOW_CALL_MOST_MS	200ULL

/* Pace of a flusher's pages beside those of others on the device. */
enum weir_pace {
	WEIR_PACE_UNKNOWN,
	WEIR_PACE_MOVES,
	WEIR_PACE_HELD,
	WEIR_PACES,
};

/* A flusher's pages at a time, which are due before later ones of others.  All 0 at first. */
struct weir_window_mark {
	weir_u64 submitted;	/* pages, by then */
	weir_u64 in_flight;	/* of these */
	weir_u64 others;	/* pages that others will have written when it was overtaken */
	weir_u64 parts;		/* that may stand before the last of them, and it */
	weir_u64 ms;
	weir_u64 pace;		/* enum weir_pace */
};

/* A device's speed, by the pages of its flushers.  All 0 at first. */
struct weir_window_device {
	weir_u64 least_ms;	/* for a part, of late */
	weir_u64 since_ms;
	weir_u64 stands;	/* times that it was found late since pages were in time; 4 at most */
	weir_u64 late_ms;	/* the last of these */
};

/* Counts only grow, from any beginning; pages that are reserved are not in flight yet. */
struct weir_window_progress {
	weir_u64 written;
	weir_u64 in_flight;
	weir_u64 others_written;
	weir_u64 others_in_flight;
	weir_u64 moving;	/* in flight, of those whose pages move */
	weir_u64 ms;
};

enum weir_pace weir_window_pace(struct weir_window_mark *mark, struct weir_window_device *device,
				const struct weir_window_progress *now);
weir_u64 weir_window_taken(weir_u64 window, enum weir_pace pace, weir_u64 own, weir_u64 all,
			   weir_u64 moving, weir_u64 held);
weir_u64 weir_window_part(weir_u64 window);
weir_u64 weir_part_excess(weir_u64 window, weir_u64 part, weir_u64 in_flight);
weir_u64 weir_window_excess(weir_u64 window, weir_u64 in_flight);
weir_u64 weir_window_sleep_ns(weir_u64 excess, const struct weir_window_rate *rate);
void weir_window_rate_note(struct weir_window_rate *rate, weir_u64 pages, weir_u64 ns,
			   weir_u64 part);
weir_u32 weir_places_part(weir_u32 places, weir_u32 asking);

#endif
