// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C compiler's layout of each struct that crosses into Rust: its size, then
 * the offset of every member in the order of its header.  layout.rs compares.
 */
#include "assist.h"
#include "headroom.h"
#include "narrow.h"
#include "needs.h"
#include "objective.h"
#include "reclaim.h"
#include "tier.h"

#define AT(type, member) __builtin_offsetof(struct type, member)

const weir_u64 weir_layout_pass_facts[] = {
	sizeof(struct weir_pass_facts),
	AT(weir_pass_facts, has_wb), AT(weir_pass_facts, has_gdtc),
	AT(weir_pass_facts, gdtc_has_wb), AT(weir_pass_facts, in_flusher),
	AT(weir_pass_facts, strictlimit),
};

const weir_u64 weir_layout_floor_caps[] = {
	sizeof(struct weir_floor_caps),
	AT(weir_floor_caps, wanted), AT(weir_floor_caps, memory_max),
	AT(weir_floor_caps, memory_min),
};

const weir_u64 weir_layout_floor_pool[] = {
	sizeof(struct weir_floor_pool),
	AT(weir_floor_pool, wanted_total), AT(weir_floor_pool, host_thresh),
};

const weir_u64 weir_layout_floor_pass[] = {
	sizeof(struct weir_floor_pass),
	AT(weir_floor_pass, floor), AT(weir_floor_pass, memcg_dirty),
	AT(weir_floor_pass, wb_dirty), AT(weir_floor_pass, foreign),
	AT(weir_floor_pass, host_dirty), AT(weir_floor_pass, host_thresh),
	AT(weir_floor_pass, floors_total), AT(weir_floor_pass, left),
	AT(weir_floor_pass, strictlimit), AT(weir_floor_pass, cgroup_domain),
};

const weir_u64 weir_layout_floor_cover[] = {
	sizeof(struct weir_floor_cover),
	AT(weir_floor_cover, floor), AT(weir_floor_cover, claim),
	AT(weir_floor_cover, by_folio), AT(weir_floor_cover, in_wb),
	AT(weir_floor_cover, foreign),
};

const weir_u64 weir_layout_bandwidth[] = {
	sizeof(struct weir_bandwidth),
	AT(weir_bandwidth, charged), AT(weir_bandwidth, paid),
	AT(weir_bandwidth, rest), AT(weir_bandwidth, usual),
	AT(weir_bandwidth, now_us),
};

const weir_u64 weir_layout_bandwidth_hold[] = {
	sizeof(struct weir_bandwidth_hold),
	AT(weir_bandwidth_hold, pages), AT(weir_bandwidth_hold, due_ms),
	AT(weir_bandwidth_hold, ticket), AT(weir_bandwidth_hold, part_ticket),
	AT(weir_bandwidth_hold, part_number),
	AT(weir_bandwidth_hold, bound),
	AT(weir_bandwidth_hold, number),
	AT(weir_bandwidth_hold, poll), AT(weir_bandwidth_hold, least),
};

const weir_u64 weir_layout_bandwidth_constants[] = {
	WEIR_BANDWIDTH_MIN, WEIR_BANDWIDTH_OWED_MOST_MS,
	WEIR_BANDWIDTH_PART_LINGERS_MS,
};

const weir_u64 weir_layout_fair_constants[] = { WEIR_FAIR_LINGERS_MS };

const weir_u64 weir_layout_budget[] = {
	sizeof(struct weir_budget),
	AT(weir_budget, pages), AT(weir_budget, written),
	AT(weir_budget, of_device), AT(weir_budget, since_ns),
	AT(weir_budget, shared),
};

const weir_u64 weir_layout_window_mark[] = {
	sizeof(struct weir_window_mark),
	AT(weir_window_mark, submitted), AT(weir_window_mark, in_flight),
	AT(weir_window_mark, others), AT(weir_window_mark, ms), AT(weir_window_mark, pace),
};
const weir_u64 weir_layout_window_device[] = {
	sizeof(struct weir_window_device),
	AT(weir_window_device, least_ms), AT(weir_window_device, since_ms),
};
const weir_u64 weir_layout_window_progress[] = {
	sizeof(struct weir_window_progress),
	AT(weir_window_progress, written), AT(weir_window_progress, in_flight),
	AT(weir_window_progress, others_written), AT(weir_window_progress, others_in_flight),
	AT(weir_window_progress, ms),
};
const weir_u64 weir_layout_window_rate[] = {
	sizeof(struct weir_window_rate),
	AT(weir_window_rate, pages), AT(weir_window_rate, ns),
};

