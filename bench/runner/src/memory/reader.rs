// SPDX-License-Identifier: GPL-2.0-only
//! The threads that read: closed loops, each as fast as it can or as it may.
//!
//! An access picks hot or cold, a piece of it, a page of that and a word of that. What a read finds
//! is compared at once. A write counts the first word of a page up; pages are dealt out to threads,
//! so that each counter has one writer, who knows what it must be.

use super::region::{PIECE, Region, WORDS, unwritten_word};
use scenario::model::{JobMemory, Pattern};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Accesses between two looks at the clock and the flag.
const BATCH: u64 = 256;
/// Being ahead by less than this is not worth a sleep.
const AHEAD: Duration = Duration::from_millis(2);

/// One thread's part.
pub struct MemoryReader<'a> {
    /// Memory that is read.
    pub region: &'a Region,
    /// Settings of the job, by which the region is read.
    pub memory: &'a JobMemory,
    /// Counted from 0.
    pub index: usize,
    /// Accesses of all threads.
    pub ops: &'a AtomicU64,
    /// Set when it is over.
    pub stop: &'a AtomicBool,
}

/// Findings of a thread, in the end.
pub struct Known {
    /// Pages that did not hold what they should.
    pub wrong: BTreeSet<usize>,
    /// Number of its writes to each of its pages, the n-th being `n * threads + index`.
    pub writes: Vec<u64>,
}

impl MemoryReader<'_> {
    /// Reads until told to stop.
    pub fn run(&self) -> Known {
        let threads = self.memory.threads as usize;
        let own = match self.memory.writes_pct {
            0 => 0,
            _ => (self.region.pages + threads - 1 - self.index) / threads,
        };
        let mut known = Known {
            wrong: BTreeSet::new(),
            writes: vec![0; own],
        };
        let mut random = Random::new(self.index as u64);
        let start = Instant::now();
        let mut done = 0;
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..BATCH {
                self.access_page(&mut random, &mut known);
            }
            done += BATCH;
            self.ops.fetch_add(BATCH, Ordering::Relaxed);
            self.keep_rate(start, done);
        }
        known
    }

    fn access_page(&self, random: &mut Random, known: &mut Known) {
        let page = self.pick_page(random);
        if random.next_percent() < self.memory.writes_pct {
            let threads = self.memory.threads as usize;
            let slot = (page / threads).min(known.writes.len() - 1);
            let page = slot * threads + self.index;
            self.region.word_at(page, 0).fetch_add(1, Ordering::Relaxed);
            known.writes[slot] += 1;
            return;
        }
        let word = 1 + random.below(WORDS - 1);
        if self.region.word_at(page, word).load(Ordering::Relaxed) != unwritten_word(page, word) {
            known.wrong.insert(page);
        }
    }

    fn pick_page(&self, random: &mut Random) -> usize {
        let pieces = match self.memory.pattern {
            Pattern::HotCold { hot_reads_pct, .. } if random.next_percent() >= hot_reads_pct => {
                &self.region.cold
            }
            _ => &self.region.hot,
        };
        let first = pieces[random.below(pieces.len())] * PIECE;
        first + random.below(PIECE.min(self.region.pages - first))
    }

    /// Sleeps if this thread has done more than its part of the rate.
    fn keep_rate(&self, start: Instant, done: u64) {
        let Some(rate) = self.memory.rate else { return };
        let due = done as f64 * f64::from(self.memory.threads) / rate as f64;
        let ahead = Duration::from_secs_f64(due).saturating_sub(start.elapsed());
        if ahead > AHEAD {
            std::thread::sleep(ahead);
        }
    }
}

/// xorshift64*: fast, and even enough to pick pages by.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x2545_F491_4F6C_DD1D) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    fn next_percent(&mut self) -> u32 {
        self.below(100) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::model::Backing;

    /// Runs `threads` for `ops` accesses and returns what they know, and the memory.
    fn ran(memory: &JobMemory, ops: u64) -> (Region, Vec<Known>) {
        let region = Region::map_memory(memory, None).expect("mapped");
        region.fill_pages(memory.backing).expect("filled");
        let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let known = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..memory.threads as usize)
                .map(|index| MemoryReader {
                    region: &region,
                    memory,
                    index,
                    ops: &count,
                    stop: &stop,
                })
                .map(|reader| scope.spawn(move || reader.run()))
                .collect();
            while count.load(Ordering::Relaxed) < ops {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            threads
                .into_iter()
                .map(|thread| thread.join().expect("ended"))
                .collect()
        });
        (region, known)
    }

    #[test]
    fn writers_know_what_they_wrote_and_every_page_has_one() {
        let memory = JobMemory {
            size_bytes: 5 << 20,
            backing: Backing::Shared,
            pattern: Pattern::HotCold {
                hot_bytes: 2 << 20,
                hot_reads_pct: 90,
            },
            threads: 3,
            rate: None,
            writes_pct: 50,
            huge_pages: false,
        };
        let (region, known) = ran(&memory, 100_000);
        assert_eq!(
            known.iter().map(|one| one.writes.len()).sum::<usize>(),
            region.pages
        );
        let mut written = 0;
        for (index, one) in known.iter().enumerate() {
            assert!(one.wrong.is_empty());
            for (slot, writes) in one.writes.iter().enumerate() {
                assert!(region.is_intact(slot * 3 + index, *writes));
                written += writes;
            }
        }
        assert!(
            written > 40_000,
            "{written} of 100000 or more accesses are half of them"
        );
    }

    #[test]
    fn a_read_notices_what_is_wrong() {
        let memory = JobMemory {
            size_bytes: 2 << 20,
            backing: Backing::Anonymous,
            pattern: Pattern::Random,
            threads: 1,
            rate: None,
            writes_pct: 0,
            huge_pages: false,
        };
        let region = Region::map_memory(&memory, None).expect("mapped");
        let (ops, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let reader = MemoryReader {
            region: &region,
            memory: &memory,
            index: 0,
            ops: &ops,
            stop: &stop,
        };
        let mut known = Known {
            wrong: BTreeSet::new(),
            writes: Vec::new(),
        };
        reader.access_page(&mut Random::new(0), &mut known);
        assert_eq!(known.wrong.len(), 1, "nothing was filled");
    }

    #[test]
    fn picks_are_even() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10)] += 1;
        }
        assert!(seen.iter().all(|n| (9_000..11_000).contains(n)), "{seen:?}");
    }
}
