// SPDX-License-Identifier: GPL-2.0-only
//! Pages a cgroup dirtied that belong to another cgroup; see `policy/credit.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_credit_charge(credit: *mut Credit, now_ms: u64, by_task: u64, in_wb: u64);
        pub fn weir_credit_pages(credit: *const Credit, now_ms: u64) -> u64;
    }
}

/// How long foreign pages stay charged at least, at most twice as long; the kernel's dirty expiry.
pub const CREDIT_WINDOW_MS: u64 = 30_000;

/// One cgroup's account of foreign pages. Start from [`Credit::new`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Credit {
    /// When the current window began.
    pub window_start_ms: u64,
    /// Foreign pages charged in the current window.
    pub now_pages: u64,
    /// Foreign pages charged in the one before.
    pub before_pages: u64,
    /// Pages seen in one of the cgroup's own wbs that no task has reported yet.
    pub ahead: u64,
    /// Bound of `ahead`: the cgroup's effective floor.
    pub most_ahead: u64,
}

impl Credit {
    /// An empty account whose wbs may run `most_ahead` pages ahead of the tasks.
    pub fn new(most_ahead: u64) -> Credit {
        Credit {
            most_ahead,
            ..Credit::default()
        }
    }

    /// Accounts one pass at `now_ms`: a task reports `by_task` pages dirtied, and the cgroup's own
    /// writeback has newly recorded `in_wb`.
    pub fn charge(&mut self, now_ms: u64, by_task: u64, in_wb: u64) {
        // SAFETY: the pointer is valid and exclusive for the call.
        unsafe { c::weir_credit_charge(self, now_ms, by_task, in_wb) }
    }

    /// Foreign pages still charged at `now_ms`.
    pub fn pages(&self, now_ms: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_credit_pages(self, now_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u64 = CREDIT_WINDOW_MS;
    const BOOT: u64 = 1_000_000;

    #[test]
    fn worked_example() {
        let mut foreign = Credit::new(4_096);
        foreign.charge(BOOT, 64, 0);
        assert_eq!(foreign.pages(BOOT), 64);
        assert_eq!(foreign.pages(BOOT + 2 * W - 1), 64);
        assert_eq!(foreign.pages(BOOT + 2 * W), 0);

        let mut own = Credit::new(4_096);
        own.charge(BOOT, 64, 64);
        assert_eq!(own.pages(BOOT), 0);
    }

    #[test]
    fn order_of_wb_and_task_does_not_matter() {
        let mut credit = Credit::new(4_096);
        credit.charge(BOOT, 0, 64);
        credit.charge(BOOT + 1, 64, 0);
        assert_eq!(credit.pages(BOOT + 1), 0);
    }

    #[test]
    fn pages_nobody_reports_excuse_no_more_than_the_bound() {
        let mut credit = Credit::new(100);
        credit.charge(BOOT, 0, 5_000);
        credit.charge(BOOT, 5_000, 0);
        assert_eq!(credit.pages(BOOT), 4_900);
    }

    #[test]
    fn a_late_pass_does_not_prolong_the_last_charge() {
        let mut credit = Credit::new(4_096);
        credit.charge(BOOT, 64, 0);
        credit.charge(BOOT + 2 * W - 1, 1, 0);
        assert_eq!(credit.pages(BOOT + 2 * W), 1);
    }

    #[test]
    fn a_clock_a_moment_behind_ends_no_window() {
        let mut credit = Credit::new(4_096);
        credit.charge(BOOT, 64, 0);
        credit.charge(BOOT - 1, 1, 0);
        assert_eq!(credit.pages(BOOT - 1), 65);
    }
}
