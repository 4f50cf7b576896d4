// SPDX-License-Identifier: GPL-2.0-only
//! What a phase comes to, in the lab's figures and by the lab's names.

use crate::clock::{Ns, SECOND};
use crate::domain::PAGE;
use crate::psi::Pressure;
use crate::task::Job;
use crate::world::World;
use scenario::model::{Arm, Phase, Scenario};
use std::collections::BTreeMap;

/// Adds the figures of the phase that has just ended to `out`.
pub(super) fn add(
    world: &mut World,
    scenario: &Scenario,
    arm: Arm,
    phase: &Phase,
    out: &mut BTreeMap<String, (f64, &'static str)>,
) {
    let prefix = format!("{}.{}", arm.name(), phase.name);
    let mut add = |subject: &str, name: &str, value: f64, unit: &'static str| {
        out.insert(format!("{prefix}.{subject}.{name}"), (value, unit));
    };
    let Some(span) = world.span.take() else {
        return;
    };
    let running = scenario
        .jobs
        .iter()
        .filter(|job| job.memory.is_none() && phase.jobs.contains(&job.name));
    for (job, done) in running.zip(&world.jobs) {
        job_figures(done, &mut |name, value, unit| {
            add(&job.name, name, value, unit)
        });
    }
    super::memory::add(world, scenario, phase, &mut add);
    let seconds = span.elapsed as f64 / SECOND as f64;
    for (disk, written) in scenario.disks.iter().zip(&span.written) {
        add(
            &format!("disk/{}", disk.name),
            "bw_bytes",
            *written as f64 / seconds,
            "bytes/s",
        );
    }
    let written: u64 = span.written.iter().sum();
    add("host", "disk_bw_bytes", written as f64 / seconds, "bytes/s");
    let percent = |time: Ns| time as f64 / span.elapsed as f64 * 100.0;
    pressure(span.pressure[0], percent, &mut |name, value| {
        add("host", name, value, "percent");
    });
    for (name, count) in [
        ("allocstalls", span.reclaimed.stalls),
        ("kswapd_scanned", span.reclaimed.kswapd_scanned),
        ("oom_kills", span.reclaimed.kills),
    ] {
        add("host", name, count as f64, "count");
    }
    add("host", "flusher_cpu_pct", percent(span.flushers), "percent");
    if let Some((most, median)) = most_and_median(&world.samples.held) {
        add("host", "dirty_max_bytes", most, "bytes");
        add("host", "dirty_median_bytes", median, "bytes");
    }
    if let Some((_, median)) = most_and_median(&world.samples.writeback) {
        add("host", "writeback_median_bytes", median, "bytes");
    }
    for (index, cgroup) in world.cgroups.iter().enumerate().skip(1) {
        // Of copies, only what they come to together.
        if !scenario.cgroups.contains_key(&cgroup.path) {
            continue;
        }
        let subject = format!("cgroup/{}", cgroup.path);
        if let Some((most, median)) = most_and_median(&world.samples.cgroups[index]) {
            add(&subject, "dirty_max_bytes", most, "bytes");
            add(&subject, "dirty_median_bytes", median, "bytes");
        }
        let lost = span.pressure[cgroup.pressure as usize];
        pressure(lost, percent, &mut |name, value| {
            add(&subject, name, value, "percent");
        });
        let cleaned = (span.cleaned[index] * PAGE) as f64;
        add(&subject, "disk_bw_bytes", cleaned / seconds, "bytes/s");
        let known = world
            .weir
            .as_ref()
            .is_some_and(|weir| weir.groups[index].known);
        if let Some(stats) = span.stats.get(index) {
            // A cgroup that the module has no need to know of has no counts.
            let count = |number: u64| if known { number as f64 } else { 0.0 };
            for (name, number) in [
                ("nr_passes", stats.passes),
                ("nr_floor_admitted", stats.admitted),
                ("nr_ceiling_held", stats.held),
                ("nr_would_admit", 0),
                ("nr_would_hold", 0),
                ("nr_throttled", stats.throttled),
                ("throttled_usec", stats.throttled_ns / 1000),
                ("nr_weight_held", stats.weight_held),
                ("weight_held_usec", stats.weight_held_ns / 1000),
                ("nr_would_wait", 0),
                ("nr_missed", 0),
            ] {
                add(&subject, name, count(number), "count");
            }
        }
    }
}

fn pressure(lost: Pressure, percent: impl Fn(Ns) -> f64, add: &mut dyn FnMut(&str, f64)) {
    let Pressure { io, memory } = lost;
    add("io_some_pct", percent(io.some));
    add("io_full_pct", percent(io.full));
    add("mem_some_pct", percent(memory.some));
    add("mem_full_pct", percent(memory.full));
}

fn job_figures(job: &Job, add: &mut dyn FnMut(&str, f64, &'static str)) {
    let seconds = (job.runtime.max(1)) as f64 / SECOND as f64;
    let ios = job.latencies.total();
    add("iops", ios as f64 / seconds, "iops");
    add("bw_bytes", job.bytes as f64 / seconds, "bytes/s");
    add("total_ios", ios as f64, "count");
    if let (Some(half), Some(most)) = (job.latencies.percentile(50), job.latencies.percentile(99)) {
        add("clat_p50_ns", half as f64, "ns");
        add("clat_p99_ns", most as f64, "ns");
        add("clat_max_ns", job.latencies.longest() as f64, "ns");
    }
    let all: u128 = job.each.iter().map(|bytes| u128::from(*bytes)).sum();
    if job.each.len() > 1 && all > 0 {
        let (least, most) = (job.each.iter().min(), job.each.iter().max());
        let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
        let mean = all as f64 / job.each.len() as f64;
        add("spread_pct", spread as f64 / mean * 100.0, "percent");
        let in_pages = |bytes: &u64| u128::from(bytes / PAGE);
        let squares: u128 = job.each.iter().map(|bytes| in_pages(bytes).pow(2)).sum();
        let sum: u128 = job.each.iter().map(in_pages).sum();
        add(
            "jain",
            (sum * sum) as f64 / (job.each.len() as u128 * squares) as f64,
            "count",
        );
    }
}

/// Of a series in pages, in bytes.
fn most_and_median(pages: &[u64]) -> Option<(f64, f64)> {
    let mut sorted = pages.to_vec();
    sorted.sort_unstable();
    let most = *sorted.last()?;
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle] as f64
    } else {
        (sorted[middle - 1] + sorted[middle]) as f64 / 2.0
    };
    Some(((most * PAGE) as f64, median * PAGE as f64))
}
