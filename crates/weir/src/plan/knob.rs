// SPDX-License-Identifier: GPL-2.0-only
//! A knob that `weir plan` searches: where it is written, which values it may take, and the
//! commands that set it.

use super::search::Scale;
use anyhow::{Result, anyhow, bail};
use knobs::Knob as File;
use policy::drain::SECONDS_MAX;
use policy::floor::Pool;
use policy::{PAGE_SHIFT, UNLIMITED};
use scenario::metric::Name;
use scenario::model::{Cgroup, Job, Scenario};

const DRAIN: &str = "drain_seconds";
/// The host's limit, which stands for seconds of drain without the module.
const LIMIT: &str = "vm.dirty_bytes";
/// Of windows where no range is given: a queue of 32 requests is not much more on a fast disk.
const WINDOW_WIDEST: u64 = 32 << 20;
const CGROUPS: &str = "/sys/fs/cgroup";
const PARAMETERS: &str = "/sys/module/weir/parameters";

/// What a knob holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One of a cgroup's files about dirty pages.
    File(File),
    /// Seconds of drain, the host's.
    Seconds,
    /// The host's limit, to be raised or lowered from what it is.
    Limit {
        /// What it is without a plan, in bytes.
        is: u64,
        /// It is searched upwards.
        raise: bool,
    },
}

/// One of weir's files, and what may be written into it.
#[derive(Clone, Debug)]
pub struct Knob {
    /// `None` for the host's.
    cgroup: Option<String>,
    file: String,
    kind: Kind,
    /// Values to search, weakest first.
    pub scale: Scale,
}

impl Knob {
    /// Of `victim/memory.dirty_min`, `batch/memory.dirty_bytes=64M..1M` or `drain_seconds`; `limit`
    /// is the host's, in bytes. With `stock`, what there is without the module.
    pub fn parse(text: &str, scenario: &Scenario, limit: u64, stock: bool) -> Result<Knob> {
        let (name, range) = match text.split_once('=') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        let (cgroup, file) = match name.rsplit_once('/') {
            Some((cgroup, file)) => (Some(cgroup.to_owned()), file),
            None => (None, name),
        };
        let knob = File::by_file(file).filter(|knob| File::DIRTY.contains(knob));
        if stock && knob == Some(File::WritebackBytes) {
            bail!("--knob {text}: without the module there is no window");
        }
        let kind = match (knob, &cgroup) {
            (Some(knob), Some(_)) => Kind::File(knob),
            (None, None) if file == DRAIN && !stock => Kind::Seconds,
            (None, None) if file == LIMIT && stock => Kind::Limit {
                is: limit,
                raise: !scenario.host.weir.contains_key("drain_tighten"),
            },
            _ => bail!(
                "--knob {text}: write CGROUP/FILE, as in victim/{}, or {}; files: {}",
                File::DirtyMin.file(),
                if stock { LIMIT } else { DRAIN },
                File::DIRTY.map(File::file).join(", ")
            ),
        };
        let settings = match &cgroup {
            None => None,
            Some(path) => Some(scenario.cgroups.get(path).ok_or_else(|| {
                let known: Vec<&str> = scenario.cgroups.keys().map(String::as_str).collect();
                anyhow!(
                    "--knob {text}: the scenario has no cgroup `{path}`; it has: {}",
                    known.join(", ")
                )
            })?),
        };
        for phase in &scenario.phases {
            let sets = cgroup.as_ref().and_then(|path| phase.set.get(path));
            if sets.is_some_and(|knobs| knobs.contains_key(file)) {
                bail!(
                    "--knob {text}: phase `{}` of the scenario sets it, whatever the plan: take it out of `set`",
                    phase.name
                );
            }
        }
        let (weakest, strongest) = match range {
            Some(range) => kind
                .range(range)
                .map_err(|why| anyhow!("--knob {text}: {why}"))?,
            None => kind.usual(limit, settings.and_then(|cgroup| cgroup.copies)),
        };
        Ok(Knob {
            cgroup,
            file: file.into(),
            kind,
            scale: Scale {
                off: kind.off(),
                weakest,
                strongest,
                unit: kind.unit(weakest.min(strongest)),
            },
        })
    }

