// SPDX-License-Identifier: GPL-2.0-only
//! Medians with their range: few runs, noisy machines, no distribution assumed.

use crate::Run;
use scenario::metric::{Figure, Unit};
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
    pub fn from_values(mut values: Vec<f64>, unit: Unit) -> Option<Summary> {
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
pub(crate) fn summarize_metrics<'a>(
    runs: impl Iterator<Item = &'a Run>,
) -> BTreeMap<String, Summary> {
    let mut all: Vec<(&String, &Figure)> = runs.flat_map(|run| &run.metrics).collect();
    all.sort_by_key(|(name, _)| *name);
    let of_one = all.chunk_by(|(name, _), (other, _)| name == other);
    of_one
        .filter_map(|figures| {
            let (name, figure) = figures.first()?;
            let values = figures.iter().map(|(_, figure)| figure.value).collect();
            Some(((*name).clone(), Summary::from_values(values, figure.unit)?))
        })
        .collect()
}
