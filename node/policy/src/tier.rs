// SPDX-License-Identifier: GPL-2.0-only
//! Tiers of memory: what of a limit may lie in which, and which pages should change their tier. See
//! `policy/tier.c` (budgets), `tier_share.c` (hierarchies), `tier_lend.c` (what is idle) and
//! `tier_plan.c` (what moves now).

#[cfg(test)]
mod tests;

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_tier_upto(tiers: *const Tiers, ratio: u32, limit: u64, last: u32) -> u64;
        pub fn weir_tier_budget(tiers: *const Tiers, ratio: u32, limit: u64, tier: u32) -> u64;
        pub fn weir_tier_below(tiers: *const Tiers, tier: u32) -> u32;
        pub fn weir_tier_raises(tiers: *const Tiers, from: u32, to: u32) -> i32;
        pub fn weir_tier_headroom(capacity: u64) -> u64;
        pub fn weir_tier_band(settings: *const Settings, budget: u64) -> u64;
        pub fn weir_tier_plan(
            tiers: *const Tiers,
            room: *const Room,
            settings: *const Settings,
            groups: *const Group,
            work: *mut Work,
            moves: *mut Move,
            count: u32,
        );
    }
}

/// The most tiers there can be.
pub const TIERS_MAX: usize = 8;
/// Between two tiers that follow each other.
pub const BOUNDARIES: usize = TIERS_MAX - 1;
/// It is known which pages are hot.
pub const HEAT_KNOWN: u32 = 1;
/// It is guessed from a sample: good for exchanging a cgroup's own pages, not for demands on
/// others.
pub const HEAT_GUESSED: u32 = 2;
/// A ratio that is not set: the top tier's part of all capacity.
pub const BY_CAPACITY: u32 = u32::MAX;
/// The parent of a group that has none in the list.
pub const NO_PARENT: u32 = u32::MAX;

/// The host's tiers, fastest first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Tiers {
    /// Pages present in each.
    pub capacity: [u64; TIERS_MAX],
    /// How many there are.
    pub count: u32,
    /// The part of each limit that may be in the top tier, in percent, or [`BY_CAPACITY`].
    pub ratio: u32,
}

impl Tiers {
    /// Tiers of these capacities, with the ratio by capacity; what is beyond [`TIERS_MAX`] is
    /// dropped.
    pub fn new(capacities: &[u64]) -> Tiers {
        let mut capacity = [0; TIERS_MAX];
        let count = capacities.len().min(TIERS_MAX);
        capacity[..count].copy_from_slice(&capacities[..count]);
        Tiers {
            capacity,
            count: count as u32,
            ratio: BY_CAPACITY,
        }
    }

    /// What of `limit` may lie in the tiers up to and including `last`; `ratio` is the cgroup's own
    /// or [`BY_CAPACITY`].
    pub fn upto(&self, ratio: u32, limit: u64, last: u32) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_upto(self, ratio, limit, last) }
    }

    /// What of `limit` may lie in `tier` when those above are full to their budgets.
    pub fn budget(&self, ratio: u32, limit: u64, tier: u32) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_budget(self, ratio, limit, tier) }
    }

    /// The next tier below `tier` that has memory, or `tier` itself if there is none.
    pub fn below(&self, tier: usize) -> usize {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_below(self, tier as u32) as usize }
    }

    /// Whether a cgroup's ratio grants more of the top tier after a change.
    pub fn raises(&self, from: u32, to: u32) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_raises(self, from, to) != 0 }
    }
}

/// One cgroup as the plan sees it; counts in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Group {
    /// Pages in each tier, with descendants'.
    pub held: [u64; TIERS_MAX],
    /// Of them, read of late; looked at only if `heat_known` is not 0.
    pub hot: [u64; TIERS_MAX],
    /// `memory.min` in pages.
    pub min: u64,
    /// `memory.low` in pages.
    pub low: u64,
    /// `memory.high`, [`crate::UNLIMITED`] if none.
    pub high: u64,
    /// `memory.max`, [`crate::UNLIMITED`] if none.
    pub max: u64,
    /// `memory.toptier_ratio`, or [`BY_CAPACITY`].
    pub ratio: u32,
    /// How well `hot` is known: not at all (0), [`HEAT_KNOWN`] or [`HEAT_GUESSED`].
    pub heat_known: u32,
    /// The parent's place in the list, before this one's, or [`NO_PARENT`].
    pub parent: u32,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            held: [0; TIERS_MAX],
            hot: [0; TIERS_MAX],
            min: 0,
            low: 0,
            high: crate::UNLIMITED,
            max: crate::UNLIMITED,
            ratio: BY_CAPACITY,
            heat_known: 0,
            parent: NO_PARENT,
        }
    }
}

