// SPDX-License-Identifier: GPL-2.0-only
//! The host's limits and dirty pages, and its devices.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a page as this crate counts them, whatever the kernel's are: readers convert.
pub use knobs::PAGE;

/// Settings and memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSettings {
    /// `vm.dirty_bytes`; 0 if the ratio is in use.
    pub dirty_bytes: u64,
    /// `vm.dirty_ratio`, in percent.
    pub dirty_ratio: u64,
    /// `vm.dirty_background_bytes`, 0 if unset.
    pub background_bytes: u64,
    /// `vm.dirty_background_ratio`, in percent.
    pub background_ratio: u64,
    /// Pages that could be dirty: free and page cache, less what the kernel keeps for itself.
    pub dirtyable: u64,
    /// Memory of the host in bytes.
    pub memory: u64,
    /// Free bytes of it, `MemFree`.
    #[serde(default)]
    pub free: u64,
    /// Bytes that can be taken without swapping, `MemAvailable`; nothing in recordings of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// Bytes of swap, used or not; nothing in recordings of older versions.
    #[serde(default)]
    pub swap: Option<u64>,
}

/// Running totals of `/proc/pressure/*`, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureTotals {
    /// `some` of `io`.
    pub io_some: u64,
    /// `full` of `io`.
    pub io_full: u64,
    /// `some` of `memory`.
    pub memory_some: u64,
    /// `full` of `memory`.
    pub memory_full: u64,
}

/// A device as writeback sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The number `254:0` that events call it.
    pub bdi: String,
    /// Least share, in percent of the limit.
    pub min_ratio: u64,
    /// Greatest share, in percent of the limit.
    pub max_ratio: u64,
    /// The same in millionths, from Linux 6.2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fine: Option<u64>,
    /// `true` if it is kept to its share even when the host is far below its limit; nothing where
    /// the kernel does not tell.
    pub strict: Option<bool>,
    /// Filesystem on it, if it is mounted.
    pub filesystem: Option<String>,
    /// Mount point of that filesystem.
    pub mounted_at: Option<String>,
    /// Milliseconds in which it had work.
    pub busy_ms: u64,
    /// Bytes written to it.
    pub written: u64,
    /// Bytes read from it.
    pub read: u64,
    /// The disk's name, if it is one.
    #[serde(default)]
    pub disk: Option<String>,
    /// Devices that it lies on, as LVM's do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// The queue's bound, where requests are queued for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueBound>,
    /// Figures of debugfs, where it has them of all cgroups.
    #[serde(default)]
    pub writeback: Option<Writeback>,
}

impl Device {
    /// The greatest share, in millionths of the limit.
    pub fn max_share(&self) -> u64 {
        self.max_fine.unwrap_or(self.max_ratio * 10_000)
    }

    /// The device's name for people: `nvme0n1 (259:0)`; its number where it is no disk.
    pub fn name(&self) -> String {
        match &self.disk {
            Some(disk) => format!("{disk} ({})", self.bdi),
            None => self.bdi.clone(),
        }
    }
}

/// Bound on a disk's requests in flight: so many requests of that size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueBound {
    /// Requests in flight at most, `queue/nr_requests`.
    pub requests: u64,
    /// Size of the largest, `queue/max_sectors_kb`.
    pub kib: u64,
}

/// A device's pages, in bytes, from `bdi/254:0/stats` in debugfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writeback {
    /// Bytes of dirty pages.
    pub dirty: u64,
    /// Bytes in writeback.
    pub writeback: u64,
    /// The device's share of the host's limit.
    pub limit: u64,
    /// Made dirty, a running total.
    pub dirtied: u64,
}

/// Takes from each device's running totals what they were at the beginning.
pub fn subtract_totals(now: &mut [Device], before: &[Device]) {
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
