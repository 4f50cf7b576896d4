// SPDX-License-Identifier: GPL-2.0-only
//! The reservation: the host's limits, less what floors reserve and do not use. See `policy/reserve.c`.

use crate::ceiling::Limits;
use crate::pass::Pass;

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_host_amend(limits: *mut Limits, host: *const Host, kind: Pass) -> i32;
    }
}

/// What the host's limits are amended for, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Host {
    /// Sum of [`crate::floor::FloorPass::unused`] over all cgroups.
    pub unused: u64,
}

impl Host {
    /// Lowers the limits of the host's domain. Returns false and changes nothing if nothing is reserved
    /// and unused, or if a reader asks.
    pub fn amend(&self, limits: &mut Limits, kind: Pass) -> bool {
        // SAFETY: the pointers are valid for the call, `limits` exclusively.
        unsafe { c::weir_host_amend(limits, self, kind) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith;
    use crate::floor::FloorPass;

    const STOCK: Limits = Limits {
        thresh: 8_192,
        bg_thresh: 4_096,
        dirty: 6_000,
        dom_limit: 8_192,
    };

    fn amended(stock: Limits, unused: u64, kind: Pass) -> Limits {
        let mut limits = stock;
        assert!(Host { unused }.amend(&mut limits, kind));
        limits
    }

    /// The example at the top of `policy/reserve.c`.
    #[test]
    fn worked_example() {
        let unused = |held| {
            FloorPass {
                floor: 2_048,
                memcg_dirty: held,
                ..FloorPass::default()
            }
            .unused()
        };
        assert_eq!((unused(2_048), unused(48), unused(9_999)), (0, 2_000, 0));
        let limits = amended(STOCK, unused(2_048) + unused(48), Pass::Writer);
        assert_eq!(
            limits,
            Limits {
                thresh: 6_192,
                bg_thresh: 3_096,
                dirty: 6_000,
                dom_limit: 6_192
            }
        );
        assert_eq!(arith::freerun(limits.thresh, limits.bg_thresh), 4_644);
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
        assert!(!Host { unused: 4_096 }.amend(&mut limits, Pass::Reader));
        assert!(!Host { unused: 0 }.amend(&mut limits, Pass::Writer));
        assert_eq!(limits, STOCK);
    }

    #[test]
    fn a_stale_sum_leaves_the_share_no_floor_may_take() {
        assert_eq!(amended(STOCK, u64::MAX, Pass::Writer).thresh, 8_192 - 6_553);
    }
}
