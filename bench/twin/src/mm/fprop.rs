// SPDX-License-Identifier: GPL-2.0-only
//! Shares of a domain's completed writeback, with recent completions counting more.
//!
//! A domain counts all completed pages, each device's writeback its own; every three seconds all
//! counts are halved. A share is own / all, and is what part of the domain's limit a device's
//! writeback is entitled to. Halving is done when a count is next looked at, so it costs nothing
//! per period and writeback.
//!
//! Example. Two disks complete 30 and 10 pages, a period passes, and the second completes 5 more:
//! 15 and 10 of 25. The second has 40 % of the limit, 25 % a period ago.

use crate::sim::clock::{HZ, Ticks};

const PERIOD: Ticks = 3 * HZ;

/// All completions of a domain.
#[derive(Clone, Debug)]
pub struct FpropGlobal {
    events: u64,
    period: u32,
    /// End of the period, 0 while nothing completes.
    end: Ticks,
}

impl Default for FpropGlobal {
    fn default() -> Self {
        FpropGlobal {
            events: 1,
            period: 0,
            end: 0,
        }
    }
}

impl FpropGlobal {
    /// Ends the periods that are over at `now`.
    pub fn end_periods(&mut self, now: Ticks) {
        if self.end == 0 || now < self.end {
            return;
        }
        let periods = (now - self.end) / PERIOD + 1;
        if self.events <= 1 {
            self.end = 0;
            return;
        }
        self.events = self.events.checked_shr(periods as u32).unwrap_or(0);
        self.period = self.period.wrapping_add(periods as u32);
        self.end += periods * PERIOD;
    }

    /// Counts `pages` of `share` as completed.
    pub fn add(&mut self, share: &mut FpropLocal, pages: u64, now: Ticks) {
        self.end_periods(now);
        share.apply_elapsed_periods(self);
        share.events += pages;
        self.events += pages;
        if self.end == 0 {
            self.end = now + PERIOD;
        }
    }

    /// `share` as numerator and denominator, at most 1.
    pub fn fraction_of(&mut self, share: &mut FpropLocal, now: Ticks) -> (u64, u64) {
        self.end_periods(now);
        share.apply_elapsed_periods(self);
        (share.events, self.events.max(share.events).max(1))
    }
}

/// One writeback's completions.
#[derive(Clone, Debug, Default)]
pub struct FpropLocal {
    events: u64,
    period: u32,
}

impl FpropLocal {
    fn apply_elapsed_periods(&mut self, all: &FpropGlobal) {
        let periods = all.period.wrapping_sub(self.period);
        self.events = self.events.checked_shr(periods).unwrap_or(0);
        self.period = all.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let mut all = FpropGlobal::default();
        let (mut one, mut other) = (FpropLocal::default(), FpropLocal::default());
        all.add(&mut one, 30, 1);
        all.add(&mut other, 10, 1);
        assert_eq!(all.fraction_of(&mut other, 1), (10, 41));
        all.add(&mut other, 5, 1 + PERIOD);
        assert_eq!(all.fraction_of(&mut one, 1 + PERIOD), (15, 25));
        assert_eq!(all.fraction_of(&mut other, 1 + PERIOD), (10, 25));
    }

    #[test]
    fn what_is_idle_is_forgotten() {
        let mut all = FpropGlobal::default();
        let mut share = FpropLocal::default();
        all.add(&mut share, 1 << 40, 1);
        assert_eq!(all.fraction_of(&mut share, 100 * PERIOD).0, 0);
    }
}
