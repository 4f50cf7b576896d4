// SPDX-License-Identifier: GPL-2.0-only
//! A kind of memory, and what an access to it costs.
//!
//! Who is alone waits for the latency L. The more of the bandwidth B is in use, the longer: cost =
//! L / (1 - load / B), what a single queue comes to. With L = 206 ns and B = 17 GiB/s, of which
//! accesses of 1 KiB take 8.4 million a second: 206 / (1 - 8.6 / 18.25) = 390 ns; 11.4 million: 206
//! / (1 - 11.67 / 18.25) = 571 ns. Moving pages loads both tiers too.
//!
//! The cost is approached, not computed: each beat it goes a fourth of the way in cost x (1 - load
//! / B), whose end is that cost. So it stays finite when more is asked for than there is, and is
//! stable at any load: who waits longer asks for less.

use crate::sim::clock::{Ns, SECOND};

/// A kind of memory; pages.
#[derive(Clone, Debug, Default)]
pub struct Tier {
    /// All of it, as budgets see it.
    pub present: u64,
    /// Pages for jobs: all but the kernel's own.
    pub room: u64,
    /// Free pages of the capacity.
    pub free: u64,
    /// Of an access, alone, in picoseconds.
    pub latency: u64,
    /// Bandwidth in bytes per second.
    pub bandwidth: u64,
    /// Of an access, now, in picoseconds.
    pub cost: u64,
    /// Pages moved here or away in this beat.
    pub moved: u64,
}

impl Tier {
    /// `bytes` went to it and came from it in `time`.
    pub fn adapt_access_cost(&mut self, bytes: u64, time: Ns) {
        let most = u128::from(self.bandwidth) * u128::from(time) / u128::from(SECOND);
        let (most, bytes) = (most.max(1) as i128, i128::from(bytes));
        let (cost, latency) = (i128::from(self.cost), i128::from(self.latency));
        let next = cost + (latency * most - cost * (most - bytes)) / (4 * most);
        self.cost = next.clamp(latency, latency * 1_000) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(load: u64) -> u64 {
        let mut tier = Tier {
            latency: 206_000,
            bandwidth: 17 << 30,
            cost: 206_000,
            ..Tier::default()
        };
        for _ in 0..200 {
            tier.adapt_access_cost(load, SECOND);
        }
        tier.cost / 1_000
    }

    /// The example at the top.
    #[test]
    fn worked_example() {
        assert_eq!(settled(0), 206);
        assert!(settled(8_400_000 << 10).abs_diff(390) <= 1);
        assert!(settled(11_400_000 << 10).abs_diff(571) <= 1);
    }

    /// Four threads on a tier that cannot keep up get what it has, no more, and without swinging.
    #[test]
    fn a_tier_that_is_asked_for_more_than_it_has_gives_nearly_all() {
        let mut tier = Tier {
            latency: 100_000,
            bandwidth: 1 << 30,
            cost: 100_000,
            ..Tier::default()
        };
        let mut last = [0; 2];
        for _ in 0..2_000 {
            let reads = 64 * 1_000_000_000_000 / tier.cost;
            tier.adapt_access_cost(reads * 64, SECOND);
            last = [last[1], reads * 64];
        }
        assert!(((9 << 30) / 10..1 << 30).contains(&last[1]), "{last:?}");
        assert!(last[0].abs_diff(last[1]) < 1 << 16, "{last:?}");
    }
}
