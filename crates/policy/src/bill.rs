// SPDX-License-Identifier: GPL-2.0-only
//! What a cgroup dirtied on one device, and until when it is paid; see `policy/bill.c`.

use crate::arrears::Arrears;
use crate::recorded::{Look, Recorded};
use crate::weight::Turn;

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_bill_note(bill: *mut Bill, look: *const Look) -> u64;
        pub fn weir_bill_charge(bill: *mut Bill, turn: *const Turn, now_ns: u64, pages: u64)
        -> u64;
    }
}

/// Of one cgroup on one device, in pages and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// What its wb had recorded as dirtied, up to which is paid until `due_ns`.
    pub recorded: Recorded,
    /// Until when it is paid.
    pub due_ns: u64,
    /// What a page cost when last paid.
    pub cost_ns: u64,
    /// What its wb had recorded as written.
    pub written: u64,
    /// Dirty pages and those in writeback, last seen.
    pub queued: u64,
    /// Written since the caller took this.
    pub cleaned: u64,
    /// Dirtied since the caller took this.
    pub dirtied: u64,
    /// What its tasks dirtied and it did not pay for.
    pub arrears: Arrears,
}

impl Bill {
    /// Notes a look. Returns the pages that are to be paid for.
    pub fn note(&mut self, look: &Look) -> u64 {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_bill_note(self, look) }
    }

    /// Pays for `pages` at what they cost in `turn`; returns for how many milliseconds a writer is
    /// to wait.
    pub fn charge(&mut self, turn: &Turn, now_ns: u64, pages: u64) -> u64 {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_bill_charge(self, turn, now_ns, pages) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(begun_ns: u64, dirtied: u64, written: u64) -> Look {
        Look {
            begun_ns,
            ended_ns: begun_ns + 1,
            dirtied,
            written,
            unreported: 32,
            ..Look::default()
        }
    }

    /// The example at the top of `policy/bill.c`, and a look that came late.
    #[test]
    fn worked_example() {
        let mut bill = Bill::default();
        let first = Look {
            first: 1,
            ..look(1, 5_000, 4_000)
        };
        assert_eq!(bill.note(&first), 32);
        assert_eq!(bill.note(&look(3, 5_100, 4_060)), 100);
        assert_eq!(bill.note(&look(2, 5_050, 4_030)), 0, "an earlier look");
        assert_eq!((bill.dirtied, bill.cleaned), (132, 60));
        assert_eq!((bill.recorded.pages, bill.arrears.ahead), (5_100, 132));
    }

    #[test]
    fn what_is_cleaned_counts_once_however_late_a_look_is() {
        let mut bill = Bill::default();
        bill.note(&Look {
            first: 1,
            ..look(1, 5_000, 4_000)
        });
        bill.note(&look(3, 5_000, 4_060));
        assert_eq!(bill.note(&look(2, 5_000, 4_030)), 0, "overtaken");
        bill.note(&look(4, 5_000, 4_070));
        assert_eq!(bill.cleaned, 70);
    }

    #[test]
    fn a_new_wb_owes_all_that_it_recorded_and_cleaned_nothing_yet() {
        let mut bill = Bill {
            recorded: Recorded {
                pages: 1_000_000,
                ended_ns: 1,
            },
            written: 900_000,
            ..Bill::default()
        };
        assert_eq!(bill.note(&look(2, 10, 5)), 10);
        let found = (bill.cleaned, bill.recorded.pages, bill.written);
        assert_eq!(found, (0, 10, 5));
    }

    #[test]
    fn what_is_more_than_can_be_owed_is_in_the_arrears() {
        let turn = Turn {
            hweight: crate::weight::HWEIGHT_ONE,
            wb_rate: 10,
            host_dirty: 8_000,
            host_thresh: 8_192,
            host_bg_thresh: 4_096,
            ..Turn::default()
        };
        let mut bill = Bill::default();
        let wait = bill.charge(&turn, 1 << 40, 1_000_000);
        assert_eq!(wait, crate::weight::WAIT_MOST_MS);
        let payment = turn.pay(0, 1 << 40, 1_000_000);
        assert_eq!(
            (bill.due_ns, bill.cost_ns),
            (payment.due_ns, payment.cost_ns)
        );
        assert_eq!(bill.arrears.unpaid, payment.forgiven);
        assert!(bill.arrears.evades());
    }
}
