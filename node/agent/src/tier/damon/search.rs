// SPDX-License-Identifier: GPL-2.0-only
//! The search for the pages of one move, slice by slice.

use crate::tier::damon::owners::{Block, PageOwners, Range, count_pages, inode_of};
use crate::tier::damon::scheme::{Pass, Scheme};
use crate::tier::damon::sweep::Sweep;
use crate::tier::engine::{Move, Way, spread_pages};
use crate::tier::host::{Node, TierHost};
use std::collections::VecDeque;

/// Cgroups of one tier, way and step at most; those with most to move first.
const SEARCHES: usize = 16;

/// A part of the pages that is not worth another slice: the next step sees to it.
const REST: u64 = 8;

/// A search for pages of one move.
pub struct Search {
    /// The move's place in the step.
    pub at: usize,
    pass: Pass,
    memcg: String,
    to: u32,
    way: Way,
    /// Blocks still to be searched.
    blocks: VecDeque<Block>,
    /// Address at which that ends; and `true` if it is all of the tier.
    end: u64,
    whole: bool,
    /// Pages wanting now, and when that is few enough.
    wanting: u64,
    rest: u64,
    /// Part of the pages in a slice that is taken to be fit, at least.
    share: f64,
    /// Pages that were moved.
    pub moved: u64,
    /// Pages of the cgroup that were looked at, and those in the slice under way.
    looked: u64,
    slice: u64,
}

impl Search {
    /// The search for a move's pages; none if there is no room for them.
    fn new(
        at: usize,
        wanted: &Move,
        sweep: &Sweep,
        tier: &[Range],
        most: u64,
        owners: &PageOwners,
    ) -> Result<Option<Search>, String> {
        let Some((to, room)) = spread_pages(&wanted.to, wanted.pages).first().copied() else {
            return Ok(None);
        };
        let whose = inode_of(&wanted.directory);
        let own =
            |range| -> Result<u64, String> { Ok(count_pages(&owners.read_range(range)?, whose)) };
        let enough = match (wanted.fit, wanted.way) {
            // Half of what is hot there, or less, is asked for: that tells what part is, as far as
            // a sample does.
            (true, Way::Up) => sweep.pages_to_look_at(room).max(wanted.held / 2),
            _ => sweep.pages_to_look_at(room),
        };
        let stretch = sweep.next(tier, enough, most, own)?;
        Ok(Some(Search {
            at,
            pass: match wanted.way {
                _ if sweep.is_fruitless() && !wanted.fit => Pass::All,
                Way::Up => Pass::Hot,
                Way::Down => Pass::Cold,
            },
            memcg: wanted.cgroup.to_string(),
            to,
            way: wanted.way,
            blocks: stretch.blocks.into(),
            end: stretch.end,
            whole: stretch.whole,
            wanting: room,
            rest: room / REST,
            // An exchange is as much one way as the other. What is asked for otherwise is half of a
            // difference: twice that is not too much.
            share: match wanted.fit {
                true => 1.0,
                false => sweep.fit_share().max(0.5),
            },
            moved: 0,
            looked: 0,
            slice: 0,
        }))
    }

    fn make_scheme(&self, range: Range, pass: Pass) -> Scheme {
        Scheme {
            memcg: self.memcg.clone(),
            to: self.to,
            way: self.way,
            range,
            pass,
        }
    }

    /// Schemes that mark pages first: all that may be looked at.
    pub fn marking_schemes(&self) -> Vec<Scheme> {
        let mut blocks = self.blocks.clone();
        let mut marks = Vec::new();
        while let Some(range) = take_adjacent(&mut blocks, u64::MAX).map(|block| block.range) {
            marks.push(self.make_scheme(range, Pass::Mark));
        }
        marks
    }

    /// The next addresses to go through, and how many pages are the cgroup's there: at most twice
    /// those wanting, where places are changed no more than those, and about `most`.
    pub fn next_slice(&mut self, most: u64) -> Option<(Scheme, u64)> {
        if self.wanting <= self.rest {
            return None;
        }
        let fit = (self.wanting as f64 / self.share) as u64;
        let slice = take_adjacent(&mut self.blocks, fit.min(most))?;
        self.slice = slice.pages;
        Some((self.make_scheme(slice.range, self.pass), slice.pages))
    }

    /// Notes that so many pages of the slice were moved.
    pub fn note_moved(&mut self, pages: u64) {
        self.looked += self.slice;
        self.moved += pages;
        self.wanting = self.wanting.saturating_sub(pages);
    }

