// SPDX-License-Identifier: GPL-2.0-only
//! The host's limits and dirty pages, and its devices, from /proc and /sys.

use crate::observation::Pressure;
use crate::trace::event::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Bytes of a page, on x86-64, which is what weir runs on.
pub const PAGE: u64 = 4096;

/// Settings and memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `vm.dirty_bytes`; 0 if the ratio is in use.
    pub dirty_bytes: u64,
    /// `vm.dirty_ratio`
    pub dirty_ratio: u64,
    /// `vm.dirty_background_bytes`
    pub background_bytes: u64,
    /// `vm.dirty_background_ratio`
    pub background_ratio: u64,
    /// Pages that could be dirty: free and page cache, less what the kernel keeps for itself.
    pub dirtyable: u64,
    /// Bytes.
    pub memory: u64,
}

/// A device as writeback sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `254:0`; what events call it.
    pub bdi: String,
    /// In percent of the limit.
    pub min_ratio: u64,
    /// In percent of the limit.
    pub max_ratio: u64,
    /// Whether it is kept to its share even when the host is far below its limit; nothing where the
    /// kernel does not tell.
    pub strict: Option<bool>,
    /// Filesystem on it, if it is mounted.
    pub filesystem: Option<String>,
    /// Where.
    pub mounted_at: Option<String>,
    /// Milliseconds in which it had work.
    pub busy_ms: u64,
    /// Bytes.
    pub written: u64,
    /// Bytes.
    pub read: u64,
    /// The disk's name, if it is one.
    #[serde(default)]
    pub disk: Option<String>,
    /// What debugfs says, where it says it of all cgroups.
    #[serde(default)]
    pub writeback: Option<Writeback>,
}

/// A device's pages, in bytes, from `bdi/254:0/stats` in debugfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writeback {
    /// Dirty.
    pub dirty: u64,
    /// Being written.
    pub writeback: u64,
    /// Its share of the host's limit.
    pub limit: u64,
    /// Made dirty, a running total.
    pub dirtied: u64,
}

impl Writeback {
    fn read(directory: &Path) -> Option<Writeback> {
        // Until 6.9 the figures were of the root cgroup alone; those that add up all have this beside them.
        if !directory.join("wb_stats").exists() {
            return None;
        }
        Writeback::parse(&fs::read_to_string(directory.join("stats")).ok()?)
    }

    fn parse(stats: &str) -> Option<Writeback> {
        let kib = |key: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(key))?;
            value
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        };
        Some(Writeback {
            dirty: kib("BdiReclaimable:")?,
            writeback: kib("BdiWriteback:")?,
            limit: kib("BdiDirtyThresh:")?,
            dirtied: kib("BdiDirtied:")?,
        })
    }
}

/// `/proc/vmstat`: limits as the kernel computes them now.
pub fn limits(root: &Path) -> Limits {
    limits_in(&text(&root.join("proc/vmstat")))
}

fn limits_in(vmstat: &str) -> Limits {
    let mut limits = Limits::default();
    for (key, value) in vmstat.lines().filter_map(|line| line.split_once(' ')) {
        let slot = match key {
            "nr_dirty" => &mut limits.dirty,
            "nr_writeback" => &mut limits.writeback,
            "nr_dirty_threshold" => &mut limits.thresh,
            "nr_dirty_background_threshold" => &mut limits.background,
            _ => continue,
        };
        *slot = value.parse().unwrap_or(0);
    }
    limits
}

/// `/proc/pressure`: what tasks lost so far, nothing where the kernel does not count it.
pub fn pressure(root: &Path) -> Pressure {
    let read = |file: &str| text(&root.join("proc/pressure").join(file));
    let (io, memory) = (read("io"), read("memory"));
    Pressure {
        io_some: total(&io, "some"),
        io_full: total(&io, "full"),
        memory_some: total(&memory, "some"),
        memory_full: total(&memory, "full"),
    }
}

/// The running total of a line of a pressure file, in microseconds.
pub(crate) fn total(text: &str, line: &str) -> u64 {
    text.lines()
        .find(|text| text.starts_with(line))
        .and_then(|text| text.rsplit_once("total=")?.1.trim().parse().ok())
        .unwrap_or(0)
}

impl Host {
    /// As the machine with this root directory is now.
    pub fn read(root: &Path) -> Host {
        let setting = |name: &str| number(&root.join("proc/sys/vm").join(name));
        let memory = text(&root.join("proc/meminfo"));
        let memory = memory.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        });
        Host {
            dirty_bytes: setting("dirty_bytes"),
            dirty_ratio: setting("dirty_ratio"),
            background_bytes: setting("dirty_background_bytes"),
            background_ratio: setting("dirty_background_ratio"),
            dirtyable: dirtyable(&text(&root.join("proc/zoneinfo"))),
            memory: memory.unwrap_or(0) << 10,
        }
    }
}

/// Free pages and page cache, less what the kernel holds in reserve in each zone: its high watermark
/// and the most it protects from other zones' users.
fn dirtyable(zoneinfo: &str) -> u64 {
    let (mut free, mut cache, mut reserve) = (0u64, 0u64, 0u64);
    let (mut high, mut managed, mut protected) = (0, 0, 0);
    let mut zone_over = |high: &mut u64, managed: &mut u64, protected: &mut u64| {
        reserve += (*high + *protected).min(*managed);
        (*high, *managed, *protected) = (0, 0, 0);
    };
    for line in zoneinfo.lines() {
        let mut words = line.split_whitespace();
        let value = |words: &mut std::str::SplitWhitespace| {
            words
                .next()
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
        };
        match words.next() {
            Some("Node") => zone_over(&mut high, &mut managed, &mut protected),
            Some("pages") if words.next() == Some("free") => free += value(&mut words),
            Some("high") => high = value(&mut words),
            Some("managed") => managed = value(&mut words),
            Some("protection:") => {
                let numbers = line
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|word| word.parse().ok());
                protected = numbers.max().unwrap_or(0);
            }
            // Counted for a node, printed with its first zone.
            Some("nr_inactive_file" | "nr_active_file") => cache += value(&mut words),
            _ => {}
        }
    }
    zone_over(&mut high, &mut managed, &mut protected);
    free.saturating_sub(reserve) + cache
}

