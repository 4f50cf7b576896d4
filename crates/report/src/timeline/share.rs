// SPDX-License-Identifier: GPL-2.0-only
//! Whose the disk's time is: each cgroup's part of what was dirtied, in windows of equal length.

use super::{Series, Timeline};
use std::collections::BTreeMap;

/// Windows in a run.
const WINDOWS: usize = 30;
/// Cgroups of their own; the others are added up.
const MOST: usize = 7;

/// Cgroup to its part, in percent, at the end of each window; the largest first. Empty where no
/// task's progress or no task's cgroup is known.
pub fn shares(run: &Timeline) -> Vec<(String, Series)> {
    let width = run.seconds / WINDOWS as f64;
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    if width <= 0.0 {
        return Vec::new();
    }
    for task in &run.tasks {
        let Some(cgroup) = &task.cgroup else { continue };
        let windows = all.entry(cgroup).or_insert_with(|| vec![0.0; WINDOWS]);
        let mut before = 0.0;
        for (at, bytes) in &task.progress {
            let window = ((at / width) as usize).min(WINDOWS - 1);
            windows[window] += bytes - before;
            before = *bytes;
        }
    }
    let totals: Vec<f64> = (0..WINDOWS)
        .map(|window| all.values().map(|windows| windows[window]).sum())
        .collect();
    let mut order: Vec<(&str, Vec<f64>)> = all.into_iter().collect();
    order.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
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
            .filter(|(_, (_, total))| **total > 0.0)
            .map(|(window, (bytes, total))| ((window + 1) as f64 * width, bytes / total * 100.0))
            .collect()
    };
    order
        .into_iter()
        .map(|(cgroup, windows)| (cgroup.to_string(), part(windows)))
        .collect()
}

fn sum(windows: &[f64]) -> f64 {
    windows.iter().sum()
}
