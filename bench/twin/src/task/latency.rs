// SPDX-License-Identifier: GPL-2.0-only
//! Latencies of a job, kept as fio keeps them, so that percentiles have the same steps: exact below
//! 128 ns, then 64 buckets for each doubling, each named by its middle. The longest is kept
//! exactly.

use crate::sim::clock::Ns;

const BUCKETS: usize = 64;
const BITS: u32 = 6;

/// Number of latencies seen, by size.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    longest: Ns,
}

impl Latencies {
    /// `count` operations took `ns` each.
    #[inline]
    pub fn add(&mut self, ns: Ns, count: u64) {
        let bucket = bucket_of(ns);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
        self.total += count;
        self.longest = self.longest.max(ns);
    }

    /// Number of latencies counted.
    pub fn latencies_counted(&self) -> u64 {
        self.total
    }

    /// The longest latency counted.
    pub fn longest_latency(&self) -> Ns {
        self.longest
    }

    /// Latency that so many of a thousand are not longer than; `None` if there were none. A
    /// bucket's middle may lie above the longest.
    pub fn per_mille(&self, part: u64) -> Option<Ns> {
        let wanted = (self.total * part).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(|bucket| bucket_middle(bucket).min(self.longest))
    }
}

fn bucket_of(ns: Ns) -> usize {
    let magnitude = 64 - ns.leading_zeros();
    if magnitude <= BITS + 1 {
        return ns as usize;
    }
    let shift = magnitude - BITS - 1;
    ((shift as usize + 1) * BUCKETS) + ((ns >> shift) as usize & (BUCKETS - 1))
}

fn bucket_middle(bucket: usize) -> Ns {
    if bucket < 2 * BUCKETS {
        return bucket as Ns;
    }
    let shift = (bucket / BUCKETS - 1) as u32;
    let base = ((BUCKETS + bucket % BUCKETS) as Ns) << shift;
    base + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_fios() {
        for (ns, named) in [
            (100, 100),
            (358_400, 358_400 + 2_048),
            (208_000_000, 208_666_624),
            (3_729_563, 3_719_168),
        ] {
            let middle = bucket_middle(bucket_of(ns));
            assert!(middle.abs_diff(ns) * 128 <= ns, "{ns}: {middle}");
            assert!(
                middle.abs_diff(named) * 64 <= ns,
                "{ns}: {middle}, fio {named}"
            );
        }
    }

    #[test]
    fn percentiles_and_the_longest() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.per_mille(990), None);
        latencies.add(100, 98);
        latencies.add(1_000_000, 2);
        assert_eq!(latencies.per_mille(500), Some(100));
        assert!(latencies.per_mille(990).is_some_and(|ns| ns > 900_000));
        assert_eq!(
            (latencies.latencies_counted(), latencies.longest_latency()),
            (100, 1_000_000)
        );
        let mut alike = Latencies::default();
        alike.add(39_100, 100);
        assert_eq!(
            alike.per_mille(990),
            Some(39_100),
            "no longer than the longest"
        );
    }
}
