// SPDX-License-Identifier: GPL-2.0-only
//! How much others may have under writeback at once while a cgroup's waits stay within a bound: see
//! `policy/narrow.c`.

use crate::UNLIMITED;
use crate::ffi as c;

/// State between two looks, in pages and milliseconds.
pub use c::weir_narrow as Narrow;

impl Default for Narrow {
    fn default() -> Narrow {
        Narrow {
            window: UNLIMITED,
            wall: UNLIMITED,
            set_ms: 0,
            held_ms: 0,
            used_ms: 0,
            wrote: 0,
            narrower: 0,
            slower: 0,
            calm_ms: 0,
            idle_ms: 0,
            vain_ms: 0,
            rest_ms: 0,
        }
    }
}

/// A look at the cgroup, and at those that may be limited for it.
pub use c::weir_narrow_look as Look;

impl Narrow {
    /// Takes one look in and changes the window by it.
    pub fn adapt_by_look(&mut self, look: &Look) {
        // SAFETY: both pointers are valid for the call.
        unsafe { c::weir_narrow_step(self, look) }
    }

    /// `true` if a narrower window can do nothing more for the bound.
    pub fn is_spent(&self, look: &Look) -> bool {
        // SAFETY: both pointers are valid for the call.
        unsafe { c::weir_narrow_is_spent(self, look) != 0 }
    }

