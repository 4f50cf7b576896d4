// SPDX-License-Identifier: GPL-2.0-only
//! The ceiling, `memory.dirty_bytes` and `memory.dirty_ratio`: the most a cgroup may hold, and the
//! limits that keep it there. See `policy/ceiling.c`.

use crate::ffi as c;
use crate::pass::Pass;

/// The tightest ceiling, in pages: Linux refuses a `vm.dirty_bytes` below two pages, so does weir.
pub const CEILING_MIN: u64 = c::WEIR_CEILING_MIN as u64;

/// The two knobs as they were written.
pub use c::weir_ceiling as Ceiling;

impl Ceiling {
    /// The stricter of the two in pages, [`crate::UNLIMITED`] if neither is set. `avail` is the
    /// cgroup's dirtyable memory, which the ratio is of.
    pub fn limit_pages(&self, avail: u64) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_ceiling_pages(self, avail) }
    }
}

/// The smaller of `headroom`, which the cgroups below have, and what a cgroup with `limit` and
/// `used` pages has left.
pub fn memory_headroom(headroom: u64, limit: u64, used: u64) -> u64 {
    c::weir_memory_headroom(headroom, limit, used)
}

/// The memory that a ratio is a share of, in pages.
pub use c::weir_memory as Memory;

impl Memory {
    /// The cgroup's dirtyable memory.
    pub fn dirtyable_pages(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_ceiling_avail(self) }
    }
}

/// Linux's limits of one domain, in pages.
pub use c::weir_limits as Limits;

impl Limits {
    /// Holds the limits to one ceiling on the cgroup's path, whose pages are `counts`. Returns
    /// whether this ceiling is what the position is judged by now. Changes nothing for a reader.
    pub fn amend_by_ceiling(&mut self, ceiling: u64, counts: &Counts, kind: Pass) -> bool {
        // SAFETY: the pointers are valid for the call, `self` exclusively.
        unsafe { c::weir_ceiling_amend(self, ceiling, counts, kind) != 0 }
    }

    /// `true` if a writer is above the domain's freerun level.
    pub fn brakes_writers(&self) -> bool {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_limits_brake(self) != 0 }
    }
}

/// A cgroup's exact counts over all its devices, in pages.
pub use c::weir_counts as Counts;

/// The freerun level that `ceiling` makes, where the kernel's own limits are `stock`.
pub fn freerun_level(ceiling: u64, stock: &Limits) -> u64 {
    // SAFETY: the pointer is valid for the call.
    unsafe { c::weir_ceiling_freerun(ceiling, stock) }
}

/// Pages a task under a ceiling, which makes the level `freerun`, may dirty before its next look;
/// at least 1. `stock_poll` is what Linux would allow.
pub fn poll_pages(ceiling: u64, freerun: u64, counts: &Counts, stock_poll: u64) -> u64 {
    // SAFETY: the pointer is valid for the call.
    unsafe { c::weir_ceiling_poll(ceiling, freerun, counts, stock_poll) }
}

/// The part of `ceiling` that writers may fill, in pages; at least two.
pub fn writer_limit(ceiling: u64) -> u64 {
    c::weir_ceiling_limit(ceiling)
}

/// Pages that a subtree with `counts` has to `ceiling`; 0 if that is full.
pub fn pages_left(ceiling: u64, counts: &Counts) -> u64 {
    // SAFETY: the pointer is valid for the call.
    unsafe { c::weir_ceiling_left(ceiling, counts) }
}

