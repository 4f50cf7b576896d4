// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups hold, may hold and did, from their files.

use crate::dirty_stat::{self, DirtyStat};
use crate::host::total;
use crate::plausible::{self, MOST_BYTES};
use anyhow::{Result, bail};
use knobs::Knob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where cgroup v2 is mounted.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup; bytes, microseconds. What a file that is not there would say is absent or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Below the root's directory; empty for the root.
    pub path: String,
    /// Of its directory; events name cgroups by it.
    pub inode: u64,
    /// Dirty pages, of descendants too.
    pub dirty: u64,
    /// In writeback, of descendants too.
    pub writeback: u64,
    /// Page cache that can be reclaimed, of descendants too.
    pub file: u64,
    /// `memory.current`, in bytes.
    pub current: u64,
    /// `memory.max`, if it is one.
    pub max: Option<u64>,
    /// `memory.high`, if it is one.
    pub high: Option<u64>,
    /// `memory.min`, in bytes.
    pub min: u64,
    /// Device to the limits on writing, `io.max`.
    pub io_max: BTreeMap<String, IoMax>,
    /// Devices with a target in `io.latency`.
    pub io_latency: Vec<String>,
    /// Device to what was written and read.
    pub io: BTreeMap<String, Io>,
    /// `io.pressure`, the line some.
    pub io_pressure: u64,
    /// `memory.pressure`, the line some.
    pub memory_pressure: u64,
    /// `cpu.pressure`, the line some.
    pub cpu_pressure: u64,
    /// weir's knobs, if its module is loaded: as written, 0 or none where not set.
    pub dirty_min: Option<u64>,
    /// `memory.dirty_bytes`, `memory.dirty_ratio` as they are written, if set.
    pub ceilings: Vec<String>,
    /// `memory.dirty_weight`, if it is not the default.
    #[serde(default)]
    pub weight: Option<u64>,
    /// `memory.dirty_stat`, if a knob is set that the module counts this cgroup for.
    #[serde(default)]
    pub stat: Option<DirtyStat>,
    /// By how many bytes dirty + writeback grew; only a look that goes on knows.
    #[serde(default)]
    pub grown: Option<i64>,
    /// It has a memory controller, so what it holds and may hold is known.
    #[serde(default)]
    pub has_memory: bool,
    /// It has an I/O controller, so what it reads and writes is known.
    #[serde(default)]
    pub has_io: bool,
}

impl Cgroup {
    /// To all devices, in bytes.
    pub(crate) fn written(&self) -> u64 {
        self.io
            .values()
            .fold(0, |sum: u64, io| sum.saturating_add(io.written))
    }
}

/// Limits on what is written to one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoMax {
    /// Bytes a second.
    pub wbps: Option<u64>,
    /// Operations a second.
    pub wiops: Option<u64>,
    /// Bytes a second, reading.
    pub rbps: Option<u64>,
}

/// What went to and came from one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes read from the device.
    pub read: u64,
    /// Write requests to the device.
    pub writes: u64,
}

/// The directory of the cgroups of the machine whose root directory this is.
///
/// # Errors
/// It has no cgroup v2 there.
pub fn mounted(root: &Path) -> Result<PathBuf> {
    let directory = root.join(ROOT.trim_start_matches('/'));
    match fs::metadata(directory.join("cgroup.controllers")) {
        Ok(_) => Ok(directory),
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            bail!("cgroups cannot be read: no permission for {ROOT}")
        }
        Err(_) => bail!(
            "no cgroup2 is mounted at {ROOT}: boot with systemd.unified_cgroup_hierarchy=1, or mount it there"
        ),
    }
}

/// What is read of each cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// What it holds. Reading that makes the kernel add up its counters, which changes how well it
    /// throttles.
    pub memory: bool,
    /// Its pressure, and its targets in `io.latency`.
    pub pressure: bool,
    /// What it may hold, holds of it in all, and may do at most.
    pub limits: bool,
}

impl Want {
    /// All there is.
    pub const ALL: Want = Want {
        memory: true,
        pressure: true,
        limits: true,
    };
    /// What only ever grows.
    pub const TOTALS: Want = Want {
        memory: false,
        ..Want::ALL
    };
}

