// SPDX-License-Identifier: GPL-2.0-only
//! The Rust types are what `policy.h` says they are: `layout.c` holds the C compiler's answer for
//! every size, offset and constant, and each must equal rustc's.

use crate::{
    assist, bandwidth, btf, ceiling, division, drain, fair, floor, headroom, names, narrow, needs,
    objective, parse, pass, pause, reclaim, recorded, reserve, subtree, tier, window,
};
use std::mem::{offset_of, size_of};

mod c {
    unsafe extern "C" {
        pub static weir_layout_assist: [u64; 6];
        pub static weir_layout_assist_look: [u64; 6];
        pub static weir_layout_btf: [u64; 7];
        pub static weir_layout_function: [u64; 4];
        pub static weir_layout_need: [u64; 7];
        pub static weir_layout_pass_facts: [u64; 6];
        pub static weir_layout_floor_caps: [u64; 4];
        pub static weir_layout_floor_pool: [u64; 3];
        pub static weir_layout_floor_pass: [u64; 11];
        pub static weir_layout_floor_cover: [u64; 6];
        pub static weir_layout_bandwidth: [u64; 6];
        pub static weir_layout_bandwidth_hold: [u64; 10];
        pub static weir_layout_bandwidth_constants: [u64; 3];
        pub static weir_layout_fair_constants: [u64; 1];
        pub static weir_layout_budget: [u64; 6];
        pub static weir_layout_window_mark: [u64; 6];
        pub static weir_layout_window_device: [u64; 3];
        pub static weir_layout_window_progress: [u64; 6];
        pub static weir_layout_window_rate: [u64; 3];
        pub static weir_layout_window_constants: [u64; 6];
        pub static weir_layout_narrow: [u64; 13];
        pub static weir_layout_narrow_look: [u64; 10];
        pub static weir_layout_headroom: [u64; 6];
        pub static weir_layout_headroom_look: [u64; 4];
        pub static weir_layout_look: [u64; 8];
        pub static weir_layout_recorded: [u64; 3];
        pub static weir_layout_ceiling: [u64; 3];
        pub static weir_layout_memory: [u64; 6];
        pub static weir_layout_pause: [u64; 8];
        pub static weir_layout_limits: [u64; 5];
        pub static weir_layout_counts: [u64; 3];
        pub static weir_layout_tally: [u64; 4];
        pub static weir_layout_subtree: [u64; 5];
        pub static weir_layout_host: [u64; 2];
        pub static weir_layout_drain: [u64; 8];
        pub static weir_layout_drain_beat: [u64; 14];
        pub static weir_layout_drain_host: [u64; 6];
        pub static weir_layout_drain_constants: [u64; 3];
        pub static weir_layout_tiers: [u64; 4];
        pub static weir_layout_tier_group: [u64; 10];
        pub static weir_layout_tier_room: [u64; 3];
        pub static weir_layout_tier_settings: [u64; 4];
        pub static weir_layout_tier_move: [u64; 5];
        pub static weir_layout_tier_work: [u64; 10];
        pub static weir_layout_tier_constants: [u64; 16];
        pub static weir_layout_weight_constants: [u64; 10];
        pub static weir_layout_objective: [u64; 20];
        pub static weir_layout_queue: [u64; 3];
        pub static weir_layout_objective_look: [u64; 9];
        pub static weir_layout_reclaim_host: [u64; 4];
        pub static weir_layout_reclaim_group: [u64; 9];
        pub static weir_layout_reclaim_constants: [u64; 1];
        pub static weir_layout_constants: [u64; 28];
    }
}

/// Compares one struct's size and member offsets, in the order of the header.
macro_rules! assert_layout {
    ($c:ident, $rust:ty, $($member:ident),+) => {
        // SAFETY: an immutable array of this length, defined in layout.c.
        let from_c = unsafe { c::$c };
        let from_rust = [size_of::<$rust>() as u64, $(offset_of!($rust, $member) as u64),+];
        assert_eq!(from_c, from_rust, "{}", stringify!($rust));
    };
}

