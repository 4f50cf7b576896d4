// SPDX-License-Identifier: GPL-2.0-only
//! Tiers of memory: what of a limit may lie in which, and which pages should change their tier. See
//! `policy/tier.c` (budgets), `tier_share.c` (hierarchies), `tier_lend.c` (what is idle) and
//! `tier_plan.c` (what moves now).

use crate::ffi as c;

#[cfg(test)]
mod tests;

/// The most tiers there can be.
pub const TIERS_MAX: usize = c::WEIR_TIERS_MAX as usize;
/// Between two tiers that follow each other.
pub const BOUNDARIES: usize = c::WEIR_TIER_BOUNDARIES as usize;
/// It is known which pages are hot.
pub const HEAT_KNOWN: u32 = c::WEIR_TIER_HEAT_KNOWN;
/// It is guessed from a sample: good for exchanging a cgroup's own pages, not for demands on
/// others.
pub const HEAT_GUESSED: u32 = c::WEIR_TIER_HEAT_GUESSED;
/// A ratio that is not set: the top tier's part of all capacity.
pub const BY_CAPACITY: u32 = c::WEIR_TIER_BY_CAPACITY as u32;
/// The parent of a group that has none in the list.
pub const NO_PARENT: u32 = c::WEIR_TIER_NO_PARENT as u32;

/// The host's tiers, fastest first.
pub use c::weir_tiers as Tiers;

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
    pub fn budget_up_to(&self, ratio: u32, limit: u64, last: u32) -> u64 {
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
    pub fn raises_budget(&self, from: u32, to: u32) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_raises(self, from, to) != 0 }
    }
}

/// One cgroup as the plan sees it; counts in pages.
pub use c::weir_tier_group as Group;

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
pub use c::weir_tier_room as Room;

/// Free pages of a tier of `capacity` pages that no move should use up.
pub fn headroom(capacity: u64) -> u64 {
    c::weir_tier_headroom(capacity)
}

/// How the plan is to be made.
pub use c::weir_tier_settings as Settings;

impl Settings {
    /// The difference that is none, for a budget of this many pages.
    pub fn band_of(&self, budget: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_tier_band(self, budget) }
    }
}

/// Why a group moves, or does not; of the topmost boundary where there is something to say.
pub use c::weir_tier_reason as Reason;

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
pub use c::weir_tier_move as Move;

/// The plan's scratch memory for one group.
pub(crate) use c::weir_tier_work as Work;

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
