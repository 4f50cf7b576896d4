// SPDX-License-Identifier: GPL-2.0-only
//! What a cgroup's flushers have under writeback at once, `memory.writeback_bytes`; see
//! `policy/window.c`. Pages and nanoseconds.

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn weir_window_part(window: u64) -> u64;
        pub fn weir_window_excess(window: u64, in_flight: u64) -> u64;
        pub fn weir_window_sleep_ns(excess: u64, rate: *const Rate) -> u64;
        pub fn weir_window_rate_note(rate: *mut Rate, pages: u64, ns: u64, part: u64);
        pub fn weir_places_part(places: u32, asking: u32) -> u32;
    }
}

/// The least window, in bytes.
pub const WINDOW_MIN: u64 = 64 << 10;
/// The longest time that one call of a filesystem's writepages is held, in milliseconds.
pub const CALL_MOST_MS: u64 = 200;

/// The rate at which pages were written of late.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "check"), derive(arbitrary::Arbitrary))]
pub struct Rate {
    /// Pages that were written.
    pub pages: u64,
    /// The time that they took, in nanoseconds.
    pub ns: u64,
}

impl Rate {
    /// Notes that `pages` were written in `ns`, while a flusher waited that submits `part` pages at
    /// a time. Older figures fade.
    pub fn record_rate(&mut self, pages: u64, ns: u64, part: u64) {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_window_rate_note(self, pages, ns, part) }
    }
}

/// Pages that a flusher submits at a time under a window of `window` pages.
pub fn part_pages(window: u64) -> u64 {
    // SAFETY: pure arithmetic.
    unsafe { c::weir_window_part(window) }
}

/// Pages to be written before there is room for a part, with `in_flight` under writeback; 0 if
/// there is room.
pub fn excess_pages(window: u64, in_flight: u64) -> u64 {
    // SAFETY: pure arithmetic.
    unsafe { c::weir_window_excess(window, in_flight) }
}

/// For how long a flusher sleeps, in nanoseconds, until `excess` pages are written at `rate`.
pub fn sleep_ns(excess: u64, rate: &Rate) -> u64 {
    // SAFETY: `rate` is a valid struct of the C layout.
    unsafe { c::weir_window_sleep_ns(excess, rate) }
}

/// Flushers that may sleep at a time in each of `asking` cgroups side by side, of `places` for all.
pub fn places_part(places: u32, asking: u32) -> u32 {
    // SAFETY: pure arithmetic.
    unsafe { c::weir_places_part(places, asking) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example at the top of `window.c`: 256 KiB on a disk of 16 MB/s.
    #[test]
    fn a_window_is_filled_in_four_parts() {
        let window = 64;
        assert_eq!(part_pages(window), 16);
        assert_eq!(excess_pages(window, 48), 0);
        assert_eq!(excess_pages(window, 64), 16);
        let mut rate = Rate::default();
        rate.record_rate(16, 4_000_000, part_pages(window));
        assert_eq!(sleep_ns(16, &rate), 2_000_000);
    }

    #[test]
    fn a_part_is_at_least_64_kib_and_at_most_8_mib() {
        assert_eq!(part_pages(16), 16);
        assert_eq!(part_pages(511), 127);
        assert_eq!(part_pages(512), 256);
        assert_eq!(part_pages(u64::MAX), 2048);
        // A window that is no larger than a part has room once nothing is in flight.
        assert_eq!((excess_pages(16, 0), excess_pages(16, 1)), (0, 1));
    }

    #[test]
    fn a_sleep_has_bounds_whatever_was_measured() {
        let sleeps = |pages, ns, excess| sleep_ns(excess, &Rate { pages, ns });
        assert_eq!(sleeps(0, 0, 1), 200_000);
        assert_eq!(sleeps(1, 1_000_000_000, u64::MAX), 10_000_000);
        assert_eq!(sleeps(1_000_000, 1, 100), 200_000);
    }

    #[test]
    fn a_rate_follows_the_disk() {
        let mut rate = Rate::default();
        for _ in 0..20 {
            rate.record_rate(16, 4_000_000, 16);
        }
        for _ in 0..20 {
            rate.record_rate(16, 400_000, 16);
        }
        let page = rate.ns / rate.pages;
        assert!((25_000..30_000).contains(&page), "{page}");
        rate.record_rate(u64::MAX, u64::MAX, 16);
        assert!(rate.pages <= 64 && rate.ns <= 1_000_000_000, "{rate:?}");
    }

    /// The example above `weir_places_part()` in `window.c`.
    #[test]
    fn places_are_divided_at_each_level() {
        let disk = places_part(192, 1);
        let tenant = places_part(disk, 2);
        assert_eq!((disk, tenant, places_part(tenant, 1)), (144, 54, 41));
    }

    #[test]
    fn a_quarter_of_the_places_is_left_and_one_is_for_each() {
        for places in 0..=256 {
            assert_eq!(places_part(places, 0), places_part(places, 1));
            for asking in 1..=300 {
                let part = places_part(places, asking);
                let all = u64::from(part) * u64::from(asking);
                let most = u64::from(places - places / 4);
                assert!(part == 1 || all <= most, "{places}, {asking}: {part}");
                assert!(all + u64::from(asking) > most, "{places}, {asking}: {part}");
            }
        }
        assert_eq!(places_part(u32::MAX, u32::MAX), 1);
    }
}
