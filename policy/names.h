/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names that users read and write, and the periods of the module, each once.
 *
 * Lists are macros that apply another macro to each entry; names.c makes tables
 * of them for tools, kmod/files.c its files.  Appending is compatible, changing
 * is not: scripts write these files and parse these keys.
 */
#ifndef WEIR_POLICY_NAMES_H
#define WEIR_POLICY_NAMES_H

/*
 * Files of the memory controller that are written, in every cgroup but the root:
 * their names after "memory." and what they hold until they are written.
 */
#define WEIR_KNOBS_CORE(KNOB)						\
	KNOB(DIRTY_MIN, "dirty_min", 0)					\
	KNOB(DIRTY_BYTES, "dirty_bytes", WEIR_UNLIMITED)		\
	KNOB(DIRTY_RATIO, "dirty_ratio", 0)
#define WEIR_KNOBS_BANDWIDTH(KNOB)					\
	KNOB(DIRTY_BANDWIDTH, "dirty_bandwidth", WEIR_UNLIMITED)
#define WEIR_KNOBS_WEIGHT(KNOB)						\
	KNOB(DIRTY_WEIGHT, "dirty_weight", WEIR_WEIGHT_DEFAULT)
#define WEIR_KNOBS_WINDOW(KNOB)						\
	KNOB(WRITEBACK_BYTES, "writeback_bytes", WEIR_UNLIMITED)
#define WEIR_KNOBS_TIERS(KNOB)						\
	KNOB(TOPTIER_RATIO, "toptier_ratio", WEIR_TIER_BY_CAPACITY)
#define WEIR_KNOBS(KNOB)						\
	WEIR_KNOBS_CORE(KNOB)						\
	WEIR_KNOBS_BANDWIDTH(KNOB)					\
	WEIR_KNOBS_WEIGHT(KNOB)						\
	WEIR_KNOBS_WINDOW(KNOB)						\
	WEIR_KNOBS_TIERS(KNOB)

/* The file that is read only, and its keys in the order it prints them. */
#define WEIR_STAT_FILE	"dirty_stat"

/* Key, unit, and whether it is a LEVEL or a COUNTER that only grows. */
#define WEIR_STAT_KEYS(KEY)						\
	KEY(IN_EFFECT, "in_effect", COUNT, LEVEL)			\
	KEY(DIRTY, "dirty", BYTES, LEVEL)				\
	KEY(WRITEBACK, "writeback", BYTES, LEVEL)			\
	KEY(SUBTREE_DIRTY, "subtree_dirty", BYTES, LEVEL)		\
	KEY(SUBTREE_WRITEBACK, "subtree_writeback", BYTES, LEVEL)	\
	KEY(FOREIGN, "foreign", BYTES, LEVEL)				\
	KEY(FLOOR, "floor", BYTES, LEVEL)				\
	KEY(FLOOR_UNUSED, "floor_unused", BYTES, LEVEL)			\
	KEY(CEILING, "ceiling", BYTES, LEVEL)				\
	KEY(WEIGHT_PORTION, "weight_portion", COUNT, LEVEL)		\
	KEY(PASSES, "nr_passes", COUNT, COUNTER)			\
	KEY(FLOOR_ADMITTED, "nr_floor_admitted", COUNT, COUNTER)	\
	KEY(FLOOR_RELEASED, "nr_floor_released", COUNT, COUNTER)	\
	KEY(CEILING_HELD, "nr_ceiling_held", COUNT, COUNTER)		\
	KEY(WOULD_ADMIT, "nr_would_admit", COUNT, COUNTER)		\
	KEY(WOULD_HOLD, "nr_would_hold", COUNT, COUNTER)		\
	KEY(THROTTLED, "nr_throttled", COUNT, COUNTER)			\
	KEY(BELOW_FLOOR, "nr_throttled_below_floor", COUNT, COUNTER)	\
	KEY(THROTTLED_USEC, "throttled_usec", USEC, COUNTER)		\
	WEIR_DECIDERS(WEIR_STAT_KEYS_BY, KEY)				\
	KEY(WEIGHT_HELD, "nr_weight_held", COUNT, COUNTER)		\
	KEY(WEIGHT_HELD_USEC, "weight_held_usec", USEC, COUNTER)	\
	KEY(WOULD_WAIT, "nr_would_wait", COUNT, COUNTER)		\
	KEY(MISSED, "nr_missed", COUNT, COUNTER)			\
	KEY(BANDWIDTH_HELD, "nr_bandwidth_held", COUNT, COUNTER)	\
	KEY(BANDWIDTH_HELD_USEC, "bandwidth_held_usec", USEC, COUNTER)	\
	KEY(WOULD_PACE, "nr_would_pace", COUNT, COUNTER)		\
	KEY(WINDOW_HELD, "nr_writeback_held", COUNT, COUNTER)		\
	KEY(WINDOW_HELD_USEC, "writeback_held_usec", USEC, COUNTER)

