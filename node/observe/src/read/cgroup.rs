// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups, from their files.

use super::dirty_stat;
use super::values::{flat_value, parse_number, pressure_total};
use crate::model::bounds::{self, MOST_BYTES};
use crate::model::cgroup::{Cgroup, Io, IoMax, ROOT};
use crate::model::stack::Stack;
use anyhow::{Result, bail};
use knobs::{Knob, PageSize};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory of the cgroups of the machine whose root directory this is.
///
/// # Errors
/// It has no cgroup v2 there.
pub fn mounted_directory(root: &Path) -> Result<PathBuf> {
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

/// Returns whether the topmost cgroup that is mounted on the machine with this root directory is not
/// the machine's own, which has no type, but that of a cgroup namespace.
pub fn is_namespaced(root: &Path) -> bool {
    let top = root.join(ROOT.trim_start_matches('/'));
    top.join("cgroup.type").exists()
}

/// Files that are read of each cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Dirty pages and the like. Reading them makes the kernel add up its counters, which changes
    /// how well it throttles.
    pub memory: bool,
    /// Pressure, and targets in `io.latency`.
    pub pressure: bool,
    /// Limits on memory and I/O.
    pub limits: bool,
    /// Memory that it holds in all.
    pub usage: bool,
    /// weir's knobs, if its module is loaded.
    pub knobs: bool,
}

impl Want {
    /// Wants all that can be read.
    pub const ALL: Want = Want {
        memory: true,
        pressure: true,
        limits: true,
        usage: true,
        knobs: true,
    };
}

/// Reads all cgroups of the machine whose root directory this is.
pub fn read_all(root: &Path, want: Want) -> Vec<Cgroup> {
    let mut found = Vec::new();
    let top = root.join(ROOT.trim_start_matches('/'));
    read_below(&top, &top, want, &mut found);
    dirty_stat::read(&top, &mut found);
    found
}

/// The cgroups at these paths, and what is wanted of each; those that are gone are left out.
pub fn read_some<'a>(root: &Path, paths: impl Iterator<Item = (&'a str, Want)>) -> Vec<Cgroup> {
    let top = root.join(ROOT.trim_start_matches('/'));
    let read = |(path, want): (&str, Want)| {
        let directory = top.join(path);
        let metadata = fs::metadata(&directory).ok()?;
        Some(read_at(path, &directory, &metadata, want))
    };
    let mut found = paths.filter_map(read).collect::<Vec<_>>();
    dirty_stat::read(&top, &mut found);
    found
}

fn read_below(top: &Path, directory: &Path, want: Want, found: &mut Vec<Cgroup>) {
    // One that is gone meanwhile is left out.
    let Ok(metadata) = fs::metadata(directory) else {
        return;
    };
    let path = directory.strip_prefix(top).unwrap_or(directory);
    found.push(read_at(&path.to_string_lossy(), directory, &metadata, want));
    // Listing its files takes longer than the rest.
    if is_leaf(&metadata) {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            read_below(top, &entry.path(), want, found);
        }
    }
}

