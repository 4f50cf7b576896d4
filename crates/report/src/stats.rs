// SPDX-License-Identifier: GPL-2.0-only
//! Medians with their range: few runs, noisy machines, no distribution assumed.

use crate::Run;
use scenario::metric::Unit;
use std::collections::BTreeMap;

/// One metric over the runs that produced it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Number of runs.
    pub n: usize,
    /// Unit of all values.
    pub unit: Unit,
}

impl Summary {
    /// `None` if there is nothing to sum up.
    pub fn of(mut values: Vec<f64>, unit: Unit) -> Option<Summary> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Summary {
            median,
            min,
            max,
            n: values.len(),
            unit,
        })
    }
}

/// Every metric of `runs`, by full name.
pub(crate) fn summarize<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeMap<String, Summary> {
    let mut values: BTreeMap<&str, (Vec<f64>, Unit)> = BTreeMap::new();
    for (name, metric) in runs.flat_map(|run| &run.metrics) {
        values
            .entry(name)
            .or_insert((Vec::new(), metric.unit))
            .0
            .push(metric.value);
    }
    values
        .into_iter()
        .filter_map(|(name, (values, unit))| Some((name.to_string(), Summary::of(values, unit)?)))
        .collect()
}