const weir_u64 weir_layout_narrow[] = {
	sizeof(struct weir_narrow),
	AT(weir_narrow, window), AT(weir_narrow, wall), AT(weir_narrow, set_ms),
	AT(weir_narrow, held_ms), AT(weir_narrow, used_ms), AT(weir_narrow, wrote),
	AT(weir_narrow, narrower), AT(weir_narrow, slower), AT(weir_narrow, calm_ms),
	AT(weir_narrow, idle_ms), AT(weir_narrow, vain_ms), AT(weir_narrow, rest_ms),
};

const weir_u64 weir_layout_headroom[] = {
	sizeof(struct weir_headroom),
	AT(weir_headroom, seen_ms), AT(weir_headroom, ran), AT(weir_headroom, waited),
	AT(weir_headroom, rest_ms), AT(weir_headroom, seconds),
};

const weir_u64 weir_layout_headroom_look[] = {
	sizeof(struct weir_headroom_look),
	AT(weir_headroom_look, available), AT(weir_headroom_look, ran),
	AT(weir_headroom_look, waited),
};

const weir_u64 weir_layout_narrow_look[] = {
	sizeof(struct weir_narrow_look),
	AT(weir_narrow_look, value), AT(weir_narrow_look, bound), AT(weir_narrow_look, wait_us),
	AT(weir_narrow_look, in_flight), AT(weir_narrow_look, written),
	AT(weir_narrow_look, least), AT(weir_narrow_look, elapsed_ms),
	AT(weir_narrow_look, measured), AT(weir_narrow_look, frozen),
};

const weir_u64 weir_layout_window_constants[] = {
	WEIR_WINDOW_MIN, WEIR_WINDOW_CALL_MOST_MS, WEIR_PACE_UNKNOWN, WEIR_PACE_MOVES,
	WEIR_PACE_HELD, WEIR_DIVISION_TURN_MS,
};

const weir_u64 weir_layout_recorded[] = {
	sizeof(struct weir_recorded),
	AT(weir_recorded, pages), AT(weir_recorded, ended_ns),
};

const weir_u64 weir_layout_look[] = {
	sizeof(struct weir_wb_snapshot),
	AT(weir_wb_snapshot, begun_ns), AT(weir_wb_snapshot, ended_ns),
	AT(weir_wb_snapshot, dirtied), AT(weir_wb_snapshot, written),
	AT(weir_wb_snapshot, queued), AT(weir_wb_snapshot, unreported),
	AT(weir_wb_snapshot, first),
};

const weir_u64 weir_layout_ceiling[] = {
	sizeof(struct weir_ceiling),
	AT(weir_ceiling, bytes), AT(weir_ceiling, ratio_percent),
};

const weir_u64 weir_layout_memory[] = {
	sizeof(struct weir_memory),
	AT(weir_memory, file), AT(weir_memory, dirty),
	AT(weir_memory, headroom), AT(weir_memory, host_avail),
	AT(weir_memory, host_dirty),
};

const weir_u64 weir_layout_limits[] = {
	sizeof(struct weir_limits),
	AT(weir_limits, thresh), AT(weir_limits, bg_thresh),
	AT(weir_limits, dirty), AT(weir_limits, dom_limit),
};

const weir_u64 weir_layout_counts[] = {
	sizeof(struct weir_counts),
	AT(weir_counts, dirty), AT(weir_counts, writeback),
};

const weir_u64 weir_layout_tally[] = {
	sizeof(struct weir_tally),
	AT(weir_tally, dirty), AT(weir_tally, writeback), AT(weir_tally, claim),
};

const weir_u64 weir_layout_subtree[] = {
	sizeof(struct weir_subtree),
	AT(weir_subtree, dirty), AT(weir_subtree, writeback),
	AT(weir_subtree, claim), AT(weir_subtree, beyond),
};

const weir_u64 weir_layout_host[] = {
	sizeof(struct weir_host),
	AT(weir_host, unused),
};

const weir_u64 weir_layout_drain[] = {
	sizeof(struct weir_drain),
	AT(weir_drain, rate), AT(weir_drain, seen_ms),
	AT(weir_drain, in_flight), AT(weir_drain, silent_ms),
	AT(weir_drain, calm_ms), AT(weir_drain, dirtyable),
	AT(weir_drain, limit),
};

