// SPDX-License-Identifier: GPL-2.0-only
//! The rate-based controller: how fast one device's writeback lets each of its writers dirty pages.
//!
//! Each writeback keeps a base rate that one task may have, and each pass scales it by where the
//! dirty count is:
//!
//! ```text
//! task's rate = base rate x position        pause = pages dirtied / task's rate
//! ```
//!
//! *Position* is 1 at the goal, midway between freerun and the hard limit, 2 at freerun, 0 at the
//! limit: a pos_ratio_polynom, flat at the goal. It is scaled again by a line that is 1 where this writeback
//! holds its own share of the goal, and falls to a quarter where it holds far more. A writeback
//! that has nearly run dry is pushed up to eightfold, so that its device does not idle.
//!
//! *Base rate* is adapted every 200 ms: what was allowed, times what the device wrote, over what
//! was dirtied. With N writers that is bandwidth / N, whatever the position. It is followed only if
//! position asks for the same direction, by an eighth of the way, less when near.
//!
//! *Pauses* are chosen first, 10 ms for one writer and longer for more, and pages between pauses
//! follow; but at least 32 pages are preferred, with pauses up to 200 ms. They shrink where a small
//! pool would run dry in the meantime.
//!
//! Example. Freerun 6,144, limit 8,192: goal 7,168. With 7,680 dirty position is 1 + (-0.5)^3 =
//! 0.875. Base rate 500 pages/s: the task may have 437, and sleeps 32 / 437 s = 72 ms after 32
//! pages.
//!
//! Rates are pages per second, positions 1,024ths, as in the kernel; its rounding is kept, because
//! at a few pages per second it decides.

use crate::mm::domain::{BANDWIDTH_INTERVAL, Dtc};
use crate::sim::clock::{HZ, HZ_POW2, Ticks};

/// A `pos_ratio` of 1 is 1 shifted by this.
pub const RATELIMIT_CALC_SHIFT: u32 = 10;
/// The longest pause.
pub const MAX_PAUSE: Ticks = HZ / 5;
/// A pause should be worth this many pages.
pub const DIRTY_POLL_THRESH: u64 = 32;
/// Rate that a new writeback's estimates begin with: 100 MB/s.
const INIT_BW: u64 = 100 << (20 - 12);
/// Bandwidth is averaged over about this long.
const PERIOD: Ticks = (3 * HZ).next_power_of_two();

/// Estimates of one device's writeback.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Pages written per second, smoothed once.
    pub write_bandwidth: u64,
    /// Pages written per second, smoothed twice (`avg_write_bandwidth`).
    pub avg_write_bandwidth: u64,
    /// Pages that a task may dirty per second, at position 1.
    pub dirty_ratelimit: u64,
    balanced_dirty_ratelimit: u64,
    /// Tick at which all this was last adapted.
    pub bw_time_stamp: Ticks,
    dirtied_stamp: u64,
    written_stamp: u64,
}

/// A pause and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The longest pause this pass may take.
    pub max_pause: Ticks,
    /// A shorter one is not worth taking.
    pub min_pause: Ticks,
    /// Pages until the next pass.
    pub nr_dirtied_pause: u64,
}

impl Rates {
    /// Of a writeback that is first used at `now`.
    pub fn new(now: Ticks) -> Rates {
        Rates {
            write_bandwidth: INIT_BW,
            avg_write_bandwidth: INIT_BW,
            dirty_ratelimit: INIT_BW,
            balanced_dirty_ratelimit: INIT_BW,
            bw_time_stamp: now,
            dirtied_stamp: 0,
            written_stamp: 0,
        }
    }

    /// It has written `pages` at `pace` pages per second; if that was under throttle, of one
    /// writer. What takes less than an interval it does not see.
    pub fn apply_past_writing(&mut self, pace: u64, pages: u64, throttled: bool) {
        let pace = pace.max(1);
        let intervals = pages * HZ / pace / BANDWIDTH_INTERVAL;
        // The estimate has forgotten what it was long before so many.
        for _ in 0..intervals.min(100 * PERIOD / BANDWIDTH_INTERVAL) {
            self.update_write_bandwidth(pace * BANDWIDTH_INTERVAL / HZ, BANDWIDTH_INTERVAL);
        }
        if throttled && intervals > 0 {
            (self.dirty_ratelimit, self.balanced_dirty_ratelimit) =
                (self.avg_write_bandwidth, self.avg_write_bandwidth);
        }
    }