#[test]
fn structs_agree_with_the_header() {
    assert_layout!(
        weir_layout_pass_facts,
        pass::Facts,
        has_wb,
        has_gdtc,
        gdtc_has_wb,
        in_flusher,
        strictlimit
    );
    assert_layout!(
        weir_layout_floor_caps,
        floor::Caps,
        wanted,
        memory_max,
        memory_min
    );
    assert_layout!(
        weir_layout_floor_pool,
        floor::Pool,
        wanted_total,
        host_thresh
    );
    assert_layout!(
        weir_layout_floor_pass,
        floor::FloorPass,
        floor,
        memcg_dirty,
        wb_dirty,
        foreign,
        host_dirty,
        host_thresh,
        floors_total,
        left,
        strictlimit,
        cgroup_domain
    );
    assert_layout!(weir_layout_ceiling, ceiling::Ceiling, bytes, ratio_percent);
    assert_layout!(
        weir_layout_memory,
        ceiling::Memory,
        file,
        dirty,
        headroom,
        host_avail,
        host_dirty
    );
    assert_layout!(
        weir_layout_pause,
        pause::Facts,
        thresh,
        dirty,
        cgroup_thresh,
        cgroup_dirty,
        cgroup_seen,
        strictlimit,
        judged_by
    );
    assert_layout!(
        weir_layout_limits,
        ceiling::Limits,
        thresh,
        bg_thresh,
        dirty,
        dom_limit
    );
    assert_layout!(weir_layout_counts, ceiling::Counts, dirty, writeback);
    assert_layout!(weir_layout_host, reserve::Reservation, unused);
    assert_layout!(
        weir_layout_drain,
        drain::Drain,
        rate,
        seen_ms,
        in_flight,
        silent_ms,
        calm_ms,
        dirtyable,
        limit
    );
    assert_layout!(
        weir_layout_drain_beat,
        drain::Beat,
        seconds,
        elapsed_ms,
        thresh,
        bg_thresh,
        dirtyable,
        dirty,
        writeback,
        written,
        kswapd_scanned,
        kswapd_taken,
        direct_scanned,
        memory_stall_percent,
        tighten
    );
    assert_layout!(
        weir_layout_floor_cover,
        floor::Cover,
        floor,
        claim,
        by_folio,
        in_wb,
        foreign
    );
    assert_layout!(weir_layout_tally, subtree::Tally, dirty, writeback, claim);
    assert_layout!(
        weir_layout_subtree,
        subtree::Subtree,
        dirty,
        writeback,
        claim,
        beyond
    );
    assert_layout!(
        weir_layout_drain_host,
        drain::DrainHost,
        limit,
        stock,
        unused,
        thresh,
        avail
    );
    // SAFETY: an immutable array of this length, defined in layout.c.
    let constants = unsafe { c::weir_layout_drain_constants };
    assert_eq!(
        constants,
        [
            drain::PERCENT_OF_DIRTYABLE,
            drain::SECONDS_MAX,
            drain::CALM_MS
        ]
    );
    assert_layout!(
        weir_layout_bandwidth,
        bandwidth::Level,
        charged,
        paid,
        rest,
        usual,
        now_us
    );
    assert_layout!(
        weir_layout_bandwidth_hold,
        bandwidth::Hold,
        pages,
        due_ms,
        ticket,
        part_ticket,
        part_number,
        bound,
        number,
        poll,
        least
    );
    assert_layout!(
        weir_layout_budget,
        division::Budget,
        pages,
        written,
        of_device,
        since_ns,
        shared
    );
    assert_layout!(weir_layout_recorded, recorded::Recorded, pages, ended_ns);
    assert_layout!(
        weir_layout_look,
        recorded::WbSnapshot,
        begun_ns,
        ended_ns,
        dirtied,
        written,
        queued,
        unreported,
        first
    );
    assert_layout!(
        weir_layout_objective,
        objective::Objective,
        budget,
        wall,
        held_ms,
        used_ms,
        calm_ms,
        idle_ms,
        vain_ms,
        stuck_ms,
        without,
        rest_ms,
        rested,
        full,
        starved,
        fed,
        fed_pages,
        fed_ms,
        late_pages,
        late_ms,
        kept_ms
    );
    assert_layout!(weir_layout_queue, objective::Queue, requests, kib);
    assert_layout!(
        weir_layout_objective_look,
        objective::Look,
        value,
        bound,
        held,
        drained,
        least,
        elapsed_ms,
        measured,
        kept
    );
    assert_layout!(
        weir_layout_reclaim_host,
        reclaim::HostMemory,
        memory,
        free,
        headroom
    );
    assert_layout!(
        weir_layout_reclaim_group,
        reclaim::Group,
        usage,
        limit,
        protection,
        rate,
        stolen,
        refaulted,
        weight,
        fixed
    );
    // SAFETY: an immutable array of this length, defined in layout.c.
    let constants = unsafe { c::weir_layout_reclaim_constants };
    assert_eq!(constants, [u64::from(reclaim::WEIGHT)]);
}

