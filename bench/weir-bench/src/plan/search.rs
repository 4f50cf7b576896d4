// SPDX-License-Identifier: GPL-2.0-only
//! The search behind `weir plan`: the weakest settings of some knobs with which nothing is missed.
//!
//! Each knob has a *scale* of steps: 0 is off, 1 the weakest value, the last the strongest. A
//! *point* is a step for each knob, and a trial says by how much it misses; 0 is what is looked
//! for. Four parts, all but the first one knob at a time, in the order given:
//!
//! - *probe*: try everything off, each knob at its strongest, and all together at their weakest,
//!   middle and strongest. If the caller finds in these that nothing can help, that is all.
//! - *climb*: try a knob off and on rungs that double, the others as they are; keep what misses
//!   least, of equals the weakest. Go on with the next knob, around and around, until nothing is
//!   missed or a whole round brings nothing. From everything off, and if that gets stuck, from the
//!   middle of all scales: two knobs may only help together.
//! - *refine*: if something is missed still, try three values each between the rung of each knob
//!   that misses least and its neighbours: what is looked for may be less than an octave wide.
//! - *ease*: take a knob as weak as it can be: off, or else down the rungs while nothing is missed,
//!   and then by bisection between the last that will do and the first that will not, to a
//!   sixteenth. Around, until no knob can be made weaker.
//!
//! So what is found is a place from which no knob can go back alone, not the best of all places. It
//! is the same every time, and takes some ten trials for each knob and round.
//!
//! Example. A floor of 1 MiB to 16 MiB that is enough from 5 MiB on. Probe tries 0, 1, 4 and 16, climb
//! 2 and 8, too, and keeps 8; ease finds that 4 will not do, and tries 6 and 5, which will: 5 MiB,
//! and 4 was too little.

use anyhow::Result;
use std::collections::BTreeMap;

/// A step on each knob's scale.
pub type Point = Vec<u64>;

/// The values of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The value with which it is off.
    pub off: u64,
    /// The weakest value, step 1.
    pub weakest: u64,
    /// The strongest; may be less than the weakest.
    pub strongest: u64,
    /// Difference from one step to the next.
    pub unit: u64,
}

impl Scale {
    /// The value at a step.
    pub fn value_at(&self, step: u64) -> u64 {
        let way = step.saturating_sub(1).saturating_mul(self.unit);
        match step {
            0 => self.off,
            _ if step >= self.last_step() => self.strongest,
            _ if self.strongest >= self.weakest => self.weakest + way,
            _ => self.weakest - way,
        }
    }

    /// The strongest step.
    pub fn last_step(&self) -> u64 {
        1 + self.weakest.abs_diff(self.strongest).div_ceil(self.unit)
    }

    fn step_of(&self, value: u64) -> u64 {
        1 + self.weakest.abs_diff(value) / self.unit
    }

    /// Steps whose values double, or halve; off first.
    fn doubling_steps(&self) -> Vec<u64> {
        let mut rungs = vec![0];
        let mut value = self.weakest.max(1);
        let rises = self.strongest >= self.weakest;
        while value > 0 && rises == (value < self.strongest) && value != self.strongest {
            rungs.push(self.step_of(value));
            value = if rises { value * 2 } else { value / 2 };
        }
        rungs.push(self.last_step());
        rungs.dedup();
        rungs
    }

    /// Three steps each between a rung and its neighbours.
    fn steps_around(&self, rung: u64) -> Vec<u64> {
        let rungs = self.doubling_steps();
        let at = rungs.partition_point(|step| *step < rung);
        let below = rungs[..at].last().filter(|step| **step > 0);
        let above = rungs.get(at + 1).filter(|_| rung > 0);
        let quarters = |from: u64, to: u64| (1..4).map(move |part| from + (to - from) * part / 4);
        let below = below.map(|step| quarters(*step, rung));
        let above = above.map(|step| quarters(rung, *step));
        let steps = below
            .into_iter()
            .flatten()
            .chain(above.into_iter().flatten());
        let mut steps: Vec<u64> = steps.filter(|step| !rungs.contains(step)).collect();
        steps.dedup();
        steps
    }

