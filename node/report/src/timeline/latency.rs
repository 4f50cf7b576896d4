// SPDX-License-Identifier: GPL-2.0-only
//! Waits of each cgroup's tasks over time: p50 and p99 of the waits that began in a window.

use super::{Loss, Series, Timeline};
use std::collections::BTreeMap;

/// Windows in a run.
const WINDOWS: usize = 30;
/// Cgroups with lines of their own, those that lost most.
const MOST: usize = 4;

/// Percentiles of the waits of a cgroup over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The cgroup's path; `?` where it is not known.
    pub cgroup: String,
    /// The median of each window.
    pub p50: Series,
    /// Time that 99 of 100 waits were not longer than.
    pub p99: Series,
}

/// Waits that were lost to one of these, by cgroup; a window without any breaks the lines.
pub fn wait_percentiles(run: &Timeline, is_of: fn(&Loss) -> bool) -> Vec<Latency> {
    let width = run.seconds / WINDOWS as f64;
    if width <= 0.0 {
        return Vec::new();
    }
    let mut all: BTreeMap<&str, (f64, Vec<Vec<f64>>)> = BTreeMap::new();
    for loss in run.losses.iter().filter(|loss| is_of(loss)) {
        let cgroup = run
            .tasks
            .get(loss.task)
            .and_then(|task| task.cgroup.as_deref());
        let (sum, windows) = all
            .entry(cgroup.unwrap_or("?"))
            .or_insert_with(|| (0.0, vec![Vec::new(); WINDOWS]));
        *sum += loss.seconds;
        windows[((loss.at / width) as usize).min(WINDOWS - 1)].push(loss.seconds);
    }
    let mut order: Vec<_> = all.into_iter().collect();
    order.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    order.truncate(MOST);
    let line = |windows: &mut [Vec<f64>], part: f64| -> Series {
        let points = windows.iter_mut().enumerate().map(|(index, waits)| {
            let at = (index as f64 + 0.5) * width;
            (at, value_at_percentile(waits, part).unwrap_or(f64::NAN))
        });
        points.collect()
    };
    let latency = |(cgroup, (_, mut windows)): (&str, (f64, Vec<Vec<f64>>))| Latency {
        cgroup: cgroup.into(),
        p50: line(&mut windows, 0.5),
        p99: line(&mut windows, 0.99),
    };
    order.into_iter().map(latency).collect()
}

/// The value that this part of all is not above.
pub(crate) fn value_at_percentile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * part).ceil() as usize;
    values.get(at.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Loss, Task};
    use observe::diagnosis::Decider;
    use observe::owed::Limit;

    #[test]
    fn each_cgroup_has_its_own_lines_and_gaps_stay_gaps() {
        let task = |cgroup: &str| Task {
            cgroup: Some(cgroup.into()),
            ..Task::default()
        };
        let loss = |task, at, seconds, limit| Loss {
            at,
            seconds,
            is_announced: false,
            task,
            limit,
        };
        let mut losses: Vec<Loss> = (1..=100)
            .map(|n| loss(0, 0.5, f64::from(n) / 100.0, Limit::Fsync))
            .collect();
        losses.push(loss(1, 29.9, 2.0, Limit::Fsync));
        losses.push(loss(1, 29.9, 9.0, Limit::Throttle(Decider::Host)));
        let run = Timeline {
            seconds: 30.0,
            tasks: vec![task("/db"), task("/batch")],
            losses,
            ..Timeline::default()
        };
        let found = wait_percentiles(&run, |loss| loss.limit == Limit::Fsync);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].cgroup, "/db");
        assert_eq!(
            (found[0].p50[0], found[0].p99[0]),
            ((0.5, 0.5), (0.5, 0.99))
        );
        assert!(found[0].p99[1].1.is_nan());
        assert_eq!(found[1].p99[29], (29.5, 2.0));
    }
}
