// SPDX-License-Identifier: GPL-2.0-only
//! A run over time, as it is drawn, whatever it was read from.
//!
//! ```text
//! recording, trace ──► seen ────┐
//!                               ├─► Timeline ──► html: a page        (html.rs)
//! lab or twin run  ──► verdict ─┘            └─► Perfetto's format   (perfetto.rs)
//! ```
//!
//! Times are seconds since the run began; sizes bytes; rates bytes a second. A source that lacks a
//! series leaves it empty and says so in [`Timeline::missing`]: what was not seen is not drawn as
//! nothing.

mod latency;
mod progress;
mod seen;
mod share;

pub(crate) use latency::value_at_percentile;
pub use latency::{Latency, wait_percentiles};
pub use seen::observation_timeline;
pub use share::cgroup_shares;

use config::Unit;
use observe::diagnosis::Decider;
use observe::owed::Limit;
use std::time::SystemTime;

/// Values over time, by time; one that is no number breaks the line.
pub type Series = Vec<(f64, f64)>;

/// A run over time, from any source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Name for people: scenario, arm, kernel and date, or its file and date.
    pub name: String,
    /// One line from the scenario; empty without one.
    pub title: String,
    /// Kind of the source.
    pub source: String,
    /// Length of the run.
    pub seconds: f64,
    /// Further facts, by name.
    pub facts: Vec<(String, String)>,
    /// Data that the source lacks, for people.
    pub missing: Vec<String>,
    /// Diagnosis: what stalled and why, in words; empty without one.
    pub verdict: String,
    /// Phases of a scenario, with their beginnings.
    pub phases: Vec<(f64, String)>,
    /// Dirty pages of the host.
    pub host: Levels,
    /// Domains that held the writers.
    pub domains: Vec<Domain>,
    /// Tasks that wrote.
    pub tasks: Vec<Task>,
    /// Way in which their progress was measured.
    pub progress_is: &'static str,
    /// Times that they lost.
    pub losses: Vec<Loss>,
    /// Pressure of the host, in percent of the time.
    pub pressure: Vec<(&'static str, Series)>,
    /// Cgroups with dirty pages.
    pub cgroups: Vec<CgroupSeries>,
    /// Figures that runs are compared by.
    pub figures: Vec<Figure>,
}

/// A number that runs are compared by.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of which phase; empty without phases.
    pub phase: String,
    /// Name of what was measured, as in `victim.iops`.
    pub name: String,
    /// Value in that unit.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// The module measured it: a stock kernel has no such figure.
    pub is_of_module: bool,
}

/// Pages of the host, in bytes, and the levels the throttle steers by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    /// Dirty and in writeback: what is held against the limit.
    pub held: Series,
    /// Pages in writeback.
    pub writeback: Series,
    /// Level at which the flusher starts.
    pub background: Series,
    /// Below it no task is held: half way from background to limit.
    pub freerun: Series,
    /// Level that the throttle aims at: half way from freerun to limit.
    pub setpoint: Series,
    /// The hard limit.
    pub limit: Series,
}

/// A cgroup's writers on a device, as the throttle's passes saw them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// The cgroup and the device.
    pub name: String,
    /// Dirty and in writeback of whichever domain decided: the host or the cgroup.
    pub dirty: Series,
    /// Its freerun level.
    pub freerun: Series,
    /// Setpoint of the domain that decided.
    pub setpoint: Series,
    /// Pages of this device that the cgroup holds.
    pub device_dirty: Series,
    /// The device's part of the setpoint.
    pub device_setpoint: Series,
    /// The base rate of a task.
    pub base_rate: Series,
    /// Rate that a task was held to.
    pub task_rate: Series,
    /// Of the two: how far the throttle leans on its writers.
    pub pos_ratio: Series,
    /// Writes of the cgroup's flusher to the device.
    pub written: Series,
    /// Pages dirtied meanwhile.
    pub dirtied: Series,
}

/// A task that wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Process ID, of the kernel.
    pub id: u32,
    /// The kernel's name of the task.
    pub name: String,
    /// Its path; nothing if it is not known.
    pub cgroup: Option<String>,
    /// Bytes it dirtied since it was first seen.
    pub progress: Series,
}

/// Time that a task lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Begin of the loss.
    pub at: f64,
    /// Length of the loss.
    pub seconds: f64,
    /// That is what was announced: the end was not seen.
    pub is_announced: bool,
    /// Index of the task.
    pub task: usize,
    /// Cause of the loss.
    pub limit: Limit,
}

/// Names of losses in pictures and tables, in their order.
pub const LOSS_NAMES: [&str; 6] = [
    "pause: the host's limit",
    "pause: a cgroup's limit",
    "pause: the device's share",
    "pause: limit not known",
    "reclaim",
    "fsync",
];

impl Loss {
    /// The loss's name, one of [`LOSS_NAMES`].
    pub fn name(&self) -> &'static str {
        LOSS_NAMES[match self.limit {
            Limit::Throttle(Decider::Host) => 0,
            Limit::Throttle(Decider::Cgroup | Decider::Ceiling | Decider::Ancestor) => 1,
            Limit::Throttle(Decider::Device) => 2,
            Limit::Throttle(Decider::Unknown) | Limit::IoMax => 3,
            Limit::Memory | Limit::MemoryLimit => 4,
            Limit::Fsync => 5,
        }]
    }
}

