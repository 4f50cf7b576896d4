// SPDX-License-Identifier: GPL-2.0-only
//! Which physical addresses to look through for a cgroup's pages, and how many at a time.
//!
//! A cgroup's pages lie anywhere in a tier's memory, and only some of them are cold (or hot). So to move 8,000 pages more than that
//! many have to be looked at. How many more is learned: at first a cgroup that has a quarter of the tier is taken to have a quarter of any range,
//! half of it fit to be moved: 8,000 pages are looked for among 64,000. If 12,000 were found there, the next 8,000 are
//! looked for among 51,000: (1/8 + 12/64) / 2 = 0.156 of what is looked at. The next range begins where the last one ended,
//! round and round.

use crate::tier::host::PAGE;

/// Of the pages looked at, never fewer than this part is taken to be found.
const LEAST_YIELD: f64 = 1.0 / 512.0;

/// The search for one cgroup's pages in one tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Pages into the tier's memory.
    cursor: u64,
    /// Pages found of those looked at.
    share: f64,
    /// Pages looked at and found since it last began at the same place.
    looked: u64,
    found: u64,
    /// Once around there was hardly a page fit to be moved.
    fruitless: bool,
}

impl Sweep {
    /// For a cgroup with so many pages in a tier of so many.
    pub fn new(pages: u64, capacity: u64) -> Sweep {
        let density = pages as f64 / capacity.max(1) as f64;
        Sweep {
            cursor: 0,
            share: (density / 2.0).clamp(LEAST_YIELD, 1.0),
            looked: 0,
            found: 0,
            fruitless: false,
        }
    }

    /// Whether it went around and found next to nothing: then pages are moved whatever they are.
    pub fn is_fruitless(&self) -> bool {
        self.fruitless
    }

    /// Of pages looked at, the part that is fit.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Addresses to look through for so many pages, `most` at once.
    pub fn next(&self, ranges: &[(u64, u64)], wanted: u64, most: u64) -> Vec<(u64, u64)> {
        let capacity: u64 = ranges.iter().map(|(start, end)| (end - start) / PAGE).sum();
        let pages = (wanted as f64 / self.share).ceil() as u64;
        let mut left = pages.min(most).min(capacity);
        let mut skip = self.cursor % capacity.max(1);
        let mut parts = Vec::new();
        // Twice: behind the end it goes on at the beginning.
        for (start, end) in ranges.iter().chain(ranges) {
            let length = (end - start) / PAGE;
            if skip >= length {
                skip -= length;
                continue;
            }
            let takes = left.min(length - skip);
            if takes > 0 {
                let first = start + skip * PAGE;
                parts.push((first, first + takes * PAGE));
            }
            left -= takes;
            skip = 0;
        }
        parts
    }

    /// Learns from a step: of the pages looked at, so many were found.
    pub fn learn(&mut self, looked: u64, found: u64, wanted: u64, capacity: u64) {
        if looked == 0 {
            return;
        }
        let share = found as f64 / looked as f64;
        self.share = ((self.share + share) / 2.0).clamp(LEAST_YIELD, 1.0);
        self.cursor = (self.cursor + looked) % capacity.max(1);
        self.looked += looked;
        self.found += found;
        if self.looked >= capacity {
            self.fruitless = self.found < wanted / 4;
            (self.looked, self.found) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: [(u64, u64); 2] = [(0, 600 * PAGE), (1000 * PAGE, 1400 * PAGE)];

    #[test]
    fn it_looks_at_more_than_it_wants_and_goes_round() {
        let mut sweep = Sweep::new(250, 1000);
        assert_eq!(sweep.next(&RANGES, 50, u64::MAX), [(0, 400 * PAGE)]);
        assert_eq!(sweep.next(&RANGES, 50, 100), [(0, 100 * PAGE)], "at most");
        sweep.learn(400, 75, 50, 1000);
        assert!((sweep.share - 0.156).abs() < 0.001, "{sweep:?}");
        assert_eq!(
            sweep.next(&RANGES, 50, u64::MAX),
            [(400 * PAGE, 600 * PAGE), (1000 * PAGE, 1120 * PAGE)]
        );
        sweep.learn(500, 75, 50, 1000);
        assert_eq!(
            sweep.next(&RANGES, 1000, u64::MAX),
            [
                (1300 * PAGE, 1400 * PAGE),
                (0, 600 * PAGE),
                (1000 * PAGE, 1300 * PAGE)
            ],
            "all of it, once"
        );
    }

    #[test]
    fn once_round_for_nothing_is_enough() {
        let mut sweep = Sweep::new(250, 1000);
        for _ in 0..2 {
            assert!(!sweep.is_fruitless());
            sweep.learn(500, 1, 50, 1000);
        }
        assert!(sweep.is_fruitless());
        sweep.learn(600, 40, 50, 1000);
        sweep.learn(600, 40, 50, 1000);
        assert!(!sweep.is_fruitless(), "there is something again");
    }
}