#define WEIR_STAT_KEYS_BY(KEY, ID, name)				\
	KEY(BY_##ID, "nr_throttled_by_" name, COUNT, COUNTER)		\
	KEY(BY_##ID##_USEC, "throttled_by_" name "_usec", USEC, COUNTER)

/* The limits that can put a task to sleep: enum weir_pause_by. */
#define WEIR_DECIDERS(DECIDER, arg)					\
	DECIDER(arg, UNKNOWN, "unknown")				\
	DECIDER(arg, HOST, "host")					\
	DECIDER(arg, CGROUP, "cgroup")					\
	DECIDER(arg, CEILING, "ceiling")				\
	DECIDER(arg, ANCESTOR, "ancestor")				\
	DECIDER(arg, DEVICE, "device")

enum weir_knob {
#define WEIR_ENUMERATOR(ID, name, unset) WEIR_KNOB_##ID,
	WEIR_KNOBS(WEIR_ENUMERATOR)
#undef WEIR_ENUMERATOR
	WEIR_KNOB_COUNT,
};

enum weir_stat {
#define WEIR_ENUMERATOR(ID, name, unit, kind) WEIR_STAT_##ID,
	WEIR_STAT_KEYS(WEIR_ENUMERATOR)
#undef WEIR_ENUMERATOR
	WEIR_STAT_COUNT,
};

enum weir_pause_by {
#define WEIR_ENUMERATOR(arg, ID, name) WEIR_BY_##ID,
	WEIR_DECIDERS(WEIR_ENUMERATOR,)
#undef WEIR_ENUMERATOR
	WEIR_BY_COUNT,
};

enum weir_unit {
	WEIR_UNIT_COUNT,
	WEIR_UNIT_BYTES,	/* WEIR_UNLIMITED is printed as "max" */
	WEIR_UNIT_USEC,
};

enum weir_kind {
	WEIR_KIND_LEVEL,
	WEIR_KIND_COUNTER,
};

struct weir_stat_key {
	const char *name;
	enum weir_unit unit;
	enum weir_kind kind;
};

const struct weir_stat_key *weir_stat_key(enum weir_stat key);
const char *weir_knob_file(enum weir_knob knob);
weir_u64 weir_knob_unset(enum weir_knob knob);
const char *weir_stat_file(void);
const char *weir_decider_name(enum weir_pause_by by);

/* The beat evaluates every group, proves the hooks. */
#define WEIR_BEAT_MS		200ULL
/* The sum of what floors leave unused is made at most this often between beats.
 */
#define WEIR_RECOUNT_MS		20ULL
/* Two looks of drain_seconds are at least this far apart. */
#define WEIR_DRAIN_LOOK_MS	50ULL
/* A task that waits at its return to user mode looks this often whether it still has to. */
#define WEIR_STEP_MS		200ULL

#endif
