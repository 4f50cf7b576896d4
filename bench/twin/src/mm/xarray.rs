// SPDX-License-Identifier: GPL-2.0-only
//! Dirty pages of a file (or those in the cache, or, of a reader's, there): one bit each, in pieces
//! of 4,096 pages (16 MiB) that exist only while one of theirs is dirty. A sequential writer of a
//! huge file so needs memory for what is dirty, not for the file.

const WORDS: usize = 64;
const PIECE: u64 = 64 * WORDS as u64;

#[derive(Clone, Debug)]
struct Piece {
    dirty: u32,
    bits: [u64; WORDS],
}

/// The dirty pages of one file.
#[derive(Clone, Debug)]
pub struct Pages {
    size: u64,
    dirty: u64,
    pieces: Vec<Option<Box<Piece>>>,
}

impl Pages {
    /// Of a file of `size` pages, all clean.
    pub fn new(size: u64) -> Pages {
        Pages {
            size,
            dirty: 0,
            pieces: vec![None; size.div_ceil(PIECE) as usize],
        }
    }

    /// Pages of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of dirty pages.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty
    }

    /// Dirties up to `count` pages from `start` on, and stops after the one that makes `enough`
    /// newly dirty. Returns how many it went over and how many of them were clean.
    pub fn set(&mut self, start: u64, count: u64, enough: u64) -> (u64, u64) {
        self.set_words(start, count, enough, |_, _| {})
    }

    /// The same; tells which were clean, as runs: the first page and how many.
    #[inline]
    pub fn set_and_tell(
        &mut self,
        start: u64,
        count: u64,
        enough: u64,
        mut tell: impl FnMut(u64, u64),
    ) -> (u64, u64) {
        self.set_words(start, count, enough, |at, mut clean| {
            while clean != 0 {
                let first = u64::from(clean.trailing_zeros());
                let run = u64::from((clean >> first).trailing_ones());
                tell(at + first, run);
                clean &= !(low_bits(run) << first);
            }
        })
    }

    /// The same; tells which were clean of each word: its first page, and a bit for each.
    #[inline]
    fn set_words(
        &mut self,
        start: u64,
        count: u64,
        enough: u64,
        mut tell: impl FnMut(u64, u64),
    ) -> (u64, u64) {
        let end = (start + count).min(self.size);
        let (mut at, mut newly) = (start, 0);
        while at < end && newly < enough {
            let piece = self.pieces[(at / PIECE) as usize].get_or_insert_with(|| {
                Box::new(Piece {
                    dirty: 0,
                    bits: [0; WORDS],
                })
            });
            let word = &mut piece.bits[(at % PIECE / 64) as usize];
            let bit = at % 64;
            // Never past what is still allowed, even if all of it is clean.
            let len = (64 - bit).min(end - at).min(enough - newly);
            let mask = low_bits(len) << bit;
            let clean = mask & !*word;
            // Counting takes some twenty instructions without POPCNT.
            let fresh = match clean {
                0 => 0,
                _ if clean == mask => len,
                _ => clean.count_ones().into(),
            };
            *word |= mask;
            tell(at - bit, clean);
            piece.dirty += fresh as u32;
            newly += fresh;
            at += len;
        }
        self.dirty += newly;
        (at - start, newly)
    }

    /// The first run of dirty pages at or after `from`, at most `most` long; from the beginning of
    /// the file if there is none. `None` if nothing is dirty.
    pub fn next_run(&self, from: u64, most: u64) -> Option<(u64, u64)> {
        if self.dirty == 0 {
            return None;
        }
        let start = self
            .first_page(from, true)
            .or_else(|| self.first_page(0, true))?;
        // A flood's run may be of gigabytes: no more of it is looked at than is asked for.
        let end = start.saturating_add(most).min(self.size);
        let end = self.first_before(start, end, false).unwrap_or(end);
        Some((start, end - start))
    }

    /// The first page at or after `from` that is not dirty, the end if all are.
    pub fn first_clear(&self, from: u64) -> u64 {
        self.first_page(from, false).unwrap_or(self.size)
    }

    /// Tells if the page `at` is dirty, and how many pages from it on, up to `end`, are like it.
    pub fn run_alike(&self, at: u64, end: u64) -> (bool, u64) {
        let is_set = self.first_before(at, at + 1, true).is_some();
        let other = self.first_before(at + 1, end, !is_set);
        (is_set, other.unwrap_or(end) - at)
    }

    /// Cleans the `count` pages from `start` on, all of which are dirty.
    pub fn clear(&mut self, start: u64, count: u64) {
        let (mut at, end) = (start, start + count);
        while at < end {
            let slot = &mut self.pieces[(at / PIECE) as usize];
            let piece = slot.as_mut().expect("dirty pages have a piece");
            let word = &mut piece.bits[(at % PIECE / 64) as usize];
            let bit = at % 64;
            let len = (64 - bit).min(end - at);
            let mask = low_bits(len) << bit;
            debug_assert_eq!(*word & mask, mask, "cleaning what is clean");
            *word &= !mask;
            piece.dirty -= len as u32;
            if piece.dirty == 0 {
                *slot = None;
            }
            at += len;
        }
        self.dirty -= count;
    }

    /// Forgets all dirty pages; returns how many there were.
    pub fn drop_all(&mut self) -> u64 {
        self.pieces.fill(None);
        std::mem::take(&mut self.dirty)
    }

    /// The first page at or after `from` whose bit is `set`.
    fn first_page(&self, from: u64, set: bool) -> Option<u64> {
        self.first_before(from, self.size, set)
    }

    /// The same, before `end`, which is in the file.
    fn first_before(&self, from: u64, end: u64, set: bool) -> Option<u64> {
        let mut at = from;
        while at < end {
            let found = match &self.pieces[(at / PIECE) as usize] {
                None if set => {
                    at = (at / PIECE + 1) * PIECE;
                    continue;
                }
                None => return Some(at),
                Some(piece) => {
                    let word = piece.bits[(at % PIECE / 64) as usize];
                    (if set { word } else { !word }) >> (at % 64)
                }
            };
            if found != 0 {
                return Some(at + u64::from(found.trailing_zeros())).filter(|at| *at < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

fn low_bits(len: u64) -> u64 {
    u64::MAX >> (64 - len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_wrap_around_and_are_found_across_pieces() {
        let mut pages = Pages::new(3 * PIECE);
        assert_eq!(pages.set(PIECE - 3, 10, 100), (10, 10));
        assert_eq!(pages.next_run(0, 100), Some((PIECE - 3, 10)));
        assert_eq!(pages.next_run(2 * PIECE, 4), Some((PIECE - 3, 4)));
        pages.clear(PIECE - 3, 4);
        assert_eq!(pages.next_run(0, 100), Some((PIECE + 1, 6)));
        assert_eq!(pages.dirty_pages(), 6);
    }

    #[test]
    fn pages_that_are_alike_follow_each_other() {
        let mut pages = Pages::new(3 * PIECE);
        pages.set(70, 200, u64::MAX);
        assert_eq!(pages.run_alike(0, 3 * PIECE), (false, 70));
        assert_eq!(pages.run_alike(69, 70), (false, 1));
        assert_eq!(pages.run_alike(70, 3 * PIECE), (true, 200));
        assert_eq!(pages.run_alike(100, 200), (true, 100));
        assert_eq!(pages.run_alike(270, 3 * PIECE), (false, 3 * PIECE - 270));
    }

    #[test]
    fn dirtying_stops_when_enough_are_new() {
        let mut pages = Pages::new(1_000);
        assert_eq!(pages.set(10, 5, 100), (5, 5));
        assert_eq!(
            pages.set(8, 100, 3),
            (8, 3),
            "two before, five dirty, one after"
        );
        assert_eq!(pages.set(990, 100, 100), (10, 10), "to the end of the file");
        assert_eq!(pages.drop_all(), 18);
        assert_eq!(pages.next_run(0, 1), None);
    }
}
