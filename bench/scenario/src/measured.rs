// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of one phase, raw: nanoseconds and bytes, the same wherever it ran.
//!
//! Lab and twin fill this; [`crate::metric::compute_metrics`] alone makes figures of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One phase of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The phase's name.
    pub phase: String,
    /// From the first job's start to the last job's end.
    pub elapsed_ns: u64,
    /// fio jobs that ran, by name.
    pub jobs: BTreeMap<String, MeasuredJob>,
    /// Jobs that read memory, by name.
    pub memory: BTreeMap<String, MemoryJob>,
    /// Jobs that allocate memory, by name.
    pub allocating: BTreeMap<String, AllocatingJob>,
    /// Disks, by name.
    pub disks: BTreeMap<String, MeasuredDisk>,
    /// The whole host.
    pub host: MeasuredHost,
    /// The scenario's cgroups, by path.
    pub cgroups: BTreeMap<String, MeasuredCgroup>,
    /// Moved bytes and the times that count for tiers, on a host that has some.
    pub tiers: Option<Tiers>,
}

/// A fio job: rates of reads and writes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredJob {
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Number of operations.
    pub total_ios: u64,
    /// Of the direction with more operations; none if there was no operation.
    pub latency: Option<Latency>,
    /// Of fsync and fdatasync; none if there was none.
    pub sync: Option<Latency>,
    /// Bytes that each process wrote, where that is known.
    pub each: Vec<u64>,
}

/// Latencies of a job's operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The median latency.
    pub p50_ns: u64,
    /// The 99th percentile of latencies.
    pub p99_ns: u64,
    /// The 99.9th percentile of latencies.
    pub p999_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
}

/// A job that reads memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryJob {
    /// Accesses in the time that counts.
    pub ops: u64,
    /// Length of the time that counts.
    pub elapsed_ns: u64,
    /// Hot pages that were not in the fastest tier in the end.
    pub hot_low: u64,
    /// All hot pages.
    pub hot: u64,
    /// Pages that did not hold what was written to them.
    pub corrupt: u64,
}

/// A job that maps memory, touches and unmaps it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllocatingJob {
    /// Length of the time that counts.
    pub elapsed_ns: u64,
    /// Bytes touched for the first time since they were mapped.
    pub allocated: u64,
    /// Bytes touched, each time counted.
    pub touched: u64,
    /// First touches of a page; none if there was none.
    pub fault: Option<Spread>,
    /// Whole mappings, from mmap(2) to the first touch of the last page.
    pub map: Option<Spread>,
    /// The longest fault since the job began, also before the time that counts.
    pub worst_fault_ns: u64,
    /// Pages that did not hold what was written to them.
    pub corrupt: u64,
}

/// Times that operations of one kind took, in nanoseconds. Percentiles are exact to 1.6 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub sd_ns: f64,
    /// The median latency.
    pub p50_ns: u64,
    /// The 90th percentile of latencies.
    pub p90_ns: u64,
    /// The 99th percentile of latencies.
    pub p99_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
}

/// Work of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredDisk {
    /// Bytes written to it.
    pub written: u64,
    /// Sum of the times of its requests, from when they were submitted; not kept by old results.
    pub queued_ns: Option<u64>,
}

/// The whole host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredHost {
    /// Dirty + writeback, sample by sample, in bytes.
    pub held: Vec<u64>,
    /// Bytes in writeback, of these.
    pub writeback: Vec<u64>,
    /// Time in which its tasks were stalled.
    pub pressure: MeasuredPressure,
    /// The same until then, as time went by.
    pub io_stalls: Vec<IoStalls>,
    /// CPU time of flushers.
    pub flusher_ns: u64,
    /// Allocations that had to reclaim memory themselves first.
    pub allocstalls: u64,
    /// Pages that kswapd looked at.
    pub kswapd_scanned: u64,
    /// Tasks killed for memory.
    pub oom_kills: u64,
    /// Growth of counters of `/proc/vmstat`, by their names there; of real kernels only.
    pub vmstat: BTreeMap<String, u64>,
    /// CPU time of tasks and interrupts in the kernel and outside of it; of real kernels only.
    pub cpu: Option<Cpu>,
}

