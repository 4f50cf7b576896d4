// SPDX-License-Identifier: GPL-2.0-only
//! How many seconds of drain help a host now: see `policy/headroom.c`.

use crate::drain::{Beat, Drain};
use crate::ffi as c;

/// State between two beats.
pub use c::weir_headroom as Headroom;

/// A beat's figures besides those of [`Beat`]. The last two are C truth values.
pub use c::weir_headroom_look as Look;

impl Headroom {
    /// `drain_seconds` for this beat, which [`Drain::adapt_by_beat`] is to be called with.
    pub fn adapt_by_beat(&mut self, drain: &Drain, beat: &Beat, look: &Look) -> u64 {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_headroom_step(self, drain, beat, look) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of 4 KB in a tenth of a GB.
    const TENTH: u64 = 25_000;
    const RATE: u64 = 578 * 250;

    /// The published host of 384 GB, above its background level.
    const PUBLISHED: Beat = Beat {
        seconds: 0,
        elapsed_ms: 200,
        thresh: 155 * TENTH,
        bg_thresh: 77 * TENTH,
        dirtyable: 770 * TENTH,
        dirty: 100 * TENTH,
        writeback: TENTH,
        written: RATE / 5,
        kswapd_scanned: 0,
        kswapd_taken: 0,
        direct_scanned: 0,
        memory_stall_percent: 0,
        tighten: 0,
    };
    const RUNS: Look = Look {
        available: 800 * TENTH,
        ran: 1,
        waited: 0,
    };

    struct Host {
        headroom: Headroom,
        drain: Drain,
    }

    impl Host {
        fn new() -> Host {
            Host {
                headroom: Headroom::default(),
                drain: Drain::default(),
            }
        }

        /// So many beats; the seconds of the last.
        fn beats(&mut self, beats: u32, beat: &Beat, look: &Look) -> u64 {
            for _ in 0..beats {
                let seconds = self.headroom.adapt_by_beat(&self.drain, beat, look);
                self.drain.adapt_by_beat(&Beat { seconds, ..*beat });
            }
            self.headroom.seconds
        }
    }

    /// The same host with another amount of memory, all in proportion.
    fn of_gb(gb: u64) -> (Beat, Look) {
        let part = |pages: u64| pages * gb / 384;
        let beat = Beat {
            thresh: part(PUBLISHED.thresh),
            bg_thresh: part(PUBLISHED.bg_thresh),
            dirtyable: part(PUBLISHED.dirtyable),
            dirty: part(PUBLISHED.dirty),
            writeback: part(PUBLISHED.writeback),
            ..PUBLISHED
        };
        let look = Look {
            available: part(RUNS.available),
            ..RUNS
        };
        (beat, look)
    }

    #[test]
    fn worked_example() {
        for (gb, seconds) in [
            (64, 0),
            (128, 0),
            (256, 35),
            (384, 35),
            (512, 35),
            (1024, 0),
            (2048, 0),
        ] {
            let (beat, look) = of_gb(gb);
            assert_eq!(Host::new().beats(50, &beat, &look), seconds, "{gb} GB");
        }
    }

    #[test]
    fn three_busy_seconds_are_looked_at_first() {
        let mut host = Host::new();
        assert_eq!(host.beats(14, &PUBLISHED, &RUNS), 0);
        assert_eq!(host.beats(1, &PUBLISHED, &RUNS), 35);
        assert!(host.drain.limit > PUBLISHED.thresh);
    }

    #[test]
    fn a_flusher_that_waits_is_no_bottleneck() {
        let waits = Look {
            ran: 0,
            waited: 1,
            ..RUNS
        };
        assert_eq!(Host::new().beats(500, &PUBLISHED, &waits), 0);
        let queued = Beat {
            dirty: TENTH * 40,
            writeback: TENTH * 60,
            ..PUBLISHED
        };
        assert_eq!(Host::new().beats(500, &queued, &RUNS), 0, "others submit");
        let idle = Look { ran: 0, ..RUNS };
        assert_eq!(Host::new().beats(500, &PUBLISHED, &idle), 0, "not busy");
        // Once lifted, it ends after 3 s of waits within the ten that count.
        let mut host = Host::new();
        host.beats(100, &PUBLISHED, &RUNS);
        assert_eq!(host.beats(10, &PUBLISHED, &waits), 35);
        assert_eq!(host.beats(10, &PUBLISHED, &waits), 0);
        let drained = Beat {
            dirty: 60 * TENTH,
            ..PUBLISHED
        };
        host.beats(1, &drained, &waits);
        assert_eq!(host.drain.limit, 0, "and is withdrawn");
    }

    #[test]
    fn an_idle_host_keeps_what_was_found_for_the_next_burst() {
        let mut host = Host::new();
        host.beats(50, &PUBLISHED, &RUNS);
        let idle = Beat {
            dirty: 10 * TENTH,
            written: 0,
            ..PUBLISHED
        };
        let asleep = Look { ran: 0, ..RUNS };
        assert_eq!(host.beats(5_000, &idle, &asleep), 35);
    }

    #[test]
    fn scarce_memory_that_dirty_pages_do_not_fill_lets_it_go_on() {
        let mut host = Host::new();
        host.beats(50, &PUBLISHED, &RUNS);
        let scarce = Beat {
            direct_scanned: 1,
            ..PUBLISHED
        };
        assert_eq!(host.beats(1, &scarce, &RUNS), 35);
        assert_eq!(host.drain.limit, 0, "though nothing is lifted meanwhile");
        assert_eq!(host.beats(50, &PUBLISHED, &RUNS), 35);
        assert!(host.drain.limit > PUBLISHED.thresh);
    }

    #[test]
    fn scarce_memory_ends_it_for_ten_minutes() {
        let mut host = Host::new();
        let over = Beat {
            dirty: 120 * TENTH,
            ..PUBLISHED
        };
        host.beats(50, &over, &RUNS);
        let scarce = Beat {
            direct_scanned: 1,
            ..over
        };
        host.beats(1, &scarce, &RUNS);
        assert_eq!(host.beats(1, &over, &RUNS), 0);
        assert_eq!(host.beats(2_990, &PUBLISHED, &RUNS), 0);
        assert_eq!(host.beats(60, &PUBLISHED, &RUNS), 35);
        let little = Look {
            available: 200 * TENTH,
            ..RUNS
        };
        assert_eq!(host.beats(1, &PUBLISHED, &little), 0, "8 GB are 13 s");
    }

    proptest::proptest! {
        /// Nothing overflows, and what comes of it is what drain_seconds takes.
        #[test]
        fn any_input_is_taken(words in proptest::collection::vec(proptest::num::u64::ANY, 64)) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut from = arbitrary::Unstructured::new(&bytes);
            let drawn: arbitrary::Result<(Headroom, Drain, Beat, Look)> = from.arbitrary();
            if let Ok((mut headroom, drain, beat, look)) = drawn {
                let seconds = headroom.adapt_by_beat(&drain, &beat, &look);
                proptest::prop_assert!(seconds == 0 || (20..=35).contains(&seconds));
                proptest::prop_assert_eq!(headroom.adapt_by_beat(&drain, &beat, &look) <= 35, true);
            }
        }
    }
}