/// All devices; `busy_ms`, `written` and `read`, and `dirtied` of what writeback knows, are running totals.
pub fn devices(root: &Path) -> Vec<Device> {
    let mounts = text(&root.join("proc/self/mountinfo"));
    let disks = text(&root.join("proc/diskstats"));
    let entries = fs::read_dir(root.join("sys/class/bdi"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            let bdi = entry.file_name().to_str()?.to_string();
            let mut device = Device {
                strict: strict(&entry.path()),
                writeback: Writeback::read(&root.join("sys/kernel/debug/bdi").join(&bdi)),
                ..device(&bdi, &mounts, &disks)
            };
            device.min_ratio = number(&entry.path().join("min_ratio"));
            device.max_ratio = number(&entry.path().join("max_ratio"));
            // Before 6.2 nothing told; only FUSE asks for it there.
            if device.strict.is_none() {
                device.strict = device
                    .filesystem
                    .as_ref()
                    .map(|kind| kind.starts_with("fuse"));
            }
            Some(device)
        })
        .collect()
}

fn strict(bdi: &Path) -> Option<bool> {
    let text = fs::read_to_string(bdi.join("strict_limit")).ok()?;
    Some(text.trim() == "1")
}

fn device(bdi: &str, mounts: &str, disks: &str) -> Device {
    let mut device = Device {
        bdi: bdi.into(),
        ..Device::default()
    };
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut words = before.split_whitespace().skip(2);
        if words.next() == Some(bdi) {
            device.mounted_at = words.nth(1).map(str::to_string);
            device.filesystem = after.split_whitespace().next().map(str::to_string);
            break;
        }
    }
    for line in disks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |at: usize| {
            words
                .get(at)
                .and_then(|word| word.parse::<u64>().ok())
                .unwrap_or(0)
        };
        if words.len() > 12 && format!("{}:{}", words[0], words[1]) == bdi {
            device.read = value(5) * 512;
            device.written = value(9) * 512;
            device.busy_ms = value(12);
            device.disk = Some(words[2].to_string());
        }
    }
    device
}

/// Takes from each device's running totals what they were at the beginning.
pub fn subtract(now: &mut [Device], before: &[Device]) {
    let before: BTreeMap<&str, &Device> = before
        .iter()
        .map(|device| (device.bdi.as_str(), device))
        .collect();
    for device in now {
        if let Some(before) = before.get(device.bdi.as_str()) {
            device.busy_ms = device.busy_ms.saturating_sub(before.busy_ms);
            device.written = device.written.saturating_sub(before.written);
            device.read = device.read.saturating_sub(before.read);
            if let (Some(now), Some(before)) = (&mut device.writeback, before.writeback) {
                now.dirtied = now.dirtied.saturating_sub(before.dirtied);
            }
        }
    }
}

/// A file's, empty if it cannot be had.
fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn number(file: &Path) -> u64 {
    text(file).trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirtyable_memory_is_free_and_cache_less_reserves() {
        let zones = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_file 100\n      nr_active_file 50\n  \
            pages free     1000\n        boost    0\n        min      5\n        low      7\n        high     9\n        managed  3000\n        \
            protection: (0, 400, 400)\nNode 0, zone    DMA32\n  pages free     5000\n        high     91\n        managed  9000\n        \
            protection: (0, 0, 0)\n      nr_free_pages 5000\n";
        assert_eq!(dirtyable(zones), 6000 - 409 - 91 + 150);
    }

    #[test]
    fn a_device_is_found_in_mounts_and_disks() {
        let mounts = "22 1 0:21 / /proc rw - proc proc rw\n32 1 254:0 / /mnt/d rw,relatime - ext4 /dev/vda rw\n";
        let disks = " 254       0 vda 10 0 80 5 20 0 160 9 0 33 14 0 0 0 0\n";
        let device = device("254:0", mounts, disks);
        assert_eq!(device.mounted_at.as_deref(), Some("/mnt/d"));
        assert_eq!(device.filesystem.as_deref(), Some("ext4"));
        assert_eq!(
            (device.written, device.read, device.busy_ms),
            (160 * 512, 80 * 512, 33)
        );
    }

    #[test]
    fn what_writeback_knows_of_a_device() {
        let stats = "BdiWriteback:             4 kB\nBdiReclaimable:        1024 kB\nBdiDirtyThresh:        2048 kB\n\
            DirtyThresh:           9999 kB\nBackgroundThresh:       500 kB\nBdiDirtied:            4096 kB\nb_dirty: 1\n";
        let found = Writeback::parse(stats).expect("complete");
        assert_eq!(
            (found.dirty, found.writeback, found.limit, found.dirtied),
            (1 << 20, 4096, 2 << 20, 4 << 20)
        );
        assert_eq!(Writeback::parse("BdiWriteback: 4 kB\n"), None);
    }

    #[test]
    fn limits_are_found_in_vmstat() {
        let text = "nr_dirty 5\nnr_writeback 6\nnr_writeback_temp 9\nnr_dirty_threshold 7\nnr_dirty_background_threshold 8\n";
        assert_eq!(
            limits_in(text),
            Limits {
                dirty: 5,
                writeback: 6,
                background: 8,
                thresh: 7
            }
        );
    }
}
