// SPDX-License-Identifier: GPL-2.0-only
//! Which physical addresses to look through for a cgroup's pages, and how many at a time.
//!
//! A cgroup's pages lie anywhere in a tier's memory, and only some of them are cold (or hot). Where
//! they lie the kernel tells ([`super::owners`]); which part of them is fit to be moved is learned:
//! at first half. So 8,000 pages are looked for among 16,000 of the cgroup's. If 12,000 were found
//! there, the next 8,000 are looked for among 12,800: (1/2 + 12/16) / 2 = 0.625. The next search
//! begins where the last one ended, round and round.

use crate::tier::damon::owners::{BLOCK, Block, Range};
use crate::tier::host::PAGE;
use knobs::PageSize;

/// Least part of the pages looked at that is taken to be fit.
const LEAST_YIELD: f64 = 1.0 / 512.0;

/// The search for one cgroup's pages in one tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The address where it goes on.
    cursor: u64,
    /// Part of the pages looked at that was fit.
    share: f64,
    /// Pages looked at and found since it last began at the same place.
    looked: u64,
    found: u64,
    /// Once around there was hardly a page fit to be moved.
    fruitless: bool,
}

/// Blocks to look through.
#[derive(Debug, Default, PartialEq)]
pub struct Stretch {
    /// Blocks in which the cgroup has pages, in the order they are to be looked at.
    pub blocks: Vec<Block>,
    /// The address where that ends.
    pub end: u64,
    /// `true` if it is all of the tier.
    pub whole: bool,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            cursor: 0,
            share: 0.5,
            looked: 0,
            found: 0,
            fruitless: false,
        }
    }
}

impl Sweep {
    /// Returns whether it went around and found next to nothing: then pages are moved whatever they
    /// are.
    pub fn is_fruitless(&self) -> bool {
        self.fruitless
    }

    /// Part of the pages looked at that is fit.
    pub fn fit_share(&self) -> f64 {
        self.share
    }

    /// Number of pages to look at for so many that are fit.
    pub fn pages_to_look_at(&self, wanted: u64) -> u64 {
        (wanted as f64 / self.share).ceil() as u64
    }

    /// Chooses the blocks to look at so many of its pages, through `most` at once. `count` tells
    /// how many of the cgroup's are in a range.
    ///
    /// # Errors
    /// Those of `count`.
    pub fn next(
        &self,
        ranges: &[Range],
        enough: u64,
        most: u64,
        mut count: impl FnMut(Range) -> Result<u64, String>,
    ) -> Result<Stretch, String> {
        // A page of the kernel is counted whole.
        let page = PageSize::running().bytes();
        let (mut pages, mut left) = (
            0,
            (most * PAGE)
                .checked_next_multiple_of(page)
                .unwrap_or(u64::MAX),
        );
        let mut stretch = Stretch {
            end: self.cursor,
            ..Stretch::default()
        };
        for (mut start, end) in self.ranges_onwards(ranges) {
            while start < end {
                if pages >= enough || left == 0 {
                    return Ok(stretch);
                }
                let range = (start, end.min(start + left.min(BLOCK)));
                let own = count(range)?;
                if own > 0 {
                    stretch.blocks.push(Block { range, pages: own });
                }
                pages += own;
                left -= range.1 - range.0;
                (start, stretch.end) = (range.1, range.1);
            }
        }
        stretch.whole = true;
        Ok(stretch)
    }

    /// The ranges from the cursor on, and behind the end from the beginning.
    fn ranges_onwards(&self, ranges: &[Range]) -> Vec<Range> {
        let behind = ranges
            .iter()
            .map(|(start, end)| (*start.max(&self.cursor), *end));
        let before = ranges
            .iter()
            .map(|(start, end)| (*start, *end.min(&self.cursor)));
        let all = behind.chain(before);
        all.filter(|(start, end)| start < end).collect()
    }

    /// Learns from a step: of so many of its pages looked at, so many were found. The next one
    /// begins at `cursor`; `round` says that there are no more of them than these.
    pub fn learn_from_step(
        &mut self,
        looked: u64,
        found: u64,
        wanted: u64,
        cursor: u64,
        round: bool,
    ) {
        if looked > 0 {
            let share = found as f64 / looked as f64;
            self.share = ((self.share + share) / 2.0).clamp(LEAST_YIELD, 1.0);
        }
        self.cursor = cursor;
        self.looked += looked;
        self.found += found;
        if round {
            self.fruitless = self.found < wanted / 4;
            (self.looked, self.found) = (0, 0);
        }
    }

    /// Pages looked at since it last began at the same place.
    pub fn looked_pages(&self) -> u64 {
        self.looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const RANGES: [Range; 2] = [(0, 8 * MIB), (16 * MIB, 20 * MIB)];

    /// A cgroup with 100 pages in every block, but none in the second.
    fn count((start, _): Range) -> Result<u64, String> {
        Ok(if start == 2 * MIB { 0 } else { 100 })
    }

    fn starts(sweep: &Sweep, wanted: u64, most: u64) -> (Vec<u64>, bool) {
        let stretch = sweep.next(&RANGES, sweep.pages_to_look_at(wanted), most, count);
        let stretch = stretch.expect("counted");
        let starts = stretch.blocks.iter().map(|block| block.range.0 / MIB);
        (starts.collect(), stretch.whole)
    }

    #[test]
    fn it_looks_at_more_than_it_wants_and_goes_round() {
        let mut sweep = Sweep::default();
        assert_eq!(starts(&sweep, 100, u64::MAX / PAGE), (vec![0, 4], false));
        assert_eq!(
            starts(&sweep, 100, 2 * BLOCK / PAGE),
            (vec![0], false),
            "at most"
        );
        sweep.learn_from_step(200, 50, 100, 6 * MIB, false);
        assert!((sweep.fit_share() - 0.375).abs() < 0.001, "{sweep:?}");
        assert_eq!(starts(&sweep, 100, 1 << 20), (vec![6, 16, 18], false));
        sweep.learn_from_step(300, 300, 100, 18 * MIB, false);
        let all = (vec![18, 0, 4, 6, 16], true);
        assert_eq!(starts(&sweep, 1000, 1 << 20), all, "all of it, once");
    }

    #[test]
    fn where_it_has_nothing_it_goes_on() {
        let stretch = Sweep::default().next(&RANGES, 10, BLOCK / PAGE, |_| Ok(0));
        let stretch = stretch.expect("counted");
        assert_eq!((stretch.blocks, stretch.end), (vec![], 2 * MIB));
        let gone = Sweep::default().next(&RANGES, 10, BLOCK / PAGE, |_| Err("no".into()));
        assert_eq!(gone, Err("no".into()));
    }

    #[test]
    fn once_round_for_nothing_is_enough() {
        let mut sweep = Sweep::default();
        sweep.learn_from_step(250, 1, 50, 0, false);
        assert!(!sweep.is_fruitless());
        sweep.learn_from_step(250, 1, 50, 0, true);
        assert!(sweep.is_fruitless());
        sweep.learn_from_step(300, 20, 50, 0, false);
        sweep.learn_from_step(300, 20, 50, 0, true);
        assert!(!sweep.is_fruitless(), "there is something again");
    }
}
