// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups hold, may hold and did.

use super::dirty_stat::DirtyStat;
use super::stack::Stack;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mount point of cgroup v2.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup; bytes, microseconds. What a file that is not there would say is absent or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Below the root's directory; empty for the root.
    pub path: String,
    /// Inode of its directory; events name cgroups by it.
    pub inode: u64,
    /// Dirty pages, of descendants too.
    pub dirty: u64,
    /// Bytes in writeback, of descendants too.
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
    /// `memory.dirty_bandwidth` in bytes a second, if it is set.
    #[serde(default)]
    pub bandwidth: Option<u64>,
    /// `memory.writeback_bytes`, if it is set.
    #[serde(default)]
    pub window: Option<u64>,
    /// `memory.dirty_stat`, if a knob is set that the module counts this cgroup for.
    #[serde(default)]
    pub stat: Option<DirtyStat>,
    /// Bytes by which dirty + writeback grew; only a look that goes on knows.
    #[serde(default)]
    pub grown: Option<i64>,
    /// `true` if it has a memory controller, so what it holds and may hold is known.
    #[serde(default)]
    pub has_memory: bool,
    /// `nr_dying_descendants` of `cgroup.stat`: cgroups below it that were removed and still hold pages;
    /// none for one without directories.
    #[serde(default)]
    pub dying: u64,
    /// `true` if it has an I/O controller, so what it reads and writes is known.
    #[serde(default)]
    pub has_io: bool,
    /// Bytes reclaimed of it, `pgsteal`.
    #[serde(default)]
    pub reclaimed: u64,
    /// Bytes of that read back, `workingset_refault_*`.
    #[serde(default)]
    pub refaulted: u64,
    /// Bytes it took meanwhile: what it grew by, and what was reclaimed of it.
    #[serde(default)]
    pub allocated: Option<u64>,
    /// Tasks killed for memory since it was made, `oom_kill` of `memory.events`.
    #[serde(default)]
    pub kills: u64,
}

impl Cgroup {
    /// Bytes written to all devices.
    pub fn bytes_written(&self, stack: &Stack) -> u64 {
        self.sum_devices(stack, |io| io.written)
    }

    /// Bytes read from all devices.
    pub fn bytes_read(&self, stack: &Stack) -> u64 {
        self.sum_devices(stack, |io| io.read)
    }

    fn sum_devices(&self, stack: &Stack, bytes: impl Fn(&Io) -> u64) -> u64 {
        stack.sum_without_handed_on(self.io.iter().map(|(device, io)| (&**device, bytes(io))))
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

/// Bytes that went to and came from one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes read from the device.
    pub read: u64,
    /// Write requests to the device.
    pub writes: u64,
}

/// Takes from each cgroup's running totals what they were at the beginning.
pub fn subtract_totals(now: &mut [Cgroup], before: &[Cgroup]) {
    let before: BTreeMap<u64, &Cgroup> =
        before.iter().map(|cgroup| (cgroup.inode, cgroup)).collect();
    for cgroup in now {
        let Some(before) = before.get(&cgroup.inode) else {
            continue;
        };
        cgroup.reclaimed = cgroup.reclaimed.saturating_sub(before.reclaimed);
        cgroup.refaulted = cgroup.refaulted.saturating_sub(before.refaulted);
        let has_now = cgroup.current.saturating_add(cgroup.reclaimed);
        cgroup.allocated = Some(has_now.saturating_sub(before.current));
        cgroup.io_pressure = cgroup.io_pressure.saturating_sub(before.io_pressure);
        cgroup.memory_pressure = cgroup
            .memory_pressure
            .saturating_sub(before.memory_pressure);
        cgroup.cpu_pressure = cgroup.cpu_pressure.saturating_sub(before.cpu_pressure);
        if let (Some(stat), Some(before)) = (&mut cgroup.stat, &before.stat) {
            stat.subtract_totals(before);
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

/// The cgroup above, empty for the root; nothing above the root.
pub(crate) fn parent_path(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    Some(path.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// A cgroup and all above it, the root last.
pub(crate) fn path_up(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent_path(path))
}

/// Stands for the path of a cgroup that only its directory's inode is known of, as in `inode:75`.
pub(crate) const INODE: &str = "inode:";

/// Stands for the path of a cgroup that is not known: of a task that has ended, or of a file's.
pub(crate) const UNKNOWN: &str = "unknown";

/// A cgroup's path for people.
pub(crate) fn display_path(path: &str) -> String {
    if path.starts_with(INODE) || path == UNKNOWN {
        path.into()
    } else {
        format!("/{path}")
    }
}