const weir_u64 weir_layout_drain_beat[] = {
	sizeof(struct weir_drain_beat),
	AT(weir_drain_beat, seconds), AT(weir_drain_beat, elapsed_ms),
	AT(weir_drain_beat, thresh), AT(weir_drain_beat, bg_thresh),
	AT(weir_drain_beat, dirtyable), AT(weir_drain_beat, dirty),
	AT(weir_drain_beat, writeback), AT(weir_drain_beat, written),
	AT(weir_drain_beat, kswapd_scanned), AT(weir_drain_beat, kswapd_taken),
	AT(weir_drain_beat, direct_scanned),
	AT(weir_drain_beat, memory_stall_percent), AT(weir_drain_beat, tighten),
};

const weir_u64 weir_layout_drain_host[] = {
	sizeof(struct weir_drain_host),
	AT(weir_drain_host, limit), AT(weir_drain_host, stock),
	AT(weir_drain_host, unused), AT(weir_drain_host, thresh),
	AT(weir_drain_host, avail),
};

const weir_u64 weir_layout_drain_constants[] = {
	WEIR_DRAIN_PERCENT_OF_DIRTYABLE, WEIR_DRAIN_SECONDS_MAX,
	WEIR_DRAIN_CALM_MS,
};

const weir_u64 weir_layout_pause[] = {
	sizeof(struct weir_pause_facts),
	AT(weir_pause_facts, thresh), AT(weir_pause_facts, dirty),
	AT(weir_pause_facts, cgroup_thresh), AT(weir_pause_facts, cgroup_dirty),
	AT(weir_pause_facts, cgroup_seen), AT(weir_pause_facts, strictlimit),
	AT(weir_pause_facts, judged_by),
};

const weir_u64 weir_layout_tiers[] = {
	sizeof(struct weir_tiers),
	AT(weir_tiers, capacity), AT(weir_tiers, count), AT(weir_tiers, ratio),
};

const weir_u64 weir_layout_tier_group[] = {
	sizeof(struct weir_tier_group),
	AT(weir_tier_group, held), AT(weir_tier_group, hot),
	AT(weir_tier_group, min), AT(weir_tier_group, low),
	AT(weir_tier_group, high), AT(weir_tier_group, max),
	AT(weir_tier_group, ratio), AT(weir_tier_group, heat_known),
	AT(weir_tier_group, parent),
};

const weir_u64 weir_layout_tier_room[] = {
	sizeof(struct weir_tier_room),
	AT(weir_tier_room, free), AT(weir_tier_room, headroom),
};

const weir_u64 weir_layout_tier_settings[] = {
	sizeof(struct weir_tier_settings),
	AT(weir_tier_settings, band), AT(weir_tier_settings, step),
	AT(weir_tier_settings, lend),
};

const weir_u64 weir_layout_tier_move[] = {
	sizeof(struct weir_tier_move),
	AT(weir_tier_move, demote), AT(weir_tier_move, promote),
	AT(weir_tier_move, budget), AT(weir_tier_move, reason),
};

const weir_u64 weir_layout_tier_work[] = {
	sizeof(struct weir_tier_work),
	AT(weir_tier_work, levels), AT(weir_tier_work, claims),
	AT(weir_tier_work, children), AT(weir_tier_work, held),
	AT(weir_tier_work, children_held), AT(weir_tier_work, demand),
	AT(weir_tier_work, supply), AT(weir_tier_work, over),
	AT(weir_tier_work, inner),
};

const weir_u64 weir_layout_tier_constants[] = {
	WEIR_TIERS_MAX, WEIR_TIER_BOUNDARIES, WEIR_TIER_BY_CAPACITY,
	WEIR_TIER_NO_PARENT, WEIR_TIER_DEMANDS, WEIR_TIER_SUPPLIES,
	WEIR_TIER_BALANCED, WEIR_TIER_KEEPS, WEIR_TIER_RETURNS,
	WEIR_TIER_YIELDS, WEIR_TIER_TAKES, WEIR_TIER_BORROWS,
	WEIR_TIER_EXCHANGES, WEIR_TIER_WAITS_ABOVE, WEIR_TIER_WAITS_BELOW,
	sizeof(enum weir_tier_reason),
};

/* Enumerators and constants that are repeated in Rust. */
const weir_u64 weir_layout_weight_constants[] = {
	WEIR_WEIGHT_MIN, WEIR_WEIGHT_MAX, WEIR_WEIGHT_DEFAULT, WEIR_HWEIGHT_ONE,
	WEIR_HWEIGHT_SHOWN, WEIR_AHEAD_MOST,
	WEIR_BEAT_MS, WEIR_RECOUNT_MS, WEIR_DRAIN_LOOK_MS, WEIR_STEP_MS,
};

