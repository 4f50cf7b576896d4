// SPDX-License-Identifier: GPL-2.0-only
//! What a subtree holds, summed up one level at a time. See `policy/subtree.c`.

use crate::ceiling::Counts;
use crate::ffi as c;

/// A change of pages, which one level adds to its sums and hands to the next.
pub use c::weir_tally as Tally;

impl Tally {
    /// The change that a cgroup is to report to its path: `told` was the last report, it holds
    /// `own`.
    pub fn between(told: &Counts, own: &Counts) -> Tally {
        // SAFETY: the pointers are valid for the call.
        unsafe { c::weir_subtree_change(told, own) }
    }
}

/// The sums of one level, in pages. Racing updates can make one briefly negative.
pub use c::weir_subtree as Subtree;

impl Subtree {
    /// Adds `change` at a level with `floor`, of which tasks below fill `foreign` pages with other
    /// cgroups' pages. Leaves in `change` what is for the parent; returns what of the floor is
    /// unused.
    pub fn add(&mut self, change: &mut Tally, floor: u64, foreign: u64) -> u64 {
        // SAFETY: the pointers are valid and exclusive for the call.
        unsafe { c::weir_subtree_add(self, change, floor, foreign) }
    }

    /// Pages that claim this level's floor.
    pub fn claimed_pages(&self) -> u64 {
        c::weir_subtree_pages(self.claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 6_000;
    const B: u64 = 3_100;

    /// The example at the top of `policy/subtree.c`.
    #[test]
    fn worked_example() {
        let (mut a, mut b) = (Subtree::default(), Subtree::default());
        let held = |dirty| Counts {
            dirty,
            writeback: 0,
        };
        let mut of_b = Tally::between(&held(0), &held(3_400));
        assert_eq!(b.add(&mut of_b, B, 0), 0);
        assert_eq!((of_b.dirty, of_b.claim), (3_400, 300));
        a.add(&mut of_b, A, 0);
        let unused = a.add(&mut Tally::between(&held(0), &held(5_000)), A, 0);
        assert_eq!((a.dirty, a.claimed_pages(), unused), (8_400, 5_300, 700));
        let mut cleaned = Tally::between(&held(3_400), &held(2_400));
        assert_eq!(b.add(&mut cleaned, B, 0), 700);
        assert_eq!(cleaned.claim, -300);
        assert_eq!(a.add(&mut cleaned, A, 0), 1_000);
        assert_eq!((a.dirty, a.claimed_pages()), (7_400, 5_000));
    }

    #[test]
    fn foreign_pages_fill_a_floor_and_claim_nothing_without_one() {
        let own = Counts {
            dirty: 10,
            writeback: 5,
        };
        let change = Tally::between(&Counts::default(), &own);
        let mut left = change;
        assert_eq!(Subtree::default().add(&mut left, 20, 7), 0);
        assert_eq!(left.claim, 2);
        let mut left = change;
        assert_eq!(Subtree::default().add(&mut left, 0, 7), 0);
        assert_eq!(left, change);
    }

    #[test]
    fn a_negative_sum_is_no_page() {
        let mut sums = Subtree::default();
        let mut change = Tally {
            dirty: -3,
            writeback: 0,
            claim: -3,
        };
        assert_eq!(sums.add(&mut change, 10, 0), 10);
        assert_eq!((sums.claimed_pages(), sums.dirty, change.claim), (0, -3, 0));
    }
}
