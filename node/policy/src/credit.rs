// SPDX-License-Identifier: GPL-2.0-only
//! Pages a cgroup dirtied that belong to another cgroup; see `policy/credit.c`.

use crate::ffi as c;

/// A floor's account of foreign pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Credit {
    /// Above zero: recorded and not yet reported. Below: foreign.
    pub balance: i64,
}

impl Credit {
    /// Accounts a pass below a floor of `most` pages, or a task's exit: the task dirtied `own` pages,
    /// and the cgroup's own writeback has newly recorded `recorded`.
    pub fn charge_pass(&mut self, most: u64, own: u64, recorded: u64, admitted: bool) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe {
            c::weir_credit_charge(&mut self.balance, most, own, recorded, admitted.into());
        }
    }

    /// Forgives a part of what is foreign, once a beat.
    pub fn forgive_part(&mut self, most: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_credit_forgive(&mut self.balance, most) }
    }

    /// Foreign pages that count against the floor.
    pub fn foreign_pages(&self) -> u64 {
        c::weir_credit_foreign(self.balance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u64 = 4_096;

    #[test]
    fn worked_example() {
        let mut credit = Credit::default();
        credit.charge_pass(FLOOR, 64, 64, true);
        assert_eq!(credit.foreign_pages(), 0);
        credit.charge_pass(FLOOR, 64, 48, true);
        assert_eq!(credit.foreign_pages(), 16);
        credit.forgive_part(FLOOR);
        assert_eq!(credit.foreign_pages(), 2);
    }

    #[test]
    fn order_of_wb_and_task_does_not_matter() {
        let mut credit = Credit::default();
        credit.charge_pass(FLOOR, 0, 64, true);
        credit.charge_pass(FLOOR, 64, 0, true);
        assert_eq!(credit.foreign_pages(), 0);
    }

    #[test]
    fn pages_of_a_pass_that_is_not_admitted_are_not_foreign() {
        let mut credit = Credit::default();
        credit.charge_pass(FLOOR, 64, 0, false);
        assert_eq!(credit.balance, 0);
        credit.charge_pass(FLOOR, 64, 0, true);
        credit.charge_pass(FLOOR, 64, 16, false);
        assert_eq!(credit.foreign_pages(), 64);
        credit.charge_pass(FLOOR, 0, 16, false);
        assert_eq!(credit.foreign_pages(), 48);
    }

    #[test]
    fn pages_nobody_reports_excuse_no_more_than_the_floor() {
        let mut credit = Credit::default();
        credit.charge_pass(100, 0, 5_000, true);
        credit.charge_pass(100, 150, 0, true);
        assert_eq!(credit.foreign_pages(), 50);
    }

    #[test]
    fn a_whole_floor_is_forgiven_in_a_minute() {
        let mut credit = Credit::default();
        credit.charge_pass(300_000, 300_000, 0, true);
        let beats = (0..1_000)
            .take_while(|_| {
                credit.forgive_part(300_000);
                credit.foreign_pages() > 0
            })
            .count();
        assert_eq!(beats, 299);
    }
}