/// All cgroups of the machine whose root directory this is.
pub fn all(root: &Path, want: Want) -> Vec<Cgroup> {
    let mut found = Vec::new();
    let top = root.join(ROOT.trim_start_matches('/'));
    walk(&top, &top, want, &mut found);
    dirty_stat::read(&top, &mut found);
    found
}

fn walk(top: &Path, directory: &Path, want: Want, found: &mut Vec<Cgroup>) {
    // One that is gone meanwhile is left out.
    let Ok(metadata) = fs::metadata(directory) else {
        return;
    };
    let mut cgroup = at(directory, want);
    let path = directory.strip_prefix(top).unwrap_or(directory);
    cgroup.path = path.to_string_lossy().into_owned();
    cgroup.inode = metadata.ino();
    found.push(cgroup);
    // Two links are its own: it has no directories, and listing its files takes longer than the
    // rest.
    if metadata.nlink() == 2 {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(top, &entry.path(), want, found);
        }
    }
}

/// What the files in a cgroup's directory say; of one that is gone, nothing. Neither its path nor
/// its inode.
pub fn at(directory: &Path, want: Want) -> Cgroup {
    read_one(&|file| fs::read_to_string(directory.join(file)).ok(), want)
}

fn read_one(file: &dyn Fn(&str) -> Option<String>, want: Want) -> Cgroup {
    let read = |name: &str| file(name).unwrap_or_default();
    let pressure = |name: &str| {
        if want.pressure {
            total(&read(name), "some")
        } else {
            0
        }
    };
    let limit = |name: &str| {
        if want.limits {
            read(name)
        } else {
            String::new()
        }
    };
    let mut cgroup = Cgroup {
        current: number(&limit("memory.current")).unwrap_or(0),
        max: number(&limit("memory.max")).and_then(plausible::limit),
        high: number(&limit("memory.high")).and_then(plausible::limit),
        min: number(&limit("memory.min")).unwrap_or(0).min(MOST_BYTES),
        io_pressure: pressure("io.pressure"),
        memory_pressure: pressure("memory.pressure"),
        cpu_pressure: pressure("cpu.pressure"),
        dirty_min: number(&read(Knob::DirtyMin.file())).map(|floor| floor.min(MOST_BYTES)),
        weight: number(&read(Knob::DirtyWeight.file()))
            .filter(|weight| *weight != Knob::DirtyWeight.default()),
        ..Cgroup::default()
    };
    for knob in [Knob::DirtyBytes, Knob::DirtyRatio] {
        let value = read(knob.file()).trim().to_string();
        if !value.is_empty() && !knob.is_default(&value) {
            cgroup.ceilings.push(format!("{} = {value}", knob.file()));
        }
    }
    if let Some(stat) = want.memory.then(|| file("memory.stat")).flatten() {
        let key = |name: &str| flat(&stat, name);
        cgroup.has_memory = true;
        cgroup.dirty = key("file_dirty");
        cgroup.writeback = key("file_writeback");
        cgroup.file = key("active_file") + key("inactive_file");
    }
    for (device, values) in nested(&limit("io.max")) {
        let value = |key: &str| {
            let value = values.get(key).and_then(|value| value.parse().ok());
            value.and_then(plausible::limit)
        };
        cgroup.io_max.insert(
            device,
            IoMax {
                wbps: value("wbps"),
                wiops: value("wiops"),
                rbps: value("rbps"),
            },
        );
    }
    if want.pressure && want.limits {
        cgroup.io_latency = nested(&read("io.latency")).into_keys().collect();
    }
    let io = file("io.stat");
    cgroup.has_io = io.is_some();
    for (device, values) in nested(&io.unwrap_or_default()) {
        let sum = |key: &str| {
            values
                .get(key)
                .and_then(|value| value.parse().ok())
                .unwrap_or(0)
        };
        cgroup.io.insert(
            device,
            Io {
                written: sum("wbytes"),
                read: sum("rbytes"),
                writes: sum("wios"),
            },
        );
    }
    cgroup
}

