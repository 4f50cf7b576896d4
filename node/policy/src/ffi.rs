// SPDX-License-Identifier: GPL-2.0-only
//! C's types and functions of `policy/*.h`. Written by `tools/ffi.py`: change the headers.

#![allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    clippy::all,
    rustdoc::all
)]

/// Of the headers, as [`crate::ffi`] was written.
pub const FINGERPRINT: u64 = 0x03810f03f8e40b32;

pub const WEIR_PAGE_SHIFT: u32 = 12;
pub const WEIR_PAGES_MAX: u32 = 4294967295;
pub const WEIR_UNLIMITED: i32 = -1;
pub const WEIR_STAT_FILE: &[u8; 11] = b"dirty_stat\0";
pub const WEIR_BEAT_MS: u32 = 200;
pub const WEIR_RECOUNT_MS: u32 = 20;
pub const WEIR_DRAIN_LOOK_MS: u32 = 50;
pub const WEIR_STEP_MS: u32 = 200;
pub const WEIR_FLOORS_PERCENT_OF_LIMIT: u32 = 80;
pub const WEIR_FLOOR_PERCENT_OF_MEMORY: u32 = 50;
pub const WEIR_FAIR_LINGERS_MS: u32 = 2000;
pub const WEIR_FAIR_OTHERS_PERCENT: u32 = 4;
pub const WEIR_AHEAD_MOST: u32 = 2048;
pub const WEIR_BYTES_MAX: u64 = 9223372036854775807;
pub const WEIR_LOOK_PART: u32 = 512;
pub const WEIR_CEILING_MIN: u32 = 2;
pub const WEIR_DRAIN_PERCENT_OF_DIRTYABLE: u32 = 60;
pub const WEIR_DRAIN_SECONDS_MAX: u32 = 3600;
pub const WEIR_DRAIN_CALM_MS: u32 = 10000;
pub const WEIR_DRAIN_LEAST: u32 = 1024;
pub const WEIR_WEIGHT_MIN: u32 = 1;
pub const WEIR_WEIGHT_MAX: u32 = 10000;
pub const WEIR_WEIGHT_DEFAULT: u32 = 100;
pub const WEIR_HWEIGHT_ONE: u32 = 1048576;
pub const WEIR_HWEIGHT_SHOWN: u32 = 10000;
pub const WEIR_COMPETES_MS: u32 = 20;
pub const WEIR_DIVISION_TURN_MS: u32 = 1000;
pub const WEIR_BANDWIDTH_MIN: u32 = 65536;
pub const WEIR_BANDWIDTH_OWED_MOST_MS: u32 = 120000;
pub const WEIR_BANDWIDTH_PART_LINGERS_MS: u32 = 1000;
pub const WEIR_WINDOW_MIN: u32 = 65536;
pub const WEIR_WINDOW_CALL_MOST_MS: u32 = 200;
pub const WEIR_PAUSE_TRACEPOINT: &[u8; 20] = b"balance_dirty_pages\0";
pub const WEIR_QUEUE_LEAST: u32 = 16;
pub const WEIR_OBJECTIVE_WINDOW_MS: u32 = 10000;
pub const WEIR_RECLAIM_WEIGHT: u32 = 100;
pub const WEIR_TIERS_MAX: u32 = 8;
pub const WEIR_TIER_BOUNDARIES: u32 = 7;
pub const WEIR_TIER_BY_CAPACITY: i32 = -1;
pub const WEIR_TIER_NO_PARENT: i32 = -1;
pub const WEIR_TIER_LOAN_MIN: u32 = 64;
pub const WEIR_KNOB_DIRTY_MIN: weir_knob = 0;
pub const WEIR_KNOB_DIRTY_BYTES: weir_knob = 1;
pub const WEIR_KNOB_DIRTY_RATIO: weir_knob = 2;
pub const WEIR_KNOB_DIRTY_BANDWIDTH: weir_knob = 3;
pub const WEIR_KNOB_DIRTY_WEIGHT: weir_knob = 4;
pub const WEIR_KNOB_WRITEBACK_BYTES: weir_knob = 5;
pub const WEIR_KNOB_TOPTIER_RATIO: weir_knob = 6;
pub const WEIR_KNOB_COUNT: weir_knob = 7;
pub type weir_knob = u32;
pub const WEIR_STAT_IN_EFFECT: weir_stat = 0;
pub const WEIR_STAT_DIRTY: weir_stat = 1;
pub const WEIR_STAT_WRITEBACK: weir_stat = 2;
pub const WEIR_STAT_SUBTREE_DIRTY: weir_stat = 3;
pub const WEIR_STAT_SUBTREE_WRITEBACK: weir_stat = 4;
pub const WEIR_STAT_FOREIGN: weir_stat = 5;
pub const WEIR_STAT_FLOOR: weir_stat = 6;
pub const WEIR_STAT_FLOOR_UNUSED: weir_stat = 7;
pub const WEIR_STAT_CEILING: weir_stat = 8;
pub const WEIR_STAT_WEIGHT_PORTION: weir_stat = 9;
pub const WEIR_STAT_PASSES: weir_stat = 10;
pub const WEIR_STAT_FLOOR_ADMITTED: weir_stat = 11;
pub const WEIR_STAT_FLOOR_RELEASED: weir_stat = 12;
pub const WEIR_STAT_CEILING_HELD: weir_stat = 13;
pub const WEIR_STAT_WOULD_ADMIT: weir_stat = 14;
pub const WEIR_STAT_WOULD_HOLD: weir_stat = 15;
pub const WEIR_STAT_THROTTLED: weir_stat = 16;
pub const WEIR_STAT_BELOW_FLOOR: weir_stat = 17;
pub const WEIR_STAT_THROTTLED_USEC: weir_stat = 18;
pub const WEIR_STAT_BY_UNKNOWN: weir_stat = 19;
pub const WEIR_STAT_BY_UNKNOWN_USEC: weir_stat = 20;
pub const WEIR_STAT_BY_HOST: weir_stat = 21;
pub const WEIR_STAT_BY_HOST_USEC: weir_stat = 22;
pub const WEIR_STAT_BY_CGROUP: weir_stat = 23;
pub const WEIR_STAT_BY_CGROUP_USEC: weir_stat = 24;
pub const WEIR_STAT_BY_CEILING: weir_stat = 25;
pub const WEIR_STAT_BY_CEILING_USEC: weir_stat = 26;
pub const WEIR_STAT_BY_ANCESTOR: weir_stat = 27;
pub const WEIR_STAT_BY_ANCESTOR_USEC: weir_stat = 28;
pub const WEIR_STAT_BY_DEVICE: weir_stat = 29;
pub const WEIR_STAT_BY_DEVICE_USEC: weir_stat = 30;
pub const WEIR_STAT_WEIGHT_HELD: weir_stat = 31;
pub const WEIR_STAT_WEIGHT_HELD_USEC: weir_stat = 32;
pub const WEIR_STAT_WOULD_WAIT: weir_stat = 33;
pub const WEIR_STAT_MISSED: weir_stat = 34;
pub const WEIR_STAT_BANDWIDTH_HELD: weir_stat = 35;
pub const WEIR_STAT_BANDWIDTH_HELD_USEC: weir_stat = 36;
pub const WEIR_STAT_WOULD_PACE: weir_stat = 37;
pub const WEIR_STAT_WINDOW_HELD: weir_stat = 38;
pub const WEIR_STAT_WINDOW_HELD_USEC: weir_stat = 39;
pub const WEIR_STAT_COUNT: weir_stat = 40;
pub type weir_stat = u32;
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_pause_by {
    #[default]
    Unknown = 0,
    Host = 1,
    Cgroup = 2,
    Ceiling = 3,
    Ancestor = 4,
    Device = 5,
}
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_unit {
    #[default]
    Count = 0,
    #[doc = " WEIR_UNLIMITED is printed as \"max\""]
    Bytes = 1,
    Microseconds = 2,
}
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_kind {
    #[default]
    Level = 0,
    Counter = 1,
}
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct weir_stat_key {
    pub name: *const ::core::ffi::c_char,
    pub unit: weir_unit,
    pub kind: weir_kind,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_stat_key"][::core::mem::size_of::<weir_stat_key>() - 16usize];
    ["Alignment of weir_stat_key"][::core::mem::align_of::<weir_stat_key>() - 8usize];
    ["Offset of field: weir_stat_key::name"][::core::mem::offset_of!(weir_stat_key, name) - 0usize];
    ["Offset of field: weir_stat_key::unit"][::core::mem::offset_of!(weir_stat_key, unit) - 8usize];
    ["Offset of field: weir_stat_key::kind"]
        [::core::mem::offset_of!(weir_stat_key, kind) - 12usize];
};
#[repr(u32)]
#[doc = " pass.c: who is asking, and what may be amended for them."]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
pub enum weir_pass {
    #[default]
    #[doc = " balance_dirty_pages(): a task that dirtied pages may be put to sleep"]
    Writer = 0,
    #[doc = " wb_over_bg_thresh(): the flusher asks whether to go on writing"]
    Flusher = 1,
    #[doc = " all others, which only want to know the limits, e.g. /proc/vmstat"]
    Reader = 2,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_pass_facts {
    #[doc = " the domain's dtc belongs to a bdi_writeback"]
    pub has_wb: u32,
    #[doc = " the domain is a cgroup's, not the global one"]
    pub has_gdtc: u32,
    #[doc = " that cgroup domain's global counterpart belongs to a bdi_writeback"]
    pub gdtc_has_wb: u32,
    #[doc = " the flusher work of this very bdi_writeback is what is running"]
    pub in_flusher: u32,
    #[doc = " the device asked for strict per-device limits (FUSE)"]
    pub strictlimit: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_pass_facts"][::core::mem::size_of::<weir_pass_facts>() - 20usize];
    ["Alignment of weir_pass_facts"][::core::mem::align_of::<weir_pass_facts>() - 4usize];
    ["Offset of field: weir_pass_facts::has_wb"]
        [::core::mem::offset_of!(weir_pass_facts, has_wb) - 0usize];
    ["Offset of field: weir_pass_facts::has_gdtc"]
        [::core::mem::offset_of!(weir_pass_facts, has_gdtc) - 4usize];
    ["Offset of field: weir_pass_facts::gdtc_has_wb"]
        [::core::mem::offset_of!(weir_pass_facts, gdtc_has_wb) - 8usize];
    ["Offset of field: weir_pass_facts::in_flusher"]
        [::core::mem::offset_of!(weir_pass_facts, in_flusher) - 12usize];
    ["Offset of field: weir_pass_facts::strictlimit"]
        [::core::mem::offset_of!(weir_pass_facts, strictlimit) - 16usize];
};
#[doc = " floor.c: may this writer go on without being looked at by the throttle?"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_floor_caps {
    #[doc = " memory.dirty_min"]
    pub wanted: u64,
    #[doc = " live memory.max, WEIR_UNLIMITED if none"]
    pub memory_max: u64,
    #[doc = " live memory.min"]
    pub memory_min: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_floor_caps"][::core::mem::size_of::<weir_floor_caps>() - 24usize];
    ["Alignment of weir_floor_caps"][::core::mem::align_of::<weir_floor_caps>() - 8usize];
    ["Offset of field: weir_floor_caps::wanted"]
        [::core::mem::offset_of!(weir_floor_caps, wanted) - 0usize];
    ["Offset of field: weir_floor_caps::memory_max"]
        [::core::mem::offset_of!(weir_floor_caps, memory_max) - 8usize];
    ["Offset of field: weir_floor_caps::memory_min"]
        [::core::mem::offset_of!(weir_floor_caps, memory_min) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_floor_pool {
    #[doc = " sum of weir_floor_own() over all cgroups"]
    pub wanted_total: u64,
    #[doc = " the global dirty limit"]
    pub host_thresh: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_floor_pool"][::core::mem::size_of::<weir_floor_pool>() - 16usize];
    ["Alignment of weir_floor_pool"][::core::mem::align_of::<weir_floor_pool>() - 8usize];
    ["Offset of field: weir_floor_pool::wanted_total"]
        [::core::mem::offset_of!(weir_floor_pool, wanted_total) - 0usize];
    ["Offset of field: weir_floor_pool::host_thresh"]
        [::core::mem::offset_of!(weir_floor_pool, host_thresh) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_floor_pass {
    #[doc = " effective: own cap and pool scale applied"]
    pub floor: u64,
    #[doc = " what it covers of dirty + writeback, by folio owner"]
    pub memcg_dirty: u64,
    #[doc = " the same by inode owner, as far as the writer's wb shows"]
    pub wb_dirty: u64,
    #[doc = " pages dirtied below it lately that are in neither count"]
    pub foreign: u64,
    #[doc = " the host's dirty + writeback"]
    pub host_dirty: u64,
    #[doc = " the global dirty limit"]
    pub host_thresh: u64,
    #[doc = " sum of all effective floors"]
    pub floors_total: u64,
    #[doc = " to the nearest ceiling, or memory, on the path; 0 if full"]
    pub left: u64,
    #[doc = " the device asked for strict per-device limits"]
    pub strictlimit: u32,
    #[doc = " the writer is throttled on a wb of its own cgroup"]
    pub cgroup_domain: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_floor_pass"][::core::mem::size_of::<weir_floor_pass>() - 72usize];
    ["Alignment of weir_floor_pass"][::core::mem::align_of::<weir_floor_pass>() - 8usize];
    ["Offset of field: weir_floor_pass::floor"]
        [::core::mem::offset_of!(weir_floor_pass, floor) - 0usize];
    ["Offset of field: weir_floor_pass::memcg_dirty"]
        [::core::mem::offset_of!(weir_floor_pass, memcg_dirty) - 8usize];
    ["Offset of field: weir_floor_pass::wb_dirty"]
        [::core::mem::offset_of!(weir_floor_pass, wb_dirty) - 16usize];
    ["Offset of field: weir_floor_pass::foreign"]
        [::core::mem::offset_of!(weir_floor_pass, foreign) - 24usize];
    ["Offset of field: weir_floor_pass::host_dirty"]
        [::core::mem::offset_of!(weir_floor_pass, host_dirty) - 32usize];
    ["Offset of field: weir_floor_pass::host_thresh"]
        [::core::mem::offset_of!(weir_floor_pass, host_thresh) - 40usize];
    ["Offset of field: weir_floor_pass::floors_total"]
        [::core::mem::offset_of!(weir_floor_pass, floors_total) - 48usize];
    ["Offset of field: weir_floor_pass::left"]
        [::core::mem::offset_of!(weir_floor_pass, left) - 56usize];
    ["Offset of field: weir_floor_pass::strictlimit"]
        [::core::mem::offset_of!(weir_floor_pass, strictlimit) - 64usize];
    ["Offset of field: weir_floor_pass::cgroup_domain"]
        [::core::mem::offset_of!(weir_floor_pass, cgroup_domain) - 68usize];
};
#[doc = " One floor on the writer's path, as a pass finds it."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_floor_cover {
    #[doc = " effective"]
    pub floor: u64,
    #[doc = " pages that claim it"]
    pub claim: u64,
    #[doc = " dirty + writeback of its subtree"]
    pub by_folio: u64,
    #[doc = " dirty + writeback of the writer's wb"]
    pub in_wb: u64,
    pub foreign: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_floor_cover"][::core::mem::size_of::<weir_floor_cover>() - 40usize];
    ["Alignment of weir_floor_cover"][::core::mem::align_of::<weir_floor_cover>() - 8usize];
    ["Offset of field: weir_floor_cover::floor"]
        [::core::mem::offset_of!(weir_floor_cover, floor) - 0usize];
    ["Offset of field: weir_floor_cover::claim"]
        [::core::mem::offset_of!(weir_floor_cover, claim) - 8usize];
    ["Offset of field: weir_floor_cover::by_folio"]
        [::core::mem::offset_of!(weir_floor_cover, by_folio) - 16usize];
    ["Offset of field: weir_floor_cover::in_wb"]
        [::core::mem::offset_of!(weir_floor_cover, in_wb) - 24usize];
    ["Offset of field: weir_floor_cover::foreign"]
        [::core::mem::offset_of!(weir_floor_cover, foreign) - 32usize];
};
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_floor_verdict {
    #[default]
    #[doc = " below the floor: no throttling in this pass"]
    Admit = 0,
    #[doc = " no floor, or one that does not apply here"]
    None = 1,
    #[doc = " what it covers fills the floor already"]
    Full = 2,
    #[doc = " the host cannot honour more of any floor"]
    HostFull = 3,
    #[doc = " a ceiling or memory on the way up wins"]
    Capped = 4,
}
#[doc = " The counts of a wb, as one pass reads them."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_wb_snapshot {
    #[doc = " before the first count was read"]
    pub begun_ns: u64,
    #[doc = " after the last"]
    pub ended_ns: u64,
    #[doc = " WB_DIRTIED, since it was made"]
    pub dirtied: u64,
    #[doc = " WB_WRITTEN, the same"]
    pub written: u64,
    #[doc = " dirty + writeback"]
    pub queued: u64,
    #[doc = " what the pass's task dirtied, for the first look"]
    pub unreported: u64,
    #[doc = " ever, or after a pause"]
    pub first: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_wb_snapshot"][::core::mem::size_of::<weir_wb_snapshot>() - 56usize];
    ["Alignment of weir_wb_snapshot"][::core::mem::align_of::<weir_wb_snapshot>() - 8usize];
    ["Offset of field: weir_wb_snapshot::begun_ns"]
        [::core::mem::offset_of!(weir_wb_snapshot, begun_ns) - 0usize];
    ["Offset of field: weir_wb_snapshot::ended_ns"]
        [::core::mem::offset_of!(weir_wb_snapshot, ended_ns) - 8usize];
    ["Offset of field: weir_wb_snapshot::dirtied"]
        [::core::mem::offset_of!(weir_wb_snapshot, dirtied) - 16usize];
    ["Offset of field: weir_wb_snapshot::written"]
        [::core::mem::offset_of!(weir_wb_snapshot, written) - 24usize];
    ["Offset of field: weir_wb_snapshot::queued"]
        [::core::mem::offset_of!(weir_wb_snapshot, queued) - 32usize];
    ["Offset of field: weir_wb_snapshot::unreported"]
        [::core::mem::offset_of!(weir_wb_snapshot, unreported) - 40usize];
    ["Offset of field: weir_wb_snapshot::first"]
        [::core::mem::offset_of!(weir_wb_snapshot, first) - 48usize];
};
#[doc = " All 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_recorded {
    #[doc = " WB_DIRTIED, as far as it is known"]
    pub pages: u64,
    #[doc = " of the look that said so"]
    pub ended_ns: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_recorded"][::core::mem::size_of::<weir_recorded>() - 16usize];
    ["Alignment of weir_recorded"][::core::mem::align_of::<weir_recorded>() - 8usize];
    ["Offset of field: weir_recorded::pages"]
        [::core::mem::offset_of!(weir_recorded, pages) - 0usize];
    ["Offset of field: weir_recorded::ended_ns"]
        [::core::mem::offset_of!(weir_recorded, ended_ns) - 8usize];
};
#[repr(u32)]
#[doc = " parse.c: what people and container runtimes write into the files."]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
pub enum weir_parsed {
    #[default]
    Value = 0,
    #[doc = " not a number in the file's form: EINVAL"]
    Invalid = 1,
    #[doc = " a number no such file takes: ERANGE"]
    OutOfRange = 2,
}
#[doc = " ceiling.c: the most a cgroup may hold, and the limits that keep it there."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_ceiling {
    #[doc = " memory.dirty_bytes, WEIR_UNLIMITED if none"]
    pub bytes: u64,
    #[doc = " memory.dirty_ratio, 0 = off"]
    pub ratio_percent: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_ceiling"][::core::mem::size_of::<weir_ceiling>() - 16usize];
    ["Alignment of weir_ceiling"][::core::mem::align_of::<weir_ceiling>() - 8usize];
    ["Offset of field: weir_ceiling::bytes"][::core::mem::offset_of!(weir_ceiling, bytes) - 0usize];
    ["Offset of field: weir_ceiling::ratio_percent"]
        [::core::mem::offset_of!(weir_ceiling, ratio_percent) - 8usize];
};
#[doc = " The result of one domain's limit calculation, and the domain's smoothed limit."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_limits {
    pub thresh: u64,
    pub bg_thresh: u64,
    pub dirty: u64,
    pub dom_limit: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_limits"][::core::mem::size_of::<weir_limits>() - 32usize];
    ["Alignment of weir_limits"][::core::mem::align_of::<weir_limits>() - 8usize];
    ["Offset of field: weir_limits::thresh"][::core::mem::offset_of!(weir_limits, thresh) - 0usize];
    ["Offset of field: weir_limits::bg_thresh"]
        [::core::mem::offset_of!(weir_limits, bg_thresh) - 8usize];
    ["Offset of field: weir_limits::dirty"][::core::mem::offset_of!(weir_limits, dirty) - 16usize];
    ["Offset of field: weir_limits::dom_limit"]
        [::core::mem::offset_of!(weir_limits, dom_limit) - 24usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_counts {
    pub dirty: u64,
    pub writeback: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_counts"][::core::mem::size_of::<weir_counts>() - 16usize];
    ["Alignment of weir_counts"][::core::mem::align_of::<weir_counts>() - 8usize];
    ["Offset of field: weir_counts::dirty"][::core::mem::offset_of!(weir_counts, dirty) - 0usize];
    ["Offset of field: weir_counts::writeback"]
        [::core::mem::offset_of!(weir_counts, writeback) - 8usize];
};
#[doc = " The memory that a ratio is a share of."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_memory {
    #[doc = " page cache of the cgroup and below"]
    pub file: u64,
    #[doc = " of it, dirty or in writeback"]
    pub dirty: u64,
    #[doc = " what memory.max and memory.high still leave"]
    pub headroom: u64,
    #[doc = " the host's dirtyable memory"]
    pub host_avail: u64,
    pub host_dirty: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_memory"][::core::mem::size_of::<weir_memory>() - 40usize];
    ["Alignment of weir_memory"][::core::mem::align_of::<weir_memory>() - 8usize];
    ["Offset of field: weir_memory::file"][::core::mem::offset_of!(weir_memory, file) - 0usize];
    ["Offset of field: weir_memory::dirty"][::core::mem::offset_of!(weir_memory, dirty) - 8usize];
    ["Offset of field: weir_memory::headroom"]
        [::core::mem::offset_of!(weir_memory, headroom) - 16usize];
    ["Offset of field: weir_memory::host_avail"]
        [::core::mem::offset_of!(weir_memory, host_avail) - 24usize];
    ["Offset of field: weir_memory::host_dirty"]
        [::core::mem::offset_of!(weir_memory, host_dirty) - 32usize];
};
#[doc = " reserve.c: the host's limits, less what floors reserve and do not use."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_host {
    #[doc = " sum of weir_floor_unused() over all cgroups"]
    pub unused: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_host"][::core::mem::size_of::<weir_host>() - 8usize];
    ["Alignment of weir_host"][::core::mem::align_of::<weir_host>() - 8usize];
    ["Offset of field: weir_host::unused"][::core::mem::offset_of!(weir_host, unused) - 0usize];
};
#[doc = " A change of pages, which one level adds to its sums and hands to the next."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tally {
    pub dirty: i64,
    pub writeback: i64,
    #[doc = " of them, what no floor further down has room for"]
    pub claim: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tally"][::core::mem::size_of::<weir_tally>() - 24usize];
    ["Alignment of weir_tally"][::core::mem::align_of::<weir_tally>() - 8usize];
    ["Offset of field: weir_tally::dirty"][::core::mem::offset_of!(weir_tally, dirty) - 0usize];
    ["Offset of field: weir_tally::writeback"]
        [::core::mem::offset_of!(weir_tally, writeback) - 8usize];
    ["Offset of field: weir_tally::claim"][::core::mem::offset_of!(weir_tally, claim) - 16usize];
};
#[doc = " The sums of one level; all 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_subtree {
    pub dirty: i64,
    pub writeback: i64,
    pub claim: i64,
    #[doc = " of the claims, those reported to the parent"]
    pub beyond: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_subtree"][::core::mem::size_of::<weir_subtree>() - 32usize];
    ["Alignment of weir_subtree"][::core::mem::align_of::<weir_subtree>() - 8usize];
    ["Offset of field: weir_subtree::dirty"][::core::mem::offset_of!(weir_subtree, dirty) - 0usize];
    ["Offset of field: weir_subtree::writeback"]
        [::core::mem::offset_of!(weir_subtree, writeback) - 8usize];
    ["Offset of field: weir_subtree::claim"]
        [::core::mem::offset_of!(weir_subtree, claim) - 16usize];
    ["Offset of field: weir_subtree::beyond"]
        [::core::mem::offset_of!(weir_subtree, beyond) - 24usize];
};
#[doc = " drain.c: the host's limit by what its disks drain in some seconds."]
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_drain {
    #[doc = " completed pages per second"]
    pub rate: u64,
    #[doc = " busy time that the rate is made of"]
    pub seen_ms: u64,
    #[doc = " when last busy, and not completed since"]
    pub in_flight: u64,
    #[doc = " without a completion, to be added to the next"]
    pub silent_ms: u64,
    #[doc = " since memory was last seen scarce"]
    pub calm_ms: u64,
    #[doc = " as it was of late"]
    pub dirtyable: u64,
    #[doc = " in force instead of the kernel's, 0 = none"]
    pub limit: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_drain"][::core::mem::size_of::<weir_drain>() - 56usize];
    ["Alignment of weir_drain"][::core::mem::align_of::<weir_drain>() - 8usize];
    ["Offset of field: weir_drain::rate"][::core::mem::offset_of!(weir_drain, rate) - 0usize];
    ["Offset of field: weir_drain::seen_ms"][::core::mem::offset_of!(weir_drain, seen_ms) - 8usize];
    ["Offset of field: weir_drain::in_flight"]
        [::core::mem::offset_of!(weir_drain, in_flight) - 16usize];
    ["Offset of field: weir_drain::silent_ms"]
        [::core::mem::offset_of!(weir_drain, silent_ms) - 24usize];
    ["Offset of field: weir_drain::calm_ms"]
        [::core::mem::offset_of!(weir_drain, calm_ms) - 32usize];
    ["Offset of field: weir_drain::dirtyable"]
        [::core::mem::offset_of!(weir_drain, dirtyable) - 40usize];
    ["Offset of field: weir_drain::limit"][::core::mem::offset_of!(weir_drain, limit) - 48usize];
};
#[doc = " One beat's figures; flows are since the beat before."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_drain_beat {
    #[doc = " drain_seconds, 0 = off"]
    pub seconds: u64,
    pub elapsed_ms: u64,
    #[doc = " the host's limits as the kernel has them"]
    pub thresh: u64,
    pub bg_thresh: u64,
    pub dirtyable: u64,
    pub dirty: u64,
    pub writeback: u64,
    #[doc = " writeback completed"]
    pub written: u64,
    pub kswapd_scanned: u64,
    pub kswapd_taken: u64,
    pub direct_scanned: u64,
    #[doc = " PSI memory, some, ten seconds"]
    pub memory_stall_percent: u32,
    #[doc = " the limit is for so many seconds, not freerun"]
    pub tighten: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_drain_beat"][::core::mem::size_of::<weir_drain_beat>() - 96usize];
    ["Alignment of weir_drain_beat"][::core::mem::align_of::<weir_drain_beat>() - 8usize];
    ["Offset of field: weir_drain_beat::seconds"]
        [::core::mem::offset_of!(weir_drain_beat, seconds) - 0usize];
    ["Offset of field: weir_drain_beat::elapsed_ms"]
        [::core::mem::offset_of!(weir_drain_beat, elapsed_ms) - 8usize];
    ["Offset of field: weir_drain_beat::thresh"]
        [::core::mem::offset_of!(weir_drain_beat, thresh) - 16usize];
    ["Offset of field: weir_drain_beat::bg_thresh"]
        [::core::mem::offset_of!(weir_drain_beat, bg_thresh) - 24usize];
    ["Offset of field: weir_drain_beat::dirtyable"]
        [::core::mem::offset_of!(weir_drain_beat, dirtyable) - 32usize];
    ["Offset of field: weir_drain_beat::dirty"]
        [::core::mem::offset_of!(weir_drain_beat, dirty) - 40usize];
    ["Offset of field: weir_drain_beat::writeback"]
        [::core::mem::offset_of!(weir_drain_beat, writeback) - 48usize];
    ["Offset of field: weir_drain_beat::written"]
        [::core::mem::offset_of!(weir_drain_beat, written) - 56usize];
    ["Offset of field: weir_drain_beat::kswapd_scanned"]
        [::core::mem::offset_of!(weir_drain_beat, kswapd_scanned) - 64usize];
    ["Offset of field: weir_drain_beat::kswapd_taken"]
        [::core::mem::offset_of!(weir_drain_beat, kswapd_taken) - 72usize];
    ["Offset of field: weir_drain_beat::direct_scanned"]
        [::core::mem::offset_of!(weir_drain_beat, direct_scanned) - 80usize];
    ["Offset of field: weir_drain_beat::memory_stall_percent"]
        [::core::mem::offset_of!(weir_drain_beat, memory_stall_percent) - 88usize];
    ["Offset of field: weir_drain_beat::tighten"]
        [::core::mem::offset_of!(weir_drain_beat, tighten) - 92usize];
};
#[doc = " The figures that amend the host's domain, and those that a cgroup's domain follows."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_drain_host {
    #[doc = " as in struct weir_drain"]
    pub limit: u64,
    #[doc = " what it is in force instead of"]
    pub stock: u64,
    #[doc = " as in struct weir_host"]
    pub unused: u64,
    #[doc = " amended: @unused is taken out of it already"]
    pub thresh: u64,
    #[doc = " dirtyable memory"]
    pub avail: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_drain_host"][::core::mem::size_of::<weir_drain_host>() - 40usize];
    ["Alignment of weir_drain_host"][::core::mem::align_of::<weir_drain_host>() - 8usize];
    ["Offset of field: weir_drain_host::limit"]
        [::core::mem::offset_of!(weir_drain_host, limit) - 0usize];
    ["Offset of field: weir_drain_host::stock"]
        [::core::mem::offset_of!(weir_drain_host, stock) - 8usize];
    ["Offset of field: weir_drain_host::unused"]
        [::core::mem::offset_of!(weir_drain_host, unused) - 16usize];
    ["Offset of field: weir_drain_host::thresh"]
        [::core::mem::offset_of!(weir_drain_host, thresh) - 24usize];
    ["Offset of field: weir_drain_host::avail"]
        [::core::mem::offset_of!(weir_drain_host, avail) - 32usize];
};
#[doc = " pause.c: whose limit put a task to sleep."]
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_pause_facts {
    #[doc = " of the domain the kernel decided by"]
    pub thresh: u64,
    pub dirty: u64,
    #[doc = " of the cgroup's domain in the same pass, amended"]
    pub cgroup_thresh: u64,
    pub cgroup_dirty: u64,
    pub cgroup_seen: u32,
    pub strictlimit: u32,
    #[doc = " within that: WEIR_BY_CGROUP, WEIR_BY_CEILING or WEIR_BY_ANCESTOR"]
    pub judged_by: weir_pause_by,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_pause_facts"][::core::mem::size_of::<weir_pause_facts>() - 48usize];
    ["Alignment of weir_pause_facts"][::core::mem::align_of::<weir_pause_facts>() - 8usize];
    ["Offset of field: weir_pause_facts::thresh"]
        [::core::mem::offset_of!(weir_pause_facts, thresh) - 0usize];
    ["Offset of field: weir_pause_facts::dirty"]
        [::core::mem::offset_of!(weir_pause_facts, dirty) - 8usize];
    ["Offset of field: weir_pause_facts::cgroup_thresh"]
        [::core::mem::offset_of!(weir_pause_facts, cgroup_thresh) - 16usize];
    ["Offset of field: weir_pause_facts::cgroup_dirty"]
        [::core::mem::offset_of!(weir_pause_facts, cgroup_dirty) - 24usize];
    ["Offset of field: weir_pause_facts::cgroup_seen"]
        [::core::mem::offset_of!(weir_pause_facts, cgroup_seen) - 32usize];
    ["Offset of field: weir_pause_facts::strictlimit"]
        [::core::mem::offset_of!(weir_pause_facts, strictlimit) - 36usize];
    ["Offset of field: weir_pause_facts::judged_by"]
        [::core::mem::offset_of!(weir_pause_facts, judged_by) - 40usize];
};
impl Default for weir_pause_facts {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " The rate at which pages were written of late; all 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_window_rate {
    pub pages: u64,
    pub ns: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_window_rate"][::core::mem::size_of::<weir_window_rate>() - 16usize];
    ["Alignment of weir_window_rate"][::core::mem::align_of::<weir_window_rate>() - 8usize];
    ["Offset of field: weir_window_rate::pages"]
        [::core::mem::offset_of!(weir_window_rate, pages) - 0usize];
    ["Offset of field: weir_window_rate::ns"]
        [::core::mem::offset_of!(weir_window_rate, ns) - 8usize];
};
#[doc = " The pages that a division's flushers may have in flight; all 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_budget {
    #[doc = " that the device wrote in 25 ms, of late; 0: not known"]
    pub pages: u64,
    #[doc = " and the division"]
    pub own: u64,
    #[doc = " pages, by the division, when last noted"]
    pub written: u64,
    #[doc = " and by all"]
    pub of_device: u64,
    pub since_ns: u64,
    #[doc = " with others, who write much"]
    pub shared: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_budget"][::core::mem::size_of::<weir_budget>() - 48usize];
    ["Alignment of weir_budget"][::core::mem::align_of::<weir_budget>() - 8usize];
    ["Offset of field: weir_budget::pages"][::core::mem::offset_of!(weir_budget, pages) - 0usize];
    ["Offset of field: weir_budget::own"][::core::mem::offset_of!(weir_budget, own) - 8usize];
    ["Offset of field: weir_budget::written"]
        [::core::mem::offset_of!(weir_budget, written) - 16usize];
    ["Offset of field: weir_budget::of_device"]
        [::core::mem::offset_of!(weir_budget, of_device) - 24usize];
    ["Offset of field: weir_budget::since_ns"]
        [::core::mem::offset_of!(weir_budget, since_ns) - 32usize];
    ["Offset of field: weir_budget::shared"]
        [::core::mem::offset_of!(weir_budget, shared) - 40usize];
};
#[doc = " Of a cgroup with a bound, in bytes; all 0 at first, then started."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_bandwidth {
    #[doc = " ever; it wraps"]
    pub charged: u64,
    #[doc = " of that; ahead of it: saved"]
    pub paid: u64,
    #[doc = " of a byte paid, in millionths"]
    pub rest: u64,
    #[doc = " pages of a pass lately, in parts of one"]
    pub usual: u64,
    pub now_us: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_bandwidth"][::core::mem::size_of::<weir_bandwidth>() - 40usize];
    ["Alignment of weir_bandwidth"][::core::mem::align_of::<weir_bandwidth>() - 8usize];
    ["Offset of field: weir_bandwidth::charged"]
        [::core::mem::offset_of!(weir_bandwidth, charged) - 0usize];
    ["Offset of field: weir_bandwidth::paid"]
        [::core::mem::offset_of!(weir_bandwidth, paid) - 8usize];
    ["Offset of field: weir_bandwidth::rest"]
        [::core::mem::offset_of!(weir_bandwidth, rest) - 16usize];
    ["Offset of field: weir_bandwidth::usual"]
        [::core::mem::offset_of!(weir_bandwidth, usual) - 24usize];
    ["Offset of field: weir_bandwidth::now_us"]
        [::core::mem::offset_of!(weir_bandwidth, now_us) - 32usize];
};
#[doc = " The debt that a pass waits for, on the path of its task; all but its pages 0 at\n first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_bandwidth_hold {
    #[doc = " dirtied since the pass before"]
    pub pages: u64,
    #[doc = " where that is longest"]
    pub due_ms: u64,
    #[doc = " there"]
    pub ticket: u64,
    #[doc = " in the task's part of it"]
    pub part_ticket: u64,
    #[doc = " of that part, the caller's"]
    pub part_number: u64,
    #[doc = " of that level when it was charged, the caller's"]
    pub bound: u64,
    #[doc = " of that level, the caller's; 0: no level"]
    pub number: u64,
    #[doc = " the fewest pages that a level leaves until the next look, in parts of one"]
    pub poll: u64,
    #[doc = " bound on the path"]
    pub least: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_bandwidth_hold"][::core::mem::size_of::<weir_bandwidth_hold>() - 72usize];
    ["Alignment of weir_bandwidth_hold"][::core::mem::align_of::<weir_bandwidth_hold>() - 8usize];
    ["Offset of field: weir_bandwidth_hold::pages"]
        [::core::mem::offset_of!(weir_bandwidth_hold, pages) - 0usize];
    ["Offset of field: weir_bandwidth_hold::due_ms"]
        [::core::mem::offset_of!(weir_bandwidth_hold, due_ms) - 8usize];
    ["Offset of field: weir_bandwidth_hold::ticket"]
        [::core::mem::offset_of!(weir_bandwidth_hold, ticket) - 16usize];
    ["Offset of field: weir_bandwidth_hold::part_ticket"]
        [::core::mem::offset_of!(weir_bandwidth_hold, part_ticket) - 24usize];
    ["Offset of field: weir_bandwidth_hold::part_number"]
        [::core::mem::offset_of!(weir_bandwidth_hold, part_number) - 32usize];
    ["Offset of field: weir_bandwidth_hold::bound"]
        [::core::mem::offset_of!(weir_bandwidth_hold, bound) - 40usize];
    ["Offset of field: weir_bandwidth_hold::number"]
        [::core::mem::offset_of!(weir_bandwidth_hold, number) - 48usize];
    ["Offset of field: weir_bandwidth_hold::poll"]
        [::core::mem::offset_of!(weir_bandwidth_hold, poll) - 56usize];
    ["Offset of field: weir_bandwidth_hold::least"]
        [::core::mem::offset_of!(weir_bandwidth_hold, least) - 64usize];
};
pub const WEIR_PACE_UNKNOWN: weir_pace = 0;
pub const WEIR_PACE_MOVES: weir_pace = 1;
pub const WEIR_PACE_HELD: weir_pace = 2;
pub const WEIR_PACES: weir_pace = 3;
#[doc = " Pace of a flusher's pages beside those of others on the device."]
pub type weir_pace = u32;
#[doc = " A flusher's pages at a time, which are due before later ones of others.  All 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_window_mark {
    #[doc = " pages, by then"]
    pub submitted: u64,
    #[doc = " of these"]
    pub in_flight: u64,
    #[doc = " pages that others will have written when it was overtaken"]
    pub others: u64,
    #[doc = " that may stand before the last of them, and it"]
    pub parts: u64,
    pub ms: u64,
    #[doc = " enum weir_pace"]
    pub pace: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_window_mark"][::core::mem::size_of::<weir_window_mark>() - 48usize];
    ["Alignment of weir_window_mark"][::core::mem::align_of::<weir_window_mark>() - 8usize];
    ["Offset of field: weir_window_mark::submitted"]
        [::core::mem::offset_of!(weir_window_mark, submitted) - 0usize];
    ["Offset of field: weir_window_mark::in_flight"]
        [::core::mem::offset_of!(weir_window_mark, in_flight) - 8usize];
    ["Offset of field: weir_window_mark::others"]
        [::core::mem::offset_of!(weir_window_mark, others) - 16usize];
    ["Offset of field: weir_window_mark::parts"]
        [::core::mem::offset_of!(weir_window_mark, parts) - 24usize];
    ["Offset of field: weir_window_mark::ms"]
        [::core::mem::offset_of!(weir_window_mark, ms) - 32usize];
    ["Offset of field: weir_window_mark::pace"]
        [::core::mem::offset_of!(weir_window_mark, pace) - 40usize];
};
#[doc = " A device's speed, by the pages of its flushers.  All 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_window_device {
    #[doc = " for a part, of late"]
    pub least_ms: u64,
    pub since_ms: u64,
    #[doc = " times that it was found late since pages were in time; 4 at most"]
    pub stands: u64,
    #[doc = " the last of these"]
    pub late_ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_window_device"][::core::mem::size_of::<weir_window_device>() - 32usize];
    ["Alignment of weir_window_device"][::core::mem::align_of::<weir_window_device>() - 8usize];
    ["Offset of field: weir_window_device::least_ms"]
        [::core::mem::offset_of!(weir_window_device, least_ms) - 0usize];
    ["Offset of field: weir_window_device::since_ms"]
        [::core::mem::offset_of!(weir_window_device, since_ms) - 8usize];
    ["Offset of field: weir_window_device::stands"]
        [::core::mem::offset_of!(weir_window_device, stands) - 16usize];
    ["Offset of field: weir_window_device::late_ms"]
        [::core::mem::offset_of!(weir_window_device, late_ms) - 24usize];
};
#[doc = " Counts only grow, from any beginning; pages that are reserved are not in flight yet."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_window_progress {
    pub written: u64,
    pub in_flight: u64,
    pub others_written: u64,
    pub others_in_flight: u64,
    #[doc = " in flight, of those whose pages move"]
    pub moving: u64,
    pub ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_window_progress"][::core::mem::size_of::<weir_window_progress>() - 48usize];
    ["Alignment of weir_window_progress"][::core::mem::align_of::<weir_window_progress>() - 8usize];
    ["Offset of field: weir_window_progress::written"]
        [::core::mem::offset_of!(weir_window_progress, written) - 0usize];
    ["Offset of field: weir_window_progress::in_flight"]
        [::core::mem::offset_of!(weir_window_progress, in_flight) - 8usize];
    ["Offset of field: weir_window_progress::others_written"]
        [::core::mem::offset_of!(weir_window_progress, others_written) - 16usize];
    ["Offset of field: weir_window_progress::others_in_flight"]
        [::core::mem::offset_of!(weir_window_progress, others_in_flight) - 24usize];
    ["Offset of field: weir_window_progress::moving"]
        [::core::mem::offset_of!(weir_window_progress, moving) - 32usize];
    ["Offset of field: weir_window_progress::ms"]
        [::core::mem::offset_of!(weir_window_progress, ms) - 40usize];
};
#[doc = " State between two looks at a device; all 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_assist {
    #[doc = " that start writeback now"]
    pub threads: u64,
    #[doc = " all who submit have run for so long, and none waited"]
    pub bound_ms: u64,
    #[doc = " assistants have mostly waited or found nothing, for so long"]
    pub idle_ms: u64,
    #[doc = " no further thread for so long"]
    pub rest_ms: u64,
    #[doc = " how long the last rest was"]
    pub rested_ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_assist"][::core::mem::size_of::<weir_assist>() - 40usize];
    ["Alignment of weir_assist"][::core::mem::align_of::<weir_assist>() - 8usize];
    ["Offset of field: weir_assist::threads"]
        [::core::mem::offset_of!(weir_assist, threads) - 0usize];
    ["Offset of field: weir_assist::bound_ms"]
        [::core::mem::offset_of!(weir_assist, bound_ms) - 8usize];
    ["Offset of field: weir_assist::idle_ms"]
        [::core::mem::offset_of!(weir_assist, idle_ms) - 16usize];
    ["Offset of field: weir_assist::rest_ms"]
        [::core::mem::offset_of!(weir_assist, rest_ms) - 24usize];
    ["Offset of field: weir_assist::rested_ms"]
        [::core::mem::offset_of!(weir_assist, rested_ms) - 32usize];
};
#[doc = " One look: what changed since the look before."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_assist_look {
    pub elapsed_ms: u64,
    #[doc = " permille of looks: on a CPU, or in line for one"]
    pub flusher_ran: u64,
    #[doc = " permille of looks: for the disk, the journal or memory"]
    pub flusher_waited: u64,
    #[doc = " permille of the time of all assistants on a CPU"]
    pub ran: u64,
    #[doc = " threads that may be had"]
    pub most: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_assist_look"][::core::mem::size_of::<weir_assist_look>() - 40usize];
    ["Alignment of weir_assist_look"][::core::mem::align_of::<weir_assist_look>() - 8usize];
    ["Offset of field: weir_assist_look::elapsed_ms"]
        [::core::mem::offset_of!(weir_assist_look, elapsed_ms) - 0usize];
    ["Offset of field: weir_assist_look::flusher_ran"]
        [::core::mem::offset_of!(weir_assist_look, flusher_ran) - 8usize];
    ["Offset of field: weir_assist_look::flusher_waited"]
        [::core::mem::offset_of!(weir_assist_look, flusher_waited) - 16usize];
    ["Offset of field: weir_assist_look::ran"]
        [::core::mem::offset_of!(weir_assist_look, ran) - 24usize];
    ["Offset of field: weir_assist_look::most"]
        [::core::mem::offset_of!(weir_assist_look, most) - 32usize];
};
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct weir_btf {
    #[doc = " 4-byte aligned"]
    pub types: *const ::core::ffi::c_char,
    pub strings: *const ::core::ffi::c_char,
    pub types_len: u32,
    pub strings_len: u32,
    pub type_count: u32,
    #[doc = " by type id; [0] unused"]
    pub type_offsets: *const u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_btf"][::core::mem::size_of::<weir_btf>() - 40usize];
    ["Alignment of weir_btf"][::core::mem::align_of::<weir_btf>() - 8usize];
    ["Offset of field: weir_btf::types"][::core::mem::offset_of!(weir_btf, types) - 0usize];
    ["Offset of field: weir_btf::strings"][::core::mem::offset_of!(weir_btf, strings) - 8usize];
    ["Offset of field: weir_btf::types_len"]
        [::core::mem::offset_of!(weir_btf, types_len) - 16usize];
    ["Offset of field: weir_btf::strings_len"]
        [::core::mem::offset_of!(weir_btf, strings_len) - 20usize];
    ["Offset of field: weir_btf::type_count"]
        [::core::mem::offset_of!(weir_btf, type_count) - 24usize];
    ["Offset of field: weir_btf::type_offsets"]
        [::core::mem::offset_of!(weir_btf, type_offsets) - 32usize];
};
#[doc = " A member's place in its struct and its size; an array counts as a whole."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_member {
    pub offset_bytes: u32,
    pub size_bytes: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_member"][::core::mem::size_of::<weir_member>() - 8usize];
    ["Alignment of weir_member"][::core::mem::align_of::<weir_member>() - 4usize];
    ["Offset of field: weir_member::offset_bytes"]
        [::core::mem::offset_of!(weir_member, offset_bytes) - 0usize];
    ["Offset of field: weir_member::size_bytes"]
        [::core::mem::offset_of!(weir_member, size_bytes) - 4usize];
};
#[repr(u32)]
#[doc = " A name in the kernel, compared with the one that is asked for."]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
pub enum weir_fit {
    #[default]
    Fits = 0,
    Missing = 1,
    #[doc = " it is there, and it is something else"]
    Other = 2,
}
#[doc = " State between two beats; all 0 at first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_headroom {
    #[doc = " busy time that the two averages are made of"]
    pub seen_ms: u64,
    #[doc = " permille of it with a flusher on a CPU or in line for one"]
    pub ran: u64,
    #[doc = " permille of it with one waiting for a disk, journal or memory"]
    pub waited: u64,
    #[doc = " lifts nothing for so long, as memory got scarce"]
    pub rest_ms: u64,
    #[doc = " found in the last beat, 0 = none"]
    pub seconds: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_headroom"][::core::mem::size_of::<weir_headroom>() - 40usize];
    ["Alignment of weir_headroom"][::core::mem::align_of::<weir_headroom>() - 8usize];
    ["Offset of field: weir_headroom::seen_ms"]
        [::core::mem::offset_of!(weir_headroom, seen_ms) - 0usize];
    ["Offset of field: weir_headroom::ran"][::core::mem::offset_of!(weir_headroom, ran) - 8usize];
    ["Offset of field: weir_headroom::waited"]
        [::core::mem::offset_of!(weir_headroom, waited) - 16usize];
    ["Offset of field: weir_headroom::rest_ms"]
        [::core::mem::offset_of!(weir_headroom, rest_ms) - 24usize];
    ["Offset of field: weir_headroom::seconds"]
        [::core::mem::offset_of!(weir_headroom, seconds) - 32usize];
};
#[doc = " A beat's figures besides those of struct weir_drain_beat."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_headroom_look {
    #[doc = " MemAvailable, in pages"]
    pub available: u64,
    #[doc = " a flusher was on a CPU or in line for one"]
    pub ran: u32,
    #[doc = " one waited for a disk, a journal or memory"]
    pub waited: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_headroom_look"][::core::mem::size_of::<weir_headroom_look>() - 16usize];
    ["Alignment of weir_headroom_look"][::core::mem::align_of::<weir_headroom_look>() - 8usize];
    ["Offset of field: weir_headroom_look::available"]
        [::core::mem::offset_of!(weir_headroom_look, available) - 0usize];
    ["Offset of field: weir_headroom_look::ran"]
        [::core::mem::offset_of!(weir_headroom_look, ran) - 8usize];
    ["Offset of field: weir_headroom_look::waited"]
        [::core::mem::offset_of!(weir_headroom_look, waited) - 12usize];
};
#[doc = " State between two looks; it begins without a window, and with 0 of each time."]
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_narrow {
    #[doc = " all limited cgroups together, WEIR_UNLIMITED if none is"]
    pub window: u64,
    #[doc = " the least window that broke the bound, WEIR_UNLIMITED if none"]
    pub wall: u64,
    #[doc = " the window was last changed so long ago"]
    pub set_ms: u64,
    #[doc = " it has been in effect for so long"]
    pub held_ms: u64,
    #[doc = " it has been filled for so long"]
    pub used_ms: u64,
    #[doc = " pages written meanwhile"]
    pub wrote: u64,
    #[doc = " the window before this wider one, 0 once that is judged"]
    pub narrower: u64,
    #[doc = " what was written in a second with it"]
    pub slower: u64,
    #[doc = " measured since the bound was last broken"]
    pub calm_ms: u64,
    #[doc = " since anything was last measured that counts"]
    pub idle_ms: u64,
    #[doc = " the least window is in force, and the bound is not kept"]
    pub vain_ms: u64,
    #[doc = " no window for so long, as it was in vain"]
    pub rest_ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_narrow"][::core::mem::size_of::<weir_narrow>() - 96usize];
    ["Alignment of weir_narrow"][::core::mem::align_of::<weir_narrow>() - 8usize];
    ["Offset of field: weir_narrow::window"][::core::mem::offset_of!(weir_narrow, window) - 0usize];
    ["Offset of field: weir_narrow::wall"][::core::mem::offset_of!(weir_narrow, wall) - 8usize];
    ["Offset of field: weir_narrow::set_ms"]
        [::core::mem::offset_of!(weir_narrow, set_ms) - 16usize];
    ["Offset of field: weir_narrow::held_ms"]
        [::core::mem::offset_of!(weir_narrow, held_ms) - 24usize];
    ["Offset of field: weir_narrow::used_ms"]
        [::core::mem::offset_of!(weir_narrow, used_ms) - 32usize];
    ["Offset of field: weir_narrow::wrote"][::core::mem::offset_of!(weir_narrow, wrote) - 40usize];
    ["Offset of field: weir_narrow::narrower"]
        [::core::mem::offset_of!(weir_narrow, narrower) - 48usize];
    ["Offset of field: weir_narrow::slower"]
        [::core::mem::offset_of!(weir_narrow, slower) - 56usize];
    ["Offset of field: weir_narrow::calm_ms"]
        [::core::mem::offset_of!(weir_narrow, calm_ms) - 64usize];
    ["Offset of field: weir_narrow::idle_ms"]
        [::core::mem::offset_of!(weir_narrow, idle_ms) - 72usize];
    ["Offset of field: weir_narrow::vain_ms"]
        [::core::mem::offset_of!(weir_narrow, vain_ms) - 80usize];
    ["Offset of field: weir_narrow::rest_ms"]
        [::core::mem::offset_of!(weir_narrow, rest_ms) - 88usize];
};
#[doc = " A look at the cgroup, and at those that may be limited for it."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_narrow_look {
    #[doc = " measured since the window has been in effect"]
    pub value: u64,
    #[doc = " in the same unit"]
    pub bound: u64,
    #[doc = " for what is in flight, that the bound allows"]
    pub wait_us: u64,
    #[doc = " under writeback, of those that may be limited"]
    pub in_flight: u64,
    #[doc = " of them, in a second"]
    pub written: u64,
    #[doc = " no window is below"]
    pub least: u64,
    #[doc = " since the look before"]
    pub elapsed_ms: u64,
    #[doc = " there is a value"]
    pub measured: u32,
    #[doc = " other limits are in force, too: they are relaxed first"]
    pub frozen: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_narrow_look"][::core::mem::size_of::<weir_narrow_look>() - 64usize];
    ["Alignment of weir_narrow_look"][::core::mem::align_of::<weir_narrow_look>() - 8usize];
    ["Offset of field: weir_narrow_look::value"]
        [::core::mem::offset_of!(weir_narrow_look, value) - 0usize];
    ["Offset of field: weir_narrow_look::bound"]
        [::core::mem::offset_of!(weir_narrow_look, bound) - 8usize];
    ["Offset of field: weir_narrow_look::wait_us"]
        [::core::mem::offset_of!(weir_narrow_look, wait_us) - 16usize];
    ["Offset of field: weir_narrow_look::in_flight"]
        [::core::mem::offset_of!(weir_narrow_look, in_flight) - 24usize];
    ["Offset of field: weir_narrow_look::written"]
        [::core::mem::offset_of!(weir_narrow_look, written) - 32usize];
    ["Offset of field: weir_narrow_look::least"]
        [::core::mem::offset_of!(weir_narrow_look, least) - 40usize];
    ["Offset of field: weir_narrow_look::elapsed_ms"]
        [::core::mem::offset_of!(weir_narrow_look, elapsed_ms) - 48usize];
    ["Offset of field: weir_narrow_look::measured"]
        [::core::mem::offset_of!(weir_narrow_look, measured) - 56usize];
    ["Offset of field: weir_narrow_look::frozen"]
        [::core::mem::offset_of!(weir_narrow_look, frozen) - 60usize];
};
pub const WEIR_FUNCTION_LOOKUP: weir_function_id = 0;
pub const WEIR_FUNCTION_ADD: weir_function_id = 1;
pub const WEIR_FUNCTION_REMOVE: weir_function_id = 2;
pub const WEIR_FUNCTION_START: weir_function_id = 3;
pub const WEIR_FUNCTION_STATE: weir_function_id = 4;
pub const WEIR_FUNCTION_HOST_LIMITS: weir_function_id = 5;
pub const WEIR_FUNCTION_LOCATION: weir_function_id = 6;
pub const WEIR_FUNCTION_BDI: weir_function_id = 7;
pub const WEIR_FUNCTION_WB: weir_function_id = 8;
pub const WEIR_FUNCTION_RESCUER: weir_function_id = 9;
pub const WEIR_FUNCTION_WRITEPAGES: weir_function_id = 10;
pub const WEIR_FUNCTION_PASS: weir_function_id = 11;
pub const WEIR_FUNCTION_LIMITS: weir_function_id = 12;
pub const WEIR_FUNCTION_COUNT: weir_function_id = 13;
pub type weir_function_id = u32;
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_use {
    #[default]
    Found = 0,
    Called = 1,
    Hooked = 2,
}
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct weir_function {
    pub name: *const ::core::ffi::c_char,
    pub use_: weir_use,
    #[doc = " up to a NULL"]
    pub params: [*const ::core::ffi::c_char; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_function"][::core::mem::size_of::<weir_function>() - 48usize];
    ["Alignment of weir_function"][::core::mem::align_of::<weir_function>() - 8usize];
    ["Offset of field: weir_function::name"][::core::mem::offset_of!(weir_function, name) - 0usize];
    ["Offset of field: weir_function::use_"][::core::mem::offset_of!(weir_function, use_) - 8usize];
    ["Offset of field: weir_function::params"]
        [::core::mem::offset_of!(weir_function, params) - 16usize];
};
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_need_kind {
    #[default]
    Function = 0,
    Tracepoint = 1,
    Struct = 2,
    Member = 3,
}
#[doc = " One thing that is needed, and whether a kernel has it."]
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct weir_need {
    pub kind: weir_need_kind,
    pub fit: weir_fit,
    pub name: *const ::core::ffi::c_char,
    #[doc = " the struct of a member, else NULL"]
    pub of: *const ::core::ffi::c_char,
    #[doc = " of a member, here"]
    pub size_bytes: u32,
    pub wanted_bytes: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_need"][::core::mem::size_of::<weir_need>() - 32usize];
    ["Alignment of weir_need"][::core::mem::align_of::<weir_need>() - 8usize];
    ["Offset of field: weir_need::kind"][::core::mem::offset_of!(weir_need, kind) - 0usize];
    ["Offset of field: weir_need::fit"][::core::mem::offset_of!(weir_need, fit) - 4usize];
    ["Offset of field: weir_need::name"][::core::mem::offset_of!(weir_need, name) - 8usize];
    ["Offset of field: weir_need::of"][::core::mem::offset_of!(weir_need, of) - 16usize];
    ["Offset of field: weir_need::size_bytes"]
        [::core::mem::offset_of!(weir_need, size_bytes) - 24usize];
    ["Offset of field: weir_need::wanted_bytes"]
        [::core::mem::offset_of!(weir_need, wanted_bytes) - 28usize];
};
#[doc = " State between two looks; it begins without limits, and with 0 of each time."]
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_objective {
    #[doc = " all limited cgroups together, WEIR_UNLIMITED if none is"]
    pub budget: u64,
    #[doc = " the least budget that broke the bound, WEIR_UNLIMITED if none"]
    pub wall: u64,
    #[doc = " the budget has been in effect for so long"]
    pub held_ms: u64,
    #[doc = " half of it or more has been held for so long"]
    pub used_ms: u64,
    #[doc = " measured since the bound was last broken"]
    pub calm_ms: u64,
    #[doc = " since anything was last measured that counts"]
    pub idle_ms: u64,
    #[doc = " limits are in force, and the bound is not kept"]
    pub vain_ms: u64,
    #[doc = " of that, with the smallest budget, whatever it helps"]
    pub stuck_ms: u64,
    #[doc = " the value that made the budget"]
    pub without: u64,
    #[doc = " none is limited for so long, as it was in vain"]
    pub rest_ms: u64,
    #[doc = " so often in a row"]
    pub rested: u64,
    #[doc = " drained in a second without it"]
    pub full: u64,
    #[doc = " the greatest budget that slowed it down, 0 if none did"]
    pub starved: u64,
    #[doc = " drained in a second with that one, 0 once that is judged"]
    pub fed: u64,
    #[doc = " drained since the budget was last judged for it"]
    pub fed_pages: u64,
    #[doc = " for so long"]
    pub fed_ms: u64,
    #[doc = " drained in the second before, which counts if this one is full"]
    pub late_pages: u64,
    #[doc = " that second, 0 if it does not count"]
    pub late_ms: u64,
    #[doc = " the rate was kept for so long"]
    pub kept_ms: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_objective"][::core::mem::size_of::<weir_objective>() - 152usize];
    ["Alignment of weir_objective"][::core::mem::align_of::<weir_objective>() - 8usize];
    ["Offset of field: weir_objective::budget"]
        [::core::mem::offset_of!(weir_objective, budget) - 0usize];
    ["Offset of field: weir_objective::wall"]
        [::core::mem::offset_of!(weir_objective, wall) - 8usize];
    ["Offset of field: weir_objective::held_ms"]
        [::core::mem::offset_of!(weir_objective, held_ms) - 16usize];
    ["Offset of field: weir_objective::used_ms"]
        [::core::mem::offset_of!(weir_objective, used_ms) - 24usize];
    ["Offset of field: weir_objective::calm_ms"]
        [::core::mem::offset_of!(weir_objective, calm_ms) - 32usize];
    ["Offset of field: weir_objective::idle_ms"]
        [::core::mem::offset_of!(weir_objective, idle_ms) - 40usize];
    ["Offset of field: weir_objective::vain_ms"]
        [::core::mem::offset_of!(weir_objective, vain_ms) - 48usize];
    ["Offset of field: weir_objective::stuck_ms"]
        [::core::mem::offset_of!(weir_objective, stuck_ms) - 56usize];
    ["Offset of field: weir_objective::without"]
        [::core::mem::offset_of!(weir_objective, without) - 64usize];
    ["Offset of field: weir_objective::rest_ms"]
        [::core::mem::offset_of!(weir_objective, rest_ms) - 72usize];
    ["Offset of field: weir_objective::rested"]
        [::core::mem::offset_of!(weir_objective, rested) - 80usize];
    ["Offset of field: weir_objective::full"]
        [::core::mem::offset_of!(weir_objective, full) - 88usize];
    ["Offset of field: weir_objective::starved"]
        [::core::mem::offset_of!(weir_objective, starved) - 96usize];
    ["Offset of field: weir_objective::fed"]
        [::core::mem::offset_of!(weir_objective, fed) - 104usize];
    ["Offset of field: weir_objective::fed_pages"]
        [::core::mem::offset_of!(weir_objective, fed_pages) - 112usize];
    ["Offset of field: weir_objective::fed_ms"]
        [::core::mem::offset_of!(weir_objective, fed_ms) - 120usize];
    ["Offset of field: weir_objective::late_pages"]
        [::core::mem::offset_of!(weir_objective, late_pages) - 128usize];
    ["Offset of field: weir_objective::late_ms"]
        [::core::mem::offset_of!(weir_objective, late_ms) - 136usize];
    ["Offset of field: weir_objective::kept_ms"]
        [::core::mem::offset_of!(weir_objective, kept_ms) - 144usize];
};
#[doc = " A look at the cgroup, and at those that may be limited for it."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_objective_look {
    #[doc = " measured since the budget has been in effect"]
    pub value: u64,
    #[doc = " in the same unit"]
    pub bound: u64,
    #[doc = " dirty and in writeback, of those that may be limited"]
    pub held: u64,
    #[doc = " of them, written in a second; with @kept by the device"]
    pub drained: u64,
    #[doc = " no budget is below: what their floors come to"]
    pub least: u64,
    #[doc = " since the look before"]
    pub elapsed_ms: u64,
    #[doc = " there is a value"]
    pub measured: u32,
    #[doc = " of a thousand pages drained so many must be still; 0: any"]
    pub kept: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_objective_look"][::core::mem::size_of::<weir_objective_look>() - 56usize];
    ["Alignment of weir_objective_look"][::core::mem::align_of::<weir_objective_look>() - 8usize];
    ["Offset of field: weir_objective_look::value"]
        [::core::mem::offset_of!(weir_objective_look, value) - 0usize];
    ["Offset of field: weir_objective_look::bound"]
        [::core::mem::offset_of!(weir_objective_look, bound) - 8usize];
    ["Offset of field: weir_objective_look::held"]
        [::core::mem::offset_of!(weir_objective_look, held) - 16usize];
    ["Offset of field: weir_objective_look::drained"]
        [::core::mem::offset_of!(weir_objective_look, drained) - 24usize];
    ["Offset of field: weir_objective_look::least"]
        [::core::mem::offset_of!(weir_objective_look, least) - 32usize];
    ["Offset of field: weir_objective_look::elapsed_ms"]
        [::core::mem::offset_of!(weir_objective_look, elapsed_ms) - 40usize];
    ["Offset of field: weir_objective_look::measured"]
        [::core::mem::offset_of!(weir_objective_look, measured) - 48usize];
    ["Offset of field: weir_objective_look::kept"]
        [::core::mem::offset_of!(weir_objective_look, kept) - 52usize];
};
#[doc = " The amount that a disk takes at a time: files of its queue/."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_queue {
    #[doc = " nr_requests"]
    pub requests: u64,
    #[doc = " max_sectors_kb"]
    pub kib: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_queue"][::core::mem::size_of::<weir_queue>() - 16usize];
    ["Alignment of weir_queue"][::core::mem::align_of::<weir_queue>() - 8usize];
    ["Offset of field: weir_queue::requests"]
        [::core::mem::offset_of!(weir_queue, requests) - 0usize];
    ["Offset of field: weir_queue::kib"][::core::mem::offset_of!(weir_queue, kib) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_reclaim_host {
    #[doc = " what is free and what all groups hold"]
    pub memory: u64,
    #[doc = " beyond the high watermarks"]
    pub free: u64,
    #[doc = " what of it should stay free"]
    pub headroom: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_reclaim_host"][::core::mem::size_of::<weir_reclaim_host>() - 24usize];
    ["Alignment of weir_reclaim_host"][::core::mem::align_of::<weir_reclaim_host>() - 8usize];
    ["Offset of field: weir_reclaim_host::memory"]
        [::core::mem::offset_of!(weir_reclaim_host, memory) - 0usize];
    ["Offset of field: weir_reclaim_host::free"]
        [::core::mem::offset_of!(weir_reclaim_host, free) - 8usize];
    ["Offset of field: weir_reclaim_host::headroom"]
        [::core::mem::offset_of!(weir_reclaim_host, headroom) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_reclaim_group {
    #[doc = " memory.current"]
    pub usage: u64,
    #[doc = " memory.high as set here before, WEIR_UNLIMITED if not"]
    pub limit: u64,
    #[doc = " memory.min or memory.low, the larger"]
    pub protection: u64,
    #[doc = " what of usage cannot be reclaimed: nowhere to swap it to"]
    pub pinned: u64,
    #[doc = " what it allocates"]
    pub rate: u64,
    #[doc = " what is reclaimed of it"]
    pub stolen: u64,
    #[doc = " what of that it needs again"]
    pub refaulted: u64,
    pub weight: u32,
    #[doc = " memory.high is another program's: never changed"]
    pub fixed: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_reclaim_group"][::core::mem::size_of::<weir_reclaim_group>() - 64usize];
    ["Alignment of weir_reclaim_group"][::core::mem::align_of::<weir_reclaim_group>() - 8usize];
    ["Offset of field: weir_reclaim_group::usage"]
        [::core::mem::offset_of!(weir_reclaim_group, usage) - 0usize];
    ["Offset of field: weir_reclaim_group::limit"]
        [::core::mem::offset_of!(weir_reclaim_group, limit) - 8usize];
    ["Offset of field: weir_reclaim_group::protection"]
        [::core::mem::offset_of!(weir_reclaim_group, protection) - 16usize];
    ["Offset of field: weir_reclaim_group::pinned"]
        [::core::mem::offset_of!(weir_reclaim_group, pinned) - 24usize];
    ["Offset of field: weir_reclaim_group::rate"]
        [::core::mem::offset_of!(weir_reclaim_group, rate) - 32usize];
    ["Offset of field: weir_reclaim_group::stolen"]
        [::core::mem::offset_of!(weir_reclaim_group, stolen) - 40usize];
    ["Offset of field: weir_reclaim_group::refaulted"]
        [::core::mem::offset_of!(weir_reclaim_group, refaulted) - 48usize];
    ["Offset of field: weir_reclaim_group::weight"]
        [::core::mem::offset_of!(weir_reclaim_group, weight) - 56usize];
    ["Offset of field: weir_reclaim_group::fixed"]
        [::core::mem::offset_of!(weir_reclaim_group, fixed) - 60usize];
};
#[doc = " Fastest first."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tiers {
    pub capacity: [u64; 8usize],
    pub count: u32,
    #[doc = " host-wide percent, or WEIR_TIER_BY_CAPACITY"]
    pub ratio: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tiers"][::core::mem::size_of::<weir_tiers>() - 72usize];
    ["Alignment of weir_tiers"][::core::mem::align_of::<weir_tiers>() - 8usize];
    ["Offset of field: weir_tiers::capacity"]
        [::core::mem::offset_of!(weir_tiers, capacity) - 0usize];
    ["Offset of field: weir_tiers::count"][::core::mem::offset_of!(weir_tiers, count) - 64usize];
    ["Offset of field: weir_tiers::ratio"][::core::mem::offset_of!(weir_tiers, ratio) - 68usize];
};
pub const WEIR_TIER_HEAT_UNKNOWN: weir_tier_heat = 0;
pub const WEIR_TIER_HEAT_KNOWN: weir_tier_heat = 1;
#[doc = " from a sample: good for exchanges, not for demands"]
pub const WEIR_TIER_HEAT_GUESSED: weir_tier_heat = 2;
#[doc = " The state of knowledge about which pages are hot."]
pub type weir_tier_heat = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_group {
    #[doc = " with descendants'"]
    pub held: [u64; 8usize],
    #[doc = " of them, read of late; if heat is known"]
    pub hot: [u64; 8usize],
    #[doc = " memory.min, low, high, max as written; WEIR_UNLIMITED if none"]
    pub min: u64,
    pub low: u64,
    pub high: u64,
    pub max: u64,
    #[doc = " memory.toptier_ratio, or WEIR_TIER_BY_CAPACITY"]
    pub ratio: u32,
    #[doc = " enum weir_tier_heat"]
    pub heat_known: u32,
    #[doc = " its place in the list, before this one's"]
    pub parent: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_group"][::core::mem::size_of::<weir_tier_group>() - 176usize];
    ["Alignment of weir_tier_group"][::core::mem::align_of::<weir_tier_group>() - 8usize];
    ["Offset of field: weir_tier_group::held"]
        [::core::mem::offset_of!(weir_tier_group, held) - 0usize];
    ["Offset of field: weir_tier_group::hot"]
        [::core::mem::offset_of!(weir_tier_group, hot) - 64usize];
    ["Offset of field: weir_tier_group::min"]
        [::core::mem::offset_of!(weir_tier_group, min) - 128usize];
    ["Offset of field: weir_tier_group::low"]
        [::core::mem::offset_of!(weir_tier_group, low) - 136usize];
    ["Offset of field: weir_tier_group::high"]
        [::core::mem::offset_of!(weir_tier_group, high) - 144usize];
    ["Offset of field: weir_tier_group::max"]
        [::core::mem::offset_of!(weir_tier_group, max) - 152usize];
    ["Offset of field: weir_tier_group::ratio"]
        [::core::mem::offset_of!(weir_tier_group, ratio) - 160usize];
    ["Offset of field: weir_tier_group::heat_known"]
        [::core::mem::offset_of!(weir_tier_group, heat_known) - 164usize];
    ["Offset of field: weir_tier_group::parent"]
        [::core::mem::offset_of!(weir_tier_group, parent) - 168usize];
};
#[doc = " Of one group in all tiers above one boundary."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_levels {
    pub min: u64,
    pub low: u64,
    pub budget: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_levels"][::core::mem::size_of::<weir_tier_levels>() - 24usize];
    ["Alignment of weir_tier_levels"][::core::mem::align_of::<weir_tier_levels>() - 8usize];
    ["Offset of field: weir_tier_levels::min"]
        [::core::mem::offset_of!(weir_tier_levels, min) - 0usize];
    ["Offset of field: weir_tier_levels::low"]
        [::core::mem::offset_of!(weir_tier_levels, low) - 8usize];
    ["Offset of field: weir_tier_levels::budget"]
        [::core::mem::offset_of!(weir_tier_levels, budget) - 16usize];
};
pub const WEIR_TIER_BELOW_MIN: weir_tier_demand = 0;
pub const WEIR_TIER_BELOW_LOW: weir_tier_demand = 1;
pub const WEIR_TIER_BELOW_BUDGET: weir_tier_demand = 2;
#[doc = " hot pages that its budget has no room for"]
pub const WEIR_TIER_HOT_BEYOND: weir_tier_demand = 3;
#[doc = " others, for memory that lies idle"]
pub const WEIR_TIER_IDLE_BEYOND: weir_tier_demand = 4;
pub const WEIR_TIER_DEMANDS: weir_tier_demand = 5;
pub type weir_tier_demand = u32;
pub const WEIR_TIER_ABOVE_BUDGET: weir_tier_supply = 0;
pub const WEIR_TIER_ABOVE_LOW: weir_tier_supply = 1;
pub const WEIR_TIER_ABOVE_MIN: weir_tier_supply = 2;
#[doc = " of ABOVE_LOW"]
pub const WEIR_TIER_COLD_ABOVE_LOW: weir_tier_supply = 3;
pub const WEIR_TIER_SUPPLIES: weir_tier_supply = 4;
pub type weir_tier_supply = u32;
#[doc = " The plan's own, one for each group; levels stay those of the last boundary."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_work {
    pub levels: weir_tier_levels,
    pub claims: weir_tier_levels,
    #[doc = " sums of their claims"]
    pub children: weir_tier_levels,
    pub held: u64,
    pub children_held: u64,
    pub demand: [u64; 5usize],
    pub supply: [u64; 4usize],
    #[doc = " of ABOVE_BUDGET, before any step is chosen"]
    pub over: u64,
    #[doc = " has children in the list"]
    pub inner: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_work"][::core::mem::size_of::<weir_tier_work>() - 176usize];
    ["Alignment of weir_tier_work"][::core::mem::align_of::<weir_tier_work>() - 8usize];
    ["Offset of field: weir_tier_work::levels"]
        [::core::mem::offset_of!(weir_tier_work, levels) - 0usize];
    ["Offset of field: weir_tier_work::claims"]
        [::core::mem::offset_of!(weir_tier_work, claims) - 24usize];
    ["Offset of field: weir_tier_work::children"]
        [::core::mem::offset_of!(weir_tier_work, children) - 48usize];
    ["Offset of field: weir_tier_work::held"]
        [::core::mem::offset_of!(weir_tier_work, held) - 72usize];
    ["Offset of field: weir_tier_work::children_held"]
        [::core::mem::offset_of!(weir_tier_work, children_held) - 80usize];
    ["Offset of field: weir_tier_work::demand"]
        [::core::mem::offset_of!(weir_tier_work, demand) - 88usize];
    ["Offset of field: weir_tier_work::supply"]
        [::core::mem::offset_of!(weir_tier_work, supply) - 128usize];
    ["Offset of field: weir_tier_work::over"]
        [::core::mem::offset_of!(weir_tier_work, over) - 160usize];
    ["Offset of field: weir_tier_work::inner"]
        [::core::mem::offset_of!(weir_tier_work, inner) - 168usize];
};
#[doc = " tier_weigh.c: what a cgroup demands, and what it has to give"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_settings {
    #[doc = " a difference of fewer pages is none"]
    pub band: u64,
    #[doc = " most pages across one boundary, each way"]
    pub step: u64,
    #[doc = " a group above its budget keeps what no other wants"]
    pub lend: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_settings"][::core::mem::size_of::<weir_tier_settings>() - 24usize];
    ["Alignment of weir_tier_settings"][::core::mem::align_of::<weir_tier_settings>() - 8usize];
    ["Offset of field: weir_tier_settings::band"]
        [::core::mem::offset_of!(weir_tier_settings, band) - 0usize];
    ["Offset of field: weir_tier_settings::step"]
        [::core::mem::offset_of!(weir_tier_settings, step) - 8usize];
    ["Offset of field: weir_tier_settings::lend"]
        [::core::mem::offset_of!(weir_tier_settings, lend) - 16usize];
};
#[doc = " tier_plan.c: what should move now"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_room {
    pub free: [u64; 8usize],
    #[doc = " of free, left to allocations"]
    pub headroom: [u64; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_room"][::core::mem::size_of::<weir_tier_room>() - 128usize];
    ["Alignment of weir_tier_room"][::core::mem::align_of::<weir_tier_room>() - 8usize];
    ["Offset of field: weir_tier_room::free"]
        [::core::mem::offset_of!(weir_tier_room, free) - 0usize];
    ["Offset of field: weir_tier_room::headroom"]
        [::core::mem::offset_of!(weir_tier_room, headroom) - 64usize];
};
#[repr(u32)]
#[derive(Debug, Default, Copy, Clone, Hash, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub enum weir_tier_reason {
    #[default]
    Balanced = 0,
    #[doc = " above its budget, and no other group wants it"]
    Keeps = 1,
    #[doc = " above its budget, goes down to it"]
    Returns = 2,
    #[doc = " within its budget, for others' protection or hot pages"]
    Yields = 3,
    #[doc = " below its budget or protection, goes up"]
    Takes = 4,
    #[doc = " takes idle memory, or cold pages' place, beyond its budget"]
    Borrows = 5,
    #[doc = " its own cold pages for its own hot ones"]
    Exchanges = 6,
    #[doc = " would go up, no room there"]
    WaitsAbove = 7,
    #[doc = " would go down, no room there"]
    WaitsBelow = 8,
}
#[doc = " Pages of one group that are to move; [0] is across the boundary below the\n first tier, to and from the next one that has memory."]
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct weir_tier_move {
    pub demote: [u64; 7usize],
    pub promote: [u64; 7usize],
    #[doc = " in all tiers above, effective"]
    pub budget: [u64; 7usize],
    pub reason: weir_tier_reason,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of weir_tier_move"][::core::mem::size_of::<weir_tier_move>() - 176usize];
    ["Alignment of weir_tier_move"][::core::mem::align_of::<weir_tier_move>() - 8usize];
    ["Offset of field: weir_tier_move::demote"]
        [::core::mem::offset_of!(weir_tier_move, demote) - 0usize];
    ["Offset of field: weir_tier_move::promote"]
        [::core::mem::offset_of!(weir_tier_move, promote) - 56usize];
    ["Offset of field: weir_tier_move::budget"]
        [::core::mem::offset_of!(weir_tier_move, budget) - 112usize];
    ["Offset of field: weir_tier_move::reason"]
        [::core::mem::offset_of!(weir_tier_move, reason) - 168usize];
};
impl Default for weir_tier_move {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
unsafe extern "C" {
    pub safe fn weir_stat_key(key: weir_stat) -> *const weir_stat_key;
    pub safe fn weir_knob_file(knob: weir_knob) -> *const ::core::ffi::c_char;
    pub safe fn weir_knob_unset(knob: weir_knob) -> u64;
    pub safe fn weir_stat_file() -> *const ::core::ffi::c_char;
    pub safe fn weir_decider_name(by: weir_pause_by) -> *const ::core::ffi::c_char;
    #[doc = " Limit a page count to what Linux itself can express as a dirty limit."]
    pub safe fn weir_saturate(pages: u64) -> u64;
    #[doc = " a + b, held at the top instead of wrapping."]
    pub safe fn weir_add(a: u64, b: u64) -> u64;
    #[doc = " A sum as a count: racing updates can make it briefly negative."]
    pub safe fn weir_subtree_pages(sum: i64) -> u64;
    #[doc = " Whole pages in @bytes: rounded down, a knob never grants a page it did not name."]
    pub safe fn weir_bytes_to_pages(bytes: u64) -> u64;
    #[doc = " pages x num / den for num <= den, rounded down.  A @den of more than 32 bits\n (a sum of many floors) costs its low bits; the result errs downwards."]
    pub safe fn weir_share(pages: u64, num: u64, den: u64) -> u64;
    #[doc = " The level below which no task of the domain is throttled."]
    pub safe fn weir_freerun_level(thresh: u64, bg_thresh: u64) -> u64;
    #[doc = " The level that the throttle aims at: half way from freerun to @limit."]
    pub safe fn weir_setpoint_level(freerun: u64, limit: u64) -> u64;
    pub fn weir_pass_kind(facts: *const weir_pass_facts) -> weir_pass;
    pub fn weir_pass_may_cap(facts: *const weir_pass_facts) -> i32;
    pub fn weir_floor_own(caps: *const weir_floor_caps) -> u64;
    pub fn weir_floor_effective(own: u64, pool: *const weir_floor_pool) -> u64;
    pub fn weir_floor_step(
        now: u64,
        effective: u64,
        others: u64,
        pool: *const weir_floor_pool,
    ) -> u64;
    pub fn weir_floors_total(pool: *const weir_floor_pool) -> u64;
    pub safe fn weir_floor_left(room: u64, held: u64) -> u64;
    pub fn weir_floor_cover(pass: *mut weir_floor_pass, cover: *const weir_floor_cover);
    pub fn weir_floor_decide(pass: *const weir_floor_pass) -> weir_floor_verdict;
    pub fn weir_floor_poll(pass: *const weir_floor_pass) -> u64;
    pub fn weir_floor_unused(pass: *const weir_floor_pass) -> u64;
    pub fn weir_fair_pool(set: *const weir_floor_pool) -> u64;
    pub safe fn weir_fair_part(part: u64, weight: u32, siblings: u64) -> u64;
    pub safe fn weir_fair_floor(part: u64, pool: u64) -> u64;
    pub safe fn weir_fair_claimable(floor: u64, host_dirty: u64, host_thresh: u64) -> u64;
    pub safe fn weir_fair_kept(floor: u64, unused: u64) -> u64;
    pub safe fn weir_fair_others(host_dirty: u64, counted: u64, host_thresh: u64) -> i32;
    pub fn weir_recorded_note(recorded: *mut weir_recorded, look: *const weir_wb_snapshot) -> u64;
    #[doc = " credit.c: pages that tasks below a floor dirtied and that belong to other cgroups."]
    pub fn weir_credit_charge(balance: *mut i64, most: u64, own: u64, recorded: u64, admitted: i32);
    pub fn weir_credit_forgive(balance: *mut i64, most: u64);
    pub safe fn weir_credit_foreign(balance: i64) -> u64;
    pub fn weir_parse_bytes(
        text: *const ::core::ffi::c_char,
        len: u64,
        bytes: *mut u64,
    ) -> weir_parsed;
    pub fn weir_parse_percent(
        text: *const ::core::ffi::c_char,
        len: u64,
        percent: *mut u32,
    ) -> weir_parsed;
    pub fn weir_parse_weight(
        text: *const ::core::ffi::c_char,
        len: u64,
        weight: *mut u32,
    ) -> weir_parsed;
    pub safe fn weir_check_ceiling_bytes(bytes: u64, page_bytes: u64) -> weir_parsed;
    pub safe fn weir_check_bandwidth(bytes: u64) -> weir_parsed;
    pub safe fn weir_check_window(bytes: u64) -> weir_parsed;
    pub fn weir_parse_knob(
        knob: weir_knob,
        text: *const ::core::ffi::c_char,
        len: u64,
        page_bytes: u64,
        value: *mut u64,
    ) -> weir_parsed;
    pub fn weir_ceiling_pages(ceiling: *const weir_ceiling, avail: u64) -> u64;
    pub safe fn weir_memory_headroom(headroom: u64, limit: u64, used: u64) -> u64;
    pub fn weir_ceiling_avail(memory: *const weir_memory) -> u64;
    pub fn weir_ceiling_amend(
        limits: *mut weir_limits,
        ceiling: u64,
        counts: *const weir_counts,
        kind: weir_pass,
    ) -> i32;
    pub fn weir_limits_brake(limits: *const weir_limits) -> i32;
    pub fn weir_ceiling_freerun(ceiling: u64, stock: *const weir_limits) -> u64;
    pub fn weir_ceiling_poll(
        ceiling: u64,
        freerun: u64,
        counts: *const weir_counts,
        stock_poll: u64,
    ) -> u64;
    pub safe fn weir_ceiling_limit(ceiling: u64) -> u64;
    pub fn weir_ceiling_left(ceiling: u64, counts: *const weir_counts) -> u64;
    pub fn weir_ceiling_full(ceiling: u64, counts: *const weir_counts) -> i32;
    pub fn weir_ceiling_lets_past(next_ns: *mut u64, now_ns: u64, pages: u64) -> i32;
    pub safe fn weir_reserve_unused(floor: u64, claimed: u64) -> u64;
    pub safe fn weir_reserve_beyond(floor: u64, claimed: u64) -> u64;
    pub fn weir_host_amend(
        limits: *mut weir_limits,
        host: *const weir_host,
        kind: weir_pass,
    ) -> i32;
    pub fn weir_subtree_change(reported: *const weir_counts, own: *const weir_counts)
    -> weir_tally;
    pub fn weir_subtree_add(
        subtree: *mut weir_subtree,
        change: *mut weir_tally,
        floor: u64,
        foreign: u64,
    ) -> u64;
    pub fn weir_drain_start(drain: *mut weir_drain);
    pub fn weir_drain_step(drain: *mut weir_drain, beat: *const weir_drain_beat);
    #[doc = " drain_limits.c: what that limit makes of a pass's."]
    pub fn weir_drain_amend(limits: *mut weir_limits, limit: u64, stock: u64);
    pub fn weir_drain_follow(limits: *mut weir_limits, avail: u64, host: *const weir_drain_host);
    #[doc = " amend.c: the order of amendments in one pass."]
    pub fn weir_amend_global(
        limits: *mut weir_limits,
        kind: weir_pass,
        host: *const weir_drain_host,
        below: *const weir_floor_pass,
    ) -> i32;
    pub fn weir_amend_memcg(
        limits: *mut weir_limits,
        facts: *const weir_pass_facts,
        host: *const weir_drain_host,
        avail: u64,
        released: i32,
    ) -> i32;
    pub fn weir_pause_by(facts: *const weir_pause_facts) -> weir_pause_by;
    pub safe fn weir_hweight(hweight: u32, weight: u32, siblings: u64) -> u32;
    pub safe fn weir_weight_shown(hweight: u32) -> u32;
    pub safe fn weir_division_charge(vtime: u64, pages: u64, hweight: u32) -> u64;
    pub safe fn weir_division_join(vtime: u64, least: u64, budget: u64) -> u64;
    pub safe fn weir_division_lead(vtime: u64, least: u64, ahead: u64) -> u64;
    pub safe fn weir_division_cap(
        vtime: u64,
        least: u64,
        ahead: u64,
        part: u64,
        hweight: u32,
    ) -> u64;
    pub fn weir_budget_note(budget: *mut weir_budget, written: u64, of_device: u64, now_ns: u64);
    pub fn weir_budget_ahead(budget: *const weir_budget) -> u64;
    pub fn weir_budget_part(budget: *const weir_budget, hweight: u32) -> u64;
    pub fn weir_budget_excess(budget: *const weir_budget, hweight: u32, in_flight: u64) -> u64;
    pub fn weir_division_uses_little(
        budget: *const weir_budget,
        hweight: u32,
        pages: u64,
        ms: u64,
    ) -> i32;
    pub fn weir_budget_patience_ms(budget: *const weir_budget, in_flight: u64) -> u64;
    pub fn weir_bandwidth_start(level: *mut weir_bandwidth, now_ns: u64);
    pub fn weir_bandwidth_advance(level: *mut weir_bandwidth, bound: u64, now_ns: u64);
    pub fn weir_bandwidth_due_ms(
        level: *mut weir_bandwidth,
        part: *mut weir_bandwidth,
        parts: u64,
        bound: u64,
        now_ns: u64,
        hold: *const weir_bandwidth_hold,
    ) -> u64;
    pub fn weir_bandwidth_charge(
        level: *mut weir_bandwidth,
        part: *mut weir_bandwidth,
        parts: u64,
        bound: u64,
        now_ns: u64,
        number: u64,
        hold: *mut weir_bandwidth_hold,
    );
    pub fn weir_bandwidth_leave(
        left: *mut weir_bandwidth,
        parts: u64,
        bound: u64,
        now_ns: u64,
        pages: u64,
    );
    pub fn weir_bandwidth_left_ms(
        left: *mut weir_bandwidth,
        parts: u64,
        bound: u64,
        now_ns: u64,
        ticket: u64,
    ) -> u64;
    pub safe fn weir_bandwidth_waits(due_ms: u64) -> i32;
    pub fn weir_bandwidth_holds(hold: *const weir_bandwidth_hold) -> i32;
    pub fn weir_bandwidth_poll(hold: *const weir_bandwidth_hold, stock_poll: u64) -> u64;
    pub fn weir_window_pace(
        mark: *mut weir_window_mark,
        device: *mut weir_window_device,
        now: *const weir_window_progress,
    ) -> weir_pace;
    pub safe fn weir_window_taken(
        window: u64,
        pace: weir_pace,
        own: u64,
        all: u64,
        moving: u64,
        held: u64,
    ) -> u64;
    pub safe fn weir_window_part(window: u64) -> u64;
    pub safe fn weir_part_excess(window: u64, part: u64, in_flight: u64) -> u64;
    pub safe fn weir_window_excess(window: u64, in_flight: u64) -> u64;
    pub fn weir_window_sleep_ns(excess: u64, rate: *const weir_window_rate) -> u64;
    pub fn weir_window_rate_note(rate: *mut weir_window_rate, pages: u64, ns: u64, part: u64);
    pub safe fn weir_places_part(places: u32, asking: u32) -> u32;
    pub fn weir_assist_step(assist: *mut weir_assist, look: *const weir_assist_look);
    pub fn weir_btf_open(btf: *mut weir_btf, blob: *const ::core::ffi::c_void, size: u64) -> i32;
    pub fn weir_btf_index(btf: *mut weir_btf, offsets: *mut u32);
    pub fn weir_btf_member(
        btf: *const weir_btf,
        type_: *const ::core::ffi::c_char,
        name: *const ::core::ffi::c_char,
        member: *mut weir_member,
    ) -> weir_fit;
    pub fn weir_btf_size(btf: *const weir_btf, type_: *const ::core::ffi::c_char) -> i64;
    pub fn weir_btf_has_function(btf: *const weir_btf, function: *const ::core::ffi::c_char)
    -> i32;
    pub fn weir_btf_function(
        btf: *const weir_btf,
        function: *const ::core::ffi::c_char,
        params: *const *const ::core::ffi::c_char,
    ) -> weir_fit;
    pub fn weir_btf_tracepoint(
        btf: *const weir_btf,
        callback: *const ::core::ffi::c_char,
        params: *const *const ::core::ffi::c_char,
    ) -> weir_fit;
    pub fn weir_headroom_step(
        headroom: *mut weir_headroom,
        drain: *const weir_drain,
        beat: *const weir_drain_beat,
        look: *const weir_headroom_look,
    ) -> u64;
    pub fn weir_narrow_step(narrow: *mut weir_narrow, look: *const weir_narrow_look);
    pub fn weir_narrow_is_spent(narrow: *const weir_narrow, look: *const weir_narrow_look) -> i32;
    pub fn weir_narrow_since_ms(narrow: *const weir_narrow) -> u64;
    pub safe fn weir_reparenting_function() -> *const ::core::ffi::c_char;
    pub safe fn weir_function_wanted(id: u32) -> *const weir_function;
    pub fn weir_need_at(
        btf: *const weir_btf,
        reparents: i32,
        index: u32,
        need: *mut weir_need,
    ) -> i32;
    pub fn weir_pause_form(btf: *const weir_btf, with_dtc: *mut i32) -> weir_fit;
    pub fn weir_exit_form(btf: *const weir_btf, with_group: *mut i32) -> weir_fit;
    pub fn weir_fork_form(btf: *const weir_btf) -> weir_fit;
    pub fn weir_objective_step(objective: *mut weir_objective, look: *const weir_objective_look);
    pub fn weir_queue_narrow(queue: *mut weir_queue, pages: u64) -> i32;
    pub fn weir_objective_window_ms(objective: *const weir_objective) -> u64;
    pub safe fn weir_objective_spare(count: u64, per_mille: u32) -> u64;
    pub fn weir_objective_level(budget: u64, least: u64, held: *const u64, count: u64) -> u64;
    pub safe fn weir_reclaim_rate(was: u64, pages: u64, elapsed_ms: u64) -> u64;
    pub safe fn weir_reclaim_headroom(memory: u64, headroom: u64, free: u64, stalled: i32) -> u64;
    pub fn weir_reclaim_floor(
        host: *const weir_reclaim_host,
        group: *const weir_reclaim_group,
        weights: u64,
    ) -> u64;
    pub fn weir_reclaim_weights(groups: *const weir_reclaim_group, count: u64) -> u64;
    pub safe fn weir_reclaim_idle(memory: u64) -> u64;
    pub safe fn weir_reclaim_idle_wait(was_ms: u64, asked: u64, stolen: u64, refaulted: u64)
    -> u64;
    pub fn weir_reclaim_limits(
        host: *const weir_reclaim_host,
        groups: *const weir_reclaim_group,
        count: u64,
        limits: *mut u64,
    );
    pub fn weir_tier_upto(tiers: *const weir_tiers, ratio: u32, limit: u64, last: u32) -> u64;
    pub safe fn weir_tier_limit(high: u64, max: u64) -> u64;
    pub fn weir_tier_budget(tiers: *const weir_tiers, ratio: u32, limit: u64, tier: u32) -> u64;
    pub fn weir_tier_below(tiers: *const weir_tiers, tier: u32) -> u32;
    pub fn weir_tier_raises(tiers: *const weir_tiers, from: u32, to: u32) -> i32;
    pub fn weir_parse_ratio(
        text: *const ::core::ffi::c_char,
        len: u64,
        ratio: *mut u32,
    ) -> weir_parsed;
    pub fn weir_tier_share(
        tiers: *const weir_tiers,
        last: u32,
        groups: *const weir_tier_group,
        work: *mut weir_tier_work,
        count: u32,
    );
    pub fn weir_tier_band(settings: *const weir_tier_settings, budget: u64) -> u64;
    pub safe fn weir_tier_half(pages: u64, band: u64) -> u64;
    pub fn weir_tier_trades_heat(group: *const weir_tier_group) -> i32;
    pub fn weir_tier_hot(group: *const weir_tier_group, tier: u32) -> u64;
    pub fn weir_tier_above(group: *const weir_tier_group, tier: u32) -> u64;
    pub fn weir_tier_weigh(
        settings: *const weir_tier_settings,
        group: *const weir_tier_group,
        tier: u32,
        below: u32,
        leaving: u64,
        work: *mut weir_tier_work,
    );
    #[doc = " tier_lend.c: what is idle is lent"]
    pub fn weir_tier_lend(work: *mut weir_tier_work, count: u32, room: u64);
    pub safe fn weir_tier_headroom(capacity: u64) -> u64;
    pub fn weir_tier_plan(
        tiers: *const weir_tiers,
        room: *const weir_tier_room,
        settings: *const weir_tier_settings,
        groups: *const weir_tier_group,
        work: *mut weir_tier_work,
        moves: *mut weir_tier_move,
        count: u32,
    );
}