const weir_u64 weir_layout_constants[] = {
	WEIR_PASS_WRITER, WEIR_PASS_FLUSHER, WEIR_PASS_READER,
	WEIR_FLOOR_ADMIT, WEIR_FLOOR_NONE, WEIR_FLOOR_FULL, WEIR_FLOOR_HOST_FULL,
	WEIR_FLOOR_CAPPED,
	WEIR_PAGE_SHIFT, WEIR_PAGES_MAX, WEIR_UNLIMITED,
	WEIR_FLOORS_PERCENT_OF_LIMIT, WEIR_FLOOR_PERCENT_OF_MEMORY,
	WEIR_CEILING_MIN,
	WEIR_PARSED, WEIR_PARSE_INVALID, WEIR_PARSE_RANGE, WEIR_BYTES_MAX,
	WEIR_BY_UNKNOWN, WEIR_BY_HOST, WEIR_BY_CGROUP, WEIR_BY_CEILING,
	WEIR_BY_ANCESTOR, WEIR_BY_DEVICE, WEIR_BY_COUNT,
	sizeof(enum weir_pass), sizeof(enum weir_floor_verdict),
	sizeof(enum weir_parsed),
};

const weir_u64 weir_layout_objective[] = {
	sizeof(struct weir_objective),
	AT(weir_objective, budget), AT(weir_objective, wall),
	AT(weir_objective, held_ms), AT(weir_objective, used_ms), AT(weir_objective, calm_ms),
	AT(weir_objective, idle_ms), AT(weir_objective, vain_ms),
	AT(weir_objective, stuck_ms), AT(weir_objective, without), AT(weir_objective, rest_ms),
	AT(weir_objective, rested), AT(weir_objective, full), AT(weir_objective, starved),
	AT(weir_objective, fed), AT(weir_objective, fed_pages), AT(weir_objective, fed_ms),
	AT(weir_objective, late_pages), AT(weir_objective, late_ms), AT(weir_objective, kept_ms),
};

const weir_u64 weir_layout_queue[] = {
	sizeof(struct weir_queue),
	AT(weir_queue, requests), AT(weir_queue, kib),
};

const weir_u64 weir_layout_objective_look[] = {
	sizeof(struct weir_objective_look),
	AT(weir_objective_look, value), AT(weir_objective_look, bound),
	AT(weir_objective_look, held), AT(weir_objective_look, drained),
	AT(weir_objective_look, least), AT(weir_objective_look, elapsed_ms),
	AT(weir_objective_look, measured), AT(weir_objective_look, kept),
};

const weir_u64 weir_layout_reclaim_host[] = {
	sizeof(struct weir_reclaim_host),
	AT(weir_reclaim_host, memory), AT(weir_reclaim_host, free),
	AT(weir_reclaim_host, headroom),
};

const weir_u64 weir_layout_reclaim_group[] = {
	sizeof(struct weir_reclaim_group),
	AT(weir_reclaim_group, usage), AT(weir_reclaim_group, limit),
	AT(weir_reclaim_group, protection), AT(weir_reclaim_group, rate),
	AT(weir_reclaim_group, stolen), AT(weir_reclaim_group, refaulted),
	AT(weir_reclaim_group, weight), AT(weir_reclaim_group, fixed),
};

const weir_u64 weir_layout_reclaim_constants[] = {
	WEIR_RECLAIM_WEIGHT,
};

const weir_u64 weir_layout_btf[] = {
	sizeof(struct weir_btf),
	AT(weir_btf, types), AT(weir_btf, strings), AT(weir_btf, types_len),
	AT(weir_btf, strings_len), AT(weir_btf, type_count),
	AT(weir_btf, type_offsets),
};

const weir_u64 weir_layout_function[] = {
	sizeof(struct weir_function),
	AT(weir_function, name), AT(weir_function, use),
	AT(weir_function, params),
};

const weir_u64 weir_layout_need[] = {
	sizeof(struct weir_need),
	AT(weir_need, kind), AT(weir_need, fit), AT(weir_need, name),
	AT(weir_need, of), AT(weir_need, size_bytes),
	AT(weir_need, wanted_bytes),
};

const weir_u64 weir_layout_assist[] = {
	sizeof(struct weir_assist),
	AT(weir_assist, threads), AT(weir_assist, bound_ms), AT(weir_assist, idle_ms),
	AT(weir_assist, rest_ms), AT(weir_assist, rested_ms),
};

const weir_u64 weir_layout_assist_look[] = {
	sizeof(struct weir_assist_look),
	AT(weir_assist_look, elapsed_ms), AT(weir_assist_look, flusher_ran),
	AT(weir_assist_look, flusher_waited), AT(weir_assist_look, ran),
	AT(weir_assist_look, most),
};
