// SPDX-License-Identifier: GPL-2.0-only
//! The reservation: the host's limits, less what floors reserve and do not use. See
//! `policy/reserve.c`.

use crate::ceiling::Limits;
use crate::ffi as c;
use crate::pass::Pass;

/// Of `floor`, what those pages that claim it leave.
pub fn unused_pages(floor: u64, claimed: u64) -> u64 {
    c::weir_reserve_unused(floor, claimed)
}

/// Of the pages that claim `floor`, those it has no room for: they claim the next one up.
pub fn pages_beyond(floor: u64, claimed: u64) -> u64 {
    c::weir_reserve_beyond(floor, claimed)
}

/// The reservation that the host's limits are amended for, in pages.
pub use c::weir_host as Reservation;

impl Reservation {
    /// Lowers the limits of the host's domain. Returns false and changes nothing if nothing is
    /// reserved and unused, or if a reader asks.
    pub fn amend_limits(&self, limits: &mut Limits, kind: Pass) -> bool {
        // SAFETY: the pointers are valid for the call, `limits` exclusively.
        unsafe { c::weir_host_amend(limits, self, kind) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith;

    const STOCK: Limits = Limits {
        thresh: 8_192,
        bg_thresh: 4_096,
        dirty: 6_000,
        dom_limit: 8_192,
    };

    fn amended(stock: Limits, unused: u64, kind: Pass) -> Limits {
        let mut limits = stock;
        assert!(Reservation { unused }.amend_limits(&mut limits, kind));
        limits
    }

    /// The example at the top of `policy/reserve.c`.
    #[test]
    fn worked_example() {
        let of_both = |one, other| unused_pages(2_048, one) + unused_pages(2_048, other);
        assert_eq!((of_both(2_048, 48), of_both(9_999, 2_048)), (2_000, 0));
        let limits = amended(STOCK, of_both(2_048, 48), Pass::Writer);
        assert_eq!(
            limits,
            Limits {
                thresh: 6_192,
                bg_thresh: 3_096,
                dirty: 6_000,
                dom_limit: 6_192
            }
        );
        assert_eq!(arith::freerun_level(limits.thresh, limits.bg_thresh), 4_644);
    }

    /// The second example there: a floor inside another.
    #[test]
    fn worked_example_of_nested_floors() {
        let still_unused = |inner, rest| {
            unused_pages(1_000, inner) + unused_pages(3_000, rest + pages_beyond(1_000, inner))
        };
        assert_eq!(still_unused(1_500, 700), 1_800);
        assert_eq!(still_unused(1_500, 2_500), 0);
        assert_eq!(still_unused(0, 2_500), 1_500);
    }

    #[test]
    fn a_large_new_reservation_slows_the_others_and_does_not_stop_them() {
        let far_above = amended(STOCK, 6_000, Pass::Writer);
        assert_eq!(far_above.thresh, 2_192);
        assert_eq!(
            far_above.dom_limit,
            6_000 + 6_000 / 256 + 1,
            "a 256th above what is dirty"
        );
        let nearly = Limits {
            dirty: 2_200,
            ..STOCK
        };
        assert_eq!(amended(nearly, 6_000, Pass::Writer).dom_limit, 2_192);
    }

    #[test]
    fn a_flusher_does_not_move_the_smoothed_limit() {
        assert_eq!(amended(STOCK, 2_000, Pass::Flusher).dom_limit, 8_192);
        assert_eq!(amended(STOCK, 2_000, Pass::Flusher).bg_thresh, 3_096);
    }

    #[test]
    fn readers_see_stock_and_nothing_unused_changes_nothing() {
        let mut limits = STOCK;
        assert!(!Reservation { unused: 4_096 }.amend_limits(&mut limits, Pass::Reader));
        assert!(!Reservation { unused: 0 }.amend_limits(&mut limits, Pass::Writer));
        assert_eq!(limits, STOCK);
    }

    #[test]
    fn a_stale_sum_leaves_the_share_no_floor_may_take() {
        assert_eq!(amended(STOCK, u64::MAX, Pass::Writer).thresh, 8_192 - 6_553);
    }
}