    /// Waits that began longer ago than so many milliseconds do not count.
    pub fn since_ms(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_narrow_since_ms(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGES_MAX;
    use proptest::prelude::*;

    const LEAST: u64 = 16;

    /// A disk that writes `rate` pages a second for a flood with `enough` of them in flight, and in
    /// proportion with fewer; its queue takes so many; a wait is `waits` times as long as the disk takes for them, and `beside_ms` more.
    #[derive(Clone, Copy, Debug)]
    struct Disk {
        rate: u64,
        enough: u64,
        queue: u64,
        waits: u64,
        beside_ms: u64,
    }

    /// The disk of the example.
    const SLOW: Disk = Disk {
        rate: 4_096,
        enough: 32,
        queue: 2_048,
        waits: 3,
        beside_ms: 1,
    };

    impl Disk {
        /// Milliseconds of a wait under a window.
        fn wait_ms(&self, window: u64) -> u64 {
            self.waits * window.min(self.queue) * 1_000 / self.rate + self.beside_ms
        }

        fn look(&self, narrow: &Narrow, bound_ms: u64, in_flight: u64) -> Look {
            Look {
                value: self.wait_ms(in_flight) * 1_000_000,
                bound: bound_ms * 1_000_000,
                wait_us: bound_ms * 1_000 / 3,
                in_flight,
                written: self.rate * in_flight.min(self.enough) / self.enough,
                least: LEAST,
                elapsed_ms: 1_000,
                measured: u32::from(narrow.since_ms() > 0),
                frozen: 0,
            }
        }

        /// So many seconds of a flood; the waits, in milliseconds.
        fn run(&self, narrow: &mut Narrow, bound_ms: u64, seconds: u64) -> Vec<u64> {
            let mut in_flight = self.queue;
            let mut second = |_| {
                narrow.adapt_by_look(&self.look(narrow, bound_ms, in_flight));
                // A queue empties by what the disk writes, whatever the window is.
                let window = narrow.window.min(self.queue);
                in_flight = in_flight.saturating_sub(self.rate).max(window);
                self.wait_ms(in_flight)
            };
            (0..seconds).map(&mut second).collect()
        }
    }

    /// A second in which the wait is `ms`, with the window in effect.
    fn second(narrow: &mut Narrow, ms: u64, bound_ms: u64) {
        let in_flight = narrow.window.min(SLOW.queue);
        narrow.adapt_by_look(&Look {
            value: ms * 1_000_000,
            ..SLOW.look(narrow, bound_ms, in_flight)
        });
    }

    #[test]
    fn worked_example() {
        let mut narrow = Narrow::default();
        let waits = SLOW.run(&mut narrow, 30, 3);
        assert_eq!((narrow.window, waits[2]), (32, 24));
        let mut short = |seconds| {
            for _ in 0..seconds {
                second(&mut narrow, 17, 30);
            }
            (narrow.window, narrow.wall)
        };
        assert_eq!(short(5), (48, UNLIMITED));
        assert_eq!(short(5), (32, 48));
        assert_eq!(short(60), (32, 48), "it gave the disk nothing");
        let mut narrow = Narrow {
            window: 32,
            held_ms: SETTLED_MS,
            ..Narrow::default()
        };
        second(&mut narrow, 40, 30);
        assert_eq!((narrow.wall, narrow.window), (32, 18));
    }

    /// Time after which a window is judged, in milliseconds.
    const SETTLED_MS: u64 = 2_000;

    #[test]
    fn a_break_that_is_not_theirs_sets_no_window() {
        let mut narrow = Narrow::default();
        let look = Look {
            written: 0,
            ..SLOW.look(&narrow, 30, SLOW.queue)
        };
        narrow.adapt_by_look(&look);
        assert_eq!(narrow, Narrow::default());
        assert!(narrow.is_spent(&look), "ceilings may help");
    }

    #[test]
    fn a_window_grows_below_the_wall_and_only_while_it_is_filled() {
        let mut narrow = Narrow::default();
        SLOW.run(&mut narrow, 30, 3);
        let window = narrow.window;
        let quiet = |narrow: &mut Narrow, written| {
            narrow.adapt_by_look(&Look {
                value: 1_000_000,
                written,
                ..SLOW.look(narrow, 30, 0)
            });
        };
        for _ in 0..30 {
            quiet(&mut narrow, 3);
        }
        assert_eq!(narrow.window, window, "short waits say nothing");
        narrow.wall = 64;
        // The wider it is the more they write.
        let more = |narrow: &mut Narrow| quiet(narrow, 100 * narrow.window);
        for _ in 0..30 {
            more(&mut narrow);
        }
        assert_eq!(narrow.window, 48, "three quarters of the wall");
        for _ in 0..300 {
            more(&mut narrow);
        }
        assert!(narrow.wall > 64 && narrow.window > 48, "{narrow:?}");
    }

    #[test]
    fn the_least_window_is_spent_and_ends_if_it_was_in_vain() {
        let mut narrow = Narrow::default();
        let mut is_spent = Vec::new();
        for _ in 0..10 {
            second(&mut narrow, 900, 30);
            let look = Look {
                value: 900_000_000,
                ..SLOW.look(&narrow, 30, narrow.window)
            };
            is_spent.push(narrow.is_spent(&look));
        }
        assert_eq!(narrow.window, LEAST);
        assert!(!is_spent[0] && is_spent[9], "{is_spent:?}");
        for _ in 0..600 {
            second(&mut narrow, 900, 30);
        }
        assert_eq!(narrow.window, UNLIMITED);
        second(&mut narrow, 900, 30);
        assert_eq!(narrow.window, UNLIMITED, "it rests");
        for _ in 0..600 {
            second(&mut narrow, 900, 30);
        }
        assert_ne!(narrow.window, UNLIMITED);
    }

    #[test]
    fn a_window_stays_while_ceilings_are_in_force() {
        let mut narrow = Narrow {
            window: LEAST,
            ..Narrow::default()
        };
        for _ in 0..60 {
            narrow.adapt_by_look(&Look {
                value: 1,
                frozen: 1,
                ..SLOW.look(&narrow, 30, LEAST)
            });
        }
        assert_eq!(narrow.window, LEAST);
        second(&mut narrow, 1, 30);
        assert!(narrow.window > LEAST);
    }

    #[test]
    fn a_cgroup_that_waits_for_nothing_frees_the_others() {
        let mut narrow = Narrow::default();
        SLOW.run(&mut narrow, 30, 5);
        for _ in 0..61 {
            narrow.adapt_by_look(&Look {
                measured: 0,
                ..SLOW.look(&narrow, 30, narrow.window)
            });
        }
        assert_eq!(narrow.window, UNLIMITED);
    }

    proptest! {
        /// The bound is kept from the tenth second on, if the least window keeps it; and the window is
        /// not narrower than a third of what keeps it, or of what keeps the disk busy.
        #[test]
        fn a_disk_settles(
            rate in 500u64..500_000, enough in 16u64..2_000, queue in 64u64..100_000, waits in 1u64..5, bound_ms in 5u64..1_000,
        ) {
            let disk = Disk { rate, enough, queue, waits, beside_ms: 0 };
            prop_assume!(disk.wait_ms(queue) > bound_ms && disk.wait_ms(LEAST) * 5 / 4 < bound_ms);
            prop_assume!(queue < 4 * rate);
            // A disk that is busy with a second's pages at the most: windows are filled once a second.
            prop_assume!(enough <= rate);
            let mut narrow = Narrow::default();
            let found = disk.run(&mut narrow, bound_ms, 120);
            for wait in &found[15..] {
                prop_assert!(*wait <= bound_ms, "{narrow:?} {found:?}");
            }
            let keeps = enough.min(bound_ms * rate / 1_000 / waits);
            prop_assert!(narrow.window >= (keeps / 3).max(LEAST), "{narrow:?}, {keeps} keep it");
        }

        /// For any numbers: no window is below the least, falls to less than a quarter or grows to more
        /// than twice itself.
        #[test]
        fn any_look(state in any::<[u64; 12]>(), of in any::<[u64; 7]>(), flags in any::<[bool; 2]>()) {
            let before = Narrow {
                window: state[0], wall: state[1], set_ms: state[2], held_ms: state[3], used_ms: state[4],
                calm_ms: state[5], idle_ms: state[6], vain_ms: state[7], rest_ms: state[8], wrote: state[9],
                narrower: state[10], slower: state[11],
            };
            let look = Look {
                value: of[0], bound: of[1], wait_us: of[2], in_flight: of[3], written: of[4], least: of[5],
                elapsed_ms: of[6], measured: flags[0].into(), frozen: flags[1].into(),
            };
            let mut after = before;
            after.adapt_by_look(&look);
            let least = look.least.min(PAGES_MAX);
            if after.window != before.window && after.window != UNLIMITED && before.window != UNLIMITED {
                if after.window < before.window {
                    prop_assert!(after.window >= (before.window.min(PAGES_MAX) / 4).max(least));
                } else {
                    prop_assert!(after.window <= before.window.saturating_mul(2) + 1);
                }
            }
        }
    }
}
