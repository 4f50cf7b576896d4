// SPDX-License-Identifier: GPL-2.0-only
//! Figures of a host with tiers: what lay where, and how long it took to get there.
//!
//! Medians and rates are of the second half of the time in which all jobs ran. How far a cgroup is from its budget
//! counts both ways: memory in the fastest tier above the budget, or below it as far as there is memory elsewhere
//! that could come up. Example: a budget of 265 MiB of 340: 270 in the fastest tier is 1.9 % off, 260 is 1.9 % off,
//! and 200 of a cgroup that has no more than 200 is not off at all.

use super::max_and_median;
use guest::protocol::{TierSamples, TierSeries};
use runner::memory::Report;

/// A cgroup no further than this from its budget has come to rest, in percent.
const NEAR: f64 = 2.0;

/// Where a cgroup's memory was, and what it was to be, at one time.
struct Place {
    at_ms: u32,
    top: u64,
    low: u64,
    budget: Option<u64>,
}

impl Place {
    /// How far from its budget, in percent of that.
    fn error(&self) -> Option<f64> {
        let budget = self.budget?;
        let off = match self.top > budget {
            true => self.top - budget,
            false => (budget - self.top).min(self.low),
        };
        Some(off as f64 * 100.0 / budget.max(1) as f64)
    }
}

fn places(series: &TierSeries, top_nodes: &[usize], end_ms: u32) -> Vec<Place> {
    let samples = series
        .at_ms
        .iter()
        .zip(&series.node_bytes)
        .zip(&series.budget_bytes);
    samples
        .filter(|((at_ms, _), _)| **at_ms <= end_ms)
        .map(|((at_ms, nodes), budget)| {
            let (top, low) = split(nodes, top_nodes);
            Place {
                at_ms: *at_ms,
                top,
                low,
                budget: *budget,
            }
        })
        .collect()
}

/// What is on the nodes of the fastest tier, and what elsewhere.
fn split(nodes: &[u64], top_nodes: &[usize]) -> (u64, u64) {
    let top = top_nodes.iter().filter_map(|node| nodes.get(*node)).sum();
    (top, nodes.iter().sum::<u64>() - top)
}