/// Takes from each cgroup's running totals what they were at the beginning.
pub fn subtract(now: &mut [Cgroup], before: &[Cgroup]) {
    let before: BTreeMap<u64, &Cgroup> =
        before.iter().map(|cgroup| (cgroup.inode, cgroup)).collect();
    for cgroup in now {
        let Some(before) = before.get(&cgroup.inode) else {
            continue;
        };
        cgroup.io_pressure = cgroup.io_pressure.saturating_sub(before.io_pressure);
        cgroup.memory_pressure = cgroup
            .memory_pressure
            .saturating_sub(before.memory_pressure);
        cgroup.cpu_pressure = cgroup.cpu_pressure.saturating_sub(before.cpu_pressure);
        if let (Some(stat), Some(before)) = (&mut cgroup.stat, &before.stat) {
            stat.subtract(before);
        }
        for (device, io) in &mut cgroup.io {
            let old = before.io.get(device).copied().unwrap_or_default();
            io.written = io.written.saturating_sub(old.written);
            io.read = io.read.saturating_sub(old.read);
            io.writes = io.writes.saturating_sub(old.writes);
        }
    }
}

/// Notes by how much what cgroups hold has grown since.
pub(crate) fn note_growth(now: &mut [Cgroup], before: &[Cgroup]) {
    let held = |cgroup: &Cgroup| i64::try_from(cgroup.dirty + cgroup.writeback).unwrap_or(i64::MAX);
    let before: BTreeMap<u64, i64> = before
        .iter()
        .map(|cgroup| (cgroup.inode, held(cgroup)))
        .collect();
    for cgroup in now.iter_mut().filter(|cgroup| cgroup.has_memory) {
        // One that is new held nothing.
        cgroup.grown = Some(held(cgroup) - before.get(&cgroup.inode).copied().unwrap_or(0));
    }
}

/// A number; nothing for `max` and for what is not there.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

pub(crate) fn flat(text: &str, key: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(number).unwrap_or(0)
}

/// `254:0 rbps=max wbps=1048576`, by device.
fn nested(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(device, values)| {
            let values = values
                .split_whitespace()
                .filter_map(|value| value.split_once('='));
            (
                device.to_string(),
                values
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(file: &str) -> Option<String> {
        let text = match file {
            "memory.max" | "memory.dirty_bytes" => "max\n",
            "memory.high" => "67108864\n",
            "memory.stat" => {
                "anon 5\nfile 9\nfile_dirty 4096\nfile_writeback 8192\nactive_file 1\ninactive_file 2\n"
            }
            "io.max" => "254:0 rbps=max wbps=1048576 riops=max wiops=max\n",
            "io.stat" => "254:0 rbytes=10 wbytes=100 rios=1 wios=2 dbytes=0 dios=0\n",
            "io.pressure" => {
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=777\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
            }
            "memory.dirty_ratio" => "5\n",
            _ => "",
        };
        Some(text.into())
    }

    #[test]
    fn files_are_understood() {
        let cgroup = read_one(&laid_out, Want::ALL);
        assert_eq!(
            (cgroup.dirty, cgroup.writeback, cgroup.file),
            (4096, 8192, 3)
        );
        assert_eq!(
            (cgroup.max, cgroup.high, cgroup.io_pressure),
            (None, Some(64 << 20), 777)
        );
        assert_eq!(cgroup.io_max["254:0"].wbps, Some(1 << 20));
        assert_eq!(cgroup.io["254:0"].written, 100);
        assert_eq!(cgroup.ceilings, ["memory.dirty_ratio = 5"]);
        assert_eq!(cgroup.dirty_min, None);
    }

    #[test]
    fn totals_become_what_happened_meanwhile() {
        let mut now = [read_one(&laid_out, Want::TOTALS)];
        let mut before = now.clone();
        before[0].io_pressure = 700;
        before[0].io.get_mut("254:0").expect("there").written = 40;
        subtract(&mut now, &before);
        assert_eq!((now[0].io_pressure, now[0].io["254:0"].written), (77, 60));
        assert_eq!(now[0].dirty, 0, "not asked for");
    }
}
