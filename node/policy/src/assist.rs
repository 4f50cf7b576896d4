// SPDX-License-Identifier: GPL-2.0-only
//! How many threads start writeback beside a flusher that cannot feed its disk: see
//! `policy/assist.c`.

use crate::ffi as c;

/// More threads than that would only wait for the same disk.
pub const THREADS_MAX: u64 = 64;

/// State between two looks at a device, in milliseconds.
pub use c::weir_assist as Assist;

/// A device's flushers since the look before.
pub use c::weir_assist_look as Look;

impl Assist {
    /// Takes in a look; [`Assist::threads`] is what is wanted from now on.
    pub fn adapt_by_look(&mut self, look: &Look) {
        // SAFETY: both pointers are valid for the call.
        unsafe { c::weir_assist_step(self, look) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Look = Look {
        elapsed_ms: 1_000,
        flusher_ran: 1_000,
        flusher_waited: 0,
        ran: 1_000,
        most: 4,
    };

    /// A disk that takes `disk` times what a CPU submits in a second: submitters wait for the rest.
    fn seconds(assist: &mut Assist, disk: f64, seconds: u64) -> Vec<u64> {
        let mut second = |_| {
            let submitters = (assist.threads + 1) as f64;
            let ran = (disk / submitters).min(1.0) * 1_000.0;
            assist.adapt_by_look(&Look {
                flusher_ran: ran as u64,
                flusher_waited: 1_000 - ran as u64,
                ran: ran as u64,
                ..SECOND
            });
            assist.threads
        };
        (0..seconds).map(&mut second).collect()
    }

    #[test]
    fn worked_example() {
        let mut assist = Assist::default();
        assert_eq!(
            seconds(&mut assist, 2.5, 8),
            [0, 0, 1, 1, 1, 2, 2, 2],
            "one more after three seconds"
        );
        assert!(seconds(&mut assist, 2.5, 100).iter().all(|n| *n == 2));
    }

    #[test]
    fn a_disk_that_one_flusher_feeds_has_none() {
        let mut assist = Assist::default();
        assert_eq!(seconds(&mut assist, 0.8, 60), [0; 60]);
    }

    #[test]
    fn it_rests_longer_each_time_that_assistants_wait() {
        let mut assist = Assist::default();
        seconds(&mut assist, 2.5, 8);
        let waits = Look {
            flusher_ran: 300,
            flusher_waited: 700,
            ran: 300,
            ..SECOND
        };
        for _ in 0..4 {
            assist.adapt_by_look(&waits);
        }
        assert_eq!((assist.threads, assist.rest_ms), (0, 20_000));
        assert_eq!(seconds(&mut assist, 9.0, 25)[18..20], [0, 1], "rested");
    }

    #[test]
    fn it_ends_without_a_rest_when_nothing_is_left_to_write() {
        let mut assist = Assist::default();
        seconds(&mut assist, 2.5, 8);
        // As one writer ends, its last pages are written, and the next begins.
        let little = Look {
            flusher_ran: 500,
            flusher_waited: 100,
            ran: 300,
            ..SECOND
        };
        let nothing = Look {
            flusher_ran: 0,
            ran: 0,
            ..SECOND
        };
        for look in [&little, &little, &nothing, &nothing] {
            assist.adapt_by_look(look);
        }
        assert_eq!((assist.threads, assist.rest_ms), (0, 0));
        assert_eq!(seconds(&mut assist, 2.5, 3), [0, 0, 1], "at once");
    }

    #[test]
    fn fewer_that_may_be_had_count_at_once() {
        let mut assist = Assist::default();
        seconds(&mut assist, 9.0, 20);
        assert_eq!(assist.threads, 4);
        assist.adapt_by_look(&Look { most: 1, ..SECOND });
        assert_eq!(assist.threads, 1);
    }

    proptest! {
        /// For any numbers: never more than may be had, and by one at a time.
        #[test]
        fn any_look(state in any::<[u64; 5]>(), of in any::<[u64; 5]>()) {
            let mut assist = Assist {
                threads: state[0], bound_ms: state[1], idle_ms: state[2], rest_ms: state[3],
                rested_ms: state[4],
            };
            let before = assist.threads.min(of[4]);
            assist.adapt_by_look(&Look {
                elapsed_ms: of[0], flusher_ran: of[1], flusher_waited: of[2], ran: of[3], most: of[4],
            });
            prop_assert!(assist.threads <= of[4]);
            prop_assert!(assist.threads.abs_diff(before) <= 1);
        }
    }
}
