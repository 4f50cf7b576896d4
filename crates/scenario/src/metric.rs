// SPDX-License-Identifier: GPL-2.0-only
//! The metrics: one table of what a run can produce, and the one function that computes it.
//!
//! A metric's full name is `ARM.PHASE.SUBJECT.METRIC`, where SUBJECT is a job, `host`,
//! `disk/NAME` or `cgroup/PATH`. Arms, phases and jobs contain no dot, a cgroup's path may; so a
//! name is taken apart from the front for arm and phase and from the back for the metric.
//!
//! Expectations, units in JSON and the list that `weir metrics` prints derive from [`table`]. The
//! keys of `memory.dirty_stat` are rows of it, as the module lists them.

use crate::measured::{Cgroup, Job, Measured, MemoryJob, Place, Pressure, Tiers};
use crate::model::{Arm, Scenario};
use config::problem::suggest;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A cgroup no further than this from its budget has come to rest, in percent.
const NEAR: f64 = 2.0;

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Nanoseconds,
    /// Microseconds, of times that `memory.dirty_stat` has.
    Microseconds,
    /// Size in bytes.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Bytes per minute.
    BytesPerMinute,
    /// Of a hundred.
    Percent,
    /// Operations per second of a job.
    Iops,
    /// Anything else that is counted.
    Count,
}

impl Unit {
    /// The unit of a metric by its full or last name; [`Unit::Count`] if no run produces it.
    pub fn of(metric: &str) -> Unit {
        let name = metric.rsplit('.').next();
        let row = table().iter().find(|row| Some(row.name) == name);
        row.map_or(Unit::Count, |row| row.unit)
    }

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Bytes => "bytes",
            Unit::Bandwidth => "bytes/s",
            Unit::BytesPerMinute => "bytes/min",
            Unit::Percent => "percent",
            Unit::Iops => "iops",
            Unit::Count => "count",
        }
    }

    /// What it is, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "a time",
            Unit::Microseconds => "a time in microseconds (a plain number)",
            Unit::Bytes => "a size",
            Unit::Bandwidth => "a bandwidth",
            Unit::BytesPerMinute => "a size per minute",
            Unit::Percent => "a percentage (a plain number)",
            Unit::Iops | Unit::Count => "a plain number",
        }
    }

    /// Whether a figure of this unit may stand in a bound of a metric in `wanted`: a bandwidth may
    /// be written without its `/s`, as fio does, and rates and counts are plain numbers.
    pub fn fits(self, wanted: Unit) -> bool {
        let plain = [Unit::Iops, Unit::Count];
        self == wanted
            || self == Unit::Bytes && [Unit::Bandwidth, Unit::BytesPerMinute].contains(&wanted)
            || plain.contains(&self) && plain.contains(&wanted)
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Places where a metric is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Places {
    /// Wherever a scenario runs.
    All,
    /// On the twin only.
    Twin,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Metric {
    /// The last part of a full name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it says, for people.
    pub about: &'static str,
    /// Where it is measured.
    pub places: Places,
    /// Only a host with tiers has it.
    pub tiered: bool,
    /// Only arm `weir` has it: stock has no such file.
    pub weir_only: bool,
    value: Value,
}

/// What a metric is measured of, and how it is computed.
#[derive(Clone, Copy, Debug)]
enum Value {
    Job(fn(&Job) -> Option<f64>),
    MemoryJob(fn(&MemoryJob) -> f64),
    Host(fn(&Measured) -> Option<f64>),
    Disk(fn(&Measured, u64) -> f64),
    Cgroup(fn(&Measured, &Cgroup) -> Option<f64>),
    /// A key of `memory.dirty_stat`.
    Stat,
}

impl Metric {
    const fn new(name: &'static str, unit: Unit, value: Value, about: &'static str) -> Metric {
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

    /// What it is measured of, as names have it.
    pub fn of(&self) -> &'static str {
        match self.value {
            Value::Job(_) => "JOB",
            Value::MemoryJob(_) => "MEMORY-JOB",
            Value::Host(_) => "host",
            Value::Disk(_) => "disk/NAME",
            Value::Cgroup(_) | Value::Stat => "cgroup/PATH",
        }
    }
}

/// Every metric there is.
pub fn table() -> &'static [Metric] {
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
            Metric::new(key.name, unit, Value::Stat, about).of_weir()
        });
        ROWS.iter().cloned().chain(stat).collect()
    });
    &TABLE
}