#[test]
fn constants_of_weights_agree_with_the_header() {
    // SAFETY: an immutable array of this length, defined in layout.c.
    let from_c = unsafe { c::weir_layout_weight_constants };
    let from_rust = [
        division::WEIGHT_MIN.into(),
        division::WEIGHT_MAX.into(),
        division::WEIGHT_DEFAULT.into(),
        division::HWEIGHT_ONE.into(),
        division::HWEIGHT_SHOWN.into(),
        recorded::AHEAD_MOST,
        names::BEAT_MS,
        names::RECOUNT_MS,
        names::DRAIN_LOOK_MS,
        names::STEP_MS,
    ];
    assert_eq!(from_c, from_rust);
}

#[test]
fn the_bandwidths_constants_agree_with_the_header() {
    // SAFETY: an immutable array of this length, defined in layout.c.
    let from_c = unsafe { c::weir_layout_bandwidth_constants };
    let from_rust = [
        bandwidth::BANDWIDTH_MIN,
        bandwidth::OWED_MOST_MS,
        bandwidth::PART_LINGERS_MS,
    ];
    assert_eq!(from_c, from_rust);
}

#[test]
fn the_fair_parts_constants_agree_with_the_header() {
    // SAFETY: an immutable array of this length, defined in layout.c.
    assert_eq!(unsafe { c::weir_layout_fair_constants }, [fair::LINGERS_MS]);
}

#[test]
fn what_an_objective_narrows_by_agrees_with_the_header() {
    assert_layout!(
        weir_layout_narrow,
        narrow::Narrow,
        window,
        wall,
        set_ms,
        held_ms,
        used_ms,
        wrote,
        narrower,
        slower,
        calm_ms,
        idle_ms,
        vain_ms,
        rest_ms
    );
    assert_layout!(
        weir_layout_narrow_look,
        narrow::Look,
        value,
        bound,
        wait_us,
        in_flight,
        written,
        least,
        elapsed_ms,
        measured,
        frozen
    );
}

#[test]
fn what_assistants_are_decided_by_agrees_with_the_header() {
    assert_layout!(
        weir_layout_assist,
        assist::Assist,
        threads,
        bound_ms,
        idle_ms,
        rest_ms,
        rested_ms
    );
    assert_layout!(
        weir_layout_assist_look,
        assist::Look,
        elapsed_ms,
        flusher_ran,
        flusher_waited,
        ran,
        most
    );
}

#[test]
fn headroom_agrees_with_the_header() {
    assert_layout!(
        weir_layout_headroom,
        headroom::Headroom,
        seen_ms,
        ran,
        waited,
        rest_ms,
        seconds
    );
    assert_layout!(
        weir_layout_headroom_look,
        headroom::Look,
        available,
        ran,
        waited
    );
}

#[test]
fn the_windows_rate_and_constants_agree_with_the_header() {
    assert_layout!(weir_layout_window_rate, window::Rate, pages, ns);
    assert_layout!(
        weir_layout_window_mark,
        window::Mark,
        submitted,
        in_flight,
        others,
        ms,
        pace
    );
    assert_layout!(
        weir_layout_window_device,
        window::Device,
        least_ms,
        since_ms
    );
    assert_layout!(
        weir_layout_window_progress,
        window::Progress,
        written,
        in_flight,
        others_written,
        others_in_flight,
        ms
    );
    // SAFETY: an immutable array of this length, defined in layout.c.
    let from_c = unsafe { c::weir_layout_window_constants };
    let from_rust = [
        window::WINDOW_MIN,
        window::CALL_MOST_MS,
        window::Pace::Unknown as u64,
        window::Pace::Moves as u64,
        window::Pace::Held as u64,
        division::TURN_MS,
    ];
    assert_eq!(from_c, from_rust);
}