    /// Returns whether a step in between would tell more than a sixteenth.
    fn is_worth_trying(&self, weaker: u64, stronger: u64) -> bool {
        let (less, more) = (self.value_at(weaker), self.value_at(stronger));
        stronger - weaker > 1 && (weaker == 0 || less.abs_diff(more) > less.max(more) / 16)
    }
}

/// A point that was tried.
#[derive(Clone, Debug)]
pub struct Trial<T> {
    /// Amount by which it misses; 0 if by nothing.
    pub miss: f64,
    /// Whatever else there is to say.
    pub what: T,
}

/// Tries several points at once.
pub type Measure<'a, T> = dyn Fn(&[Point]) -> Result<Vec<Trial<T>>> + 'a;

/// Tells whether, by these trials, no values can help.
pub type Hopeless<'a, T> = dyn Fn(&BTreeMap<Point, Trial<T>>) -> bool + 'a;

/// A search over the knobs' scales, with all trials so far.
pub struct KnobSearch<'a, T> {
    scales: &'a [Scale],
    measure: &'a Measure<'a, T>,
    hopeless: &'a Hopeless<'a, T>,
    tried: BTreeMap<Point, Trial<T>>,
}

impl<'a, T> KnobSearch<'a, T> {
    /// A search over `scales`.
    pub fn new(
        scales: &'a [Scale],
        measure: &'a Measure<'a, T>,
        hopeless: &'a Hopeless<'a, T>,
    ) -> KnobSearch<'a, T> {
        KnobSearch {
            scales,
            measure,
            hopeless,
            tried: BTreeMap::new(),
        }
    }

    /// The weakest settings found with which nothing is missed, or those that miss least.
    pub fn run(&mut self) -> Result<Point> {
        let off = vec![0; self.scales.len()];
        if self.miss_at(&off)? == 0.0 {
            return Ok(off);
        }
        self.probe_extremes(&off)?;
        if (self.hopeless)(&self.tried) {
            return Ok(self.least_missing());
        }
        let mut best = self.climb_scales(off)?;
        if self.miss_at(&best)? > 0.0 && self.scales.len() > 1 {
            let middle = self.scales.iter().map(|scale| {
                let rungs = scale.doubling_steps();
                rungs[rungs.len() / 2]
            });
            let other = self.climb_scales(middle.collect())?;
            if self.miss_at(&other)? < self.miss_at(&best)? {
                best = other;
            }
        }
        if self.miss_at(&best)? > 0.0 {
            best = self.refine_point(best)?;
        }
        if self.miss_at(&best)? > 0.0 {
            return Ok(best);
        }
        self.ease_knobs(best)
    }

    fn probe_extremes(&mut self, off: &Point) -> Result<()> {
        let strongest = |knob: usize| with_step(off, knob, self.scales[knob].last_step());
        let mut points: Vec<Point> = (0..self.scales.len()).map(strongest).collect();
        let all = |part: fn(&[u64]) -> u64| {
            let rungs = self
                .scales
                .iter()
                .map(|scale| part(&scale.doubling_steps()));
            rungs.collect::<Point>()
        };
        points.push(all(|rungs| rungs[1]));
        points.push(all(|rungs| rungs[rungs.len() / 2]));
        points.push(all(|rungs| rungs[rungs.len() - 1]));
        points.dedup();
        self.try_points(&points)
    }

    /// The point that misses least; of equals the weakest.
    fn least_missing(&self) -> Point {
        let by_miss = |a: &(&Point, &Trial<T>), b: &(&Point, &Trial<T>)| {
            let sum = |point: &Point| point.iter().sum::<u64>();
            a.1.miss.total_cmp(&b.1.miss).then(sum(a.0).cmp(&sum(b.0)))
        };
        let least = self.tried.iter().min_by(by_miss);
        least.map_or_else(Point::new, |(point, _)| point.clone())
    }

    fn refine_point(&mut self, from: Point) -> Result<Point> {
        let mut at = from;
        for knob in 0..self.scales.len() {
            let between = self.scales[knob].steps_around(at[knob]);
            let points: Vec<Point> = between
                .iter()
                .map(|step| with_step(&at, knob, *step))
                .collect();
            self.try_points(&points)?;
            let mut least = self.miss_at(&at)?;
            for point in points {
                let miss = self.tried[&point].miss;
                if miss < least {
                    (at, least) = (point, miss);
                }
            }
        }
        Ok(at)
    }

    /// Everything that was tried, in an order of its own.
    pub fn all_trials(&self) -> &BTreeMap<Point, Trial<T>> {
        &self.tried
    }

    fn try_points(&mut self, points: &[Point]) -> Result<()> {
        let mut fresh: Vec<Point> = points
            .iter()
            .filter(|point| !self.tried.contains_key(*point))
            .cloned()
            .collect();
        fresh.sort();
        fresh.dedup();
        let trials = (self.measure)(&fresh)?;
        self.tried.extend(fresh.into_iter().zip(trials));
        Ok(())
    }

    fn miss_at(&mut self, point: &Point) -> Result<f64> {
        self.try_points(std::slice::from_ref(point))?;
        Ok(self.tried[point].miss)
    }

    fn climb_scales(&mut self, from: Point) -> Result<Point> {
        let mut at = from;
        let mut least = self.miss_at(&at)?;
        loop {
            let before = least;
            for knob in 0..self.scales.len() {
                if least == 0.0 {
                    return Ok(at);
                }
                let rungs = self.scales[knob].doubling_steps();
                let points: Vec<Point> = rungs
                    .iter()
                    .map(|step| with_step(&at, knob, *step))
                    .collect();
                self.try_points(&points)?;
                for point in points {
                    let miss = self.tried[&point].miss;
                    if miss < least {
                        (at, least) = (point, miss);
                    }
                }
            }
            if least == 0.0 || least == before {
                return Ok(at);
            }
        }
    }

    fn ease_knobs(&mut self, from: Point) -> Result<Point> {
        let mut at = from;
        loop {
            let before = at.clone();
            for knob in 0..self.scales.len() {
                at = self.ease_one(at, knob)?;
            }
            if at == before {
                return Ok(at);
            }
        }
    }

    fn ease_one(&mut self, mut at: Point, knob: usize) -> Result<Point> {
        let off = with_step(&at, knob, 0);
        if self.miss_at(&off)? == 0.0 {
            return Ok(off);
        }
        let scale = self.scales[knob];
        let mut too_weak = 0;
        for rung in scale.doubling_steps().into_iter().rev() {
            let weaker = with_step(&at, knob, rung);
            if rung == 0 || rung >= at[knob] {
                continue;
            }
            if self.miss_at(&weaker)? > 0.0 {
                too_weak = rung;
                break;
            }
            at = weaker;
        }
        while scale.is_worth_trying(too_weak, at[knob]) {
            let middle = with_step(&at, knob, too_weak + (at[knob] - too_weak) / 2);
            if self.miss_at(&middle)? == 0.0 {
                at = middle;
            } else {
                too_weak = middle[knob];
            }
        }
        Ok(at)
    }

    /// The strongest point that was tried of those that differ from `point` in a weaker `knob`
    /// alone.
    pub fn next_weaker(&self, point: &Point, knob: usize) -> Option<(u64, &Trial<T>)> {
        (0..point[knob])
            .rev()
            .find_map(|step| Some((step, self.tried.get(&with_step(point, knob, step))?)))
    }
}