    /// The knobs that a scenario itself sets, or else those that may do, as `parse` takes them: what
    /// is tried first comes first.
    pub fn of(scenario: &Scenario, stock: bool) -> Vec<String> {
        let cgroups = scenario.cgroups.iter().flat_map(|(path, cgroup)| {
            let files = cgroup.knobs.keys();
            files.map(move |file| format!("{path}/{file}"))
        });
        let host = scenario.host.weir.contains_key(DRAIN);
        let host = host.then(|| if stock { LIMIT } else { DRAIN }.to_owned());
        let mut knobs: Vec<String> = cgroups.chain(host).collect();
        let waits = waits_behind_writers(scenario);
        if knobs.is_empty() {
            let files = [File::WritebackBytes, File::DirtyBytes].map(File::file);
            let writers = writers_beside(scenario, &waits);
            let each = |file| writers.iter().map(move |path| format!("{path}/{file}"));
            knobs = files.into_iter().flat_map(each).collect();
        }
        let is_window = |knob: &String| knob.ends_with(File::WritebackBytes.file());
        if stock {
            knobs.retain(|knob| !is_window(knob));
        } else if !waits.is_empty() {
            // A ceiling takes its dirty pages from a writer, a window nothing.
            knobs.sort_by_key(|knob| !is_window(knob));
        }
        knobs
    }

    /// Sets it in `scenario`, or takes it out of there if it is to be off.
    pub fn set(&self, scenario: &mut Scenario, step: u64) {
        if let Kind::Limit { .. } = self.kind {
            if step > 0 {
                let sysctl = &mut scenario.host.sysctl;
                sysctl.remove("vm.dirty_ratio");
                sysctl.insert(LIMIT.into(), self.scale.value(step).to_string());
            }
            return;
        }
        let knobs = match &self.cgroup {
            None => Some(&mut scenario.host.weir),
            Some(path) => scenario
                .cgroups
                .get_mut(path)
                .map(|cgroup| &mut cgroup.knobs),
        };
        if let Some(knobs) = knobs {
            match step {
                0 => knobs.remove(&self.file),
                _ => knobs.insert(self.file.clone(), self.text(step)),
            };
        }
    }

    /// The value at a step, as it is written.
    pub fn text(&self, step: u64) -> String {
        let value = self.scale.value(step);
        match self.kind {
            Kind::File(File::DirtyBytes | File::WritebackBytes) if step == 0 => "max".into(),
            _ if self.kind.is_bytes() && value > 0 && value % (1 << 20) == 0 => {
                format!("{}M", value >> 20)
            }
            _ if self.kind.is_bytes() && value > 0 && value % 1024 == 0 => {
                format!("{}K", value >> 10)
            }
            _ => value.to_string(),
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match &self.cgroup {
            Some(path) => format!("{path}/{}", self.file),
            None => self.file.clone(),
        }
    }
}

impl Kind {
    fn is_bytes(self) -> bool {
        matches!(
            self,
            Kind::File(File::DirtyMin | File::DirtyBytes | File::WritebackBytes)
                | Kind::Limit { .. }
        )
    }

    fn off(self) -> u64 {
        match self {
            Kind::File(knob) => knob.default(),
            Kind::Seconds => 0,
            Kind::Limit { is, .. } => is,
        }
    }

    /// The tightest value that is not off.
    fn least(self) -> u64 {
        match self {
            Kind::File(File::DirtyMin) => File::DirtyBytes.range().0,
            Kind::File(knob) => knob.range().0.max(1),
            Kind::Seconds => 1,
            Kind::Limit { .. } => 1 << 20,
        }
    }

    /// Where nothing is said: what makes a difference, on a host with such a limit.
    fn usual(self, limit: u64, copies: Option<u32>) -> (u64, u64) {
        let limit = limit.max(1 << 20);
        let least = self.least();
        let round = |bytes: u64| {
            let unit = self.unit(bytes);
            (bytes / unit * unit).max(least)
        };
        match self {
            Kind::File(File::DirtyMin) => {
                let pool = Pool {
                    wanted_total: UNLIMITED,
                    host_thresh: limit >> PAGE_SHIFT,
                };
                let most = (pool.total() << PAGE_SHIFT) / u64::from(copies.unwrap_or(1));
                (round(most / 256), round(most))
            }
            Kind::File(File::DirtyBytes) => (round(limit), round(limit / 256)),
            // More than the largest disk queues hold, down to the least that there is.
            Kind::File(File::WritebackBytes) => (WINDOW_WIDEST, least),
            Kind::File(File::DirtyWeight) => (125, File::DirtyWeight.range().1),
            Kind::File(knob) => (knob.range().1, least),
            Kind::Seconds => (1, 120),
            Kind::Limit { raise: true, .. } => (round(limit + limit / 4), round(limit * 16)),
            Kind::Limit { .. } => (round(limit - limit / 8), round(limit / 64)),
        }
    }

    fn unit(self, least: u64) -> u64 {
        match self {
            _ if self.is_bytes() && least >= 1 << 20 => 1 << 20,
            _ if self.is_bytes() && least >= 1 << 16 => 1 << 16,
            _ if self.is_bytes() => 1 << PAGE_SHIFT,
            Kind::File(File::DirtyWeight) if least > File::DirtyWeight.default() => 25,
            _ => 1,
        }
    }

