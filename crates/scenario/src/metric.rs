// SPDX-License-Identifier: GPL-2.0-only
//! The names a run can produce: `ARM.PHASE.SUBJECT.METRIC`, where SUBJECT is a job, `host`,
//! `disk/NAME` or `cgroup/PATH`. Arms, phases and jobs contain no dot, a cgroup's path may; so a
//! name is taken apart from the front for arm and phase and from the back for the metric.

use crate::model::{Arm, Scenario};
use config::problem::suggest;

/// Measured of a fio job in every phase it runs in (latencies of its write direction, else of its
/// reads).
pub const JOB: &[&str] = &[
    "iops",
    "bw_bytes",
    "clat_p50_ns",
    "clat_p99_ns",
    "clat_max_ns",
    "total_ios",
    // Of a job with several processes, on the twin: how far apart the bytes that the fastest and the slowest wrote, of
    // their mean; and Jain's index, 1 if all wrote the same.
    "spread_pct",
    "jain",
];
/// Measured of a job that reads memory.
pub const MEMORY_JOB: &[&str] = &[
    // Over the second half of the time in which all jobs of the phase run.
    "ops_per_sec",
    // Pages of its hot set that are not in the fastest tier in the end.
    "hot_low_pct",
    // Pages that do not hold what was written to them, in the end.
    "corrupt_pages",
];
/// Measured of the whole host in every phase, where it has tiers.
pub const TIERED_HOST: &[&str] = &[
    // Of all jobs that read memory together.
    "ops_per_sec",
    // Over the second half of the time in which all jobs of the phase run, as of a cgroup.
    "migrated_bytes_per_min",
];
/// Measured of a cgroup in every phase, where the host has tiers: medians over that half.
pub const TIERED_CGROUP: &[&str] = &["toptier_bytes", "lowtier_bytes", "toptier_pct"];
/// The same, in arm `weir` only: stock has no budgets.
pub const BUDGET: &[&str] = &[
    // How far it is above its budget in the fastest tier; or below, as far as it has memory in another.
    "budget_error_pct",
    // From the start of the phase's last job until that is 2 % or less and stays so; the phase's whole length after that
    // start if it never does.
    "settle_ns",
];
/// Measured of the whole host in every phase.
pub const HOST: &[&str] = &[
    "dirty_max_bytes",
    "dirty_median_bytes",
    "writeback_median_bytes",
    "disk_bw_bytes",
    // CPU time of flushers, in percent of one CPU.
    "flusher_cpu_pct",
    "io_full_pct",
    "io_some_pct",
    "mem_full_pct",
    "mem_some_pct",
    // Allocations that had to reclaim memory themselves first.
    "allocstalls",
    // Pages kswapd looked at: memory was not plentiful.
    "kswapd_scanned",
    "oom_kills",
];
/// Measured of a disk in every phase.
pub const DISK: &[&str] = &["bw_bytes"];
/// Measured of a cgroup in every phase and both arms.
pub const CGROUP: &[&str] = &[
    "dirty_max_bytes",
    "dirty_median_bytes",
    // By io.stat: what flushers wrote back for it, and direct I/O.
    "disk_bw_bytes",
    // Pressure of its own and its descendants' tasks.
    "io_full_pct",
    "io_some_pct",
    // On the twin.
    "mem_full_pct",
    "mem_some_pct",
];
/// Counters of `memory.dirty_stat`, by how much they grew in a phase. Arm `weir` only: stock has no
/// such file.
pub const DIRTY_STAT: &[&str] = &[
    "nr_passes",
    "nr_floor_admitted",
    "nr_ceiling_held",
    "nr_would_admit",
    "nr_would_hold",
    "nr_throttled",
    "throttled_usec",
    "nr_weight_held",
    "weight_held_usec",
    "nr_would_wait",
    "nr_missed",
];

/// What a metric counts; told by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `_ns`
    Nanoseconds,
    /// `_bytes`, except `bw_bytes`; `_bytes_per_min`
    Bytes,
    /// `bw_bytes`: bytes per second
    Bandwidth,
    /// `_pct`
    Percent,
    /// operations, or operations per second
    Count,
}