/// The path of the cgroup with this inode.
pub fn path_of(root: &Path, inode: u64) -> Option<String> {
    let top = root.join(ROOT.trim_start_matches('/'));
    let mut left = vec![top.clone()];
    while let Some(directory) = left.pop() {
        let metadata = fs::metadata(&directory).ok();
        if metadata.is_some_and(|metadata| metadata.ino() == inode) {
            let path = directory.strip_prefix(&top).ok()?;
            return Some(path.to_string_lossy().into_owned());
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    None
}

/// A directory without directories: two links are its own.
fn is_leaf(metadata: &Metadata) -> bool {
    metadata.nlink() == 2
}

fn read_at(path: &str, directory: &Path, metadata: &Metadata, want: Want) -> Cgroup {
    let mut cgroup = read_cgroup(directory, want);
    cgroup.path = path.into();
    cgroup.inode = metadata.ino();
    if want.memory && !is_leaf(metadata) {
        let stat = fs::read_to_string(directory.join("cgroup.stat")).unwrap_or_default();
        cgroup.dying = flat_value(&stat, "nr_dying_descendants");
    }
    cgroup
}

/// Reads the files in a cgroup's directory; of one that is gone, nothing. Neither its path nor its
/// inode.
pub fn read_cgroup(directory: &Path, want: Want) -> Cgroup {
    parse_files(&|file| fs::read_to_string(directory.join(file)).ok(), want)
}

fn parse_files(file: &dyn Fn(&str) -> Option<String>, want: Want) -> Cgroup {
    let read = |name: &str| file(name).unwrap_or_default();
    let pressure = |name: &str| {
        if want.pressure {
            pressure_total(&read(name), "some")
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
    let knob = |knob: Knob| {
        if want.knobs {
            read(knob.file_name())
        } else {
            String::new()
        }
    };
    let mut cgroup = Cgroup {
        current: want
            .usage
            .then(|| parse_number(&read("memory.current")))
            .flatten()
            .unwrap_or(0),
        max: parse_number(&limit("memory.max")).and_then(bounds::plausible_limit),
        high: parse_number(&limit("memory.high")).and_then(bounds::plausible_limit),
        min: parse_number(&limit("memory.min"))
            .unwrap_or(0)
            .min(MOST_BYTES),
        kills: flat_value(&limit("memory.events"), "oom_kill"),
        io_pressure: pressure("io.pressure"),
        memory_pressure: pressure("memory.pressure"),
        cpu_pressure: pressure("cpu.pressure"),
        dirty_min: parse_floor(&knob(Knob::DirtyMin)),
        weight: parse_number(&knob(Knob::DirtyWeight))
            .filter(|weight| *weight != Knob::DirtyWeight.default()),
        bandwidth: parse_number(&knob(Knob::DirtyBandwidth)).and_then(bounds::plausible_limit),
        window: parse_number(&knob(Knob::WritebackBytes)).and_then(bounds::plausible_limit),
        ..Cgroup::default()
    };
    for ceiling in [Knob::DirtyBytes, Knob::DirtyRatio] {
        let (knob, value) = (ceiling, knob(ceiling).trim().to_string());
        if !value.is_empty() && !knob.is_default(&value) {
            cgroup
                .ceilings
                .push(format!("{} = {value}", knob.file_name()));
        }
    }
    if let Some(stat) = want.memory.then(|| file("memory.stat")).flatten() {
        let key = |name: &str| flat_value(&stat, name);
        cgroup.has_memory = true;
        cgroup.dirty = key("file_dirty");
        cgroup.writeback = key("file_writeback");
        cgroup.file = key("active_file") + key("inactive_file");
        let page = PageSize::running().bytes();
        let bytes = |name: &str| key(name).saturating_mul(page).min(MOST_BYTES);
        cgroup.reclaimed = bytes("pgsteal");
        cgroup.refaulted = bytes("workingset_refault_anon") + bytes("workingset_refault_file");
    }
    for (device, values) in parse_nested(&limit("io.max")) {
        let value = |key: &str| {
            let value = values.get(key).and_then(|value| value.parse().ok());
            value.and_then(bounds::plausible_limit)
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
        cgroup.io_latency = parse_nested(&read("io.latency")).into_keys().collect();
    }
    let io = file("io.stat");
    cgroup.has_io = io.is_some();
    cgroup.io = io_stat(&io.unwrap_or_default());
    cgroup
}

fn io_stat(text: &str) -> BTreeMap<String, Io> {
    let of = |values: BTreeMap<String, String>| {
        let value = |key| {
            values
                .get(key)
                .and_then(|value| parse_number(value))
                .unwrap_or(0)
        };
        Io {
            written: value("wbytes"),
            read: value("rbytes"),
            writes: value("wios"),
        }
    };
    let devices = parse_nested(text).into_iter();
    devices
        .map(|(device, values)| (device, of(values)))
        .collect()
}

/// Bytes that the text of an `io.stat` has as written.
pub fn written_bytes(io_stat_text: &str, stack: &Stack) -> u64 {
    let devices = io_stat(io_stat_text);
    stack.sum_without_handed_on(devices.iter().map(|(device, io)| (&**device, io.written)))
}

/// Numbers of the devices that the text of an `io.stat` has reads or writes of.
pub fn devices_used(io_stat_text: &str) -> Vec<String> {
    let devices = io_stat(io_stat_text).into_iter();
    let used = devices.filter(|(_, io)| io.written > 0 || io.read > 0);
    used.map(|(device, _)| device).collect()
}

/// A floor that is set; 0 where the file says `auto` and what that comes to.
fn parse_floor(text: &str) -> Option<u64> {
    if text.starts_with("auto") {
        return Some(0);
    }
    parse_number(text).map(|floor| floor.min(MOST_BYTES))
}

/// `254:0 rbps=max wbps=1048576`, by device.
fn parse_nested(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
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
                "anon 5\nfile 9\nfile_dirty 4096\nfile_writeback 8192\nactive_file 1\ninactive_file 2\npgsteal 3\nworkingset_refault_anon 2\n"
            }
            "io.max" => "254:0 rbps=max wbps=1048576 riops=max wiops=max\n",
            "io.stat" => "254:0 rbytes=10 wbytes=100 rios=1 wios=2 dbytes=0 dios=0\n",
            "io.pressure" => {
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=777\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
            }
            "memory.dirty_ratio" => "5\n",
            "memory.events" => "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n",
            _ => "",
        };
        Some(text.into())
    }

    #[test]
    fn an_automatic_floor_is_none_that_was_set() {
        let floors = ["auto 5242880\n", "5242880\n", ""].map(parse_floor);
        assert_eq!(floors, [Some(0), Some(5 << 20), None]);
    }

    #[test]
    fn files_are_understood() {
        let cgroup = parse_files(&laid_out, Want::ALL);
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
        assert_eq!((cgroup.dirty_min, cgroup.kills), (None, 3));
    }

    #[test]
    fn totals_become_what_happened_meanwhile() {
        let mut now = [parse_files(&laid_out, Want::ALL)];
        let mut before = now.clone();
        before[0].io_pressure = 700;
        let page = PageSize::running().bytes();
        (before[0].reclaimed, now[0].current) = (page, page);
        before[0].io.get_mut("254:0").expect("there").written = 40;
        crate::model::cgroup::subtract_totals(&mut now, &before);
        assert_eq!((now[0].io_pressure, now[0].io["254:0"].written), (77, 60));
        assert_eq!(
            now[0].allocated,
            Some(3 * page),
            "a page more, two reclaimed"
        );
        assert_eq!(now[0].refaulted, 0, "all of it before");
    }
}
