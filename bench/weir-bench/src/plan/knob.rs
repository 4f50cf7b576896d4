// SPDX-License-Identifier: GPL-2.0-only
//! A knob that `weir plan` searches: where it is written, which values it may take, and the
//! commands that set it.

use super::search::Scale;
use anyhow::{Result, anyhow, bail};
use knobs::Knob as File;
use policy::drain::SECONDS_MAX;
use policy::floor::Pool;
use policy::{PAGE_SHIFT, UNLIMITED};
use scenario::model::{Cgroup, Disk, Job, Scenario};

pub const DRAIN: &str = "drain_seconds";
/// The host's limit, which stands for seconds of drain without the module.
pub const LIMIT: &str = "vm.dirty_bytes";
/// The part of each memory limit that the first tier gives, in percent.
pub const TIER_RATIO: &str = "tier_ratio";
/// The widest window where no range is given: a queue of 32 requests is not much more on a fast
/// disk.
const WINDOW_WIDEST: u64 = 32 << 20;
/// A ceiling of what a disk writes in this part of a second is the tightest that is tried: a writer
/// that may hold less waits for single requests.
const TIGHTEST: u64 = 100;
/// The least `memory.high` and `memory.max` that are tried: processes themselves need some.
const MEMORY_LEAST: u64 = 16 << 20;
/// Files of stock kernels that are searched, too.
const MEMORY: [&str; 2] = ["memory.high", "memory.max"];
const CGROUPS: &str = "/sys/fs/cgroup";
const PARAMETERS: &str = "/sys/module/weir/parameters";

/// Kind of value that a knob holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnobKind {
    /// A file of a cgroup about dirty pages.
    File(File),
    /// Seconds of drain, the host's.
    Seconds {
        /// `true` if seconds lower the limit, so that fewer are stronger.
        tighten: bool,
    },
    /// The host's `tier_ratio`, or a cgroup's own.
    Tier {
        /// The value without a plan, in percent: the first tier's part of all memory.
        is: u64,
        /// The value that the file or parameter holds then.
        unset: u64,
    },
    /// `memory.high` or `memory.max`, which stock kernels have.
    Memory {
        /// The value without a plan, in bytes.
        is: u64,
    },
    /// The host's limit, to be raised or lowered from what it is.
    Limit {
        /// The value without a plan, in bytes.
        is: u64,
        /// `true` if it is searched upwards.
        raise: bool,
    },
}

/// Figures of the host that ranges follow if none is given.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The host's dirty limit, in bytes.
    limit: u64,
    /// Bytes per second that the slowest disk concerned writes.
    rate: u64,
    /// The host's memory, in bytes.
    memory: u64,
    /// Cgroups that the knob is written to.
    copies: u64,
}

/// A file, and what may be written into it.
#[derive(Clone, Debug)]
pub struct Knob {
    /// The cgroup's path; `None` for the host's.
    cgroup: Option<String>,
    file: String,
    kind: KnobKind,
    /// Values to search, weakest first.
    pub scale: Scale,
    /// The strongest value, described for people; empty if the range was given.
    end: &'static str,
}