/// A job that read memory.
pub fn memory_job(
    report: &Report,
    top_nodes: &[usize],
    add: &mut dyn FnMut(&str, f64, &'static str),
) {
    let seconds = report.milliseconds.max(1) as f64 / 1000.0;
    add("ops_per_sec", report.ops as f64 / seconds, "count");
    add("corrupt_pages", report.corrupt_pages as f64, "count");
    let (top, low) = split(&report.hot, top_nodes);
    let low = (low + report.hot_nowhere) as f64;
    add("hot_low_pct", low * 100.0 / (top as f64 + low), "percent");
}

/// The host and its cgroups.
pub fn tiers(samples: &TierSamples, add: &mut dyn FnMut(&str, &str, f64, &'static str)) {
    let counts = |at_ms: u32| (samples.mark_ms..=samples.end_ms).contains(&at_ms);
    let mut migrated = samples.migrated.iter().filter(|(at, _)| counts(*at));
    if let (Some(first), Some(last)) = (migrated.next(), migrated.next_back()) {
        let minutes = f64::from((last.0 - first.0).max(1)) / 60_000.0;
        let bytes = (last.1 - first.1) as f64 * 4096.0;
        add("host", "migrated_bytes_per_min", bytes / minutes, "bytes");
    }
    for (path, series) in &samples.cgroups {
        let subject = format!("cgroup/{path}");
        let mut add = |name, value, unit| add(&subject, name, value, unit);
        let all = places(series, &samples.top_nodes, samples.end_ms);
        let late: Vec<&Place> = all.iter().filter(|place| counts(place.at_ms)).collect();
        let median = |of: &dyn Fn(&Place) -> Option<f64>| {
            max_and_median(late.iter().filter_map(|place| of(place)).collect())
                .map(|(_, median)| median)
        };
        let tops = [
            (
                "toptier_bytes",
                median(&|place| Some(place.top as f64)),
                "bytes",
            ),
            (
                "lowtier_bytes",
                median(&|place| Some(place.low as f64)),
                "bytes",
            ),
            (
                "toptier_pct",
                median(&|place| {
                    Some(place.top as f64 * 100.0 / (place.top + place.low).max(1) as f64)
                }),
                "percent",
            ),
            ("budget_error_pct", median(&Place::error), "percent"),
            ("settle_ns", settled(&all, samples), "ns"),
        ];
        for (name, value, unit) in tops {
            if let Some(value) = value {
                add(name, value, unit);
            }
        }
    }
}

/// From the last job's start until the cgroup is near its budget and stays there, in nanoseconds.
fn settled(all: &[Place], samples: &TierSamples) -> Option<f64> {
    let since = all
        .iter()
        .filter(|place| place.at_ms >= samples.last_start_ms);
    let errors: Vec<(u32, f64)> = since
        .filter_map(|place| Some((place.at_ms, place.error()?)))
        .collect();
    if errors.is_empty() {
        return None;
    }
    let rest = errors.iter().rev().take_while(|(_, error)| *error <= NEAR);
    let from = rest.last().map_or(samples.end_ms, |(at, _)| *at);
    Some(f64::from(from - samples.last_start_ms) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    fn figures(samples: &TierSamples) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        tiers(samples, &mut |subject, name, value, _| {
            all.insert(format!("{subject}.{name}"), value);
        });
        all
    }

    /// The last job starts at 10 s, counting begins at 20 s, the end is at 30 s; a sample every 5 s.
    fn samples(nodes: [[u64; 2]; 7], budget: Option<u64>) -> TierSamples {
        let series = TierSeries {
            at_ms: (0..7).map(|n| n * 5000).collect(),
            node_bytes: nodes
                .iter()
                .map(|on| on.map(|n| n * MIB).to_vec())
                .collect(),
            budget_bytes: vec![budget.map(|n| n * MIB); 7],
        };
        TierSamples {
            top_nodes: vec![0],
            last_start_ms: 10_000,
            mark_ms: 20_000,
            end_ms: 30_000,
            migrated: vec![
                (0, 0),
                (20_000, 1000),
                (25_000, 1006),
                (30_000, 1015),
                (35_000, 9999),
            ],
            cgroups: BTreeMap::from([("a".into(), series)]),
        }
    }

    #[test]
    fn rest_begins_when_it_lasts() {
        let nodes = [
            [0, 0],
            [340, 0],
            [340, 0],
            [268, 72],
            [300, 40],
            [267, 73],
            [265, 75],
        ];
        let all = figures(&samples(nodes, Some(265)));
        assert_eq!(
            all["cgroup/a.settle_ns"], 15e9,
            "near at 15 s, but it did not last"
        );
        assert_eq!(all["cgroup/a.toptier_bytes"], (267 * MIB) as f64);
        assert_eq!(all["cgroup/a.lowtier_bytes"], (73 * MIB) as f64);
        // 15 pages in ten seconds.
        assert_eq!(all["host.migrated_bytes_per_min"], 15.0 * 4096.0 * 6.0);
    }

    #[test]
    fn who_never_rests_took_all_of_the_time() {
        let all = figures(&samples([[340, 0]; 7], Some(265)));
        assert_eq!(all["cgroup/a.settle_ns"], 20e9);
        assert!(all["cgroup/a.budget_error_pct"] > 28.0);
    }

    #[test]
    fn below_the_budget_only_counts_what_could_come_up() {
        let all = figures(&samples([[200, 0]; 7], Some(265)));
        assert_eq!(all["cgroup/a.budget_error_pct"], 0.0);
        assert_eq!(all["cgroup/a.settle_ns"], 0.0);
        let all = figures(&samples([[159, 181]; 7], Some(265)));
        assert_eq!(all["cgroup/a.budget_error_pct"], 40.0);
        assert_eq!(all["cgroup/a.toptier_pct"], 159.0 * 100.0 / 340.0);
    }

    #[test]
    fn without_a_budget_there_is_no_error() {
        let all = figures(&samples([[340, 0]; 7], None));
        assert!(!all.contains_key("cgroup/a.settle_ns"));
        assert!(!all.contains_key("cgroup/a.budget_error_pct"));
        assert_eq!(all["cgroup/a.toptier_pct"], 100.0);
    }

    #[test]
    fn hot_pages_that_are_nowhere_are_not_in_fast_memory() {
        let report = Report {
            ops: 3000,
            milliseconds: 1500,
            hot: vec![90, 8],
            hot_nowhere: 2,
            ..Report::default()
        };
        let mut all = BTreeMap::new();
        memory_job(&report, &[0], &mut |name, value, _| {
            all.insert(name.to_owned(), value);
        });
        assert_eq!((all["hot_low_pct"], all["ops_per_sec"]), (10.0, 2000.0));
    }
}
