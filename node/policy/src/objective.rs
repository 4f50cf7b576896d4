// SPDX-License-Identifier: GPL-2.0-only
//! How many dirty pages others may hold, or a device may have in flight, while a cgroup's waits stay
//! within a bound: see `policy/objective.c`.

use crate::UNLIMITED;
use crate::ffi as c;

/// State between two looks, in pages and milliseconds.
pub use c::weir_objective as Objective;

impl Default for Objective {
    fn default() -> Objective {
        Objective {
            budget: UNLIMITED,
            wall: UNLIMITED,
            held_ms: 0,
            used_ms: 0,
            calm_ms: 0,
            idle_ms: 0,
            vain_ms: 0,
            stuck_ms: 0,
            without: 0,
            rest_ms: 0,
            rested: 0,
            full: 0,
            starved: 0,
            fed: 0,
            fed_pages: 0,
            fed_ms: 0,
            late_pages: 0,
            late_ms: 0,
            kept_ms: 0,
        }
    }
}

/// A look at the cgroup, and at those that may be limited for it.
pub use c::weir_objective_look as Look;

impl Objective {
    /// Takes one look in and changes the budget by it.
    pub fn adapt_by_look(&mut self, look: &Look) {
        // SAFETY: both pointers are valid for the call.
        unsafe { c::weir_objective_step(self, look) }
    }

    /// Waits that began longer ago than so many milliseconds do not count.
    pub fn window_ms(&self) -> u64 {
        // SAFETY: the pointer is valid for the call.
        unsafe { c::weir_objective_window_ms(self) }
    }

    /// The most that each cgroup may hold, of those that hold `held`; not less than `least`.
    /// [`UNLIMITED`] without a budget.
    pub fn level_pages(&self, least: u64, held: &[u64]) -> u64 {
        // SAFETY: as many numbers as are said.
        unsafe { c::weir_objective_level(self.budget, least, held.as_ptr(), held.len() as u64) }
    }
}

/// The amount that a disk takes at a time.
pub use c::weir_queue as Queue;

impl Queue {
    /// The narrowest, in pages: four requests of 16 KiB.
    pub const LEAST: u64 = 16;

    /// A queue that has so many pages in flight at most, or a little less, but no less than
    /// [`Queue::LEAST`]; none if this one has no more anyhow.
    pub fn narrow_to(mut self, pages: u64) -> Option<Queue> {
        // SAFETY: the pointer is valid for the call.
        let is_narrow = unsafe { c::weir_queue_narrow(&mut self, pages) } != 0;
        is_narrow.then_some(self)
    }
}