impl Knob {
    /// Parses a knob such as `victim/memory.dirty_min`, `batch/memory.dirty_bytes=64M..1M` or
    /// `drain_seconds`; `limit` is the host's, in bytes. With `stock`, what there is without the
    /// module.
    pub fn parse(text: &str, scenario: &Scenario, limit: u64, stock: bool) -> Result<Knob> {
        let (name, range) = match text.split_once('=') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        let (cgroup, file) = match name.rsplit_once('/') {
            Some((cgroup, file)) => (Some(cgroup.to_owned()), file),
            None => (None, name),
        };
        let is_tier = file == TIER_RATIO || file == File::ToptierRatio.file_name();
        if is_tier && (stock || scenario.tiers.is_empty()) {
            bail!("--knob {text}: needs the module, and a scenario with `[[tier]]` tables");
        }
        let knob = File::by_file(file).filter(|knob| File::DIRTY.contains(knob));
        if stock && knob == Some(File::WritebackBytes) {
            bail!("--knob {text}: without the module there is no window");
        }
        let kind = match (knob, &cgroup) {
            (Some(knob), Some(_)) => KnobKind::File(knob),
            (None, Some(_)) if is_tier && file != TIER_RATIO => KnobKind::Tier {
                is: host_tier_ratio(scenario),
                unset: File::ToptierRatio.default(),
            },
            (None, None) if is_tier && file == TIER_RATIO => KnobKind::Tier {
                is: first_tier_percent(scenario),
                unset: 0,
            },
            (None, None) if file == DRAIN && !stock => KnobKind::Seconds {
                tighten: drain_tightens(scenario),
            },
            (None, Some(path)) if MEMORY.contains(&file) => KnobKind::Memory {
                is: memory_limit(scenario, path, file),
            },
            (None, None) if file == LIMIT && stock => KnobKind::Limit {
                is: limit,
                raise: !scenario.host.weir.contains_key("drain_tighten"),
            },
            _ => bail!(
                "--knob {text}: write CGROUP/FILE, as in victim/{}, or {}; files: {}, {}, {}",
                File::DirtyMin.file_name(),
                match stock {
                    true => LIMIT.to_owned(),
                    false => format!("{DRAIN} or {TIER_RATIO}"),
                },
                File::DIRTY.map(File::file_name).join(", "),
                File::ToptierRatio.file_name(),
                MEMORY.join(", ")
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
        let extent = Extent {
            limit,
            rate: slowest_rate(scenario, cgroup.as_deref()),
            memory: scenario.host.memory_bytes,
            copies: settings
                .and_then(|cgroup| cgroup.copies)
                .unwrap_or(1)
                .into(),
        };
        let (weakest, strongest) = match range {
            Some(range) => kind
                .parse_range(range)
                .map_err(|why| anyhow!("--knob {text}: {why}"))?,
            None => kind.usual_range(&extent),
        };
        Ok(Knob {
            cgroup,
            file: file.into(),
            kind,
            scale: Scale {
                off: kind.off_value(),
                weakest,
                strongest,
                unit: kind.step_unit(weakest.min(strongest)),
            },
            end: match range {
                Some(_) => "",
                None => kind.describe_end(&extent, strongest),
            },
        })
    }

    /// Returns whether it is what flushers may have under writeback.
    pub fn is_window(&self) -> bool {
        self.kind == KnobKind::File(File::WritebackBytes)
    }

    /// The values that are searched, and why none beyond.
    pub fn searched_range(&self) -> String {
        let last = self.scale.last_step();
        let end = match self.end {
            "" => String::new(),
            end => format!(", {end}"),
        };
        format!("{} to {}{end}", self.step_text(1), self.step_text(last))
    }

    /// Sets it in `scenario`, or takes it out of there if it is to be off.
    pub fn set(&self, scenario: &mut Scenario, step: u64) {
        if let KnobKind::Limit { .. } = self.kind {
            if step > 0 {
                let sysctl = &mut scenario.host.sysctl;
                sysctl.remove("vm.dirty_ratio");
                sysctl.insert(LIMIT.into(), self.scale.value_at(step).to_string());
            }
            return;
        }
        if let KnobKind::Memory { .. } = self.kind {
            let cgroup = self
                .cgroup
                .as_ref()
                .and_then(|path| scenario.cgroups.get_mut(path));
            if let Some(cgroup) = cgroup.filter(|_| step > 0) {
                cgroup.files.insert(self.file.clone(), self.step_text(step));
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
                _ => knobs.insert(self.file.clone(), self.step_text(step)),
            };
        }
    }

    /// The value at a step, as it is written.
    pub fn step_text(&self, step: u64) -> String {
        let value = self.scale.value_at(step);
        match self.kind {
            _ if value == UNLIMITED => "max".into(),
            KnobKind::Tier { unset, .. } if value == unset && unset > 0 => "default".into(),
            _ if self.kind.is_bytes() && value > 0 && value % (1 << 20) == 0 => {
                format!("{}M", value >> 20)
            }
            _ if self.kind.is_bytes() && value > 0 && value % 1024 == 0 => {
                format!("{}K", value >> 10)
            }
            _ => value.to_string(),
        }
    }

    /// The knob's name, for people.
    pub fn name(&self) -> String {
        match &self.cgroup {
            Some(path) => format!("{path}/{}", self.file),
            None => self.file.clone(),
        }
    }
}

impl KnobKind {
    fn is_bytes(self) -> bool {
        matches!(
            self,
            KnobKind::File(
                File::DirtyMin | File::DirtyBytes | File::DirtyBandwidth | File::WritebackBytes
            ) | KnobKind::Limit { .. }
                | KnobKind::Memory { .. }
        )
    }

    fn off_value(self) -> u64 {
        match self {
            KnobKind::File(knob) => knob.default(),
            KnobKind::Seconds { .. } => 0,
            KnobKind::Tier { unset, .. } => unset,
            KnobKind::Limit { is, .. } | KnobKind::Memory { is } => is,
        }
    }

    /// The tightest value that is not off.
    fn least_value(self) -> u64 {
        match self {
            KnobKind::File(File::DirtyMin) => File::DirtyBytes.value_range().0,
            KnobKind::File(knob) => knob.value_range().0.max(1),
            KnobKind::Seconds { .. } | KnobKind::Tier { .. } => 1,
            KnobKind::Limit { .. } => 1 << 20,
            KnobKind::Memory { .. } => MEMORY_LEAST,
        }
    }

    /// The range if none is given: values that make a difference, on a host with such a limit and
    /// such disks.
    fn usual_range(self, host: &Extent) -> (u64, u64) {
        let limit = host.limit.max(1 << 20);
        let tightest = host.rate / TIGHTEST;
        let least = self.least_value();
        let round = |bytes: u64| {
            let unit = self.step_unit(bytes);
            (bytes / unit * unit).max(least)
        };
        match self {
            KnobKind::File(File::DirtyMin) => {
                let pool = Pool {
                    wanted_total: UNLIMITED,
                    host_thresh: limit >> PAGE_SHIFT,
                };
                let most = (pool.total_floors() << PAGE_SHIFT) / host.copies;
                // On a host of any size a floor may be small.
                let weakest = (most / 256).min(tightest.max(1 << 20));
                (round(weakest), round(most))
            }
            KnobKind::File(File::DirtyBytes) => (round(limit), round(tightest.min(limit / 256))),
            KnobKind::File(File::DirtyBandwidth) => (round(host.rate), round(host.rate / 256)),
            // More than the largest disk queues hold, down to the least that there is.
            KnobKind::File(File::WritebackBytes) => (WINDOW_WIDEST, least),
            KnobKind::File(File::DirtyWeight) => (125, File::DirtyWeight.value_range().1),
            KnobKind::File(knob) => (knob.value_range().1, least),
            KnobKind::Seconds { tighten: true } => (120, 1),
            KnobKind::Seconds { .. } => (1, 120),
            // Less than its part of the first tier: who has more of it takes it from others.
            KnobKind::Tier { is, .. } => (is.saturating_sub(1).max(least), least),
            KnobKind::Limit { raise: true, .. } => (round(limit + limit / 4), round(limit * 16)),
            KnobKind::Limit { .. } => (
                round(limit - limit / 8),
                round(tightest.max(1 << 20).min(limit / 64)),
            ),
            KnobKind::Memory { is } => (round(is.min(host.memory) / 2), least),
        }
    }

    /// The strongest of the usual values, described for people.
    fn describe_end(self, host: &Extent, strongest: u64) -> &'static str {
        let ceils = matches!(
            self,
            KnobKind::File(File::DirtyBytes) | KnobKind::Limit { raise: false, .. }
        );
        match self {
            KnobKind::File(File::DirtyRatio) => "the least there is; memory.dirty_bytes goes lower",
            _ if strongest == self.least_value() => "the least there is",
            _ if ceils && strongest <= host.rate / TIGHTEST => {
                "what the disk writes in a hundredth of a second"
            }
            KnobKind::File(File::DirtyBytes) => "a 256th of the host's limit",
            KnobKind::File(File::DirtyBandwidth) => "a 256th of what the disk writes",
            KnobKind::File(File::DirtyMin) => "all that the host gives to floors",
            KnobKind::Limit { raise: false, .. } => "a 64th of the host's limit",
            _ => "",
        }
    }

    fn step_unit(self, least: u64) -> u64 {
        match self {
            _ if self.is_bytes() && least >= 1 << 20 => 1 << 20,
            _ if self.is_bytes() && least >= 1 << 16 => 1 << 16,
            _ if self.is_bytes() => 1 << PAGE_SHIFT,
            KnobKind::File(File::DirtyWeight) if least > File::DirtyWeight.default() => 25,
            _ => 1,
        }
    }

    /// A value of a range, as its file takes it.
    fn parse_value(self, text: &str) -> Result<u64, String> {
        let number = match self {
            KnobKind::File(knob) => knob.parse(text).map_err(|why| why.to_string())?,
            KnobKind::Limit { .. } | KnobKind::Memory { .. } => config::units::parse_size(text)?,
            KnobKind::Tier { .. } => {
                let percent = File::ToptierRatio.parse(text);
                percent.map_err(|why| why.to_string())?
            }
            KnobKind::Seconds { .. } => text
                .parse()
                .ok()
                .filter(|seconds| *seconds <= SECONDS_MAX)
                .ok_or_else(|| {
                    format!(
                        "{DRAIN}: invalid value `{text}`: expected whole seconds from 1 to {SECONDS_MAX}"
                    )
                })?,
        };
        if number < self.least_value() || number == UNLIMITED {
            return Err(format!(
                "`{text}` is not a value to search from {} on: off is always tried",
                self.least_value()
            ));
        }
        Ok(number)
    }

    fn parse_range(self, text: &str) -> Result<(u64, u64), String> {
        let (one, other) = text
            .split_once("..")
            .ok_or_else(|| format!("`{text}` is not a range, as in {}", self.range_example()))?;
        let (one, other) = (self.parse_value(one)?, self.parse_value(other)?);
        Ok(match self {
            KnobKind::File(File::DirtyMin) | KnobKind::Seconds { tighten: false } => {
                (one.min(other), one.max(other))
            }
            // Either way; the end that is nearer to what there is is weaker.
            KnobKind::Limit { is, .. } if one.abs_diff(is) > other.abs_diff(is) => (other, one),
            KnobKind::Tier { is, .. } if one.abs_diff(is) > other.abs_diff(is) => (other, one),
            KnobKind::Limit { .. } | KnobKind::Tier { .. } => (one, other),
            // May go either way from the default; who asks for which is weaker.
            KnobKind::File(File::DirtyWeight)
                if one.abs_diff(self.off_value()) > other.abs_diff(self.off_value()) =>
            {
                (other, one)
            }
            KnobKind::File(File::DirtyWeight) => (one, other),
            KnobKind::File(_) | KnobKind::Seconds { .. } | KnobKind::Memory { .. } => {
                (one.max(other), one.min(other))
            }
        })
    }

    fn range_example(self) -> &'static str {
        match self {
            KnobKind::File(File::DirtyMin) => "1M..16M",
            KnobKind::File(File::DirtyBytes) => "64M..1M",
            KnobKind::File(File::WritebackBytes) => "16M..64K",
            KnobKind::File(File::DirtyWeight) => "125..1000",
            KnobKind::File(File::DirtyBandwidth) => "64M..1M",
            KnobKind::File(_) => "50..1",
            KnobKind::Seconds { .. } => "1..60",
            KnobKind::Memory { .. } => "4G..256M",
            KnobKind::Tier { .. } => "70..10",
            KnobKind::Limit { .. } => "64M..512M",
        }
    }
}

