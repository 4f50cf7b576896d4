// SPDX-License-Identifier: GPL-2.0-only
//! Full names of metrics, and which of them a scenario can have.

use super::{MetricSource, metric_table};
use crate::model::{Arm, JobMemory, Scenario};
use config::problem::suggest_known;

/// A full metric name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// One of the two runs.
    pub arm: Arm,
    /// A phase of the scenario.
    pub phase: String,
    /// Job, `host`, `disk/NAME` or `cgroup/PATH`.
    pub subject: String,
    /// Last part: the metric of the subject.
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
    pub fn parse_full_name(full: &str) -> Option<Name> {
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

    /// Checks that a run of `scenario` can produce this metric.
    ///
    /// # Errors
    /// Which part of the name cannot be, and what there is instead.
    pub fn check_measurable(&self, scenario: &Scenario) -> Result<(), String> {
        let Some(phase) = scenario.phases.iter().find(|p| p.name == self.phase) else {
            let phases = scenario.phases.iter().map(|p| p.name.as_str());
            return Err(format!(
                "no phase `{}`, {}",
                self.phase,
                suggest_known(&self.phase, phases)
            ));
        };
        if self.subject == "host" {
            return self.check_metric(scenario, "of the host", |of| {
                matches!(of, MetricSource::Host(_))
            });
        }
        if let Some(disk) = self.subject.strip_prefix("disk/") {
            if !scenario.disks.iter().any(|d| d.name == disk) {
                return Err(format!(
                    "no disk `{disk}`, {}",
                    suggest_known(disk, scenario.disks.iter().map(|d| d.name.as_str()))
                ));
            }
            return self.check_metric(scenario, "of a disk", |of| {
                matches!(of, MetricSource::Disk(_))
            });
        }
        if let Some(cgroup) = self.subject.strip_prefix("cgroup/") {
            if !scenario.cgroups.contains_key(cgroup) {
                return Err(format!(
                    "no cgroup `{cgroup}`, {}",
                    suggest_known(cgroup, scenario.cgroups.keys().map(String::as_str))
                ));
            }
            let of = match self.arm {
                Arm::Stock => "of a cgroup in arm `stock`",
                Arm::Patched => "of a cgroup in arm `patched`",
                Arm::Weir => "of a cgroup",
            };
            return self.check_metric(scenario, of, |of| {
                matches!(of, MetricSource::Cgroup(_) | MetricSource::Stat)
            });
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
                suggest_known(&self.subject, known)
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
        let allocates = |memory: &JobMemory| memory.pattern.is_allocating();
        match &job.memory {
            None => self.check_metric(scenario, "of a job", |of| {
                matches!(of, MetricSource::Job(_))
            }),
            Some(memory) if allocates(memory) => {
                self.check_metric(scenario, "of a job that allocates memory", |of| {
                    matches!(of, MetricSource::AllocatingJob(_))
                })
            }
            Some(_) => self.check_metric(scenario, "of a job that reads memory", |of| {
                matches!(of, MetricSource::MemoryJob(_))
            }),
        }
    }

    /// Checks that the scenario's host has this metric in this arm, among those of one subject.
    fn check_metric(
        &self,
        scenario: &Scenario,
        subject: &str,
        is_of: fn(&MetricSource) -> bool,
    ) -> Result<(), String> {
        let known = metric_table().iter().filter(|row| {
            is_of(&row.value)
                && (!row.tiered || !scenario.tiers.is_empty())
                && (!row.weir_only || self.arm == Arm::Weir)
        });
        let mut known = known.map(|row| row.name);
        if known.clone().any(|name| name == self.metric) {
            return Ok(());
        }
        Err(format!(
            "no metric `{}` {subject}, {}",
            self.metric,
            suggest_known(&self.metric, &mut known)
        ))
    }
}
