// SPDX-License-Identifier: GPL-2.0-only
//! The weight, `memory.dirty_weight`: the order in which flushers of competing cgroups submit. See
//! `policy/division.c`. Pages and nanoseconds.

use crate::ffi as c;

/// The least weight.
pub const WEIGHT_MIN: u32 = c::WEIR_WEIGHT_MIN;
/// The greatest weight.
pub const WEIGHT_MAX: u32 = c::WEIR_WEIGHT_MAX;
/// The weight of a cgroup that was given none.
pub const WEIGHT_DEFAULT: u32 = c::WEIR_WEIGHT_DEFAULT;
/// The whole device, as a hweight.
pub const HWEIGHT_ONE: u32 = c::WEIR_HWEIGHT_ONE;
/// The whole device, as [`shown`] has it.
pub const HWEIGHT_SHOWN: u32 = c::WEIR_HWEIGHT_SHOWN;
/// A flusher that waits for its turn for so long, in milliseconds, is charged for no sync meanwhile.
pub const TURN_MS: u64 = c::WEIR_DIVISION_TURN_MS as u64;

/// Of a parent's `hweight`, the part of a child with `weight` where the weights of all children
/// that compete add up to `siblings`; at least 1.
pub fn hweight(hweight: u32, weight: u32, siblings: u64) -> u32 {
    c::weir_hweight(hweight, weight, siblings)
}

/// A hweight as people read it, rounded to the nearest of [`HWEIGHT_SHOWN`] parts.
pub fn shown(hweight: u32) -> u32 {
    c::weir_weight_shown(hweight)
}

/// Virtual time, in 1024ths of a page, at `vtime` after `pages` more were submitted for `hweight`.
pub fn charge(vtime: u64, pages: u64, hweight: u32) -> u64 {
    c::weir_division_charge(vtime, pages, hweight)
}

/// Virtual time of a flusher that competes again, where the others' least is `least`; it had
/// `vtime`, 0 for none.
pub fn join(vtime: u64, least: u64, budget: u64) -> u64 {
    c::weir_division_join(vtime, least, budget)
}

/// Pages that others are to submit before a flusher with `vtime` may go on, where the others' least
/// is `least` and it may be `ahead` of that; 0 if it may.
pub fn lead(vtime: u64, least: u64, ahead: u64) -> u64 {
    c::weir_division_lead(vtime, least, ahead)
}

/// Virtual time of a flusher that has waited for its turn for a second, with `vtime`.
pub fn cap_vtime(vtime: u64, least: u64, ahead: u64, part: u64, hweight: u32) -> u64 {
    c::weir_division_cap(vtime, least, ahead, part, hweight)
}

/// The pages that a division's flushers may have in flight.
pub use c::weir_budget as Budget;