/// `true` if a full ceiling lets a writer of `pages` past at `now_ns`, whose own wb has next to
/// nothing dirty; if so, `next_ns` becomes when it lets the next past.
pub fn take_turn_past(next_ns: &mut u64, now_ns: u64, pages: u64) -> bool {
    // SAFETY: the pointer is valid for the call, exclusively.
    unsafe { c::weir_ceiling_lets_past(next_ns, now_ns, pages) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGES_MAX, UNLIMITED, arith};

    const STOCK: Limits = Limits {
        thresh: 100_000,
        bg_thresh: 50_000,
        dirty: 10_000,
        dom_limit: 100_000,
    };
    const COUNTS: Counts = Counts {
        dirty: 8_000,
        writeback: 1_000,
    };

    const fn counts(dirty: u64) -> Counts {
        Counts {
            dirty,
            writeback: 0,
        }
    }

    /// The example at the top of `policy/ceiling.c`.
    #[test]
    fn worked_example() {
        let pages = Ceiling {
            bytes: 64 << 20,
            ratio_percent: 0,
        }
        .limit_pages(1_000_000);
        assert_eq!(pages, 16_384);

        let mut writer = STOCK;
        assert!(writer.amend_by_ceiling(pages, &COUNTS, Pass::Writer));
        let amended = Limits {
            thresh: 12_288,
            bg_thresh: 6_144,
            dirty: 9_000,
            dom_limit: 12_288,
        };
        assert_eq!(writer, amended);
        assert_eq!(arith::freerun_level(writer.thresh, writer.bg_thresh), 9_216);
        assert!(!writer.brakes_writers());
        assert_eq!(freerun_level(pages, &STOCK), 9_216);
        assert!(
            writer.amend_by_ceiling(32_768, &counts(23_000), Pass::Writer),
            "tighter"
        );
        assert_eq!((writer.thresh, writer.dirty), (12_288, 11_501));
        assert!(writer.brakes_writers());

        let mut flusher = STOCK;
        assert!(flusher.amend_by_ceiling(pages, &COUNTS, Pass::Flusher));
        assert_eq!(
            flusher.dirty, 8_000,
            "writeback does not keep the flusher going"
        );
    }

    #[test]
    fn a_wide_ceiling_that_is_nearly_full_holds_all_the_same() {
        let mut limits = STOCK;
        assert!(limits.amend_by_ceiling(200_000, &counts(180_000), Pass::Writer));
        assert_eq!((limits.thresh, limits.bg_thresh), (100_000, 50_000));
        assert_eq!(limits.dirty, 100_001, "over 150,000, where its pace ends");
        let mut limits = STOCK;
        assert!(!limits.amend_by_ceiling(200_000, &counts(14_000), Pass::Writer));
        assert_eq!(limits, STOCK, "the kernel's own position is tighter");
    }

    /// Counts two seconds old of a cgroup in `memory.max`, whose limit shrinks as it fills: above that,
    /// and below the smoothed one, which lags.
    #[test]
    fn a_full_ceiling_leaves_no_room_below_a_smoothed_limit() {
        let stock = Limits {
            thresh: 2_228,
            bg_thresh: 1_113,
            dirty: 2_559,
            dom_limit: 2_865,
        };
        let mut limits = stock;
        assert!(!limits.amend_by_ceiling(6_144, &counts(5_748), Pass::Writer));
        assert_eq!(limits.dom_limit, 2_228, "the ceiling's limit is 4,608");
        let mut limits = stock;
        assert!(!limits.amend_by_ceiling(6_144, &counts(4_607), Pass::Writer));
        assert_eq!(limits, stock);
    }

    #[test]
    fn the_stricter_knob_wins() {
        let pages = |bytes, ratio_percent, avail| {
            Ceiling {
                bytes,
                ratio_percent,
            }
            .limit_pages(avail)
        };
        assert_eq!(pages(UNLIMITED, 0, 1_000), UNLIMITED);
        assert_eq!(pages(UNLIMITED, 100, 1_000), 1_000);
        assert_eq!(pages(UNLIMITED, 10, 1_000), 100);
        assert_eq!(pages(50 << 12, 10, 1_000), 50);
        assert_eq!(pages(500 << 12, 10, 1_000), 100);
        assert_eq!(pages(0, 0, 1_000), CEILING_MIN);
        assert_eq!(pages(UNLIMITED, 1, 0), CEILING_MIN);
        assert_eq!(pages(UNLIMITED - 1, 0, 0), PAGES_MAX);
        assert_eq!(pages(UNLIMITED, 100, UNLIMITED), PAGES_MAX);
    }

    #[test]
    fn dirtyable_is_page_cache_and_what_it_can_grow_by() {
        let memory = Memory {
            file: 1_000,
            dirty: 400,
            headroom: UNLIMITED,
            host_avail: 10_000,
            host_dirty: 2_000,
        };
        assert_eq!(
            memory.dirtyable_pages(),
            8_400,
            "8,000 clean, 600 of them its own"
        );
        let limited = Memory {
            headroom: 50,
            ..memory
        };
        assert_eq!(limited.dirtyable_pages(), 1_050);
        let empty = Memory {
            host_avail: 0,
            ..memory
        };
        assert_eq!(empty.dirtyable_pages(), 1_000);
    }

    #[test]
    fn an_exact_count_below_the_kernels_own_frees_nobody() {
        let mut limits = Limits {
            dirty: 90_000,
            ..STOCK
        };
        assert!(!limits.amend_by_ceiling(16_384, &counts(0), Pass::Writer));
        assert_eq!(limits.dirty, 11_060, "90 % of the limit, as before");
    }

    #[test]
    fn smallest_limits() {
        for thresh in 0..=CEILING_MIN {
            let stock = Limits {
                thresh,
                bg_thresh: 0,
                dirty: 9,
                dom_limit: 9,
            };
            let mut limits = stock;
            assert!(
                limits.brakes_writers()
                    && !limits.amend_by_ceiling(CEILING_MIN, &counts(0), Pass::Writer),
                "as tight already"
            );
            assert_eq!(limits, stock);
        }
        let mut limits = Limits {
            thresh: 3,
            bg_thresh: 2,
            dirty: 0,
            dom_limit: 3,
        };
        assert!(
            !limits.amend_by_ceiling(CEILING_MIN, &counts(0), Pass::Writer),
            "empty"
        );
        assert_eq!(
            limits,
            Limits {
                thresh: 2,
                bg_thresh: 1,
                dirty: 0,
                dom_limit: 2
            }
        );
    }

    #[test]
    fn poll_keeps_300_writers_within_the_room() {
        let poll = |held, stock| poll_pages(16_384, 9_216, &counts(held), stock);
        assert_eq!(poll(9_216, 64), 14, "300 times 14 fit in the room of 7,168");
        assert_eq!(poll(9_216, 2), 2);
        assert_eq!(poll(9_216, 0), 1);
    }

    #[test]
    fn poll_keeps_64_writers_within_the_room_where_the_kernel_paces_them() {
        let poll = |held, stock| poll_pages(16_384, 9_216, &counts(held), stock);
        assert_eq!(poll(12_288, 256), 64, "64 times 64 are the room of 4,096");
        assert_eq!(poll(12_288, 8), 8, "the kernel's own choice");
        assert_eq!(poll(16_384, 256), 1);
        assert_eq!(poll(20_000, 256), 1);
    }

    /// Full is where the kernel's own limit is put, at 3/4.
    #[test]
    fn full_is_at_the_limit() {
        assert_eq!(pages_left(16_384, &counts(12_287)), 4_097);
        assert_eq!(pages_left(16_384, &counts(12_288)), 0);
        let on_the_way = Counts {
            dirty: 0,
            writeback: 12_288,
        };
        assert_eq!(pages_left(16_384, &on_the_way), 0);
        assert!(pages_left(UNLIMITED, &counts(PAGES_MAX)) > 0);
    }

    /// One pass keeps the others for a second at most, whatever it reports, and for some time.
    #[test]
    fn a_pass_of_any_size_ends() {
        let mut next_ns = 0;
        assert!(take_turn_past(&mut next_ns, 1_000, u64::MAX));
        assert_eq!(next_ns, 1_000_001_000);
        assert!(!take_turn_past(&mut next_ns, 1_000_000_999, 1));
        assert!(take_turn_past(&mut next_ns, 1_000_001_000, 0));
        assert!(!take_turn_past(&mut next_ns, 1_000_001_000, 1));
    }

    proptest::proptest! {
        /// However many ask for however much, in a second 1 MiB and one pass go past.
        #[test]
        fn a_mebibyte_a_second_goes_past(pages in 1_u64..=64, step_ns in 1_000_000_u64..=20_000_000) {
            let (mut next_ns, mut now_ns, mut past) = (0, 5, 0);
            while now_ns < 10_000_000_000 {
                if take_turn_past(&mut next_ns, now_ns, pages) {
                    past += pages;
                }
                now_ns += step_ns;
            }
            proptest::prop_assert!(past <= 2_560 + pages, "{past} pages in 10 s");
            let step_pages = 256 * step_ns / 1_000_000_000 + 1;
            let least = 2_560 * pages / (pages + step_pages) - pages;
            proptest::prop_assert!(past >= least, "{past} pages in 10 s, not {least}");
        }
    }
}
