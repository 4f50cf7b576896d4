// SPDX-License-Identifier: GPL-2.0-only
//! What a wb has newly recorded as dirtied, each page once; see `policy/recorded.c`.

use crate::ffi as c;

/// The most pages that tasks of a cgroup may have dirtied and not reported.
pub const AHEAD_MOST: u64 = c::WEIR_AHEAD_MOST as u64;

/// The counts of a wb, as one pass reads them, in pages and nanoseconds.
pub use c::weir_wb_snapshot as WbSnapshot;

/// The state of knowledge of what a wb has recorded.
pub use c::weir_recorded as Recorded;

impl Recorded {
    /// Notes a look. Returns the pages that are new.
    pub fn record_snapshot(&mut self, look: &WbSnapshot) -> u64 {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_recorded_note(self, look) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(begun_ns: u64, ended_ns: u64, dirtied: u64) -> WbSnapshot {
        WbSnapshot {
            begun_ns,
            ended_ns,
            dirtied,
            unreported: 32,
            ..WbSnapshot::default()
        }
    }

    /// The example at the top of `policy/recorded.c`.
    #[test]
    fn worked_example() {
        let mut recorded = Recorded::default();
        let first = WbSnapshot {
            first: 1,
            ..look(1, 2, 5_000)
        };
        assert_eq!(recorded.record_snapshot(&first), 32);
        assert_eq!(recorded.record_snapshot(&look(5, 6, 5_100)), 100);
        assert_eq!(
            recorded.record_snapshot(&look(3, 9, 5_050)),
            0,
            "an earlier look"
        );
        assert_eq!(
            recorded.record_snapshot(&look(10, 11, 10)),
            10,
            "a wb made anew"
        );
    }

    #[test]
    fn a_look_that_lost_its_cpu_for_long_is_not_a_wb_made_anew() {
        let mut recorded = Recorded {
            pages: 100_000,
            ended_ns: 50,
        };
        let known = recorded;
        assert_eq!(recorded.record_snapshot(&look(40, 60, 97_000)), 0);
        assert_eq!(recorded, known, "the next look bills nothing twice");
    }

    #[test]
    fn what_the_kernel_takes_back_is_not_new_again() {
        let mut recorded = Recorded {
            pages: 100_000,
            ended_ns: 50,
        };
        assert_eq!(recorded.record_snapshot(&look(51, 52, 99_500)), 0);
        assert_eq!(recorded.record_snapshot(&look(53, 54, 100_001)), 1);
        assert_eq!(
            recorded.record_snapshot(&look(55, 56, 97_000)),
            3_001,
            "bounded"
        );
    }
}
