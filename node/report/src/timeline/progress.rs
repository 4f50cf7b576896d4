// SPDX-License-Identifier: GPL-2.0-only
//! Progress of tasks: what the kernel counted for each (recordings have that), else what the
//! throttle's passes say (a trace has nothing else; a task that no limit holds makes no passes, so
//! its line stays flat).

use super::Series;
use observe::Observation;
use observe::event::{Pause, What};
use observe::host::PAGE;
use std::collections::BTreeMap;

/// Stated beside the picture.
const COUNTED: &str =
    "what the kernel counted as dirtied by each task since it began or the recording did";
/// Stated beside the picture.
const PASSES: &str = "what the throttle's passes say that each task dirtied: nothing is known of the time in which no limit held it";

/// Task to the bytes it dirtied over time, of those that dirtied anything, and how that is known.
pub(super) fn task_progress(
    seen: &Observation,
    seconds: impl Fn(u64) -> f64,
) -> (BTreeMap<u32, Series>, &'static str) {
    if seen.progress.is_empty() {
        return (by_passes(seen, seconds), PASSES);
    }
    let mut all: BTreeMap<u32, (u64, Series)> = BTreeMap::new();
    for (ns, tasks) in &seen.progress {
        for (task, bytes) in tasks {
            let (first, series) = all.entry(*task).or_insert((*bytes, Series::new()));
            series.push((seconds(*ns), bytes.saturating_sub(*first) as f64));
        }
    }
    let wrote = all.into_iter().filter_map(|(task, (_, series))| {
        let (_, bytes) = series.last()?;
        (*bytes > 0.0).then_some((task, series))
    });
    (wrote.collect(), COUNTED)
}

fn by_passes(seen: &Observation, seconds: impl Fn(u64) -> f64) -> BTreeMap<u32, Series> {
    let mut all: BTreeMap<u32, (f64, &Pause, Series)> = BTreeMap::new();
    for event in &seen.events {
        let What::Pause(pause) = &event.what else {
            continue;
        };
        let at = seconds(event.ns);
        let bytes = |pages: u64| (pages * PAGE) as f64;
        match all.get_mut(&event.task) {
            None => {
                let dirtied = bytes(pause.dirtied);
                all.insert(event.task, (dirtied, pause, vec![(at, dirtied)]));
            }
            Some((sum, last, series)) => {
                *sum += bytes(pause.dirtied - last.counted_again_in(pause));
                *last = pause;
                series.push((at, *sum));
            }
        }
    }
    all.into_iter()
        .map(|(task, (_, _, series))| (task, series))
        .collect()
}
