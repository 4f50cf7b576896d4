// SPDX-License-Identifier: GPL-2.0-only
//! What a cgroup's flushers have under writeback at once, `memory.writeback_bytes`; see
//! `policy/window.c`. Pages and nanoseconds.

use crate::ffi as c;

/// The least window, in bytes.
pub const WINDOW_MIN: u64 = c::WEIR_WINDOW_MIN as u64;
/// The longest time that one call of a filesystem's writepages is held, in milliseconds.
pub const CALL_MOST_MS: u64 = c::WEIR_WINDOW_CALL_MOST_MS as u64;

/// The rate at which pages were written of late.
pub use c::weir_window_rate as Rate;

impl Rate {
    /// Notes that `pages` were written in `ns`, while a flusher waited that submits `part` pages at
    /// a time. Older figures fade.
    pub fn record_rate(&mut self, pages: u64, ns: u64, part: u64) {
        // SAFETY: `self` is a valid struct of the C layout.
        unsafe { c::weir_window_rate_note(self, pages, ns, part) }
    }
}

/// Pace of a flusher's pages beside those of others on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Nothing is known, or they are late.
    #[default]
    Unknown = c::WEIR_PACE_UNKNOWN as isize,
    /// They are written as fast as any.
    Moves = c::WEIR_PACE_MOVES as isize,
    /// Others' later ones were written before them: something holds them above the device.
    Held = c::WEIR_PACE_HELD as isize,
}

/// A flusher's pages at a time, which are due before later ones of others. All 0 at first.
pub use c::weir_window_mark as Mark;

/// A device's speed, by the pages of its flushers. All 0 at first.
pub use c::weir_window_device as Device;

/// Pages that a flusher and all others on the device have written, and have in flight, at a time in
/// milliseconds.
pub use c::weir_window_progress as Progress;

impl Mark {
    /// Notes how far all have come; how the flusher's pages get on.
    pub fn note_progress(&mut self, device: &mut Device, now: &Progress) -> Pace {
        // SAFETY: all three are valid structs of the C layouts.
        match unsafe { c::weir_window_pace(self, device, now) } {
            c::WEIR_PACE_MOVES => Pace::Moves,
            c::WEIR_PACE_HELD => Pace::Held,
            _ => Pace::Unknown,
        }
    }
}

/// Pages below a window: all in flight, and those of flushers that move or are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Pages of all flushers below the window.
    pub all: u64,
    /// Pages of those flushers that move.
    pub moving: u64,
    /// Pages of those flushers that are held.
    pub held: u64,
}

/// Pages that count against a window of `window` for a flusher of `pace` with `own` in flight.
pub fn taken_pages(window: u64, pace: Pace, own: u64, below: &InFlight) -> u64 {
    c::weir_window_taken(
        window,
        pace as u32,
        own,
        below.all,
        below.moving,
        below.held,
    )
}

/// Pages that a flusher submits at a time under a window of `window` pages.
pub fn part_pages(window: u64) -> u64 {
    c::weir_window_part(window)
}

/// Pages to be written before there is room for a part, with `in_flight` under writeback; 0 if
/// there is room.
pub fn excess_pages(window: u64, in_flight: u64) -> u64 {
    c::weir_window_excess(window, in_flight)
}

/// For how long a flusher sleeps, in nanoseconds, until `excess` pages are written at `rate`.
pub fn sleep_ns(excess: u64, rate: &Rate) -> u64 {
    // SAFETY: `rate` is a valid struct of the C layout.
    unsafe { c::weir_window_sleep_ns(excess, rate) }
}

