// SPDX-License-Identifier: GPL-2.0-only
//! A job's memory, and its threads: first they touch all of it, then each reads at random, one
//! access after the other, until time is up.
//!
//! Hot and cold pages lie mixed: what is touched at any time has both in the proportion in which
//! they are in the whole.
//!
//! An access costs what its tier costs ([`super::tier`]). 220 GB, 100 of them hot and 90 % of
//! reads; 38.4 GB of the cold 120 in the slow tier: 10 % x 38.4 / 120 = 3.2 % of accesses go there.
//! With costs of 150 and 250 ns an access takes 153.2 ns in the mean, and four threads make 26.1
//! million a second.

use super::{BEAT, COLD, HOT, Heat, proportional_part};
use crate::sim::clock::{Ns, SECOND};

/// One, with what it has done.
#[derive(Clone, Debug)]
pub struct MemoryHolder {
    /// Index of the owning cgroup.
    pub cgroup: usize,
    /// Pages it wants.
    pub size: Heat,
    /// Of its accesses, those to hot pages.
    pub hot_percent: u64,
    /// Number of threads that read.
    pub threads: u64,
    /// Pages it holds, by tier.
    pub held: Vec<Heat>,
    /// The same, when it ended.
    pub held_last: Vec<Heat>,
    /// Touched so far.
    pub touched: Heat,
    /// Time at which it begins.
    pub begins: Ns,
    /// Time at which it ends.
    pub ends: Ns,
    /// The job has ended.
    pub over: bool,
    /// The most accesses a second.
    pub rate: u64,
    /// Accesses from then on count.
    pub counts_from: Ns,
    /// Accesses made since `counts_from`.
    pub reads: u64,
    /// Time in which it read.
    pub reading: Ns,
}

impl MemoryHolder {
    /// It has begun and not ended.
    pub fn is_running(&self, now: Ns) -> bool {
        now > self.begins && !self.over
    }

    /// Pages it has not touched.
    pub fn untouched_pages(&self) -> u64 {
        self.size[HOT] + self.size[COLD] - self.touched[HOT] - self.touched[COLD]
    }

    /// Pages it has touched and does not hold.
    pub fn lost_pages(&self) -> u64 {
        let held: u64 = self.held.iter().flatten().sum();
        let last: u64 = self.held_last.iter().flatten().sum();
        (self.touched[HOT] + self.touched[COLD]).abs_diff(held + last)
    }

    /// Heat of the next `pages` that it touches.
    pub fn next(&mut self, pages: u64) -> Heat {
        let all = self.size[HOT] + self.size[COLD];
        let then = all - self.untouched_pages() + pages;
        let cold = proportional_part(then, self.size[COLD], all) - self.touched[COLD];
        let next = [pages - cold, cold];
        self.touched[HOT] += next[HOT];
        self.touched[COLD] += next[COLD];
        next
    }

    /// Reads for the beat that ends `now`, in which threads have a CPU for `speed` of their time
    /// and an access costs `costs` picoseconds. Adds how often each tier was accessed to
    /// `accesses`.
    pub fn read(&mut self, now: Ns, costs: &[u64], speed: (u64, u64), accesses: &mut [u64]) {
        // In 2^20ths of all accesses.
        const ALL: u64 = 1 << 20;
        let to = |heat: usize| match heat {
            HOT if self.size[COLD] == 0 => ALL,
            HOT => ALL * self.hot_percent / 100,
            _ if self.size[HOT] == 0 => ALL,
            _ => ALL - ALL * self.hot_percent / 100,
        };
        let share = |tier: usize| -> u64 {
            let of = |heat: usize| match self.size[heat] {
                0 => 0,
                all => {
                    (u128::from(to(heat)) * u128::from(self.held[tier][heat]) / u128::from(all))
                        as u64
                }
            };
            of(HOT) + of(COLD)
        };
        let shares: Vec<u64> = (0..costs.len()).map(share).collect();
        let mean: u128 = costs
            .iter()
            .zip(&shares)
            .map(|(cost, share)| u128::from(*cost) * u128::from(*share))
            .sum();
        let time = u128::from(self.threads * BEAT * 1_000 * speed.0 / speed.1);
        let most = u128::from(self.rate) * u128::from(BEAT) / u128::from(SECOND);
        let reads = (time * u128::from(ALL) / mean.max(1)).min(most) as u64;
        for (accesses, share) in accesses.iter_mut().zip(&shares) {
            *accesses += proportional_part(reads, *share, ALL);
        }
        if now > self.counts_from {
            self.reads += reads;
            self.reading += BEAT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 18;

    /// The example at the top.
    #[test]
    fn worked_example() {
        let mut holder = worked();
        let mut accesses = [0, 0];
        holder.read(BEAT, &[150_000, 250_000], (1, 1), &mut accesses);
        assert_eq!(holder.reads / 1_000, 261, "26.1 million a second");
        assert_eq!(accesses[0] / 1_000, 252);
        assert!((1_000 * accesses[1]).abs_diff(32 * holder.reads) < holder.reads);
    }

    #[test]
    fn hot_and_cold_pages_are_touched_in_proportion() {
        let mut holder = MemoryHolder {
            size: [30, 60],
            touched: [0, 0],
            ..worked()
        };
        let mut seen = [0, 0];
        for step in 1..=9 {
            let next = holder.next(10);
            seen = [seen[0] + next[0], seen[1] + next[1]];
            assert!(seen[0].abs_diff(10 * step / 3) <= 1, "{seen:?}");
        }
        assert_eq!((seen, holder.untouched_pages()), ([30, 60], 0));
    }

    fn worked() -> MemoryHolder {
        MemoryHolder {
            cgroup: 0,
            size: [100 * GB, 120 * GB],
            hot_percent: 90,
            threads: 4,
            held: vec![[100 * GB, 120 * GB - 384 * GB / 10], [0, 384 * GB / 10]],
            held_last: Vec::new(),
            touched: [100 * GB, 120 * GB],
            begins: 0,
            ends: SECOND,
            over: false,
            rate: u64::MAX,
            counts_from: 0,
            reads: 0,
            reading: 0,
        }
    }
}