    /// Begins to measure at `now`, after nothing was in flight for a while.
    pub fn restart_measure(&mut self, dirtied: u64, written: u64, now: Ticks) {
        (self.dirtied_stamp, self.written_stamp, self.bw_time_stamp) = (dirtied, written, now);
    }

    /// Adapts to what was dirtied and written since the last time, both given as totals; a writer's
    /// pass gives the domains it found with their positions, others none.
    pub fn adapt_rates(&mut self, dirtied: u64, written: u64, now: Ticks, views: &[(Dtc, u64)]) {
        let elapsed = (now - self.bw_time_stamp).max(1);
        for (view, pos_ratio) in views {
            self.update_dirty_ratelimit(
                view,
                *pos_ratio,
                (dirtied - self.dirtied_stamp) * HZ / elapsed,
            );
        }
        self.update_write_bandwidth(written - self.written_stamp, elapsed);
        self.restart_measure(dirtied, written, now);
    }

    fn update_write_bandwidth(&mut self, written: u64, elapsed: Ticks) {
        let (old, mut average) = (self.write_bandwidth, self.avg_write_bandwidth);
        let flow = written * HZ;
        if elapsed > PERIOD {
            self.write_bandwidth = flow / elapsed;
            self.avg_write_bandwidth = self.write_bandwidth.max(1);
            return;
        }
        let new = (flow + old * (PERIOD - elapsed)) / PERIOD;
        if average > old && old >= new {
            average -= (average - old) / 8;
        }
        if average < old && old <= new {
            average += (old - average) / 8;
        }
        self.write_bandwidth = new;
        self.avg_write_bandwidth = average.max(1);
    }

    fn update_dirty_ratelimit(&mut self, view: &Dtc, pos_ratio: u64, dirty_rate: u64) {
        let base = self.dirty_ratelimit;
        // The one more lets it grow from tiny values.
        let task = ((base * pos_ratio) >> RATELIMIT_CALC_SHIFT) + 1;
        let balanced =
            mul_div(task, self.avg_write_bandwidth, dirty_rate | 1).min(self.avg_write_bandwidth);
        let (dirty, setpoint) = view.dirty_and_setpoint();
        let step = if dirty < setpoint {
            let most = self.balanced_dirty_ratelimit.min(balanced).min(task);
            most.saturating_sub(base)
        } else {
            let least = self.balanced_dirty_ratelimit.max(balanced).max(task);
            base.saturating_sub(least)
        };
        // The nearer, the slower: a rate that is measured over 200 ms is never exact.
        let nearness = base / (2 * step + 1);
        let step = if nearness < 64 {
            (step >> nearness).div_ceil(8)
        } else {
            0
        };
        self.dirty_ratelimit = if base < balanced {
            base + step
        } else {
            base.saturating_sub(step).max(1)
        };
        self.balanced_dirty_ratelimit = balanced;
    }

    /// Time that a pass may sleep, and what comes after, for a task that may have `task` pages per
    /// second.
    pub fn compute_pause(&self, wb_dirty: u64, task: u64) -> Pause {
        // 8 is the reserve: at most an eighth of what is dirty is written meanwhile.
        let longest =
            (wb_dirty / (1 + self.avg_write_bandwidth / (1 + HZ / 8).next_power_of_two()) + 1)
                .min(MAX_PAUSE);
        let writers = self
            .avg_write_bandwidth
            .ilog2()
            .saturating_sub(self.dirty_ratelimit.ilog2());
        let mut target = (HZ / 100).max(1) + u64::from(writers) * (10 * HZ) / 1024;
        target = target.min(1 + longest / 2);
        let mut pages = self.dirty_ratelimit * target / HZ_POW2;
        if pages < DIRTY_POLL_THRESH {
            target = longest;
            pages = self.dirty_ratelimit * target / HZ_POW2;
            if pages > DIRTY_POLL_THRESH {
                pages = DIRTY_POLL_THRESH;
                target = HZ * DIRTY_POLL_THRESH / self.dirty_ratelimit;
            }
        }
        if HZ * pages / (task + 1) > longest {
            target = longest;
            pages = task * target / HZ_POW2;
        }
        Pause {
            max_pause: longest,
            min_pause: if pages >= DIRTY_POLL_THRESH {
                1 + target / 2
            } else {
                target
            },
            nr_dirtied_pause: pages,
        }
    }

