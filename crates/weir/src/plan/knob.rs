// SPDX-License-Identifier: GPL-2.0-only
//! A knob that `weir plan` searches: where it is written, which values it may take, and the commands that set it.

use super::search::Scale;
use anyhow::{Result, anyhow, bail};
use scenario::model::{Cgroup, Scenario};

const DRAIN: &str = "drain_seconds";
const CGROUPS: &str = "/sys/fs/cgroup";
const PARAMETERS: &str = "/sys/module/weir/parameters";

/// What a knob holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Floor,
    Ceiling,
    Percent,
    Weight,
    Seconds,
}

/// One of weir's files, and what may be written into it.
#[derive(Clone, Debug)]
pub struct Knob {
    /// `None` for the host's.
    cgroup: Option<String>,
    file: String,
    kind: Kind,
    /// Its values.
    pub scale: Scale,
}

impl Knob {
    /// Of `victim/memory.dirty_min`, `batch/memory.dirty_bytes=64M..1M` or `drain_seconds`; `limit` is the host's, in bytes.
    pub fn parse(text: &str, scenario: &Scenario, limit: u64) -> Result<Knob> {
        let (name, range) = match text.split_once('=') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        let (cgroup, file) = match name.rsplit_once('/') {
            Some((cgroup, file)) => (Some(cgroup.to_owned()), file),
            None => (None, name),
        };
        let kind = match (file, &cgroup) {
            ("memory.dirty_min", Some(_)) => Kind::Floor,
            ("memory.dirty_bytes", Some(_)) => Kind::Ceiling,
            ("memory.dirty_ratio", Some(_)) => Kind::Percent,
            ("memory.dirty_weight", Some(_)) => Kind::Weight,
            (DRAIN, None) => Kind::Seconds,
            _ => bail!(
                "--knob {text}: write CGROUP/FILE, as in victim/memory.dirty_min (or memory.dirty_bytes, _ratio, _weight), or {DRAIN}"
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

    /// The knobs that a scenario itself sets, as `parse` takes them.
    pub fn of(scenario: &Scenario) -> Vec<String> {
        let cgroups = scenario.cgroups.iter().flat_map(|(path, cgroup)| {
            let files = cgroup.knobs.keys();
            files.map(move |file| format!("{path}/{file}"))
        });
        let host = scenario.host.weir.keys().filter(|name| *name == DRAIN);
        cgroups.chain(host.cloned()).collect()
    }

    /// Sets it in `scenario`, or takes it out of there if it is to be off.
    pub fn set(&self, scenario: &mut Scenario, step: u64) {
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
            Kind::Ceiling if step == 0 => "max".into(),
            Kind::Floor | Kind::Ceiling if value > 0 && value % (1 << 20) == 0 => {
                format!("{}M", value >> 20)
            }
            Kind::Floor | Kind::Ceiling if value > 0 && value % 1024 == 0 => {
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
    fn off(self) -> u64 {
        match self {
            Kind::Ceiling => u64::MAX,
            Kind::Weight => 100,
            Kind::Floor | Kind::Percent | Kind::Seconds => 0,
        }
    }

    /// Where nothing is said: what makes a difference, on a host with such a limit.
    fn usual(self, limit: u64, copies: Option<u32>) -> (u64, u64) {
        let limit = limit.max(1 << 20);
        // Floors are cut to four fifths of the limit together.
        let most = (limit / 5 * 4 / u64::from(copies.unwrap_or(1))).max(8192);
        let round = |bytes: u64| {
            let unit = self.unit(bytes);
            (bytes / unit * unit).max(8192)
        };
        match self {
            Kind::Floor => (round(most / 256), round(most)),
            Kind::Ceiling => (round(limit), round(limit / 256)),
            Kind::Percent => (100, 1),
            Kind::Weight => (125, 10_000),
            Kind::Seconds => (1, 120),
        }
    }

    fn unit(self, least: u64) -> u64 {
        match self {
            Kind::Floor | Kind::Ceiling if least >= 1 << 20 => 1 << 20,
            Kind::Floor | Kind::Ceiling if least >= 1 << 16 => 1 << 16,
            Kind::Floor | Kind::Ceiling => 4096,
            Kind::Weight if least > 100 => 25,
            Kind::Percent | Kind::Weight | Kind::Seconds => 1,
        }
    }

    fn range(self, text: &str) -> Result<(u64, u64), String> {
        let (one, other) = text
            .split_once("..")
            .ok_or_else(|| format!("`{text}` is not a range, as in {}", self.example()))?;
        let value = |text: &str| match self {
            Kind::Floor | Kind::Ceiling => config::units::size(text),
            _ => text
                .parse()
                .map_err(|_| format!("`{text}` is not a whole number")),
        };
        let (one, other) = (value(one)?, value(other)?);
        let (least, most) = match self {
            Kind::Floor | Kind::Ceiling => (8192, 1 << 50),
            Kind::Percent => (1, 100),
            Kind::Weight => (1, 10_000),
            Kind::Seconds => (1, 3600),
        };
        if one.min(other) < least || one.max(other) > most {
            return Err(format!(
                "`{text}` is not between {least} and {most}; off is always tried"
            ));
        }
        Ok(match self {
            Kind::Floor | Kind::Seconds => (one.min(other), one.max(other)),
            Kind::Ceiling | Kind::Percent => (one.max(other), one.min(other)),
            // May go either way from the default; who asks for which is weaker.
            Kind::Weight if one.abs_diff(100) > other.abs_diff(100) => (other, one),
            Kind::Weight => (one, other),
        })
    }

    fn example(self) -> &'static str {
        match self {
            Kind::Floor => "1M..16M",
            Kind::Ceiling => "64M..1M",
            Kind::Percent => "50..1",
            Kind::Weight => "125..1000",
            Kind::Seconds => "1..60",
        }
    }
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