impl Budget {
    /// Notes what the division and all of the device have written by `now_ns`.
    pub fn note(&mut self, written: u64, of_device: u64, now_ns: u64) {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_budget_note(self, written, of_device, now_ns) }
    }

    /// Pages that one flusher may be ahead of the others.
    pub fn ahead(&self) -> u64 {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_budget_ahead(self) }
    }

    /// Pages that a child of the division with `hweight` submits at a time.
    pub fn part(&self, hweight: u32) -> u64 {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_budget_part(self, hweight) }
    }

    /// Pages to be written before a child of the division with `hweight` may submit another part,
    /// with `in_flight` of its own.
    pub fn excess(&self, hweight: u32, in_flight: u64) -> u64 {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_budget_excess(self, hweight, in_flight) }
    }

    /// `true` if a flusher with `hweight` that submitted `pages` in `ms`, and was held by nothing, uses
    /// little.
    pub fn uses_little(&self, hweight: u32, pages: u64, ms: u64) -> bool {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_division_uses_little(self, hweight, pages, ms) != 0 }
    }

    /// Milliseconds that a child may have no room before it is slow, with `in_flight` pages of the
    /// whole division.
    pub fn patience_ms(&self, in_flight: u64) -> u64 {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_budget_patience_ms(self, in_flight) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A device that writes 4 pages a millisecond, of which the division has `own` percent.
    fn budget(own: u64) -> Budget {
        let mut budget = Budget::default();
        budget.note(0, 0, 1);
        budget.note(10 * own, 1_000, 1 + 250 * MS);
        budget
    }

    /// Virtual time of a page of the device.
    const UNIT: u64 = 1_024;

    /// The example at the top of `division.c`.
    #[test]
    fn worked_example() {
        let budget = budget(100);
        assert_eq!((budget.pages, budget.ahead()), (100, 50));
        let hweights = [300, 100].map(|weight| hweight(HWEIGHT_ONE, weight, 400));
        let parts = hweights.map(|hweight| budget.part(hweight));
        assert_eq!(parts, [25, 16]);
        let [first, second] = hweights;
        let vtimes = [charge(0, parts[0], first), charge(0, parts[1], second)];
        assert_eq!(vtimes.map(|vtime| vtime / UNIT), [33, 64]);
        let waits = |submitted| lead(vtimes[1], charge(0, submitted, first), budget.ahead()) > 0;
        assert!(waits(0) && waits(10) && !waits(11));
    }

    /// While one part is written, the next is submitted: the disk is not idle in between.
    #[test]
    fn two_parts_of_a_child_are_in_flight() {
        let budget = Budget {
            pages: 1_280,
            ..Budget::default()
        };
        for weight in [100, 300, 800] {
            let hweight = hweight(HWEIGHT_ONE, weight, u64::from(weight) + 100);
            let part = budget.part(hweight);
            assert_eq!(budget.excess(hweight, part), 0, "{weight}: of {part} pages");
            assert!(budget.excess(hweight, 3 * part) > 0);
            assert!(lead(charge(0, part, hweight), 0, budget.ahead()) == 0);
        }
        assert_eq!(budget.part(HWEIGHT_ONE / 100), 16);
    }

    #[test]
    fn what_is_in_flight_has_a_bound_unless_others_write_much() {
        let alone = budget(75);
        let excess = |pages| alone.excess(HWEIGHT_ONE, pages);
        assert_eq!([75, 76, 100].map(excess), [0, 1, 25]);
        assert_eq!(alone.excess(HWEIGHT_ONE / 2, 50), 25);
        let shared = budget(74);
        assert_eq!(
            (shared.excess(HWEIGHT_ONE, 1 << 20), shared.ahead()),
            (0, 256)
        );
    }

    /// 1 MiB that was synced with a hundredth of the disk is 25,600 pages of others.
    #[test]
    fn what_was_synced_delays_no_turn_for_ever() {
        let light = HWEIGHT_ONE / 100;
        let synced = charge(7 * UNIT, 256, light);
        let capped = cap_vtime(synced, 7 * UNIT, 50, 16, light);
        assert!(lead(synced, 7 * UNIT, 50) > 25_000);
        assert_eq!(lead(capped, 7 * UNIT, 50), 3_201);
        // what a flusher submits itself is never as far ahead
        let own = charge(57 * UNIT, 16, light);
        assert_eq!(cap_vtime(own, 7 * UNIT, 50, 16, light), own);
    }

    #[test]
    fn less_than_half_of_its_part_is_little() {
        // 4 pages a millisecond, of which the division has a half
        let budget = budget(50);
        assert_eq!((budget.pages, budget.own), (100, 50));
        let is_little = |pages, ms| budget.uses_little(HWEIGHT_ONE / 2, pages, ms);
        assert!(!is_little(10, 20) && is_little(9, 20));
        assert!(!is_little(50, 100) && is_little(50, 101));
        assert!(!is_little(0, 0) && !is_little(1 << 40, u64::MAX));
        assert!(
            !Budget::default().uses_little(HWEIGHT_ONE, 0, 20),
            "nothing is known"
        );
    }

    #[test]
    fn patience_lasts_for_what_was_in_flight_before() {
        // 4 pages a millisecond: 6 MiB take 384 ms
        assert_eq!(budget(100).patience_ms(1_536), 300 + 2 * 384);
        assert_eq!(budget(100).patience_ms(0), 300);
        assert_eq!(budget(100).patience_ms(u64::MAX), 300 + 3_000);
        assert_eq!(Budget::default().patience_ms(0), 300 + 3_000);
    }

    #[test]
    fn a_budget_follows_the_device_and_falls_slowly() {
        let mut budget = budget(100);
        budget.note(1_001, 1_001, 1 + 499 * MS);
        assert_eq!(budget.pages, 100, "a quarter of a second at the least");
        budget.note(1_001, 1_001, 1 + 500 * MS);
        assert_eq!(budget.pages, 88);
        budget.note(21_001, 21_001, 1 + 750 * MS);
        assert_eq!(budget.pages, 2_000);
        for beat in 4..100 {
            budget.note(21_001, 21_001, 1 + beat * 250 * MS);
        }
        assert_eq!((budget.pages, budget.ahead()), (7, 32));
    }

    /// The device's sum is over the wbs that there are.
    #[test]
    fn a_cgroup_that_goes_leaves_the_budget_as_it_was() {
        let mut budget = budget(100);
        let before = (budget.pages, budget.ahead(), budget.shared);
        budget.note(2_000, 100, 1 + 500 * MS);
        assert_eq!((budget.pages, budget.ahead(), budget.shared), before);
    }

    #[test]
    fn who_comes_back_is_not_far_behind() {
        let join = |vtime, least| join(vtime * UNIT, least * UNIT, 100) / UNIT;
        assert_eq!(join(1_000, 5_000), 4_600);
        assert_eq!(join(4_700, 5_000), 4_700);
        assert_eq!(join(6_000, 5_000), 6_000, "what it had ahead it keeps");
        assert_eq!(join(0, 5_000), 5_000, "new");
    }
}
