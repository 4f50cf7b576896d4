// SPDX-License-Identifier: GPL-2.0-only
//! Shares of the disk: each cgroup's part of what was dirtied, in windows of equal length.
//!
//! What a task dirtied between two looks at it counts as dirtied evenly between them, as its line is
//! drawn. Example: of a run of 9 s a window has 0.3 s, and tasks are looked at every 0.4 s, some of them
//! in turn. If all of a step counted where it was seen, every fourth window would have none, and
//! others those of one task alone: 100 %.

use super::{Series, Timeline};
use std::collections::BTreeMap;

/// Windows in a run.
const WINDOWS: usize = 30;
/// Windows with less than this part of what the mean window has show nothing: one write would be 100 %.
const NEXT_TO_NOTHING: f64 = 0.01;
/// Cgroups of their own; the others are added up.
const MOST: usize = 7;

/// Cgroup to its part, in percent, at the end of each window; the largest first. Empty where no
/// task's progress or no task's cgroup is known.
pub fn cgroup_shares(run: &Timeline) -> Vec<(String, Series)> {
    let width = run.seconds / WINDOWS as f64;
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    if width <= 0.0 {
        return Vec::new();
    }
    for task in &run.tasks {
        let Some(cgroup) = &task.cgroup else { continue };
        let windows = all.entry(cgroup).or_insert_with(|| vec![0.0; WINDOWS]);
        let mut before: Option<(f64, f64)> = None;
        for (at, bytes) in &task.progress {
            let (since, sum) = before.unwrap_or((*at, 0.0));
            spread_over_windows(windows, width, (since, *at), bytes - sum);
            before = Some((*at, *bytes));
        }
    }
    let totals: Vec<f64> = (0..WINDOWS)
        .map(|window| all.values().map(|windows| windows[window]).sum())
        .collect();
    let least = sum_windows(&totals) / WINDOWS as f64 * NEXT_TO_NOTHING;
    let mut order: Vec<(&str, Vec<f64>)> = all.into_iter().collect();
    order.sort_by(|a, b| sum_windows(&b.1).total_cmp(&sum_windows(&a.1)));
    if order.len() > MOST {
        let others = order.split_off(MOST - 1);
        let mut rest = vec![0.0; WINDOWS];
        for (_, windows) in others {
            rest.iter_mut()
                .zip(windows)
                .for_each(|(sum, one)| *sum += one);
        }
        order.push(("all others", rest));
    }
    let part = |windows: Vec<f64>| -> Series {
        let parts = windows.iter().zip(&totals).enumerate();
        parts
            .filter(|(_, (_, total))| **total > least)
            .map(|(window, (bytes, total))| ((window + 1) as f64 * width, bytes / total * 100.0))
            .collect()
    };
    order
        .into_iter()
        .map(|(cgroup, windows)| (cgroup.to_string(), part(windows)))
        .collect()
}

fn sum_windows(windows: &[f64]) -> f64 {
    windows.iter().sum()
}

/// Adds what was dirtied from one time to another to the windows between.
fn spread_over_windows(windows: &mut [f64], width: f64, (from, to): (f64, f64), bytes: f64) {
    let last = windows.len() - 1;
    let window = |at: f64| ((at / width) as usize).min(last);
    if to <= from {
        windows[window(to)] += bytes;
        return;
    }
    for (index, all) in windows
        .iter_mut()
        .enumerate()
        .take(window(to) + 1)
        .skip(window(from))
    {
        let begin = from.max(index as f64 * width);
        let end = if index == last {
            to
        } else {
            to.min((index + 1) as f64 * width)
        };
        *all += bytes * ((end - begin) / (to - from)).clamp(0.0, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Task;

    fn task(cgroup: &str, progress: Series) -> Task {
        Task {
            cgroup: Some(cgroup.into()),
            progress,
            ..Task::default()
        }
    }

    /// Two writers at the same pace, looked at in turn, each less often than there are windows.
    #[test]
    fn looks_further_apart_than_windows_make_no_spikes() {
        let looked = |first: f64| -> Series {
            let at = (0..11).map(|n| first + 0.8 * f64::from(n));
            // All are looked at when it ends.
            at.chain([9.0]).map(|at| (at, at * 1e6)).collect()
        };
        let run = Timeline {
            seconds: 9.0,
            tasks: vec![task("/a", looked(0.0)), task("/b", looked(0.4))],
            ..Timeline::default()
        };
        let shares = cgroup_shares(&run);
        assert_eq!(shares.len(), 2);
        for (cgroup, series) in &shares {
            assert_eq!(series.len(), WINDOWS, "{cgroup}");
            // The first windows have one writer, as the second was not seen yet.
            for (at, part) in &series[3..] {
                assert!((49.0..51.0).contains(part), "{cgroup} has {part} at {at}");
            }
        }
    }

    #[test]
    fn one_write_in_a_quiet_window_is_no_share() {
        let mut busy: Series = (0..=30)
            .map(|n| (f64::from(n) / 10.0, f64::from(n) * 1e6))
            .collect();
        busy.push((30.0, 30e6 + 4096.0));
        let run = Timeline {
            seconds: 30.0,
            tasks: vec![task("/a", busy), task("/b", vec![(0.0, 0.0), (3.0, 1e6)])],
            ..Timeline::default()
        };
        let (_, series) = &cgroup_shares(&run)[0];
        assert_eq!(series.len(), 3, "{series:?}");
    }

    #[test]
    fn nothing_is_lost_between_windows() {
        let mut windows = [0.0; 4];
        spread_over_windows(&mut windows, 1.0, (0.5, 2.5), 8.0);
        assert_eq!(windows, [2.0, 4.0, 2.0, 0.0]);
        spread_over_windows(&mut windows, 1.0, (3.5, 9.0), 1.0);
        spread_over_windows(&mut windows, 1.0, (9.0, 9.0), 1.0);
        assert_eq!(windows.iter().sum::<f64>(), 10.0);
    }
}