/// Where there is room, in pages for each tier.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Room {
    /// Pages that are free now, by tier.
    pub free: [u64; TIERS_MAX],
    /// Of that, what is left to allocations.
    pub headroom: [u64; TIERS_MAX],
}

/// Free pages of a tier of `capacity` pages that no move should use up.
pub fn headroom(capacity: u64) -> u64 {
    // SAFETY: takes and returns an integer.
    unsafe { c::weir_tier_headroom(capacity) }
}

/// How the plan is to be made.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Settings {
    /// A difference of fewer pages is none.
    pub band: u64,
    /// The most pages across one boundary, each way.
    pub step: u64,
    /// Not 0: a cgroup above its budget keeps what no other wants, and idle memory is used beyond
    /// budgets.
    pub lend: u32,
}

impl Settings {
    /// The difference that is none, for a budget of this many pages.
    pub fn band_of(&self, budget: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_band(self, budget) }
    }
}

/// Why a group moves, or does not; of the topmost boundary where there is something to say.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Within its budget.
    #[default]
    Balanced,
    /// Above its budget, and no other cgroup wants it.
    Keeps,
    /// Above its budget, goes down to it.
    Returns,
    /// Within its budget, for others' protection or hot pages.
    Yields,
    /// Below its budget or protection, goes up.
    Takes,
    /// Takes idle memory, or cold pages' place, beyond its budget.
    Borrows,
    /// Its own cold pages for its own hot ones.
    Exchanges,
    /// Would go up, no room there.
    WaitsAbove,
    /// Would go down, no room there.
    WaitsBelow,
}

impl Reason {
    /// The state in words, for people.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Balanced => "within its budget",
            Reason::Keeps => "above its budget, and no other cgroup wants it",
            Reason::Returns => "above its budget, goes down",
            Reason::Yields => "gives way to others' protection or hot pages",
            Reason::Takes => "below its budget, goes up",
            Reason::Borrows => "takes what is idle or cold, beyond its budget",
            Reason::Exchanges => "exchanges its cold pages for its hot ones",
            Reason::WaitsAbove => "would go up, but there is no room",
            Reason::WaitsBelow => "would go down, but there is no room",
        }
    }
}

/// What is to move of one group; the first of each array is across the boundary below the first
/// tier, to and from the next one that has memory ([`Tiers::below`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Pages to take down across each boundary.
    pub demote: [u64; BOUNDARIES],
    /// Pages to bring up across each boundary.
    pub promote: [u64; BOUNDARIES],
    /// What may lie above each boundary: its own budget, or what its ancestors leave of theirs.
    pub budget: [u64; BOUNDARIES],
    /// Why no more is moved.
    pub reason: Reason,
}

/// Shares above one boundary.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Levels {
    pub(crate) min: u64,
    pub(crate) low: u64,
    pub(crate) budget: u64,
}

/// The plan's scratch memory for one group.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) levels: Levels,
    pub(crate) claims: Levels,
    pub(crate) children: Levels,
    pub(crate) held: u64,
    pub(crate) children_held: u64,
    pub(crate) demand: [u64; 5],
    pub(crate) supply: [u64; 4],
    pub(crate) over: u64,
    pub(crate) inner: u32,
}

/// What should move now, for each group in the order of the list. A group with children in the list
/// moves nothing itself: it bounds them. A `parent` that does not stand before its child is none.
pub fn plan(tiers: &Tiers, room: &Room, settings: &Settings, groups: &[Group]) -> Vec<Move> {
    let mut work = vec![Work::default(); groups.len()];
    let mut moves = vec![Move::default(); groups.len()];
    // SAFETY: all pointers are valid for the call, the last three for as many elements as there are
    // groups (no host has 2^32 cgroups); C stores enumerators only.
    unsafe {
        c::weir_tier_plan(
            tiers,
            room,
            settings,
            groups.as_ptr(),
            work.as_mut_ptr(),
            moves.as_mut_ptr(),
            groups.len() as u32,
        );
    }
    moves
}