/// CPU time of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Time spent outside of the kernel.
    pub user_ns: u64,
    /// Time spent in the kernel, interrupts included.
    pub system_ns: u64,
}

/// Time in which tasks had waited for I/O by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoStalls {
    /// Since the phase began.
    pub at_ns: u64,
    /// Some waited, since any time before the phase.
    pub some_ns: u64,
    /// All waited, likewise.
    pub full_ns: u64,
}

/// Time in which tasks were stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredPressure {
    /// Some waited for I/O.
    pub io_some_ns: u64,
    /// All waited for I/O.
    pub io_full_ns: u64,
    /// Some waited for memory; of a cgroup, where that is known.
    pub mem_some_ns: Option<u64>,
    /// All waited for memory; of a cgroup, where that is known.
    pub mem_full_ns: Option<u64>,
}

/// A cgroup with its descendants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredCgroup {
    /// Dirty + writeback, sample by sample, in bytes.
    pub held: Vec<u64>,
    /// Time in which its tasks were stalled.
    pub pressure: Option<MeasuredPressure>,
    /// Bytes written to disks for it.
    pub written: Option<u64>,
    /// Tasks of it that were killed for memory; of real kernels only.
    pub oom_kills: Option<u64>,
    /// `memory.dirty_stat` by key, where the module counts: what counters grew by, levels at the
    /// end. A level that is `max` is left out.
    pub stat: BTreeMap<&'static str, u64>,
    /// Placement of its memory, in the order of time.
    pub places: Vec<Placement>,
}

/// Moved bytes and the times that count for tiers; times are since the phase began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tiers {
    /// The last job's start.
    pub last_start_ns: u64,
    /// Medians and rates are of what came then or later.
    pub mark_ns: u64,
    /// Nothing counts after that.
    pub end_ns: u64,
    /// Time of each look, with the bytes moved between nodes until then.
    pub migrated: Vec<(u64, u64)>,
}

/// Placement of a cgroup's memory at one time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placement {
    /// Since the phase began.
    pub at_ns: u64,
    /// Bytes in the fastest tier.
    pub top: u64,
    /// Bytes in all other tiers.
    pub low: u64,
    /// Bytes allowed in the fastest tier, if anything was said.
    pub budget: Option<u64>,
}

impl Placement {
    /// Distance from its budget, in percent of that: what is in the fastest tier above the budget,
    /// or below it as far as there is memory elsewhere that could come up.
    ///
    /// With a budget of 265 MiB of 340: 270 in the fastest tier is 1.9 % off, 260 is 1.9 % off,
    /// and 200 of a cgroup that has no more than 200 is not off at all.
    pub fn budget_error_percent(&self) -> Option<f64> {
        let budget = self.budget?;
        let off = match self.top.checked_sub(budget) {
            Some(above) => above,
            None => (budget - self.top).min(self.low),
        };
        Some(off as f64 * 100.0 / budget.max(1) as f64)
    }
}

/// `memory.dirty_stat` over a phase: counters by how much they grew, levels as they were at the
/// end. A level that is `max` is left out.
pub fn summarize_dirty_stat(
    before: &BTreeMap<&str, u64>,
    after: &BTreeMap<&str, u64>,
) -> BTreeMap<&'static str, u64> {
    let value = |key: &knobs::StatKey| {
        let after = *after.get(key.name)?;
        let value = match key.kind {
            knobs::Kind::Counter => after.saturating_sub(*before.get(key.name).unwrap_or(&0)),
            knobs::Kind::Level => after,
        };
        (value != knobs::UNLIMITED).then_some((key.name, value))
    };
    knobs::stat_keys().iter().filter_map(value).collect()
}