use Unit::{Bandwidth, Bytes, BytesPerMinute, Count, Iops, Nanoseconds, Percent};

const ROWS: &[Metric] = &[
    job("iops", Iops, |job| Some(job.iops), "operations per second"),
    job(
        "bw_bytes",
        Bandwidth,
        |job| Some(job.bandwidth),
        "read and written",
    ),
    job(
        "clat_p50_ns",
        Nanoseconds,
        |job| Some(job.latency?.p50_ns as f64),
        LATENCY,
    ),
    job(
        "clat_p99_ns",
        Nanoseconds,
        |job| Some(job.latency?.p99_ns as f64),
        LATENCY,
    ),
    job(
        "clat_max_ns",
        Nanoseconds,
        |job| Some(job.latency?.max_ns as f64),
        LATENCY,
    ),
    job(
        "total_ios",
        Count,
        |job| Some(job.total_ios as f64),
        "operations",
    ),
    job(
        "spread_pct",
        Percent,
        spread,
        "how far apart what the fastest and the slowest process wrote, of their mean",
    )
    .on_the_twin(),
    job(
        "jain",
        Count,
        jain,
        "Jain's index of what processes wrote: 1 if all wrote the same",
    )
    .on_the_twin(),
    memory_job(
        "ops_per_sec",
        |job| job.ops as f64 * 1e9 / job.elapsed_ns.max(1) as f64,
        "accesses per second, over the second half of the time in which all jobs run",
    ),
    Metric {
        unit: Percent,
        ..memory_job(
            "hot_low_pct",
            |job| 100.0 * job.hot_low as f64 / job.hot.max(1) as f64,
            "hot pages that are not in the fastest tier in the end",
        )
    },
    memory_job(
        "corrupt_pages",
        |job| job.corrupt as f64,
        "pages that do not hold what was written to them, in the end",
    ),
    host("dirty_max_bytes", Bytes, |of| max(&of.host.held), HELD),
    host(
        "dirty_median_bytes",
        Bytes,
        |of| middle(&of.host.held),
        HELD,
    ),
    host(
        "writeback_median_bytes",
        Bytes,
        |of| middle(&of.host.writeback),
        "in writeback",
    ),
    host(
        "disk_bw_bytes",
        Bandwidth,
        |of| Some(of.per_second(of.disks.values().sum())),
        "written to all disks",
    ),
    host(
        "flusher_cpu_pct",
        Percent,
        |of| Some(of.percent(of.host.flusher_ns)),
        "CPU time of flushers, of one CPU",
    ),
    host(
        "io_full_pct",
        Percent,
        |of| Some(of.percent(of.pressure().io_full_ns)),
        FULL,
    ),
    host(
        "io_some_pct",
        Percent,
        |of| Some(of.percent(of.pressure().io_some_ns)),
        SOME,
    ),
    host(
        "mem_full_pct",
        Percent,
        |of| Some(of.percent(of.pressure().mem_full_ns?)),
        FULL,
    ),
    host(
        "mem_some_pct",
        Percent,
        |of| Some(of.percent(of.pressure().mem_some_ns?)),
        SOME,
    ),
    host(
        "allocstalls",
        Count,
        |of| Some(of.host.allocstalls as f64),
        "allocations that had to reclaim memory themselves first",
    ),
    host(
        "kswapd_scanned",
        Count,
        |of| Some(of.host.kswapd_scanned as f64),
        "pages that kswapd looked at",
    ),
    host(
        "oom_kills",
        Count,
        |of| Some(of.host.oom_kills as f64),
        "tasks killed for memory",
    ),
    host(
        "ops_per_sec",
        Count,
        |of| {
            let rates = of.memory.values();
            let rate = |job: &MemoryJob| job.ops as f64 * 1e9 / job.elapsed_ns.max(1) as f64;
            of.tiers.as_ref().map(|_| rates.map(rate).sum())
        },
        "of all jobs that read memory together",
    )
    .of_tiers(),
    host(
        "migrated_bytes_per_min",
        BytesPerMinute,
        migrated,
        "moved between nodes",
    )
    .of_tiers(),
    Metric::new(
        "bw_bytes",
        Bandwidth,
        Value::Disk(|of, written| of.per_second(written)),
        "written",
    ),
    cgroup(
        "dirty_max_bytes",
        Bytes,
        |_, cgroup| max(&cgroup.held),
        HELD,
    ),
    cgroup(
        "dirty_median_bytes",
        Bytes,
        |_, cgroup| middle(&cgroup.held),
        HELD,
    ),
    cgroup(
        "disk_bw_bytes",
        Bandwidth,
        |of, cgroup| Some(of.per_second(cgroup.written?)),
        "written to disks for it, by io.stat",
    ),
    cgroup(
        "io_full_pct",
        Percent,
        |of, at| Some(of.percent(at.pressure?.io_full_ns)),
        FULL,
    ),
    cgroup(
        "io_some_pct",
        Percent,
        |of, at| Some(of.percent(at.pressure?.io_some_ns)),
        SOME,
    ),
    cgroup(
        "mem_full_pct",
        Percent,
        |of, at| Some(of.percent(at.pressure?.mem_full_ns?)),
        FULL,
    )
    .on_the_twin(),
    cgroup(
        "mem_some_pct",
        Percent,
        |of, at| Some(of.percent(at.pressure?.mem_some_ns?)),
        SOME,
    )
    .on_the_twin(),
    cgroup(
        "toptier_bytes",
        Bytes,
        |of, cgroup| late(of, cgroup, |place| Some(place.top as f64)),
        "median of what it has in the fastest tier, over the second half",
    )
    .of_tiers(),
    cgroup(
        "lowtier_bytes",
        Bytes,
        |of, cgroup| late(of, cgroup, |place| Some(place.low as f64)),
        "median of what it has in other tiers",
    )
    .of_tiers(),
    cgroup(
        "toptier_pct",
        Percent,
        |of, cgroup| {
            late(of, cgroup, |at| {
                Some(at.top as f64 * 100.0 / (at.top + at.low).max(1) as f64)
            })
        },
        "median of the part of its memory that is in the fastest tier",
    )
    .of_tiers(),
    cgroup(
        "budget_error_pct",
        Percent,
        |of, cgroup| late(of, cgroup, Place::error),
        "median of how far it is above its budget in the fastest tier; or below, as far as it has \
         memory in another",
    )
    .of_tiers()
    .of_weir(),
    cgroup(
        "settle_ns",
        Nanoseconds,
        settled,
        "from the start of the last job until budget_error_pct is 2 or less and stays so",
    )
    .of_tiers()
    .of_weir(),
];