/// Number of `count` values that may be beyond a bound on the percentile `per_mille`.
pub fn spare_values(count: u64, per_mille: u32) -> u64 {
    c::weir_objective_spare(count, per_mille)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGES_MAX;
    use proptest::prelude::*;

    const BOUND: u64 = 10_000_000;

    fn look(value_ms: u64, held: u64) -> Look {
        Look {
            value: value_ms * 1_000_000,
            bound: BOUND,
            held,
            drained: 1_000,
            least: 64,
            elapsed_ms: 1_000,
            measured: 1,
            kept: 0,
        }
    }

    fn steps(objective: &mut Objective, times: usize, look: &Look) {
        (0..times).for_each(|_| objective.adapt_by_look(look));
    }

    #[test]
    fn worked_example() {
        let mut objective = Objective::default();
        objective.adapt_by_look(&look(800, 8_000));
        assert_eq!(objective.budget, 500);
        assert_eq!(objective.window_ms(), 0, "not in effect");
        steps(&mut objective, 8, &look(800, 7_000));
        assert_eq!(objective.budget, 500, "not judged before it is in effect");
        steps(&mut objective, 60, &look(8, 450));
        assert_eq!((objective.budget, objective.window_ms()), (500, 10_000));
        steps(&mut objective, 1, &look(25, 450));
        assert_eq!((objective.budget, objective.wall), (150, 500));
        steps(&mut objective, 4, &look(3, 140));
        assert_eq!(objective.budget, 150);
        objective.adapt_by_look(&look(3, 140));
        assert_eq!(objective.budget, 188);
        steps(&mut objective, 20, &look(3, 180));
        assert_eq!(
            objective.budget,
            188 + 47 + 1 + 59 + 1 + 74 + 1,
            "and so on"
        );
        steps(&mut objective, 5, &look(3, 370));
        assert_eq!(objective.budget, 375);
        steps(&mut objective, 200, &look(3, 370));
        assert_eq!(objective.budget, 375, "3/4 of the wall");

        assert_eq!(
            Objective {
                budget: 375,
                ..objective
            }
            .level_pages(0, &[100, 900]),
            275
        );
    }

    #[test]
    fn a_cut_is_as_deep_as_the_bound_is_broken() {
        let cut = |value_ms: u64, seconds: usize| {
            let mut objective = Objective {
                budget: 1_600,
                ..Objective::default()
            };
            steps(&mut objective, seconds, &look(value_ms, 1_600));
            objective.budget
        };
        assert_eq!((cut(11, 2), cut(11, 3)), (1_600, 1_090), "3/4 of 10/11");
        assert_eq!((cut(25, 1), cut(25, 2)), (1_600, 480), "sure after two");
        assert_eq!(cut(800, 2), 200, "no less than an 8th");
    }

    #[test]
    fn quiet_seconds_are_no_room() {
        let mut objective = Objective {
            budget: 1_000,
            ..Objective::default()
        };
        steps(&mut objective, 60, &look(1, 0));
        // Back again, while most of what the value is taken of was quiet.
        steps(&mut objective, 4, &look(3, 900));
        assert_eq!(objective.budget, 1_000);
        steps(&mut objective, 1, &look(3, 900));
        assert_eq!(objective.budget, 1_251);
    }

    #[test]
    fn the_wall_is_forgotten_slowly() {
        let mut objective = Objective {
            budget: 375,
            wall: 500,
            ..Objective::default()
        };
        steps(&mut objective, 299, &look(3, 370));
        assert_eq!(objective.budget, 375);
        steps(&mut objective, 10, &look(3, 370));
        assert_eq!((objective.wall, objective.budget), (626, 469));
    }

    #[test]
    fn nobody_is_limited_who_is_not_to_blame() {
        let mut objective = Objective::default();
        objective.adapt_by_look(&look(800, 64));
        assert_eq!(objective.budget, UNLIMITED, "no more than all may hold");
        objective.budget = 1_000;
        steps(&mut objective, 60, &look(800, 400));
        assert_eq!(objective.budget, 1_000);
    }

    #[test]
    fn limits_go_when_nothing_is_measured() {
        let mut objective = Objective {
            budget: 375,
            wall: 500,
            ..Objective::default()
        };
        let idle = Look {
            measured: 0,
            ..look(0, 370)
        };
        let draining = Look {
            held: 9_000,
            ..idle
        };
        steps(&mut objective, 300, &draining);
        steps(&mut objective, 59, &idle);
        assert_eq!(objective.budget, 375);
        objective.adapt_by_look(&idle);
        assert_eq!((objective.budget, objective.wall), (UNLIMITED, 500));
        objective.adapt_by_look(&look(800, 24_000));
        assert_eq!(objective.budget, 375, "what is known of the wall holds");
    }

    /// Seconds of `total` in which others are limited; `look` says what each finds.
    fn limited_s(total: u64, look: impl Fn(u64, &Objective) -> Look) -> u64 {
        let mut objective = Objective::default();
        let limited = |second| {
            objective.adapt_by_look(&look(second, &objective));
            u64::from(objective.budget != UNLIMITED)
        };
        (0..total).map(limited).sum()
    }

    #[test]
    fn limits_that_never_come_into_effect_end() {
        let limited = limited_s(7_200, |_, _| look(800, 9_000));
        assert!(limited < 2_500, "{limited} s of 7,200");
    }

    #[test]
    fn a_dip_does_not_prolong_limits_that_are_in_vain() {
        let limited = limited_s(7_200, |second, objective| match second % 500 {
            0 => look(800, objective.budget.min(9_000)),
            _ => look(800, 9_000),
        });
        assert!(limited < 2_500, "{limited} s of 7,200");
    }

    #[test]
    fn a_cgroup_that_makes_its_own_waits_limits_others_for_a_while_only() {
        let limited = limited_s(7_200, |_, objective| look(800, objective.budget.min(9_000)));
        assert!(limited < 2_500, "{limited} s of 7,200");
    }

    #[test]
    fn limits_that_help_stay_though_the_bound_is_out_of_reach() {
        let limited = limited_s(2_300, |_, objective| match objective.budget {
            UNLIMITED => look(800, 9_000),
            budget => look(100, budget),
        });
        assert!(limited > 2_290, "{limited} s of 2,300");
    }

    #[test]
    fn limits_end_though_the_bound_is_kept_for_a_look_now_and_then() {
        let limited = limited_s(7_200, |second, objective| {
            let value = if second % 540 == 539 { 5 } else { 800 };
            look(value, objective.budget.min(9_000))
        });
        assert!(limited < 2_500, "{limited} s of 7,200");
    }

    #[test]
    fn limits_end_though_nothing_is_measured_for_a_minute_now_and_then() {
        let limited = limited_s(7_200, |second, objective| Look {
            measured: u32::from(second % 540 >= 62),
            ..look(800, objective.budget.min(9_000))
        });
        assert!(limited < 3_000, "{limited} s of 7,200");
    }

    #[test]
    fn one_long_wait_at_first_limits_nobody_for_good() {
        let limited = limited_s(7_200, |second, objective| {
            let value = if second == 0 { 20_000 } else { 800 };
            look(value, objective.budget.min(9_000))
        });
        assert!(limited < 3_700, "{limited} s of 7,200");
    }

    #[test]
    fn a_least_budget_of_nothing_ends_as_well() {
        let limited = limited_s(7_200, |_, objective| Look {
            least: 0,
            ..look(800, objective.budget.min(9_000))
        });
        assert!(limited < 2_500, "{limited} s of 7,200");
    }

    #[test]
    fn a_percentile_has_exceptions() {
        for (count, per_mille, spared) in [
            (0, 990, 0),
            (19, 990, 0),
            (20, 990, 1),
            (200, 990, 2),
            (20, 500, 10),
            (100, 1_000, 1),
            (u64::MAX, 990, PAGES_MAX / 100),
        ] {
            assert_eq!(
                spare_values(count, per_mille),
                spared,
                "{count} {per_mille}"
            );
        }
    }

    /// A disk on which a wait takes as long as what is held takes to be written, with writers that
    /// fill what they may: for any disk the bound is kept in the end, the budget comes to rest, and
    /// it is not half of what would do.
    fn settles(rate: u64, bound_ms: u64, host: u64) -> Result<(), TestCaseError> {
        let mut objective = Objective::default();
        let (mut held, mut breaks) = (host, 0);
        let enough = rate * bound_ms / 1_000;
        for second in 0..1_200 {
            let may = objective.budget.min(host);
            held = if held > may {
                held.saturating_sub(rate).max(may)
            } else {
                may
            };
            let value = held * 1_000_000_000 / rate;
            let look = Look {
                value,
                bound: bound_ms * 1_000_000,
                held,
                drained: rate,
                least: 2,
                elapsed_ms: 1_000,
                measured: u32::from(objective.window_ms() > 0),
                kept: 0,
            };
            objective.adapt_by_look(&look);
            if second > 900 && value > look.bound {
                breaks += 1;
            }
        }
        if host > enough + enough / 8 && enough >= 16 {
            prop_assert!(
                objective.budget <= enough + enough / 4 + 1,
                "{} of {enough}",
                objective.budget
            );
            prop_assert!(
                objective.budget * 2 + 2 >= enough * 9 / 16,
                "{} of {enough}",
                objective.budget
            );
        }
        prop_assert!(breaks <= 8, "{breaks} breaks");
        Ok(())
    }

    /// A device with a queue of `depth` pages, kept full, that writes `rate` a second with `enough`
    /// of them or more, and in proportion with fewer; a wait takes three times what is in flight.
    struct Device {
        rate: u64,
        enough: u64,
        depth: u64,
    }

    impl Device {
        /// Seconds with this bound; the values measured.
        fn run(&self, objective: &mut Objective, bound_ms: u64, seconds: u64) -> Vec<u64> {
            let second = |_| {
                let held = objective.budget.min(self.depth);
                let drained = self.rate * held.min(self.enough) / self.enough;
                let value = 3 * held * 1_000_000_000 / drained.max(1);
                objective.adapt_by_look(&Look {
                    value,
                    bound: bound_ms * 1_000_000,
                    held,
                    drained,
                    least: 16,
                    elapsed_ms: 1_000,
                    measured: u32::from(objective.window_ms() > 0),
                    kept: 970,
                });
                value / 1_000_000
            };
            (0..seconds).map(second).collect()
        }
    }

    #[test]
    fn requests_become_smaller_then_fewer() {
        let narrow = |requests, kib, wanted_kib: u64| {
            let narrow = Queue { requests, kib }.narrow_to(wanted_kib / 4)?;
            Some((narrow.requests, narrow.kib))
        };
        assert_eq!(narrow(32, 256, 8 << 10), None, "its own");
        assert_eq!(narrow(32, 256, 4 << 10), Some((32, 128)));
        assert_eq!(narrow(32, 256, 512), Some((16, 32)));
        assert_eq!(narrow(32, 256, 128), Some((4, 32)));
        assert_eq!(narrow(32, 256, 112), Some((4, 28)));
        assert_eq!(narrow(32, 256, 64), Some((4, 16)), "the narrowest");
        assert_eq!(Queue::LEAST, 4 * 16 / 4);
        assert_eq!(narrow(1023, 1280, 2 << 10), Some((64, 32)));
        assert_eq!(narrow(2, 512, 256), Some((2, 128)), "of a disk with two");
        assert_eq!(narrow(8, 16, 64), Some((4, 16)), "small as it is");
        assert_eq!(narrow(256, 4, 256), Some((64, 4)));
        assert_eq!(narrow(32, 256, 0), Some((4, 16)));
        assert_eq!(
            narrow(u64::MAX, u64::MAX, u64::MAX),
            Some(((1 << 29) - 1, 32))
        );
    }

    #[test]
    fn a_queue_is_narrowed_within_seconds() {
        let queue = Device {
            rate: 4_096,
            enough: 16,
            depth: 2_048,
        };
        let mut objective = Objective::default();
        let values = queue.run(&mut objective, 30, 8);
        assert_eq!(values, [1_500, 93, 93, 93, 93, 21, 21, 21]);
        queue.run(&mut objective, 30, 600);
        assert_eq!(objective.starved, 0);
        assert!((30..=41).contains(&objective.budget), "{objective:?}");
    }

    #[test]
    fn a_flood_that_stops_in_the_middle_of_a_second_starves_no_device() {
        let queue = Device {
            rate: 4_096,
            enough: 16,
            depth: 2_048,
        };
        let mut objective = Objective::default();
        for part in [9, 5, 6] {
            queue.run(&mut objective, 30, 30 + part);
            let budget = objective.budget;
            objective.adapt_by_look(&Look {
                kept: 970,
                drained: 4_096 * part / 10,
                least: 16,
                ..look(8, budget * part / 10)
            });
            let quiet = Look {
                kept: 970,
                drained: 0,
                ..look(8, 0)
            };
            steps(&mut objective, 5, &quiet);
            assert_eq!((objective.starved, objective.budget), (0, budget));
        }
    }

    #[test]
    fn a_device_that_is_slower_for_another_reason_is_no_reason_for_more_in_flight() {
        let mut queue = Device {
            rate: 4_096,
            enough: 16,
            depth: 2_048,
        };
        let mut objective = Objective::default();
        queue.run(&mut objective, 30, 60);
        queue.rate = 2_048;
        queue.run(&mut objective, 30, 60);
        assert_eq!((objective.full, objective.starved), (2_048, 0));
        assert!(objective.budget <= 20, "{objective:?}");
    }

    /// Ten minutes of a neighbour that comes for a minute and goes for one, waits that differ by
    /// `noise` percent: seconds in which the bound is broken, by visit, and how often the budget
    /// changes its direction.
    fn visits(rate: u64, bound_ms: u64, noise: &[u64]) -> ([u64; 5], u32) {
        let mut objective = Objective::default();
        let (mut held, mut broken, mut turns) = (0u64, [0; 5], 0);
        let mut grew = None;
        for (second, noise) in noise.iter().enumerate() {
            let (visit, at) = (second / 120, second % 120);
            // Without a limit it holds what drains in ten seconds.
            let may = objective.budget.min(10 * rate);
            held = match at {
                0..60 => held.saturating_sub(rate).max(may),
                _ => held.saturating_sub(rate),
            };
            let took = held * 1_000_000_000 / rate * noise / 100;
            let look = Look {
                value: took,
                bound: bound_ms * 1_000_000,
                held,
                drained: rate.min(held),
                least: 2,
                elapsed_ms: 1_000,
                measured: u32::from(objective.window_ms() > 0),
                kept: 0,
            };
            let before = objective.budget;
            objective.adapt_by_look(&look);
            if objective.budget != before {
                let grows = objective.budget > before;
                turns += u32::from(grew.replace(grows).is_some_and(|grew| grew != grows));
            }
            // The first time what it holds has to drain, and the budget is found.
            let settles = if visit == 0 { 10 + 5 } else { 5 };
            broken[visit] += u64::from((settles..60).contains(&at) && took > look.bound);
        }
        (broken, turns)
    }

    proptest! {
        #[test]
        fn a_neighbour_that_comes_and_goes_is_limited_at_once(
            rate in 1_000u64..100_000,
            bound_ms in 50u64..1_000,
            noise in prop::collection::vec(80u64..=120, 600),
        ) {
            let (broken, turns) = visits(rate, bound_ms, &noise);
            // A budget that was too much is cut after three seconds.
            prop_assert!(broken.iter().all(|broken| *broken <= 4), "{broken:?}");
            prop_assert!(broken.iter().sum::<u64>() <= 8, "{broken:?}");
            prop_assert!(turns <= 6, "{turns} turns");
        }

        /// Whatever is asked for, the device keeps its rate in the end; where the bound can be kept
        /// with that, it is.
        #[test]
        fn a_device_keeps_its_rate(
            rate in 1_000u64..1_000_000,
            enough_us in 500u64..20_000,
            bound_ms in 1u64..200,
        ) {
            let enough = (rate * enough_us / 1_000_000).max(16);
            let queue = Device { rate, enough, depth: 64 * enough };
            let mut objective = Objective::default();
            queue.run(&mut objective, bound_ms, 60);
            let least_ms = 3 * enough * 1_000 / rate;
            let (mut slow, mut broken) = (0, 0);
            for _ in 0..400 {
                let value = queue.run(&mut objective, bound_ms, 1)[0];
                let pages = objective.budget.min(queue.depth);
                slow += u32::from(pages.min(enough) * 1_000 < enough * 970);
                broken += u32::from(value > bound_ms);
                prop_assert!(bound_ms > 2 * least_ms + 1 || pages <= 3 * enough, "{objective:?}");
            }
            // What starved it is tried again after five minutes.
            prop_assert!(slow <= 16, "{slow} of 400 s: {objective:?}");
            if bound_ms > 2 * least_ms + 1 {
                prop_assert!(broken <= 8, "{broken} of 400 s: {objective:?}");
            }
        }

        #[test]
        fn a_disk_and_its_writers_settle(rate in 100u64..100_000, bound_ms in 5u64..2_000, host in 1_000u64..1_000_000) {
            // Less than half an hour's worth: else it is not drained by the end.
            prop_assume!(host / rate < 600);
            settles(rate, bound_ms, host)?;
        }

        /// For any numbers: a budget is not below the least, nor above the wall's three quarters
        /// when it grows; it never falls to less than an 8th nor grows by more than a quarter.
        #[test]
        fn any_look(state in any::<[u64; 19]>(), of in any::<[u64; 6]>(), measured in 0u32..2, kept in 0u32..1_001) {
            let before = Objective {
                budget: state[0], wall: state[1], held_ms: state[2], calm_ms: state[3], idle_ms: state[4],
                vain_ms: state[5], without: state[6], rest_ms: state[7], rested: state[8], used_ms: state[10],
                stuck_ms: state[9], full: state[11], starved: state[12], fed: state[13], fed_pages: state[14],
                fed_ms: state[15], late_pages: state[16], late_ms: state[17], kept_ms: state[18],
            };
            let look = Look {
                value: of[0], bound: of[1], held: of[2], drained: of[3], least: of[4], elapsed_ms: of[5], measured, kept,
            };
            let mut after = before;
            after.adapt_by_look(&look);
            if after.budget != before.budget && after.budget != UNLIMITED {
                let least = look.least.min(PAGES_MAX);
                if before.budget == UNLIMITED {
                    prop_assert!(after.budget >= least);
                } else if after.budget < before.budget {
                    prop_assert!(after.budget >= (before.budget.min(PAGES_MAX) / 8).max(least));
                } else {
                    let part = if kept == 0 { 4 } else { 2 };
                    prop_assert!(after.budget <= before.budget + before.budget / part + 1);
                }
            }
        }

        /// For any cgroups: within the budget unless the floor is above, and no less than it.
        #[test]
        fn the_level_divides_the_budget(budget in 0u64..1_000_000, held in prop::collection::vec(0u64..100_000, 1..12)) {
            let objective = Objective { budget, ..Objective::default() };
            let level = objective.level_pages(0, &held);
            let sum: u64 = held.iter().map(|held| held.min(&level)).sum();
            prop_assert!(sum <= budget);
            if held.iter().sum::<u64>() > budget {
                prop_assert!(sum + held.len() as u64 > budget);
            }
            prop_assert_eq!(objective.level_pages(level + 5, &held), level + 5);
        }

        #[test]
        fn any_division(budget in any::<u64>(), least in any::<u64>(), held in prop::collection::vec(any::<u64>(), 0..12)) {
            Objective { budget, ..Objective::default() }.level_pages(least, &held);
        }
    }
}