    /// Tells the sweep what came of it.
    pub fn teach_sweep(&self, wanted: &Move, sweep: &mut Sweep) {
        let next = self.blocks.front().map(|block| block.range.0);
        let through = self.whole && next.is_none();
        let round = through || sweep.looked_pages() + self.looked >= wanted.held;
        let cursor = next.unwrap_or(self.end);
        sweep.learn_from_step(self.looked, self.moved, wanted.pages, cursor, round);
    }
}

/// Takes blocks that follow each other, the first one and then as long as there are at most so many
/// pages in them.
fn take_adjacent(blocks: &mut VecDeque<Block>, most: u64) -> Option<Block> {
    let mut taken = blocks.pop_front()?;
    while let Some(next) = blocks.front() {
        if next.range.0 < taken.range.1 || taken.pages + next.pages > most {
            break;
        }
        taken.range.1 = next.range.1;
        taken.pages += next.pages;
        blocks.pop_front();
    }
    Some(taken)
}

/// A tier that pages leave in one direction.
pub struct Searches {
    /// Addresses of the tier.
    pub ranges: Vec<Range>,
    /// Searches in that tier.
    pub all: Vec<Search>,
}

impl Searches {
    /// Prepares the searches for moves out of one tier, given with their places in the step and
    /// their sweeps.
    ///
    /// # Errors
    /// The kernel does not tell what lies where.
    pub fn new(
        host: &TierHost,
        owners: &PageOwners,
        mut moves: Vec<(usize, &Move, &Sweep)>,
        most: u64,
    ) -> Result<Searches, String> {
        moves.sort_by_key(|(_, wanted, _)| std::cmp::Reverse(wanted.pages));
        moves.truncate(SEARCHES);
        let ranges = match moves.first() {
            Some((_, wanted, _)) => address_ranges(host, &wanted.from)?,
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for (at, wanted, sweep) in moves {
            all.extend(Search::new(at, wanted, sweep, &ranges, most, owners)?);
        }
        Ok(Searches { ranges, all })
    }

    /// Leaves out cgroups that are gone meanwhile: the kernel would refuse the others with them.
    pub fn drop_gone(&mut self, moves: &[Move]) {
        self.all
            .retain(|search| moves[search.at].directory.is_dir());
    }
}

/// Physical addresses of some nodes, in order.
///
/// # Errors
/// The kernel does not tell of them.
pub fn address_ranges(host: &TierHost, nodes: &[Node]) -> Result<Vec<Range>, String> {
    let mut ranges = Vec::new();
    for node in nodes {
        ranges.extend(
            host.node_addresses(node.id)
                .map_err(|why| format!("{why:#}"))?,
        );
    }
    ranges.sort_unstable();
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_keeps_to_what_may_be_done_at_once() {
        let block = |start: u64| Block {
            range: (start, start + 10),
            pages: 500,
        };
        let mut search = Search {
            at: 0,
            pass: Pass::Cold,
            memcg: "/a".into(),
            to: 1,
            way: Way::Down,
            blocks: [block(0), block(10), block(20), block(30)].into(),
            end: 40,
            whole: true,
            wanting: 900,
            rest: 0,
            share: 0.5,
            moved: 0,
            looked: 0,
            slice: 0,
        };
        let of = |search: &mut Search, most| {
            let slice = search.next_slice(most);
            slice.map(|(scheme, pages)| (scheme.range, pages))
        };
        assert_eq!(of(&mut search, 1000), Some(((0, 20), 1000)));
        assert_eq!(search.looked, 0, "it may come to nothing");
        search.note_moved(650);
        assert_eq!((search.looked, search.moved), (1000, 650));
        assert_eq!(of(&mut search, 1), Some(((20, 30), 500)), "one at least");
        search.note_moved(250);
        assert_eq!(of(&mut search, 1000), None, "that was all");
    }

    #[test]
    fn a_slice_has_no_more_pages_than_may_move_and_never_goes_back() {
        let block = |start: u64, pages| Block {
            range: (start, start + 10),
            pages,
        };
        let mut blocks: VecDeque<Block> =
            [block(40, 9), block(50, 5), block(90, 5), block(0, 1)].into();
        let taken = |start, end, pages| {
            Some(Block {
                range: (start, end),
                pages,
            })
        };
        assert_eq!(
            take_adjacent(&mut blocks, 8),
            taken(40, 50, 9),
            "one at least"
        );
        assert_eq!(
            take_adjacent(&mut blocks, 20),
            taken(50, 100, 10),
            "over a gap"
        );
        assert_eq!(take_adjacent(&mut blocks, 20), taken(0, 10, 1));
        assert_eq!(take_adjacent(&mut blocks, 20), None);
    }
}