const LATENCY: &str = "of writes, or of reads if there were more";
const HELD: &str = "dirty + writeback, sample by sample";
const SOME: &str = "time in which some tasks were stalled";
const FULL: &str = "time in which all tasks were stalled";

const fn job(
    name: &'static str,
    unit: Unit,
    value: fn(&Job) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, Value::Job(value), about)
}

const fn memory_job(
    name: &'static str,
    value: fn(&MemoryJob) -> f64,
    about: &'static str,
) -> Metric {
    Metric::new(name, Count, Value::MemoryJob(value), about).of_tiers()
}

const fn host(
    name: &'static str,
    unit: Unit,
    value: fn(&Measured) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, Value::Host(value), about)
}

const fn cgroup(
    name: &'static str,
    unit: Unit,
    value: fn(&Measured, &Cgroup) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, Value::Cgroup(value), about)
}

impl Measured {
    fn per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    fn percent(&self, ns: u64) -> f64 {
        ns as f64 / self.elapsed_ns.max(1) as f64 * 100.0
    }

    fn pressure(&self) -> &Pressure {
        &self.host.pressure
    }
}

fn spread(job: &Job) -> Option<f64> {
    let all: u128 = job.each.iter().map(|bytes| u128::from(*bytes)).sum();
    let (least, most) = (job.each.iter().min()?, job.each.iter().max()?);
    let mean = all as f64 / job.each.len() as f64;
    (job.each.len() > 1 && all > 0).then(|| (most - least) as f64 / mean * 100.0)
}

