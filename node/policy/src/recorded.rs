// SPDX-License-Identifier: GPL-2.0-only
//! What a wb has newly recorded as dirtied, each page once; see `policy/recorded.c`.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_recorded_note(recorded: *mut Recorded, look: *const WbSnapshot) -> u64;
    }
}

/// The most pages that tasks of a cgroup may have dirtied and not reported.
pub const AHEAD_MOST: u64 = 2_048;

/// The counts of a wb, as one pass reads them, in pages and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct WbSnapshot {
    /// Before the first count was read.
    pub begun_ns: u64,
    /// After the last count was read.
    pub ended_ns: u64,
    /// Recorded as dirtied since the wb was made.
    pub dirtied: u64,
    /// Recorded as written since then.
    pub written: u64,
    /// Dirty pages and those in writeback.
    pub queued: u64,
    /// Pages that the pass's task dirtied and is yet to report: of a first look, the most that is
    /// new.
    pub unreported: u64,
    /// C truth value: the first look ever, or after a pause.
    pub first: u32,
}

/// The state of knowledge of what a wb has recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Recorded {
    /// Pages that it had recorded as dirtied.
    pub pages: u64,
    /// End of the look that said so.
    pub ended_ns: u64,
}

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
