// SPDX-License-Identifier: GPL-2.0-only
//! The rows of the table.

use super::Unit::{self, Bandwidth, Bytes, BytesPerMinute, Count, Iops, Nanoseconds, Percent};
use super::compute::{
    accesses_per_second, jain_index, max_bytes, median_bytes, median_of_counted,
    migrated_per_minute, peak_percent, settle_time, spread_percent_of_processes,
};
use super::{Metric, MetricSource};
use crate::measured::{AllocatingJob, Measured, MeasuredCgroup, MeasuredJob, MemoryJob, Placement};

/// All rows but the keys of `memory.dirty_stat`.
#[rustfmt::skip] // a table
pub(super) const ROWS: &[Metric] = &[
    job("iops", Iops, |job| Some(job.iops), "operations per second"),
    job("bw_bytes", Bandwidth, |job| Some(job.bandwidth), "read and written"),
    job("clat_p50_ns", Nanoseconds, |job| Some(job.latency?.p50_ns as f64), LATENCY),
    job("clat_p99_ns", Nanoseconds, |job| Some(job.latency?.p99_ns as f64), LATENCY),
    job("clat_p999_ns", Nanoseconds, |job| Some(job.latency?.p999_ns as f64), LATENCY),
    job("clat_max_ns", Nanoseconds, |job| Some(job.latency?.max_ns as f64), LATENCY),
    job("sync_p50_ns", Nanoseconds, |job| Some(job.sync?.p50_ns as f64), SYNC),
    job("sync_p99_ns", Nanoseconds, |job| Some(job.sync?.p99_ns as f64), SYNC),
    job("sync_max_ns", Nanoseconds, |job| Some(job.sync?.max_ns as f64), SYNC),
    job("total_ios", Count, |job| Some(job.total_ios as f64), "operations"),
    job("spread_pct", Percent, spread_percent_of_processes,
        "how far apart what the fastest and the slowest process wrote, of their mean")
        .on_the_twin(),
    job("jain", Count, jain_index,
        "Jain's index of what processes wrote: 1 if all wrote the same").on_the_twin(),
    memory_job("ops_per_sec", MemoryJob::per_second,
        "accesses per second, over the second half of the time in which all jobs run"),
    Metric { unit: Percent, ..memory_job("hot_low_pct",
        |job| 100.0 * job.hot_low as f64 / job.hot.max(1) as f64,
        "hot pages that are not in the fastest tier in the end") },
    memory_job("corrupt_pages", |job| job.corrupt as f64,
        "pages that do not hold what was written to them, in the end"),
    allocating("fault_mean_ns", Nanoseconds, |job| Some(job.fault?.mean_ns), FAULT),
    allocating("fault_sd_ns", Nanoseconds, |job| Some(job.fault?.sd_ns), FAULT),
    allocating("fault_p50_ns", Nanoseconds, |job| Some(job.fault?.p50_ns as f64), FAULT),
    allocating("fault_p90_ns", Nanoseconds, |job| Some(job.fault?.p90_ns as f64), FAULT),
    allocating("fault_p99_ns", Nanoseconds, |job| Some(job.fault?.p99_ns as f64), FAULT),
    allocating("fault_max_ns", Nanoseconds, |job| Some(job.fault?.max_ns as f64), FAULT),
    allocating("fault_worst_ns", Nanoseconds, |job| Some(job.worst_fault_ns as f64),
        "the longest first touch of a page since the job began, before the time that counts, too"),
    allocating("map_mean_ns", Nanoseconds, |job| Some(job.map?.mean_ns), MAP),
    allocating("map_p50_ns", Nanoseconds, |job| Some(job.map?.p50_ns as f64), MAP),
    allocating("map_p90_ns", Nanoseconds, |job| Some(job.map?.p90_ns as f64), MAP),
    allocating("map_p99_ns", Nanoseconds, |job| Some(job.map?.p99_ns as f64), MAP),
    allocating("map_max_ns", Nanoseconds, |job| Some(job.map?.max_ns as f64), MAP),
    allocating("alloc_bw", Bandwidth, |job| Some(job.per_second(job.allocated)),
        "touched for the first time since it was mapped"),
    allocating("touch_bw", Bandwidth, |job| Some(job.per_second(job.touched)),
        "touched, each time counted"),
    allocating("corrupt_pages", Count, |job| Some(job.corrupt as f64),
        "pages that do not hold what was written to them"),
    host("dirty_max_bytes", Bytes, |of| max_bytes(&of.host.held), HELD),
    host("dirty_median_bytes", Bytes, |of| median_bytes(&of.host.held), HELD),
    host("writeback_median_bytes", Bytes, |of| median_bytes(&of.host.writeback), "in writeback"),
    host("disk_bw_bytes", Bandwidth, |of| Some(of.per_second(of.disks.values().map(|disk| disk.written).sum())),
        "written to all disks"),
    host("flusher_cpu_pct", Percent, |of| Some(of.percent_of_time(of.host.flusher_ns)),
        "CPU time of flushers, of one CPU"),
    host("io_full_pct", Percent, |of| Some(of.percent_of_time(of.host_pressure().io_full_ns)), FULL),
    host("io_some_pct", Percent, |of| Some(of.percent_of_time(of.host_pressure().io_some_ns)), SOME),
    host("io_full_peak_pct", Percent, |of| peak_percent(&of.host.io_stalls, |at| at.full_ns), PEAK),
    host("io_some_peak_pct", Percent, |of| peak_percent(&of.host.io_stalls, |at| at.some_ns), PEAK),
    host("mem_full_pct", Percent, |of| Some(of.percent_of_time(of.host_pressure().mem_full_ns?)), FULL),
    host("mem_some_pct", Percent, |of| Some(of.percent_of_time(of.host_pressure().mem_some_ns?)), SOME),
    host("allocstalls", Count, |of| Some(of.host.allocstalls as f64),
        "allocations that had to reclaim memory themselves first"),
    host("kswapd_scanned", Count, |of| Some(of.host.kswapd_scanned as f64),
        "pages that kswapd looked at"),
    vmstat!("pgscan_direct"), vmstat!("pgscan_kswapd"), vmstat!("pgsteal_direct"),
    vmstat!("pgsteal_kswapd"), vmstat!("nr_vmscan_write"),
    vmstat!("nr_vmscan_immediate_reclaim"), vmstat!("workingset_refault_anon"),
    vmstat!("workingset_refault_file"), vmstat!("pswpin"), vmstat!("pswpout"),
    throttled!("throttled_writeback"), throttled!("throttled_writeback_zero"),
    throttled!("throttled_writeback_full"), throttled!("throttled_isolated"),
    throttled!("throttled_isolated_zero"), throttled!("throttled_isolated_full"),
    throttled!("throttled_noprogress"), throttled!("throttled_noprogress_zero"),
    throttled!("throttled_noprogress_full"), throttled!("throttled_congested"),
    throttled!("throttled_congested_zero"), throttled!("throttled_congested_full"),
    host("reclaim_cpu_pct", Percent,
        |of| of.host.vmstat.get("reclaim_cpu_ns").map(|ns| of.percent_of_time(*ns)),
        "CPU time of reclaim, of one CPU").on_the_twin(),
    host("system_cpu_pct", Percent, |of| Some(of.percent_of_time(of.host.cpu?.system_ns)), CPU)
        .of_kernels(),
    host("user_cpu_pct", Percent, |of| Some(of.percent_of_time(of.host.cpu?.user_ns)), CPU)
        .of_kernels(),
    host("oom_kills", Count, |of| Some(of.host.oom_kills as f64), "tasks killed for memory"),
    host("ops_per_sec", Count, accesses_per_second, "of all jobs that read memory together").of_tiers(),
    host("migrated_bytes_per_min", BytesPerMinute, migrated_per_minute, "moved between nodes").of_tiers(),
    Metric::new("bw_bytes", Bandwidth, MetricSource::Disk(|of, disk| Some(of.per_second(disk.written))),
        "written"),
    Metric::new("queue_depth", Count, MetricSource::Disk(|of, disk|
        Some(disk.queued_ns? as f64 / of.elapsed_ns.max(1) as f64)),
        "requests in its queue, mean"),
    cgroup("dirty_max_bytes", Bytes, |_, cgroup| max_bytes(&cgroup.held), HELD),
    cgroup("dirty_median_bytes", Bytes, |_, cgroup| median_bytes(&cgroup.held), HELD),
    cgroup("disk_bw_bytes", Bandwidth, |of, cgroup| Some(of.per_second(cgroup.written?)),
        "written to disks for it, by io.stat"),
    cgroup("oom_kills", Count, |_, cgroup| Some(cgroup.oom_kills? as f64),
        "tasks of it killed for memory, by memory.events"),
    cgroup("io_full_pct", Percent, |of, at| Some(of.percent_of_time(at.pressure?.io_full_ns)), FULL),
    cgroup("io_some_pct", Percent, |of, at| Some(of.percent_of_time(at.pressure?.io_some_ns)), SOME),
    cgroup("mem_full_pct", Percent, |of, at| Some(of.percent_of_time(at.pressure?.mem_full_ns?)),
        FULL).on_the_twin(),
    cgroup("mem_some_pct", Percent, |of, at| Some(of.percent_of_time(at.pressure?.mem_some_ns?)),
        SOME).on_the_twin(),
    cgroup("toptier_bytes", Bytes, |of, cgroup| median_of_counted(of, cgroup, |place| Some(place.top as f64)),
        "median of what it has in the fastest tier, over the second half").of_tiers(),
    cgroup("lowtier_bytes", Bytes, |of, cgroup| median_of_counted(of, cgroup, |place| Some(place.low as f64)),
        "median of what it has in other tiers").of_tiers(),
    cgroup("toptier_pct", Percent, |of, cgroup| median_of_counted(of, cgroup, Placement::top_percent),
        "median of the part of its memory that is in the fastest tier").of_tiers(),
    cgroup("budget_error_pct", Percent, |of, cgroup| median_of_counted(of, cgroup, Placement::budget_error_percent),
        "median of how far it is above its budget in the fastest tier; or below, as far as it has \
         memory in another")
        .of_tiers().of_weir(),
    cgroup("settle_ns", Nanoseconds, settle_time,
        "from the start of the last job until budget_error_pct is 2 or less and stays so; null if never")
        .of_tiers().of_weir(),
];