fn with_step(point: &Point, knob: usize, step: u64) -> Point {
    let mut point = point.clone();
    point[knob] = step;
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Scale = Scale {
        off: 0,
        weakest: 1,
        strongest: 16,
        unit: 1,
    };

    /// Searches `scales` for where `miss` of their values is 0: values, and how many were tried.
    fn find(scales: &[Scale], miss: fn(&[u64]) -> f64) -> (Vec<u64>, usize) {
        let values = |point: &Point| -> Vec<u64> {
            let each = scales.iter().zip(point);
            each.map(|(scale, step)| scale.value_at(*step)).collect()
        };
        let measure = |points: &[Point]| {
            let trial = |point| Trial {
                miss: miss(&values(point)),
                what: (),
            };
            Ok(points.iter().map(trial).collect())
        };
        let mut search = KnobSearch::new(scales, &measure, &|_| false);
        let point = search.run().expect("nothing fails");
        (values(&point), search.all_trials().len())
    }

    #[test]
    fn what_nothing_moves_is_given_up_after_a_few_trials() {
        let wide = Scale {
            off: 0,
            weakest: 1,
            strongest: 1 << 20,
            unit: 1,
        };
        let measure = |points: &[Point]| {
            let trial = |_| Trial {
                miss: 0.5,
                what: (),
            };
            Ok(points.iter().map(trial).collect())
        };
        let same = |tried: &BTreeMap<Point, Trial<()>>| tried.values().all(|of| of.miss == 0.5);
        let scales = [wide, wide];
        let mut search = KnobSearch::new(&scales, &measure, &same);
        assert_eq!(search.run().expect("nothing fails"), [0, 0]);
        assert_eq!(search.all_trials().len(), 6);
    }

    #[test]
    fn what_is_narrower_than_an_octave_is_found() {
        let ceiling = Scale {
            off: u64::MAX,
            weakest: 1 << 20,
            strongest: 16,
            unit: 16,
        };
        // 5000 to 6000: between the rungs 4096 and 8192.
        let narrow = |v: &[u64]| match v[0] {
            ..5000 => 0.1,
            5000..=6000 => 0.0,
            _ => 1.0 - 6000.0 / v[0] as f64,
        };
        let (values, _) = find(&[ceiling], narrow);
        assert!((5000..=6000).contains(&values[0]), "{values:?}");
    }

    #[test]
    fn worked_example() {
        let enough = |v: &[u64]| {
            if v[0] >= 5 {
                0.0
            } else {
                1.0 - v[0] as f64 / 5.0
            }
        };
        assert_eq!(find(&[FLOOR], enough), (vec![5], 8));
    }

    #[test]
    fn scales_go_both_ways_and_end_at_the_strongest() {
        let ceiling = Scale {
            off: u64::MAX,
            weakest: 32,
            strongest: 3,
            unit: 2,
        };
        let all: Vec<u64> = ceiling
            .doubling_steps()
            .iter()
            .map(|s| ceiling.value_at(*s))
            .collect();
        assert_eq!(all, [u64::MAX, 32, 16, 8, 4, 3]);
        let most_10 = |v: &[u64]| {
            if v[0] <= 10 {
                0.0
            } else {
                1.0 - 10.0 / v[0] as f64
            }
        };
        assert_eq!(find(&[ceiling], most_10).0, [10]);
        let all: Vec<u64> = FLOOR
            .doubling_steps()
            .iter()
            .map(|s| FLOOR.value_at(*s))
            .collect();
        assert_eq!(all, [0, 1, 2, 4, 8, 16]);
    }

    #[test]
    fn what_is_not_needed_stays_off() {
        let second_only = |v: &[u64]| if v[1] >= 3 { 0.0 } else { 0.5 };
        assert_eq!(find(&[FLOOR, FLOOR], second_only).0, [0, 3]);
        assert_eq!(find(&[FLOOR, FLOOR], |_| 0.0), (vec![0, 0], 1));
    }

    #[test]
    fn knobs_that_help_only_together_are_found_and_neither_can_go_back() {
        let both = |v: &[u64]| if v[0] >= 3 && v[1] >= 2 { 0.0 } else { 0.5 };
        assert_eq!(find(&[FLOOR, FLOOR], both).0, [3, 2]);
    }

    #[test]
    fn what_cannot_be_had_comes_as_near_as_it_can_at_the_least_cost() {
        let never = |v: &[u64]| 0.25 + v[0].abs_diff(4) as f64 / 100.0;
        assert_eq!(find(&[FLOOR], never).0, [4]);
    }
}