#[test]
fn constants_agree_with_the_header() {
    use floor::Verdict;
    use parse::Parsed;
    use pass::Pass;
    use pause::Decider;
    // SAFETY: an immutable array of this length, defined in layout.c.
    let from_c = unsafe { c::weir_layout_constants };
    let from_rust = [
        Pass::Writer as u64,
        Pass::Flusher as u64,
        Pass::Reader as u64,
        Verdict::Admit as u64,
        Verdict::None as u64,
        Verdict::Full as u64,
        Verdict::HostFull as u64,
        Verdict::Capped as u64,
        crate::PAGE_SHIFT.into(),
        crate::PAGES_MAX,
        crate::UNLIMITED,
        floor::FLOORS_PERCENT_OF_LIMIT,
        floor::FLOOR_PERCENT_OF_MEMORY,
        ceiling::CEILING_MIN,
        Parsed::Value as u64,
        Parsed::Invalid as u64,
        Parsed::OutOfRange as u64,
        parse::BYTES_MAX,
        Decider::Unknown as u64,
        Decider::Host as u64,
        Decider::Cgroup as u64,
        Decider::Ceiling as u64,
        Decider::Ancestor as u64,
        Decider::Device as u64,
        Decider::ALL.len() as u64,
        size_of::<Pass>() as u64,
        size_of::<Verdict>() as u64,
        size_of::<Parsed>() as u64,
    ];
    assert_eq!(from_c, from_rust);
}

#[test]
fn tiers_agree_with_the_header() {
    use tier::Reason;

    assert_layout!(weir_layout_tiers, tier::Tiers, capacity, count, ratio);
    assert_layout!(
        weir_layout_tier_group,
        tier::Group,
        held,
        hot,
        min,
        low,
        high,
        max,
        ratio,
        heat_known,
        parent
    );
    assert_layout!(weir_layout_tier_room, tier::Room, free, headroom);
    assert_layout!(weir_layout_tier_settings, tier::Settings, band, step, lend);
    assert_layout!(
        weir_layout_tier_move,
        tier::Move,
        demote,
        promote,
        budget,
        reason
    );
    assert_layout!(
        weir_layout_tier_work,
        tier::Work,
        levels,
        claims,
        children,
        held,
        children_held,
        demand,
        supply,
        over,
        inner
    );
    // SAFETY: an immutable array of this length, defined in layout.c.
    let from_c = unsafe { c::weir_layout_tier_constants };
    let from_rust = [
        tier::TIERS_MAX as u64,
        tier::BOUNDARIES as u64,
        tier::BY_CAPACITY.into(),
        tier::NO_PARENT.into(),
        tier::Work::default().demand.len() as u64,
        tier::Work::default().supply.len() as u64,
        Reason::Balanced as u64,
        Reason::Keeps as u64,
        Reason::Returns as u64,
        Reason::Yields as u64,
        Reason::Takes as u64,
        Reason::Borrows as u64,
        Reason::Exchanges as u64,
        Reason::WaitsAbove as u64,
        Reason::WaitsBelow as u64,
        size_of::<Reason>() as u64,
    ];
    assert_eq!(from_c, from_rust);
}

#[test]
fn needs_agree_with_the_header() {
    assert_layout!(
        weir_layout_btf,
        btf::Reader,
        types,
        strings,
        types_len,
        strings_len,
        type_count,
        type_offsets
    );
    assert_layout!(weir_layout_function, needs::c::Function, name, how, params);
    assert_layout!(
        weir_layout_need,
        needs::c::Need,
        kind,
        fit,
        name,
        of,
        size_bytes,
        wanted_bytes
    );
}