/// Returns whether seconds of drain lower the host's limit.
fn drain_tightens(scenario: &Scenario) -> bool {
    let text = scenario.host.weir.get("drain_tighten");
    text.is_some_and(|text| text.parse() != Ok(0))
}

/// The first tier's part of all memory, in percent.
fn first_tier_percent(scenario: &Scenario) -> u64 {
    let sizes = scenario.tiers.iter().map(|tier| tier.size_bytes);
    let first = scenario.tiers.first().map_or(0, |tier| tier.size_bytes);
    (u128::from(first) * 100 / u128::from(sizes.sum::<u64>().max(1))) as u64
}

/// The ratio of a cgroup without one of its own.
fn host_tier_ratio(scenario: &Scenario) -> u64 {
    let text = scenario.host.weir.get(TIER_RATIO);
    let ratio = text.and_then(|text| text.parse().ok());
    let ratio = ratio.filter(|ratio| *ratio > 0);
    ratio.unwrap_or_else(|| first_tier_percent(scenario))
}

/// `memory.high` or `memory.max` of a cgroup, as the scenario has it.
fn memory_limit(scenario: &Scenario, path: &str, file: &str) -> u64 {
    let files = scenario.cgroups.get(path).map(|cgroup| &cgroup.files);
    let text = files.and_then(|files| files.get(file));
    let bytes = text.and_then(|text| policy::parse::parse_bytes(text.as_bytes()).ok());
    bytes.unwrap_or(UNLIMITED)
}