fn jain(job: &Job) -> Option<f64> {
    // In pages, so that squares fit.
    let pages = || job.each.iter().map(|bytes| u128::from(bytes >> 12));
    let sum: u128 = pages().sum();
    let squares: u128 = pages().map(|pages| pages * pages).sum();
    let all = job.each.len();
    (all > 1 && job.each.iter().any(|bytes| *bytes > 0))
        .then(|| (sum * sum) as f64 / (all as u128 * squares) as f64)
}

fn max(bytes: &[u64]) -> Option<f64> {
    bytes.iter().max().map(|most| *most as f64)
}

fn middle(bytes: &[u64]) -> Option<f64> {
    median(bytes.iter().map(|bytes| *bytes as f64))
}

/// The middle value, or the mean of the two middle ones.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ if middle == 0 => None,
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

impl Tiers {
    fn counts(&self, at_ns: u64) -> bool {
        (self.mark_ns..=self.end_ns).contains(&at_ns)
    }
}

fn migrated(of: &Measured) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let mut counted = tiers.migrated.iter().filter(|(at, _)| tiers.counts(*at));
    let first = counted.next()?;
    let last = counted.next_back()?;
    let minutes = (last.0 - first.0).max(1) as f64 / 60e9;
    Some((last.1 - first.1) as f64 / minutes)
}

/// A median over the part of a phase that counts.
fn late(of: &Measured, cgroup: &Cgroup, value: fn(&Place) -> Option<f64>) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let counted = cgroup.places.iter().filter(|at| tiers.counts(at.at_ns));
    median(counted.filter_map(value))
}

/// From the last job's start until the cgroup is near its budget and stays there, in nanoseconds.
fn settled(of: &Measured, cgroup: &Cgroup) -> Option<f64> {
    let tiers = of.tiers.as_ref()?;
    let since = |at: &&Place| (tiers.last_start_ns..=tiers.end_ns).contains(&at.at_ns);
    let errors: Vec<(u64, f64)> = cgroup
        .places
        .iter()
        .filter(since)
        .filter_map(|place| Some((place.at_ns, place.error()?)))
        .collect();
    let first = errors.first()?.0;
    let rest = errors.iter().rev().take_while(|(_, error)| *error <= NEAR);
    let from = match rest.last() {
        // Near from the first look on: it was so when the job began.
        Some((at, _)) if *at == first => tiers.last_start_ns,
        Some((at, _)) => *at,
        None => tiers.end_ns,
    };
    Some((from - tiers.last_start_ns) as f64)
}

/// Figures by full name.
pub type Figures = BTreeMap<String, Figure>;

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value in `unit`.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
}

