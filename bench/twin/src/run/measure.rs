// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of a phase on the model, as every place that runs scenarios gives them.

use super::Span;
use crate::host::SimHost as Model;
use crate::memory::HOT;
use crate::memory::holder::MemoryHolder;
use crate::memory::record::Held;
use crate::mm::domain::PAGE;
use crate::sched::psi::{Lost, LostTime};
use crate::sim::clock::{Ns, SECOND};
use crate::task::PhaseJob as Done;
use crate::task::alloc::Mapped;
use crate::task::latency::Latencies;
use policy::UNLIMITED;
use scenario::measured::{
    self, AllocatingJob, IoStalls, Latency, Measured, MeasuredDisk, MeasuredHost, MemoryJob,
    Placement, Tiers,
};
use scenario::model::{Phase, Scenario};
use std::collections::BTreeMap;

/// Of the phase that has just ended.
pub(super) fn measure_phase(
    host: &Model,
    span: &Span,
    scenario: &Scenario,
    phase: &Phase,
) -> Measured {
    let Model {
        tasks,
        memory,
        probe,
    } = host;
    let running = || {
        let jobs = scenario.jobs.iter();
        jobs.filter(|job| phase.jobs.contains(&job.name))
    };
    let tasks_of = running().filter(|job| job.memory.is_none() || job.is_allocating());
    let (mapping, jobs): (Vec<_>, Vec<_>) = tasks_of
        .zip(&tasks.jobs)
        .partition(|(job, _)| job.is_allocating());
    let readers = running().filter(|job| job.memory.is_some() && !job.is_allocating());
    let has_tiers = !memory.tiers.is_empty();
    let holders = memory.holders.iter().take_while(|_| has_tiers);
    let budgets = memory.toptier_budgets(tasks).filter(|_| has_tiers);
    let mut cgroups = BTreeMap::new();
    for (index, cgroup) in tasks.cgroups.iter().enumerate().skip(1) {
        // Of copies, only what they come to together.
        if !scenario.cgroups.contains_key(&cgroup.path) {
            continue;
        }
        let budget = budgets.as_ref().map(|budgets| budgets[index - 1]);
        let of = measured::MeasuredCgroup {
            held: to_bytes(&probe.samples.cgroups[index]),
            pressure: Some(to_pressure(span.pressure[cgroup.pressure as usize])),
            written: Some(span.cleaned[index] * PAGE),
            oom_kills: Some(span.kills[index]),
            stat: span.stats[index].clone(),
            places: match has_tiers {
                true => to_placements(host, index, budget),
                false => Vec::new(),
            },
        };
        cgroups.insert(cgroup.path.clone(), of);
    }
    let moved = span.written.iter().zip(&span.queued);
    let disks = scenario.disks.iter().zip(moved);
    Measured {
        phase: phase.name.clone(),
        elapsed_ns: span.elapsed,
        // A fio that was killed says nothing.
        jobs: jobs
            .into_iter()
            .filter(|(_, done)| !done.killed)
            .map(|(job, done)| (job.name.clone(), to_measured_job(done)))
            .collect(),
        allocating: mapping
            .into_iter()
            .map(|(job, done)| (job.name.clone(), to_allocating_job(&done.mapped)))
            .collect(),
        memory: readers
            .zip(holders)
            .map(|(job, holder)| (job.name.clone(), to_memory_job(holder)))
            .collect(),
        disks: disks
            .map(|(disk, (written, queued))| {
                let (written, queued_ns) = (*written, Some(*queued));
                (disk.name.clone(), MeasuredDisk { written, queued_ns })
            })
            .collect(),
        host: MeasuredHost {
            held: to_bytes(&probe.samples.held),
            writeback: to_bytes(&probe.samples.writeback),
            pressure: to_pressure(span.pressure[0]),
            io_stalls: io_stalls(&probe.samples.io_lost),
            flusher_ns: span.flushers,
            allocstalls: span.reclaimed.stalls,
            kswapd_scanned: span.reclaimed.pgscan_kswapd,
            oom_kills: span.reclaimed.kills,
            vmstat: match &span.vmstat {
                Some(vmstat) => vmstat.counters_by_name(&span.reclaimed),
                None => BTreeMap::new(),
            },
            cpu: None,
        },
        cgroups,
        tiers: has_tiers.then(|| to_tiers(host)),
    }
}

fn to_bytes(pages: &[u64]) -> Vec<u64> {
    pages.iter().map(|pages| pages * PAGE).collect()
}

fn to_pressure(lost: LostTime) -> measured::MeasuredPressure {
    let LostTime { io, memory } = lost;
    measured::MeasuredPressure {
        io_some_ns: io.some,
        io_full_ns: io.full,
        mem_some_ns: Some(memory.some),
        mem_full_ns: Some(memory.full),
    }
}

fn io_stalls(lost: &[(Ns, Lost)]) -> Vec<IoStalls> {
    let begin = lost.first().map_or(0, |(at, _)| *at);
    let stalls = lost.iter().map(|(at, lost)| IoStalls {
        at_ns: at - begin,
        some_ns: lost.some,
        full_ns: lost.full,
    });
    stalls.collect()
}

fn to_latency(of: &Latencies) -> Option<Latency> {
    Some(Latency {
        p50_ns: of.per_mille(500)?,
        p99_ns: of.per_mille(990)?,
        p999_ns: of.per_mille(999)?,
        max_ns: of.longest_latency(),
    })
}

fn to_measured_job(job: &Done) -> measured::MeasuredJob {
    let seconds = job.runtime.max(1) as f64 / SECOND as f64;
    let ios = job.latencies.latencies_counted();
    measured::MeasuredJob {
        iops: ios as f64 / seconds,
        bandwidth: job.bytes as f64 / seconds,
        total_ios: ios,
        latency: to_latency(&job.latencies),
        sync: to_latency(&job.syncs),
        each: job.each.clone(),
    }
}

fn to_allocating_job(mapped: &Mapped) -> AllocatingJob {
    AllocatingJob {
        elapsed_ns: mapped.elapsed,
        allocated: mapped.first * PAGE,
        touched: mapped.touched * PAGE,
        fault: mapped.fault.to_spread(),
        map: mapped.map.to_spread(),
        worst_fault_ns: mapped.worst,
        corrupt: 0,
    }
}

fn to_memory_job(holder: &MemoryHolder) -> MemoryJob {
    let low = holder.held_last.iter().skip(1);
    MemoryJob {
        ops: holder.reads,
        elapsed_ns: holder.reading,
        hot_low: low.map(|heat| heat[HOT]).sum(),
        hot: holder.touched[HOT],
        corrupt: holder.lost_pages(),
    }
}

fn to_tiers(host: &Model) -> Tiers {
    let record = &host.memory.record;
    let migrated = record.looks.iter().zip(&record.migrated);
    Tiers {
        last_start_ns: record.last_start(),
        mark_ns: record.half_time(),
        end_ns: record.looks.last().copied().unwrap_or(0),
        migrated: migrated.map(|(at, pages)| (*at, pages * PAGE)).collect(),
    }
}

fn to_placements(host: &Model, index: usize, budget: Option<u64>) -> Vec<Placement> {
    let record = &host.memory.record;
    let budget = budget.filter(|pages| *pages != UNLIMITED);
    let place = |(at, held): (&u64, &Held)| Placement {
        at_ns: *at,
        top: held.top * PAGE,
        low: held.low * PAGE,
        budget: budget.map(|pages| pages * PAGE),
    };
    let looks = record.looks.iter().zip(&record.cgroups[index]);
    looks.map(place).collect()
}
