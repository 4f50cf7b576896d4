// SPDX-License-Identifier: GPL-2.0-only
//! The metrics: one table of what a run can produce, and the one function that computes it.
//!
//! A metric's full name is `ARM.PHASE.SUBJECT.METRIC`, where SUBJECT is a job, `host`,
//! `disk/NAME` or `cgroup/PATH`. Arms, phases and jobs contain no dot, a cgroup's path may; so a
//! name is taken apart from the front for arm and phase and from the back for the metric.
//!
//! Expectations, units in JSON and the list that `weir metrics` prints derive from
//! [`metric_table`]. The keys of `memory.dirty_stat` are rows of it, as the module lists them.

mod compute;
mod name;
mod rows;
#[cfg(test)]
mod tests;

pub use config::Unit;
pub use name::Name;

use crate::measured::{
    AllocatingJob, Measured, MeasuredCgroup, MeasuredDisk, MeasuredJob, MemoryJob,
};
use crate::model::Arm;
use rows::ROWS;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Places where a metric is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Places {
    /// Wherever a scenario runs.
    All,
    /// On the twin only.
    Twin,
    /// In the lab and on hosts: real kernels.
    Kernels,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Metric {
    /// The last part of a full name.
    pub name: &'static str,
    /// Quantity that the metric counts.
    pub unit: Unit,
    /// Description of the metric, for people.
    pub about: &'static str,
    /// Places where it is measured.
    pub places: Places,
    /// Only a host with tiers has it.
    pub tiered: bool,
    /// Only arm `weir` has it: stock has no such file.
    pub weir_only: bool,
    value: MetricSource,
}

/// Subject that a metric is measured of, with the function that computes it.
#[derive(Clone, Copy, Debug)]
enum MetricSource {
    Job(fn(&MeasuredJob) -> Option<f64>),
    MemoryJob(fn(&MemoryJob) -> f64),
    AllocatingJob(fn(&AllocatingJob) -> Option<f64>),
    Host(fn(&Measured) -> Option<f64>),
    Disk(fn(&Measured, &MeasuredDisk) -> Option<f64>),
    Cgroup(fn(&Measured, &MeasuredCgroup) -> Option<f64>),
    /// A key of `memory.dirty_stat`.
    Stat,
}

impl Metric {
    const fn new(
        name: &'static str,
        unit: Unit,
        value: MetricSource,
        about: &'static str,
    ) -> Metric {
        Metric {
            name,
            unit,
            about,
            places: Places::All,
            tiered: false,
            weir_only: false,
            value,
        }
    }

    const fn on_the_twin(self) -> Metric {
        Metric {
            places: Places::Twin,
            ..self
        }
    }

    const fn of_kernels(self) -> Metric {
        Metric {
            places: Places::Kernels,
            ..self
        }
    }

    const fn of_tiers(self) -> Metric {
        Metric {
            tiered: true,
            ..self
        }
    }

    const fn of_weir(self) -> Metric {
        Metric {
            weir_only: true,
            ..self
        }
    }

    /// Subject that it is measured of, as names have it.
    pub fn subject_kind(&self) -> &'static str {
        match self.value {
            MetricSource::Job(_) => "JOB",
            MetricSource::MemoryJob(_) => "MEMORY-JOB",
            MetricSource::AllocatingJob(_) => "ALLOCATING-JOB",
            MetricSource::Host(_) => "host",
            MetricSource::Disk(_) => "disk/NAME",
            MetricSource::Cgroup(_) | MetricSource::Stat => "cgroup/PATH",
        }
    }
}

/// The unit of a metric by its full or last name; [`Unit::Count`] if no run produces it.
pub fn unit_of_metric(metric: &str) -> Unit {
    let name = metric.rsplit('.').next();
    let row = metric_table().iter().find(|row| Some(row.name) == name);
    row.map_or(Unit::Count, |row| row.unit)
}

/// Every metric there is.
pub fn metric_table() -> &'static [Metric] {
    static TABLE: LazyLock<Vec<Metric>> = LazyLock::new(|| {
        let stat = knobs::stat_keys().iter().map(|key| {
            let unit = match key.unit {
                knobs::Unit::Bytes => Unit::Bytes,
                knobs::Unit::Microseconds => Unit::Microseconds,
                knobs::Unit::Count => Unit::Count,
            };
            let about = match key.kind {
                knobs::Kind::Counter => "of memory.dirty_stat: what it grew by in the phase",
                knobs::Kind::Level => "of memory.dirty_stat: at the end of the phase",
            };
            Metric::new(key.name, unit, MetricSource::Stat, about).of_weir()
        });
        ROWS.iter().cloned().chain(stat).collect()
    });
    &TABLE
}

/// Figures by full name.
pub type Figures = BTreeMap<String, Figure>;

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value in `unit`.
    pub value: f64,
    /// Quantity that the figure counts.
    pub unit: Unit,
}

/// All figures of one phase in one arm.
pub fn compute_metrics(arm: Arm, of: &Measured) -> Figures {
    let mut figures = Figures::new();
    let prefix = format!("{}.{}.", arm.name(), of.phase);
    let mut add = |kind: &str, of: &str, row: &Metric, value: Option<f64>| {
        if let Some(value) = value {
            let name = [&prefix, kind, of, ".", row.name].concat();
            let unit = row.unit;
            figures.insert(name, Figure { value, unit });
        }
    };
    for row in metric_table() {
        match row.value {
            MetricSource::Job(value) => {
                of.jobs
                    .iter()
                    .for_each(|(name, job)| add("", name, row, value(job)));
            }
            MetricSource::MemoryJob(value) => {
                let jobs = of.memory.iter();
                jobs.for_each(|(name, job)| add("", name, row, Some(value(job))));
            }
            MetricSource::AllocatingJob(value) => {
                let jobs = of.allocating.iter();
                jobs.for_each(|(name, job)| add("", name, row, value(job)));
            }
            MetricSource::Host(value) => add("", "host", row, value(of)),
            MetricSource::Disk(value) => {
                let disks = of.disks.iter();
                disks.for_each(|(name, disk)| add("disk/", name, row, value(of, disk)));
            }
            MetricSource::Cgroup(_) | MetricSource::Stat => {
                for (path, cgroup) in &of.cgroups {
                    let value = match row.value {
                        MetricSource::Cgroup(value) => value(of, cgroup),
                        _ => cgroup.stat.get(row.name).map(|number| *number as f64),
                    };
                    add("cgroup/", path, row, value);
                }
            }
        }
    }
    figures
}