/// All figures of one phase in one arm.
pub fn metrics(arm: Arm, of: &Measured) -> Figures {
    let mut figures = Figures::new();
    let prefix = format!("{}.{}", arm.name(), of.phase);
    let mut add = |subject: &str, row: &Metric, value: Option<f64>| {
        if let Some(value) = value {
            let name = format!("{prefix}.{subject}.{}", row.name);
            let unit = row.unit;
            figures.insert(name, Figure { value, unit });
        }
    };
    for row in table() {
        match row.value {
            Value::Job(value) => {
                of.jobs
                    .iter()
                    .for_each(|(name, job)| add(name, row, value(job)));
            }
            Value::MemoryJob(value) => {
                let jobs = of.memory.iter();
                jobs.for_each(|(name, job)| add(name, row, Some(value(job))));
            }
            Value::Host(value) => add("host", row, value(of)),
            Value::Disk(value) => {
                let disks = of.disks.iter();
                disks.for_each(|(disk, written)| {
                    add(&format!("disk/{disk}"), row, Some(value(of, *written)));
                });
            }
            Value::Cgroup(_) | Value::Stat => {
                for (path, cgroup) in &of.cgroups {
                    let value = match row.value {
                        Value::Cgroup(value) => value(of, cgroup),
                        _ => cgroup.stat.get(row.name).map(|number| *number as f64),
                    };
                    add(&format!("cgroup/{path}"), row, value);
                }
            }
        }
    }
    figures
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
            return self.check_metric(scenario, "of the host", |of| matches!(of, Value::Host(_)));
        }
        if let Some(disk) = self.subject.strip_prefix("disk/") {
            if !scenario.disks.iter().any(|d| d.name == disk) {
                return Err(format!(
                    "no disk `{disk}`, {}",
                    suggest(disk, scenario.disks.iter().map(|d| d.name.as_str()))
                ));
            }
            return self.check_metric(scenario, "of a disk", |of| matches!(of, Value::Disk(_)));
        }
        if let Some(cgroup) = self.subject.strip_prefix("cgroup/") {
            if !scenario.cgroups.contains_key(cgroup) {
                return Err(format!(
                    "no cgroup `{cgroup}`, {}",
                    suggest(cgroup, scenario.cgroups.keys().map(String::as_str))
                ));
            }
            let of = match self.arm {
                Arm::Stock => "of a cgroup in arm `stock`",
                Arm::Weir => "of a cgroup",
            };
            return self.check_metric(scenario, of, |of| {
                matches!(of, Value::Cgroup(_) | Value::Stat)
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
            None => self.check_metric(scenario, "of a job", |of| matches!(of, Value::Job(_))),
            Some(_) => self.check_metric(scenario, "of a job that reads memory", |of| {
                matches!(of, Value::MemoryJob(_))
            }),
        }
    }

    /// Whether the scenario's host has this metric in this arm, among those of one subject.
    fn check_metric(
        &self,
        scenario: &Scenario,
        subject: &str,
        is_of: fn(&Value) -> bool,
    ) -> Result<(), String> {
        let known = table().iter().filter(|row| {
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
            suggest(&self.metric, &mut known)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_name_has_one_unit_and_every_key_of_dirty_stat_is_there() {
        for row in table() {
            assert_eq!(Unit::of(row.name), row.unit, "{}", row.name);
            assert!(!row.name.contains('.'), "{}", row.name);
        }
        for key in knobs::stat_keys() {
            assert!(
                table().iter().any(|row| row.name == key.name),
                "{}",
                key.name
            );
        }
        assert_eq!(Unit::of("weir.p.cgroup/a.b/c.floor"), Unit::Bytes);
        assert_eq!(Unit::of("stock.p.host.dirty_max_bytes"), Unit::Bytes);
        assert_eq!(
            Unit::of("weir.p.cgroup/a.throttled_usec"),
            Unit::Microseconds
        );
    }

    #[test]
    fn rates_and_percentages_are_of_the_phase() {
        let mut of = Measured {
            phase: "p".into(),
            elapsed_ns: 10 * SECOND,
            disks: BTreeMap::from([("d".into(), 40), ("e".into(), 60)]),
            ..Measured::default()
        };
        of.host.pressure.io_some_ns = SECOND;
        of.host.held = vec![3, 1, 8, 2];
        let all = metrics(Arm::Stock, &of);
        let value = |name: &str| all[&format!("stock.p.{name}")].value;
        assert_eq!(value("disk/d.bw_bytes"), 4.0);
        assert_eq!(value("host.disk_bw_bytes"), 10.0);
        assert_eq!(value("host.io_some_pct"), 10.0);
        assert_eq!(
            (
                value("host.dirty_max_bytes"),
                value("host.dirty_median_bytes")
            ),
            (8.0, 2.5)
        );
        assert!(!all.contains_key("stock.p.host.ops_per_sec"), "no tiers");
    }

    #[test]
    fn shares_of_processes_are_compared() {
        let job = |each: &[u64]| Job {
            each: each.to_vec(),
            ..Job::default()
        };
        assert_eq!(spread(&job(&[4096, 4096])), Some(0.0));
        assert_eq!(jain(&job(&[4096, 4096])), Some(1.0));
        assert_eq!(spread(&job(&[0, 8192])), Some(200.0));
        assert_eq!(jain(&job(&[0, 8192])), Some(0.5));
        assert_eq!((spread(&job(&[1])), jain(&job(&[0, 0]))), (None, None));
    }

    /// The last job starts at 10 s, counting begins at 20 s, the end is at 30 s; a look every 5 s.
    fn tiered(held: [[u64; 2]; 7], budget: Option<u64>) -> Figures {
        let places = (0..).zip(held).map(|(look, [top, low])| Place {
            at_ns: look * 5 * SECOND,
            top: top * MIB,
            low: low * MIB,
            budget: budget.map(|mib| mib * MIB),
        });
        let moved = [(0, 0), (20, 1000), (25, 1006), (30, 1015), (35, 9999)];
        let cgroup = Cgroup {
            places: places.collect(),
            ..Cgroup::default()
        };
        let tiers = Tiers {
            last_start_ns: 10 * SECOND,
            mark_ns: 20 * SECOND,
            end_ns: 30 * SECOND,
            migrated: moved
                .map(|(at, pages)| (at * SECOND, pages * 4096))
                .to_vec(),
        };
        let of = Measured {
            phase: "p".into(),
            cgroups: BTreeMap::from([("a".into(), cgroup)]),
            tiers: Some(tiers),
            ..Measured::default()
        };
        metrics(Arm::Weir, &of)
    }

    fn value(all: &Figures, name: &str) -> f64 {
        all[&format!("weir.p.{name}")].value
    }

    #[test]
    fn rest_begins_when_it_lasts() {
        let held = [
            [0, 0],
            [340, 0],
            [340, 0],
            [268, 72],
            [300, 40],
            [267, 73],
            [265, 75],
        ];
        let all = tiered(held, Some(265));
        // Near at 15 s, but it did not last.
        assert_eq!(value(&all, "cgroup/a.settle_ns"), 15e9);
        assert_eq!(value(&all, "cgroup/a.toptier_bytes"), (267 * MIB) as f64);
        assert_eq!(value(&all, "cgroup/a.lowtier_bytes"), (73 * MIB) as f64);
        // 15 pages in ten seconds.
        assert_eq!(
            value(&all, "host.migrated_bytes_per_min"),
            15.0 * 4096.0 * 6.0
        );
    }

    #[test]
    fn a_cgroup_that_never_rests_took_all_of_the_time() {
        let all = tiered([[340, 0]; 7], Some(265));
        assert_eq!(value(&all, "cgroup/a.settle_ns"), 20e9);
        assert!(value(&all, "cgroup/a.budget_error_pct") > 28.0);
    }

    #[test]
    fn below_the_budget_only_counts_what_could_come_up() {
        let all = tiered([[200, 0]; 7], Some(265));
        assert_eq!(value(&all, "cgroup/a.budget_error_pct"), 0.0);
        assert_eq!(value(&all, "cgroup/a.settle_ns"), 0.0);
        let all = tiered([[159, 181]; 7], Some(265));
        assert_eq!(value(&all, "cgroup/a.budget_error_pct"), 40.0);
        assert_eq!(value(&all, "cgroup/a.toptier_pct"), 159.0 * 100.0 / 340.0);
    }

    #[test]
    fn without_a_budget_there_is_no_error() {
        let all = tiered([[340, 0]; 7], None);
        assert!(!all.contains_key("weir.p.cgroup/a.settle_ns"));
        assert!(!all.contains_key("weir.p.cgroup/a.budget_error_pct"));
        assert_eq!(value(&all, "cgroup/a.toptier_pct"), 100.0);
    }
}
