// SPDX-License-Identifier: GPL-2.0-only
//! Requests of one size that do not take as long: those of real disks do not, because of where a
//! head is, or what flash has to be cleaned first.
//!
//! Each takes its share of the bandwidth, more or less by up to so many percent, all of that alike
//! likely, and none has to do with the one before. So a disk is as fast as without, over many; over
//! 200 ms, the throttle's own measure, it is not.
//!
//! Example. 1,280 KiB at 100 MiB/s and 50 %: 6.25 to 18.75 ms. Sixteen, 200 ms in the mean, take
//! that with a standard deviation of 7 %.

use crate::sim::clock::Ns;
use crate::sim::random::Random;

/// Spread of request times, with its random numbers.
#[derive(Clone, Debug)]
pub struct Vary {
    percent: u64,
    chance: Random,
}

impl Vary {
    /// By up to `percent` of the time, 100 at most.
    pub fn new(percent: u8, chance: Random) -> Vary {
        Vary {
            percent: u64::from(percent.min(100)),
            chance,
        }
    }

    /// Time of a request that takes `time` in the mean, varied at random.
    pub fn vary_time(&mut self, time: Ns) -> Ns {
        let most = (u128::from(time) * u128::from(self.percent) / 100) as Ns;
        time - most + self.chance.next() % (2 * most + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::clock::MS;

    #[test]
    fn the_mean_stays() {
        let mut vary = Vary::new(50, Random::new(1));
        let times: Vec<Ns> = (0..10_000).map(|_| vary.vary_time(10 * MS)).collect();
        let (least, most) = (times.iter().min(), times.iter().max());
        assert!(least.is_some_and(|least| (5 * MS..=5_100_000).contains(least)));
        assert!(most.is_some_and(|most| (14_900_000..=15 * MS).contains(most)));
        let mean = times.iter().sum::<Ns>() / 10_000;
        assert!(mean.abs_diff(10 * MS) < MS / 10, "{mean}");
        assert_eq!(Vary::new(0, Random::new(1)).vary_time(10 * MS), 10 * MS);
    }
}