/// Flushers that may sleep at a time in each of `asking` cgroups side by side, of `places` for all.
pub fn places_part(places: u32, asking: u32) -> u32 {
    c::weir_places_part(places, asking)
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

    /// One that submits 16 pages at a time beside another, on a device that writes 4 in a millisecond.
    fn progress_at(ms: u64, written: u64, in_flight: u64, others: (u64, u64)) -> Progress {
        let (others_written, others_in_flight) = others;
        Progress {
            written,
            in_flight,
            others_written,
            others_in_flight,
            moving: 0,
            ms,
        }
    }

    #[test]
    fn pages_that_later_ones_overtake_are_held_until_they_move() {
        let (mut mark, mut device) = (Mark::default(), Device::default());
        let mut note = |now: Progress| mark.note_progress(&mut device, &now);
        assert_eq!(note(progress_at(5000, 0, 16, (0, 48))), Pace::Unknown);
        // Twice as many as may have been in front, and a part, are no proof.
        assert_eq!(note(progress_at(5028, 0, 16, (112, 48))), Pace::Unknown);
        assert_eq!(note(progress_at(5029, 0, 16, (113, 48))), Pace::Held);
        // Written at last, it says nothing; a next part says so.
        assert_eq!(note(progress_at(5060, 16, 16, (240, 48))), Pace::Held);
        assert_eq!(note(progress_at(5076, 32, 0, (288, 48))), Pace::Moves);
    }

    #[test]
    fn a_device_that_hangs_holds_no_ones_pages() {
        let (mut mark, mut device) = (Mark::default(), Device::default());
        for ms in 0..10_000 {
            let pace = mark.note_progress(&mut device, &progress_at(ms, 0, 64, (0, 1000)));
            assert_ne!(pace, Pace::Held);
        }
    }

    #[test]
    fn one_whose_inodes_went_to_another_wb_is_not_held() {
        let (mut mark, mut device) = (Mark::default(), Device::default());
        mark.note_progress(&mut device, &progress_at(0, 0, 64, (0, 0)));
        let pace = mark.note_progress(&mut device, &progress_at(1000, 0, 0, (4000, 0)));
        assert_eq!(pace, Pace::Unknown);
    }

    #[test]
    fn late_pages_do_not_move() {
        let mut device = Device::default();
        let mut takes = |began: u64, ms: u64| {
            let mut mark = Mark::default();
            mark.note_progress(&mut device, &progress_at(began, 0, 16, (0, 48)));
            mark.note_progress(&mut device, &progress_at(began + ms, 16, 0, (0, 48)))
        };
        // Five parts in front of it and itself took a millisecond each at best: twice that and a
        // tick for each, and one.
        assert_eq!(takes(5000, 5), Pace::Moves);
        assert_eq!(takes(5010, 34), Pace::Moves);
        assert_eq!(takes(5050, 35), Pace::Unknown);
        // The least of a second ago is forgotten: the device may be slower now.
        assert_eq!(takes(7000, 64), Pace::Unknown);
        assert_eq!(takes(7100, 64), Pace::Moves);
    }

    #[test]
    fn none_is_known_to_move_where_nothing_is_written() {
        let mut device = Device::default();
        let (mut late, mut idle) = (Mark::default(), Mark::default());
        for mark in [&mut late, &mut idle] {
            mark.note_progress(&mut device, &progress_at(5000, 0, 16, (0, 0)));
            let pace = mark.note_progress(&mut device, &progress_at(5000, 16, 0, (0, 0)));
            assert_eq!(pace, Pace::Moves);
        }
        // One that slept is still known to move, where no pages are late.
        let asks = progress_at(9000, 16, 0, (0, 0));
        assert_eq!(idle.note_progress(&mut device, &asks), Pace::Moves);
        late.note_progress(&mut device, &progress_at(9000, 16, 16, (0, 0)));
        let waits = progress_at(9013, 16, 16, (0, 0));
        assert_eq!(late.note_progress(&mut device, &waits), Pace::Unknown);
        // Two ticks later one tries, while no other does.
        let mut note = |now: Progress| idle.note_progress(&mut device, &now);
        assert_eq!(note(progress_at(9020, 16, 0, (0, 16))), Pace::Unknown);
        let another_tries = Progress {
            moving: 16,
            ..progress_at(9021, 16, 0, (0, 16))
        };
        assert_eq!(note(another_tries), Pace::Unknown);
        assert_eq!(note(progress_at(9021, 16, 0, (0, 16))), Pace::Moves);
    }

    /// However many flushers moved before: four have pages on a device that hangs.
    #[test]
    fn few_try_a_device_that_hangs() {
        let mut device = Device::default();
        let moves = |device: &mut Device| {
            let mut mark = Mark::default();
            mark.note_progress(device, &progress_at(0, 0, 16, (0, 0)));
            mark.note_progress(device, &progress_at(0, 16, 0, (0, 0)));
            mark
        };
        let mut marks: Vec<Mark> = (0..64).map(|_| moves(&mut device)).collect();
        let mut in_flight = vec![0; marks.len()];
        for ms in 1..100_000 {
            let moving: u64 = marks
                .iter()
                .zip(&in_flight)
                .filter(|(mark, _)| mark.pace == Pace::Moves as u64)
                .map(|(_, pages)| pages)
                .sum();
            for (mark, pages) in marks.iter_mut().zip(&mut in_flight) {
                let now = Progress {
                    moving,
                    ..progress_at(ms, 16, *pages, (0, 0))
                };
                let pace = mark.note_progress(&mut device, &now);
                if pace == Pace::Moves && *pages == 0 && moving == 0 {
                    *pages = 16;
                    break;
                }
            }
        }
        assert_eq!(in_flight.iter().sum::<u64>() / 16, 4);
    }

    #[test]
    fn held_pages_take_no_room_but_beyond_two_windows() {
        let below = |moving, held, unknown| InFlight {
            all: moving + held + unknown,
            moving,
            held,
        };
        let taken = |pace, own, below: InFlight| taken_pages(64, pace, own, &below);
        assert_eq!(taken(Pace::Unknown, 0, below(32, 128, 0)), 32);
        assert_eq!(taken(Pace::Unknown, 0, below(32, 144, 0)), 48);
        assert_eq!(taken(Pace::Moves, 16, below(32, 48, 16)), 48);
        // Half the window is for those that move, however much others have.
        assert_eq!(taken(Pace::Moves, 16, below(16, 200, 64)), 48);
        assert_eq!(taken(Pace::Moves, 0, below(0, 200, 64)), 0);
        // Held flushers have a part each, and more of it in a window of their own.
        assert_eq!(taken(Pace::Held, 16, below(64, 48, 0)), 48);
        assert_eq!(taken(Pace::Held, 0, below(32, 100, 0)), 32);
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