    /// Position of a domain's dirty count, for this writeback.
    pub fn pos_ratio(&self, view: &Dtc) -> u64 {
        let (limit, thresh, dirty) = (
            view.hard_dirty_limit(),
            view.limits.thresh,
            view.limits.dirty,
        );
        if dirty >= limit {
            return 0;
        }
        let goal = view.throttle_setpoint();
        let pos_ratio = pos_ratio_polynom(goal, dirty, limit);
        if view.is_strict {
            return strict_pos_ratio(view, pos_ratio);
        }
        // A share near nothing is that of an idle device, not of a slow one: leave it room to
        // begin.
        let wb_thresh = view.wb_thresh.min(thresh).max((limit - dirty) / 8);
        let share = (wb_thresh << 16) / (thresh | 1);
        let of_share = |pages: u64| ((u128::from(pages) * u128::from(share)) >> 16) as u64;
        let wb_goal = of_share(goal);
        // With one device it takes eight seconds' worth of writing to fall to nothing, with many
        // its share of the limit.
        let span = of_share(thresh - wb_thresh.min(thresh) + 8 * self.avg_write_bandwidth);
        let end = wb_goal + span;
        let mut pos_ratio = if view.wb_dirty < end - span / 4 {
            mul_div(pos_ratio, end - view.wb_dirty, span | 1)
        } else {
            pos_ratio / 4
        };
        let reserve = wb_thresh / 2;
        if view.wb_dirty < reserve {
            pos_ratio = if view.wb_dirty > reserve / 8 {
                pos_ratio * reserve / view.wb_dirty
            } else {
                pos_ratio * 8
            };
        }
        pos_ratio
    }
}

/// Position in its share of a writeback that is held to that; twice the host's where it is nearly
/// dry.
fn strict_pos_ratio(view: &Dtc, of_host: u64) -> u64 {
    let goal = view.wb_freerun();
    match view.wb_dirty {
        0..8 => (2 * of_host).min(2 << RATELIMIT_CALC_SHIFT),
        dirty if dirty >= view.wb_thresh || goal == 0 || goal == view.wb_thresh => 0,
        dirty => pos_ratio_polynom(goal, dirty, view.wb_thresh).min(of_host),
    }
}

/// 2 at freerun, 1 at the goal, 0 at the limit.
fn pos_ratio_polynom(goal: u64, dirty: u64, limit: u64) -> u64 {
    let one = 1 << RATELIMIT_CALC_SHIFT;
    let x = (goal as i64 - dirty as i64) * one / ((limit - goal) | 1) as i64;
    let square = (x * x) >> RATELIMIT_CALC_SHIFT;
    let cube = square.saturating_mul(x) >> RATELIMIT_CALC_SHIFT;
    (cube + one).clamp(0, 2 * one) as u64
}