    /// A value of a range, as its file takes it.
    fn value(self, text: &str) -> Result<u64, String> {
        let number = match self {
            Kind::File(knob) => knob.parse(text).map_err(|why| why.to_string())?,
            Kind::Limit { .. } => config::units::size(text)?,
            Kind::Seconds => text
                .parse()
                .ok()
                .filter(|seconds| *seconds <= SECONDS_MAX)
                .ok_or_else(|| {
                    format!(
                        "{DRAIN}: invalid value `{text}`: expected whole seconds from 1 to {SECONDS_MAX}"
                    )
                })?,
        };
        if number < self.least() || number == UNLIMITED {
            return Err(format!(
                "`{text}` is not a value to search from {} on: off is always tried",
                self.least()
            ));
        }
        Ok(number)
    }

    fn range(self, text: &str) -> Result<(u64, u64), String> {
        let (one, other) = text
            .split_once("..")
            .ok_or_else(|| format!("`{text}` is not a range, as in {}", self.example()))?;
        let (one, other) = (self.value(one)?, self.value(other)?);
        Ok(match self {
            Kind::File(File::DirtyMin) | Kind::Seconds => (one.min(other), one.max(other)),
            // Either way; the end that is nearer to what there is is weaker.
            Kind::Limit { is, .. } if one.abs_diff(is) > other.abs_diff(is) => (other, one),
            Kind::Limit { .. } => (one, other),
            // May go either way from the default; who asks for which is weaker.
            Kind::File(File::DirtyWeight)
                if one.abs_diff(self.off()) > other.abs_diff(self.off()) =>
            {
                (other, one)
            }
            Kind::File(File::DirtyWeight) => (one, other),
            Kind::File(_) => (one.max(other), one.min(other)),
        })
    }

    fn example(self) -> &'static str {
        match self {
            Kind::File(File::DirtyMin) => "1M..16M",
            Kind::File(File::DirtyBytes) => "64M..1M",
            Kind::File(File::WritebackBytes) => "16M..64K",
            Kind::File(File::DirtyWeight) => "125..1000",
            Kind::File(_) => "50..1",
            Kind::Seconds => "1..60",
            Kind::Limit { .. } => "64M..512M",
        }
    }
}

/// Jobs whose calls of fsync, or reads, a scenario expects something of.
fn waits_behind_writers(scenario: &Scenario) -> Vec<&Job> {
    let expected = |job: &&Job| {
        let mut metrics = scenario.expects.iter().map(|expect| &expect.metric);
        metrics.any(|metric| {
            Name::split(metric).is_some_and(|name| {
                let reads = is(job, "read") && name.metric.starts_with("clat_");
                name.subject == job.name && (reads || name.metric.starts_with("sync_"))
            })
        })
    };
    scenario.jobs.iter().filter(expected).collect()
}

/// Cgroups of other jobs that write to the same disks and do not sync.
fn writers_beside<'a>(scenario: &'a Scenario, waits: &[&Job]) -> Vec<&'a str> {
    let mut cgroups: Vec<&str> = Vec::new();
    for job in &scenario.jobs {
        let syncs = ["fsync", "fdatasync"].map(|option| job.fio.contains_key(option));
        let beside = waits
            .iter()
            .any(|other| other.disk == job.disk && other.cgroup != job.cgroup);
        let Some(cgroup) = &job.cgroup else { continue };
        if is(job, "write") && beside && syncs == [false; 2] && !cgroups.contains(&cgroup.as_str())
        {
            cgroups.push(cgroup);
        }
    }
    cgroups
}

/// Whether a fio job's pattern is `way` or the same at random.
fn is(job: &Job, way: &str) -> bool {
    let pattern = job.fio.get("rw").or_else(|| job.fio.get("readwrite"));
    pattern.is_some_and(|pattern| pattern.trim_start_matches("rand") == way)
}

/// What an operator types to have what arm `weir` of `scenario` has.
pub fn commands(scenario: &Scenario) -> Vec<String> {
    let mut lines = vec!["weir load".to_owned()];
    // tighten says how seconds are meant
    let host = scenario.host.weir.iter().rev();
    lines.extend(host.map(|(name, value)| format!("echo {value} > {PARAMETERS}/{name}")));
    for (path, cgroup) in &scenario.cgroups {
        for (file, value) in &cgroup.knobs {
            lines.push(write(path, cgroup, file, value));
        }
    }
    lines
}

fn write(path: &str, cgroup: &Cgroup, file: &str, value: &str) -> String {
    match cgroup.copies {
        None => format!("echo {value} > {CGROUPS}/{path}/{file}"),
        Some(_) => {
            format!("for each in {CGROUPS}/{path}/*/; do echo {value} > \"$each\"{file}; done")
        }
    }
}
