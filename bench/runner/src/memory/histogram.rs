// SPDX-License-Identifier: GPL-2.0-only
//! Times of operations, in a table of fixed size: nothing is allocated while it is measured.
//!
//! Below 64 ns each nanosecond has a counter; above, each power of two is divided into 64 parts. So
//! a percentile is off by 1/128 at most. Mean, deviation and maximum are exact.

use scenario::measured::Spread;

/// Parts of a power of two.
const PARTS: u64 = 64;
/// log2 of it.
const BITS: u32 = PARTS.trailing_zeros();
/// One row for what is below [`PARTS`], one for each power of two above.
const SLOTS: usize = ((u64::BITS - BITS + 1) as u64 * PARTS) as usize;

/// Counts of times.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; SLOTS]>,
    number: u64,
    sum: u128,
    squares: u128,
    max: u64,
}

impl Histogram {
    /// A histogram without any time.
    pub fn new() -> Histogram {
        Histogram {
            counts: Box::new([0; SLOTS]),
            number: 0,
            sum: 0,
            squares: 0,
            max: 0,
        }
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.number, self.sum, self.squares, self.max) = (0, 0, 0, 0);
    }

    /// Counts one more.
    pub fn add(&mut self, ns: u64) {
        self.counts[slot_of(ns)] += 1;
        self.number += 1;
        self.sum += u128::from(ns);
        self.squares += u128::from(ns) * u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Number of times added.
    pub fn times_added(&self) -> u64 {
        self.number
    }

    /// Mean, deviation and percentiles; nothing if no time was added.
    pub fn to_spread(&self) -> Option<Spread> {
        if self.number == 0 {
            return None;
        }
        let number = self.number as f64;
        let mean = self.sum as f64 / number;
        let variance = self.squares as f64 / number - mean * mean;
        Some(Spread {
            mean_ns: mean,
            sd_ns: variance.max(0.0).sqrt(),
            p50_ns: self.percentile(50),
            p90_ns: self.percentile(90),
            p99_ns: self.percentile(99),
            max_ns: self.max,
        })
    }

    /// The middle of the part that holds the first time that `percent` of all are not longer than.
    fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.number * percent).div_ceil(100);
        let mut seen = 0;
        let slot = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        slot.map_or(self.max, |slot| slot_middle(slot).min(self.max))
    }
}

fn slot_of(ns: u64) -> usize {
    let Some(power) = (u64::BITS - ns.leading_zeros()).checked_sub(BITS + 1) else {
        return ns as usize;
    };
    // The part has the bit above, too, which is the row's.
    ((u64::from(power) * PARTS) + (ns >> power)) as usize
}

fn slot_middle(slot: usize) -> u64 {
    let (row, part) = (slot as u64 / PARTS, slot as u64 % PARTS);
    match row.checked_sub(1) {
        None => part,
        Some(power) => ((PARTS + part) << power) + (1 << power) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_part_of_its_own_size() {
        let mut before = 0;
        for ns in (0..5000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let at = slot_of(ns);
            assert!(at >= before && at < SLOTS, "{ns}");
            before = at;
            let off = slot_middle(at).abs_diff(ns);
            assert!(off <= ns / 64, "{ns} is {off} off");
        }
    }

    #[test]
    fn percentiles_are_near_what_sorting_gives() {
        let mut all = Histogram::new();
        let times: Vec<u64> = (1..=1000).map(|n| n * n * 7).collect();
        times.iter().for_each(|ns| all.add(*ns));
        let spread = all.to_spread().expect("some");
        for (ns, exact) in [
            (spread.p50_ns, times[499]),
            (spread.p90_ns, times[899]),
            (spread.p99_ns, times[989]),
        ] {
            assert!(ns.abs_diff(exact) <= exact / 64, "{ns} for {exact}");
        }
        assert_eq!(spread.max_ns, 7_000_000);
        let mean = times.iter().sum::<u64>() as f64 / 1000.0;
        assert_eq!(spread.mean_ns, mean);
        let variance: f64 = times.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
        assert!((spread.sd_ns - (variance / 1000.0).sqrt()).abs() < 1.0);
        all.clear();
        assert_eq!((all.times_added(), all.to_spread()), (0, None));
    }
}