/// a x b / c without overflow on the way; dividing 128 bits takes many times as long, and there is
/// one of these in every pass.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    if let Some(product) = a.checked_mul(b) {
        return product / c;
    }
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::ceiling::Limits;

    fn view(dirty: u64) -> Dtc {
        Dtc {
            avail: 500_000,
            limits: Limits {
                thresh: 8_192,
                bg_thresh: 4_096,
                dirty,
                dom_limit: 8_192,
            },
            freerun: 6_144,
            wb_dirty: dirty,
            wb_thresh: 8_192,
            wb_bg_thresh: 4_096,
            is_strict: false,
        }
    }

    #[test]
    fn a_strict_limit_is_the_writebacks_own() {
        let rates = Rates::new(0);
        let strict = |wb_dirty| Dtc {
            wb_dirty,
            wb_thresh: 100,
            wb_bg_thresh: 50,
            is_strict: true,
            ..view(wb_dirty)
        };
        // The host is far below freerun; 75 is that of the writeback's share.
        assert!(strict(75).is_in_freerun() && !strict(76).is_in_freerun());
        assert_eq!(rates.pos_ratio(&strict(75)), 1_024);
        assert_eq!(rates.pos_ratio(&strict(100)), 0);
        assert!(rates.pos_ratio(&strict(90)) < 1_024);
        assert!(strict(101).is_exceeded());
        assert!(rates.pos_ratio(&strict(4)) > 1_024);
    }

    #[test]
    fn worked_example() {
        assert_eq!(pos_ratio_polynom(7_168, 7_168, 8_192), 1_024);
        assert_eq!(
            pos_ratio_polynom(7_168, 8_192, 8_192),
            2,
            "rounding leaves a trace of it"
        );
        assert_eq!(pos_ratio_polynom(7_168, 6_144, 8_192), 2_045);
        assert_eq!(pos_ratio_polynom(7_168, 7_680, 8_192), 896);
        let mut rates = Rates::new(0);
        (
            rates.dirty_ratelimit,
            rates.avg_write_bandwidth,
            rates.write_bandwidth,
        ) = (500, 500, 500);
        let pause = rates.compute_pause(7_680, 437);
        assert_eq!(pause.nr_dirtied_pause, 32);
        assert_eq!(HZ * 32 / 437, 18, "18 ticks are 72 ms");
        assert!(pause.min_pause <= 18 && pause.max_pause == MAX_PAUSE);
    }

    #[test]
    fn pos_ratio_falls_with_what_is_dirty() {
        let mut rates = Rates::new(0);
        (
            rates.dirty_ratelimit,
            rates.avg_write_bandwidth,
            rates.write_bandwidth,
        ) = (64, 64, 64);
        let at = |dirty| rates.pos_ratio(&view(dirty));
        let all: Vec<u64> = (6_144..8_200).step_by(50).map(at).collect();
        assert!(all.windows(2).all(|w| w[0] >= w[1]), "{all:?}");
        assert_eq!(at(8_192), 0);
        assert!(at(6_200) > 1_024);
    }

    #[test]
    fn who_was_not_throttled_has_not_learnt_what_one_writer_may_have() {
        let mut rates = Rates::new(0);
        rates.apply_past_writing(500, 500 * 60, false);
        assert_eq!(
            (rates.write_bandwidth, rates.dirty_ratelimit),
            (500, INIT_BW)
        );
        assert!(
            (500..520).contains(&rates.avg_write_bandwidth),
            "{}",
            rates.avg_write_bandwidth
        );
        rates.apply_past_writing(0, 500, true);
        assert_eq!(rates.dirty_ratelimit, rates.avg_write_bandwidth);
        assert!(
            (1..500).contains(&rates.avg_write_bandwidth),
            "never nothing"
        );
    }

    #[test]
    fn what_is_over_before_it_is_measured_teaches_nothing() {
        let mut rates = Rates::new(0);
        rates.apply_past_writing(1_000_000, 199_999, true);
        assert_eq!(
            (rates.avg_write_bandwidth, rates.dirty_ratelimit),
            (INIT_BW, INIT_BW)
        );
        rates.apply_past_writing(1_000_000, 400_000, false);
        assert!(
            (INIT_BW + 1..200_000).contains(&rates.write_bandwidth),
            "{}",
            rates.write_bandwidth
        );
    }

    /// Ten writers and a disk of 1,000 pages/s, from the first guess on: each ends at a tenth, and
    /// the pool near its goal.
    #[test]
    fn the_base_rate_settles_at_bandwidth_over_writers() {
        let mut rates = Rates::new(0);
        let (mut dirty, mut dirtied, mut written) = (6_200, 0, 0);
        for tick in 1..30_000 {
            let view = view(dirty);
            let pos_ratio = rates.pos_ratio(&view);
            let rate = (10 * rates.dirty_ratelimit * pos_ratio) >> RATELIMIT_CALC_SHIFT;
            let flow = (rate / HZ).min(8_192 - dirty);
            dirtied += flow;
            written += 4;
            dirty = dirty + flow - 4;
            if tick % 50 == 0 {
                rates.adapt_rates(dirtied, written, tick, &[(view, pos_ratio)]);
            }
        }
        assert!(
            (85..=115).contains(&rates.dirty_ratelimit),
            "{}",
            rates.dirty_ratelimit
        );
        assert!((6_700..=7_700).contains(&dirty), "{dirty}");
    }
}
