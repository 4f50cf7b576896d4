// SPDX-License-Identifier: GPL-2.0-only
//! Which knobs `weir plan` tries where none is named.

use super::knob::{DRAIN, LIMIT, TIER_RATIO};
use knobs::Knob as File;
use scenario::metric::Name;
use scenario::model::{Arm, Job, Op, Scenario};

/// The knobs that a scenario itself sets, or else those that may do, as `parse` takes them: what
/// is tried first comes first.
pub fn knobs_to_search(scenario: &Scenario, stock: bool) -> Vec<String> {
    let cgroups = scenario.cgroups.iter().flat_map(|(path, cgroup)| {
        let files = cgroup.knobs.keys();
        files.map(move |file| format!("{path}/{file}"))
    });
    let sets = |name| scenario.host.weir.contains_key(name);
    let drain = sets(DRAIN).then(|| if stock { LIMIT } else { DRAIN }.to_owned());
    let ratio = (!stock && sets(TIER_RATIO)).then(|| TIER_RATIO.to_owned());
    let host = drain.into_iter().chain(ratio);
    let mut knobs: Vec<String> = cgroups.chain(host).collect();
    if knobs.is_empty() {
        return acting_knobs(scenario, stock);
    }
    let is_window = |knob: &String| knob.ends_with(File::WritebackBytes.file_name());
    if stock {
        knobs.retain(|knob| !is_window(knob));
    } else if !waiting_jobs(scenario).is_empty() {
        // A ceiling takes its dirty pages from a writer, a window nothing.
        knobs.sort_by_key(|knob| !is_window(knob));
    }
    knobs
}

/// Knobs that act on what the scenario expects, whether it sets them or not.
pub fn acting_knobs(scenario: &Scenario, stock: bool) -> Vec<String> {
    let mut knobs: Vec<String> = Vec::new();
    let mut add = |path: &str, knob: File| {
        let name = format!("{path}/{}", knob.file_name());
        let needs_module = knob == File::WritebackBytes;
        let is_there = !(stock && needs_module);
        if is_there && !knobs.contains(&name) {
            knobs.push(name);
        }
    };
    let waits = waiting_jobs(scenario);
    for knob in [File::WritebackBytes, File::DirtyBytes] {
        let beside = cgroups_beside(scenario, &waits);
        beside.into_iter().for_each(|path| add(path, knob));
    }
    let writers = held_writers(scenario);
    let homes = writers.iter().filter_map(|job| job.cgroup.as_deref());
    homes.for_each(|path| add(path, File::DirtyMin));
    let beside = cgroups_beside(scenario, &writers);
    beside
        .into_iter()
        .for_each(|path| add(path, File::DirtyBytes));
    for path in bounded_cgroups(scenario) {
        add(&path, File::DirtyBytes);
    }
    knobs
}

/// Jobs that write, of whose rate or latency a scenario expects something in arm weir.
fn held_writers(scenario: &Scenario) -> Vec<&Job> {
    let held = |job: &&Job| {
        let metrics = scenario.expects.iter().map(|expect| &expect.metric);
        let mut names = metrics.filter_map(|metric| Name::parse_full_name(metric));
        is_fio_pattern(job, "write")
            && names.any(|name| {
                let metric = name.metric.as_str();
                let of_writes =
                    ["iops", "bw_bytes"].contains(&metric) || metric.starts_with("clat_");
                name.arm == Arm::Weir && name.subject == job.name && of_writes
            })
    };
    scenario.jobs.iter().filter(held).collect()
}

/// Cgroups of which a scenario expects that they hold little.
fn bounded_cgroups(scenario: &Scenario) -> Vec<String> {
    let bounded = scenario.expects.iter().filter(|of| of.op == Op::AtMost);
    let names = bounded.filter_map(|expect| Name::parse_full_name(&expect.metric));
    let held = names.filter(|name| name.arm == Arm::Weir && name.metric.starts_with("dirty_"));
    held.filter_map(|name| name.subject.strip_prefix("cgroup/").map(str::to_owned))
        .collect()
}

/// Jobs whose calls of fsync, or reads, a scenario expects something of.
fn waiting_jobs(scenario: &Scenario) -> Vec<&Job> {
    let expected = |job: &&Job| {
        let mut metrics = scenario.expects.iter().map(|expect| &expect.metric);
        metrics.any(|metric| {
            Name::parse_full_name(metric).is_some_and(|name| {
                let reads = is_fio_pattern(job, "read") && name.metric.starts_with("clat_");
                name.subject == job.name && (reads || name.metric.starts_with("sync_"))
            })
        })
    };
    scenario.jobs.iter().filter(expected).collect()
}

/// Cgroups of other jobs that write to the same disks and do not sync.
fn cgroups_beside<'a>(scenario: &'a Scenario, waits: &[&Job]) -> Vec<&'a str> {
    let mut cgroups: Vec<&str> = Vec::new();
    for job in &scenario.jobs {
        let syncs = ["fsync", "fdatasync"].map(|option| job.fio.contains_key(option));
        let beside = waits
            .iter()
            .any(|other| other.disk == job.disk && other.cgroup != job.cgroup);
        let Some(cgroup) = &job.cgroup else { continue };
        if is_fio_pattern(job, "write")
            && beside
            && syncs == [false; 2]
            && !cgroups.contains(&cgroup.as_str())
        {
            cgroups.push(cgroup);
        }
    }
    cgroups
}

/// Returns whether a fio job's pattern is `way` or the same at random.
fn is_fio_pattern(job: &Job, way: &str) -> bool {
    job.fio_pattern()
        .is_some_and(|pattern| pattern.trim_start_matches("rand") == way)
}
