// SPDX-License-Identifier: GPL-2.0-only
//! What was measured, raw: nothing here is computed but differences of counters.

use crate::memory::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was measured in one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The phase's name.
    pub phase: String,
    /// Length in milliseconds, from the first job's start to the last job's end.
    pub elapsed_ms: u64,
    /// By job name: the first element of fio's `jobs` array (`--output-format=json+`).
    pub jobs: BTreeMap<String, serde_json::Value>,
    /// `host` or a cgroup path to its samples.
    pub samples: BTreeMap<String, Series>,
    /// By disk name: bytes written and read over the phase.
    pub disks: BTreeMap<String, DiskBytes>,
    /// Stall time over the phase, microseconds.
    pub pressure: Pressure,
    /// By cgroup path, of I/O only.
    #[serde(default)]
    pub cgroup_pressure: BTreeMap<String, Pressure>,
    /// CPU time of flushers, microseconds.
    #[serde(default)]
    pub flusher_cpu_us: u64,
    /// Counters of `/proc/vmstat` over the phase, by their names there.
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
    /// By cgroup path: `memory.dirty_stat` before and after, where the file exists.
    pub dirty_stat: BTreeMap<String, BeforeAfter>,
    /// By cgroup path: bytes it and its descendants had written to disks, by `io.stat`.
    #[serde(default)]
    pub written: BTreeMap<String, u64>,
    /// By job name: what jobs that read memory say of themselves.
    #[serde(default)]
    pub memory: BTreeMap<String, Report>,
    /// Where memory lay, on a host with tiers.
    #[serde(default)]
    pub tiers: Option<TierSamples>,
}

/// Where memory lay over a phase; times are milliseconds since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSamples {
    /// Nodes of the fastest tier.
    pub top_nodes: Vec<usize>,
    /// When the last job was started.
    pub last_start_ms: u32,
    /// When the time that counts began.
    pub mark_ms: u32,
    /// When the first job was told to end.
    pub end_ms: u32,
    /// When, and how many pages had been migrated since the host booted.
    pub migrated: Vec<(u32, u64)>,
    /// By cgroup path.
    pub cgroups: BTreeMap<String, TierSeries>,
}

/// Where a cgroup's memory lay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSeries {
    /// Time of each sample, in milliseconds.
    pub at_ms: Vec<u32>,
    /// How much was on each node.
    pub node_bytes: Vec<Vec<u64>>,
    /// How much was allowed in the fastest tier, if anything was said.
    pub budget_bytes: Vec<Option<u64>>,
}

/// Dirty + writeback of one subject over a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// When, in milliseconds since the phase began.
    pub at_ms: Vec<u32>,
    /// How much, in KiB (compact; the kernel counts pages).
    pub dirty_kib: Vec<u64>,
    /// How much of it in writeback, in KiB; of the host only.
    #[serde(default)]
    pub writeback_kib: Vec<u64>,
    /// The limit, in KiB; of the host only.
    #[serde(default)]
    pub limit_kib: Vec<u64>,
    /// Where the flusher starts, in KiB; of the host only.
    #[serde(default)]
    pub background_kib: Vec<u64>,
}

/// Bytes moved by a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskBytes {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes read from the device.
    pub read: u64,
}

/// Totals of `/proc/pressure/*` over a phase, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// `some` of `io`.
    pub io_some_us: u64,
    /// `full` of `io`.
    pub io_full_us: u64,
    /// `some` of `memory`.
    #[serde(default)]
    pub mem_some_us: u64,
    /// `full` of `memory`.
    pub mem_full_us: u64,
}

/// A flat-keyed file read twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// At the beginning of the phase.
    pub before: String,
    /// At its end.
    pub after: String,
}