/// Bytes per second of the slowest disk that jobs at or below `cgroup` have files on; of all disks
/// if none has any, or for the whole host.
fn slowest_rate(scenario: &Scenario, cgroup: Option<&str>) -> u64 {
    let is_within = |job: &&Job| cgroup.is_none_or(|path| job.is_in_subtree(path));
    let used = |name: &str| {
        let mut jobs = scenario.jobs.iter().filter(is_within);
        jobs.any(|job| job.disk == name)
    };
    let of = |disk: &Disk| disk.write_bandwidth.or(scenario.twin.disk_bandwidth);
    let own = scenario.disks.iter().filter(|disk| used(&disk.name));
    let slowest = own.filter_map(of).min();
    let slowest = slowest.or_else(|| scenario.disks.iter().filter_map(of).min());
    slowest.unwrap_or(UNLIMITED)
}

/// The commands by which an operator has what arm `weir` of `scenario` has; `before` is as the file
/// has it.
pub fn setting_commands(scenario: &Scenario, before: &Scenario) -> Vec<String> {
    let mut lines = Vec::new();
    if sets_knobs(scenario) {
        lines.push("weir load".to_owned());
    }
    // tighten says how seconds are meant
    let host = scenario.host.weir.iter().rev();
    // A shell takes the `;` between tiers for the end of a command.
    let quoted = |value: &String| match value.contains(';') {
        true => format!("'{value}'"),
        false => value.clone(),
    };
    let echo =
        |(name, value): (&String, &String)| format!("echo {} > {PARAMETERS}/{name}", quoted(value));
    lines.extend(host.map(echo));
    for (path, cgroup) in &scenario.cgroups {
        for (file, value) in &cgroup.knobs {
            lines.push(write_command(path, cgroup, file, value));
        }
        let was = before.cgroups.get(path).map(|cgroup| &cgroup.files);
        for (file, value) in &cgroup.files {
            if was.and_then(|files| files.get(file)) != Some(value) {
                lines.push(write_command(path, cgroup, file, value));
            }
        }
    }
    lines
}

/// Returns whether the scenario needs the module.
pub fn sets_knobs(scenario: &Scenario) -> bool {
    let mut phases = scenario.phases.iter();
    !scenario.host.weir.is_empty()
        || scenario
            .cgroups
            .values()
            .any(|cgroup| !cgroup.knobs.is_empty())
        || phases.any(|phase| !phase.set.is_empty())
}

fn write_command(path: &str, cgroup: &Cgroup, file: &str, value: &str) -> String {
    match cgroup.copies {
        None => format!("echo {value} > {CGROUPS}/{path}/{file}"),
        Some(_) => {
            format!("for each in {CGROUPS}/{path}/*/; do echo {value} > \"$each\"{file}; done")
        }
    }
}
