// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of a run, raw: nothing here is computed but differences of counters.

use crate::measured::{Cpu, IoStalls, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Measurements of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The phase's name.
    pub phase: String,
    /// Length in nanoseconds, from the first job's start to the last job's end.
    pub elapsed_ns: u64,
    /// By job name: the first element of fio's `jobs` array (`--output-format=json+`).
    pub jobs: BTreeMap<String, serde_json::Value>,
    /// `host` or a cgroup path to its samples.
    pub samples: BTreeMap<String, Series>,
    /// By disk name: bytes written and read over the phase.
    pub disks: BTreeMap<String, DiskBytes>,
    /// Stall time over the phase, nanoseconds.
    pub pressure: Pressure,
    /// Stalls for I/O among these, as time went by.
    #[serde(default)]
    pub io_stalls: Vec<IoStalls>,
    /// By cgroup path: tasks killed for memory over the phase.
    #[serde(default)]
    pub oom_kills: BTreeMap<String, u64>,
    /// Jobs that have no result, because the kernel killed a process of theirs for memory.
    #[serde(default)]
    pub killed: Vec<String>,
    /// By cgroup path, of I/O only.
    #[serde(default)]
    pub cgroup_pressure: BTreeMap<String, Pressure>,
    /// CPU time of flushers, nanoseconds.
    #[serde(default)]
    pub flusher_cpu_ns: u64,
    /// Counters of `/proc/vmstat` over the phase, by their names there.
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
    /// By cgroup path: `memory.dirty_stat` before and after, where the file exists.
    pub dirty_stat: BTreeMap<String, BeforeAfter>,
    /// By cgroup path: bytes it and its descendants had written to disks, by `io.stat`.
    #[serde(default)]
    pub written: BTreeMap<String, u64>,
    /// CPU time of all CPUs over the phase, where it is known.
    #[serde(default)]
    pub cpu: Option<Cpu>,
    /// By job name: what jobs that read or allocate memory say of themselves.
    #[serde(default)]
    pub memory: BTreeMap<String, MemoryReport>,
    /// Placement of memory, on a host with tiers.
    #[serde(default)]
    pub tiers: Option<TierSamples>,
}

/// Placement of memory over a phase; times are nanoseconds since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSamples {
    /// Nodes of the fastest tier.
    pub top_nodes: Vec<usize>,
    /// Start of the last job.
    pub last_start_ns: u64,
    /// Begin of the time that counts.
    pub mark_ns: u64,
    /// Time at which the first job was told to end.
    pub end_ns: u64,
    /// Time of each look, with the bytes migrated since the host booted.
    pub migrated: Vec<(u64, u64)>,
    /// Bytes in tiers, by cgroup path.
    pub cgroups: BTreeMap<String, TierSeries>,
}

/// Placement of a cgroup's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierSeries {
    /// Time of each sample.
    pub at_ns: Vec<u64>,
    /// Bytes on each node.
    pub node_bytes: Vec<Vec<u64>>,
    /// Bytes allowed in the fastest tier, if anything was said.
    pub budget_bytes: Vec<Option<u64>>,
}

/// Dirty + writeback of one subject over a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Times of the samples, in nanoseconds since the phase began.
    pub at_ns: Vec<u64>,
    /// Dirty pages, in bytes.
    pub dirty_bytes: Vec<u64>,
    /// Pages in writeback among these, in bytes; of the host only.
    #[serde(default)]
    pub writeback_bytes: Vec<u64>,
    /// The limit; of the host only.
    #[serde(default)]
    pub limit_bytes: Vec<u64>,
    /// Level at which the flusher starts; of the host only.
    #[serde(default)]
    pub background_bytes: Vec<u64>,
}

/// Bytes moved by a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskBytes {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes read from the device.
    pub read: u64,
    /// Sum of the times of its requests, from when they were submitted.
    #[serde(default)]
    pub queued_ns: Option<u64>,
}

/// Totals of `/proc/pressure/*` over a phase, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// `some` of `io`.
    pub io_some_ns: u64,
    /// `full` of `io`.
    pub io_full_ns: u64,
    /// `some` of `memory`.
    #[serde(default)]
    pub mem_some_ns: u64,
    /// `full` of `memory`.
    pub mem_full_ns: u64,
}

/// A flat-keyed file read twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// At the beginning of the phase.
    pub before: String,
    /// The file at the phase's end.
    pub after: String,
}

/// Report of the program of a job that reads or allocates memory, at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Reads and writes in the time that counts.
    pub ops: u64,
    /// Length of the time that counts, in nanoseconds.
    pub elapsed_ns: u64,
    /// Hot pages on each node; all pages are hot if all are read alike.
    pub hot: Vec<u64>,
    /// The other pages.
    pub cold: Vec<u64>,
    /// Hot pages that are on no node: swapped out, or being moved just then.
    pub hot_nowhere: u64,
    /// Pages that did not hold what they should, when read or in the end.
    pub corrupt_pages: u64,
    /// Bytes in huge pages.
    pub huge_bytes: u64,
    /// Of a job that allocates; what is about where pages lie is empty then.
    #[serde(default)]
    pub allocations: Option<Allocations>,
}

/// Work of a job that allocates, in the time that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocations {
    /// Pages touched for the first time since they were mapped.
    pub pages: u64,
    /// Times that those first touches took.
    pub fault: Option<Spread>,
    /// Times that whole mappings took, from mmap(2) to the first touch of the last page.
    pub map: Option<Spread>,
    /// The longest first touch since the job began.
    pub worst_fault_ns: u64,
}