/// A counter of `/proc/vmstat`, called as there.
macro_rules! vmstat {
    ($name:literal) => {
        host(
            $name,
            Count,
            |of| of.host.vmstat.get($name).map(|n| *n as f64),
            VMSTAT,
        )
    };
}
use vmstat;

/// Sleeps of tasks in reclaim, for a reason; where pages are kept one by one.
macro_rules! throttled {
    ($name:literal) => {
        Metric::new(
            $name,
            Count,
            MetricSource::Host(|of| of.host.vmstat.get($name).map(|n| *n as f64)),
            THROTTLED,
        )
        .on_the_twin()
    };
}
use throttled;

const VMSTAT: &str = "of /proc/vmstat: what it grew by in the phase";
const THROTTLED: &str =
    "sleeps of tasks in reclaim, by reason; that ended at once, or by timeout only";
const CPU: &str = "CPU time of all CPUs, of one CPU";
const FAULT: &str = "of first touches of pages, in the second half of the time";
const MAP: &str = "of mappings, from mmap(2) to the first touch of the last page";
const LATENCY: &str = "of writes, or of reads if there were more";
const SYNC: &str = "of calls of fsync and fdatasync";
const PEAK: &str = "the same in the 10 s in which it was most";
const HELD: &str = "dirty + writeback, sample by sample";
const SOME: &str = "time in which some tasks were stalled";
const FULL: &str = "time in which all tasks were stalled";

const fn job(
    name: &'static str,
    unit: Unit,
    value: fn(&MeasuredJob) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, MetricSource::Job(value), about)
}

const fn memory_job(
    name: &'static str,
    value: fn(&MemoryJob) -> f64,
    about: &'static str,
) -> Metric {
    Metric::new(name, Count, MetricSource::MemoryJob(value), about).of_tiers()
}

const fn allocating(
    name: &'static str,
    unit: Unit,
    value: fn(&AllocatingJob) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, MetricSource::AllocatingJob(value), about)
}

const fn host(
    name: &'static str,
    unit: Unit,
    value: fn(&Measured) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, MetricSource::Host(value), about)
}

const fn cgroup(
    name: &'static str,
    unit: Unit,
    value: fn(&Measured, &MeasuredCgroup) -> Option<f64>,
    about: &'static str,
) -> Metric {
    Metric::new(name, unit, MetricSource::Cgroup(value), about)
}