/// A cgroup and its dirty pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupSeries {
    /// Below the root.
    pub path: String,
    /// Dirty and in writeback, in bytes.
    pub held: Series,
}

impl Timeline {
    /// Another run after this one, a phase after a phase. The gap is not drawn.
    pub fn append_phase(&mut self, phase: &str, mut next: Timeline) {
        let begin = self.seconds;
        let first = self.tasks.len();
        self.phases.push((begin, phase.into()));
        if let Some(fairness) = next.fairness_index() {
            let name = format!("fairness in {phase}");
            self.facts.push((name, fairness_in_words(fairness)));
        }
        let later = |series: &mut Series| {
            series.iter_mut().for_each(|(at, _)| *at += begin);
        };
        for (series, more) in self
            .host
            .all_series()
            .into_iter()
            .zip(next.host.all_series())
        {
            later(more);
            append_series(series, more);
        }
        for mut domain in next.domains {
            domain.all_series().into_iter().for_each(later);
            match self.domains.iter_mut().find(|old| old.name == domain.name) {
                Some(old) => {
                    for (series, more) in old.all_series().into_iter().zip(domain.all_series()) {
                        append_series(series, more);
                    }
                }
                None => self.domains.push(domain),
            }
        }
        next.tasks
            .iter_mut()
            .for_each(|task| later(&mut task.progress));
        self.tasks.append(&mut next.tasks);
        for loss in &mut next.losses {
            loss.at += begin;
            loss.task += first;
        }
        self.losses.append(&mut next.losses);
        for (name, mut series) in next.pressure {
            later(&mut series);
            match self.pressure.iter_mut().find(|(old, _)| *old == name) {
                Some((_, old)) => append_series(old, &mut series),
                None => self.pressure.push((name, series)),
            }
        }
        for mut cgroup in next.cgroups {
            later(&mut cgroup.held);
            match self.cgroups.iter_mut().find(|old| old.path == cgroup.path) {
                Some(old) => append_series(&mut old.held, &mut cgroup.held),
                None => self.cgroups.push(cgroup),
            }
        }
        let figures = next.figures.into_iter();
        self.figures.extend(figures.map(|figure| Figure {
            phase: phase.into(),
            ..figure
        }));
        if !next.verdict.is_empty() {
            self.verdict += &format!("Phase {phase}:\n{}\n", next.verdict);
        }
        for text in next.missing {
            if !self.missing.contains(&text) {
                self.missing.push(text);
            }
        }
        if !next.progress_is.is_empty() {
            self.progress_is = next.progress_is;
        }
        self.seconds += next.seconds;
    }

    /// Time lost by each task: how often, in all, at most; and the end of its progress.
    pub fn task_totals(&self) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.tasks.len()];
        for loss in &self.losses {
            let sum = &mut sums[loss.task];
            sum.count += 1;
            sum.seconds += loss.seconds;
            sum.longest = sum.longest.max(loss.seconds);
        }
        for (sum, task) in sums.iter_mut().zip(&self.tasks) {
            sum.bytes = task.progress.last().map(|(_, bytes)| *bytes);
        }
        sums
    }

    /// Jain's index of what the tasks dirtied: 1 if all did the same, 1/n if one did everything.
    pub fn fairness_index(&self) -> Option<f64> {
        let bytes: Vec<f64> = self
            .task_totals()
            .iter()
            .filter_map(|sum| sum.bytes)
            .collect();
        let sum: f64 = bytes.iter().sum();
        let squares: f64 = bytes.iter().map(|bytes| bytes * bytes).sum();
        (bytes.len() > 1 && squares > 0.0).then(|| sum * sum / (bytes.len() as f64 * squares))
    }
}

/// As in `2026-11-23 15:48 UTC`.
pub fn format_date(at: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or(time))
}

/// The index and its meaning, in words.
pub(crate) fn fairness_in_words(fairness: f64) -> String {
    format!("{fairness:.4} (Jain's index of the tasks' progress: 1 if all made the same)")
}

/// Appends `more`, with a mark between that breaks the line: there was no look meanwhile.
fn append_series(series: &mut Series, more: &mut Series) {
    if let (Some((at, _)), false) = (series.last(), more.is_empty()) {
        series.push((*at, f64::NAN));
    }
    series.append(more);
}

impl Levels {
    fn all_series(&mut self) -> [&mut Series; 6] {
        [
            &mut self.held,
            &mut self.writeback,
            &mut self.background,
            &mut self.freerun,
            &mut self.setpoint,
            &mut self.limit,
        ]
    }
}

impl Domain {
    fn all_series(&mut self) -> [&mut Series; 10] {
        [
            &mut self.dirty,
            &mut self.freerun,
            &mut self.setpoint,
            &mut self.device_dirty,
            &mut self.device_setpoint,
            &mut self.base_rate,
            &mut self.task_rate,
            &mut self.pos_ratio,
            &mut self.written,
            &mut self.dirtied,
        ]
    }
}

/// Totals of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Number of losses.
    pub count: usize,
    /// Seconds lost in all.
    pub seconds: f64,
    /// The longest loss in seconds.
    pub longest: f64,
    /// Dirtied, if that was seen.
    pub bytes: Option<f64>,
}