impl Unit {
    /// The unit of a metric by its (full or last) name.
    pub fn of(metric: &str) -> Unit {
        if metric.ends_with("_ns") {
            Unit::Nanoseconds
        } else if metric.ends_with("bw_bytes") {
            Unit::Bandwidth
        } else if metric.ends_with("_bytes") || metric.ends_with("_bytes_per_min") {
            Unit::Bytes
        } else if metric.ends_with("_pct") {
            Unit::Percent
        } else {
            Unit::Count
        }
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "a time",
            Unit::Bytes => "a size",
            Unit::Bandwidth => "a bandwidth",
            Unit::Percent => "a percentage (a plain number)",
            Unit::Count => "a plain number",
        }
    }
}

/// Of those metrics that only a host with tiers has, what this one has.
fn tiered(scenario: &Scenario, metrics: &'static [&'static str]) -> &'static [&'static str] {
    if scenario.tiers.is_empty() {
        &[]
    } else {
        metrics
    }
}

/// A full metric name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Which of the two runs.
    pub arm: Arm,
    /// A phase of the scenario.
    pub phase: String,
    /// Job, `host`, `disk/NAME` or `cgroup/PATH`.
    pub subject: String,
    /// What is measured of it.
    pub metric: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{}.{}.{}",
            self.arm.name(),
            self.phase,
            self.subject,
            self.metric
        )
    }
}

impl Name {
    /// Takes `ARM.PHASE.SUBJECT.METRIC` apart; `None` if it is not of that shape.
    pub fn split(full: &str) -> Option<Name> {
        let (arm, rest) = full.split_once('.')?;
        let (phase, rest) = rest.split_once('.')?;
        let (subject, metric) = rest.rsplit_once('.')?;
        Some(Name {
            arm: Arm::from_name(arm)?,
            phase: phase.into(),
            subject: subject.into(),
            metric: metric.into(),
        })
    }

    /// Whether a run of `scenario` can produce this metric.
    ///
    /// # Errors
    /// Which part of the name cannot be, and what there is instead.
    pub fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let Some(phase) = scenario.phases.iter().find(|p| p.name == self.phase) else {
            let phases = scenario.phases.iter().map(|p| p.name.as_str());
            return Err(format!(
                "no phase `{}`, {}",
                self.phase,
                suggest(&self.phase, phases)
            ));
        };
        if self.subject == "host" {
            return self.check_metric(
                &[HOST, tiered(scenario, TIERED_HOST)].concat(),
                "of the host",
            );
        }
        if let Some(disk) = self.subject.strip_prefix("disk/") {
            if !scenario.disks.iter().any(|d| d.name == disk) {
                return Err(format!(
                    "no disk `{disk}`, {}",
                    suggest(disk, scenario.disks.iter().map(|d| d.name.as_str()))
                ));
            }
            return self.check_metric(DISK, "of a disk");
        }
        if let Some(cgroup) = self.subject.strip_prefix("cgroup/") {
            if !scenario.cgroups.contains_key(cgroup) {
                return Err(format!(
                    "no cgroup `{cgroup}`, {}",
                    suggest(cgroup, scenario.cgroups.keys().map(String::as_str))
                ));
            }
            let stock = [CGROUP, tiered(scenario, TIERED_CGROUP)].concat();
            return match self.arm {
                Arm::Stock => self.check_metric(&stock, "of a cgroup in arm `stock`"),
                Arm::Weir => {
                    let all = [&stock, DIRTY_STAT, tiered(scenario, BUDGET)].concat();
                    self.check_metric(&all, "of a cgroup")
                }
            };
        }
        let Some(job) = scenario.jobs.iter().find(|j| j.name == self.subject) else {
            let known = scenario.jobs.iter().map(|j| j.name.as_str()).chain([
                "host",
                "disk/NAME",
                "cgroup/PATH",
            ]);
            return Err(format!(
                "nothing called `{}` is measured, {}",
                self.subject,
                suggest(&self.subject, known)
            ));
        };
        // A phase without jobs has been refused already; this would only repeat it.
        if !phase.jobs.is_empty() && !phase.jobs.contains(&self.subject) {
            return Err(format!(
                "job `{}` does not run in phase `{}`, which runs: {}",
                self.subject,
                self.phase,
                phase.jobs.join(", ")
            ));
        }
        match job.memory {
            None => self.check_metric(JOB, "of a job"),
            Some(_) => self.check_metric(MEMORY_JOB, "of a job that reads memory"),
        }
    }

    fn check_metric(&self, known: &[&str], of: &str) -> Result<(), String> {
        if known.contains(&self.metric.as_str()) {
            return Ok(());
        }
        Err(format!(
            "no metric `{}` {of}, {}",
            self.metric,
            suggest(&self.metric, known.iter().copied())
        ))
    }
}
