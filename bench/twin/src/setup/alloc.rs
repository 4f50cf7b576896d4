// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that map memory, the swap disk, and which kernel reclaims, from a scenario.
//!
//! Where such a job is, pages are kept one by one ([`crate::mm::node`]); what protects or bounds a
//! cgroup's memory is refused there, since the host has one set of lists.

use super::Refusal;
use crate::mm::domain::PAGE;
use crate::mm::node::{Kernel, Node};
use crate::mm::vmstat::Reclaimed;
use crate::mm::vmstat::Vmstat;
use crate::sim::clock::SECOND;
use crate::task::alloc::Maps;
use crate::task::fio::Work;
use config::reader::quote_key;
use scenario::metric::Name;
use scenario::model::{Filesystem, Job, Pattern, Reclaim, Scenario};

/// Work of each of its processes.
pub fn allocating_work(job: &Job) -> Option<Work> {
    let memory = job.memory.as_ref().filter(|_| job.is_allocating())?;
    Some(Work::for_maps(Maps {
        pages: memory.size_bytes / PAGE,
        twice: memory.pattern == Pattern::Churn,
        interval: memory.rate.map(|rate| SECOND / rate.max(1)),
    }))
}

/// The node, which counts pages one by one, if a job maps memory.
pub fn build_page_node(scenario: &Scenario) -> Option<Node> {
    if !scenario.jobs.iter().any(Job::is_allocating) {
        return None;
    }
    let mut disks = scenario.disks.iter().enumerate();
    let swap = disks.find(|(_, disk)| disk.filesystem == Filesystem::Swap);
    let kernel = match scenario.twin.reclaim {
        Some(Reclaim::Waits) => Kernel::Waits,
        Some(Reclaim::Throttles) => Kernel::Throttles,
        Some(Reclaim::Today) | None => Kernel::Today,
    };
    let lru_gen = kernel == Kernel::Today && scenario.host.lru_gen.unwrap_or(true);
    let swap = swap.map(|(device, disk)| (device, disk.size_bytes / PAGE));
    Some(Node::new(kernel, lru_gen, swap))
}

/// Refuses all of this that the twin does not model.
pub fn refuse_allocating(scenario: &Scenario, works: &[Option<Work>], refusals: &mut Vec<Refusal>) {
    let mut refuse = |key: String, why: &str| refusals.push((key, why.to_owned()));
    let swaps = |filesystem| filesystem == Filesystem::Swap;
    let disks = || scenario.disks.iter().enumerate();
    if !scenario.jobs.iter().any(Job::is_allocating) {
        let why = "has an effect only where a job has `memory` of the pattern `fault` or `churn`";
        for (index, _) in disks().filter(|(_, disk)| swaps(disk.filesystem)) {
            refuse(format!("disk[{index}].filesystem"), why);
        }
        if scenario.host.lru_gen.is_some() {
            refuse("host.lru_gen".into(), why);
        }
        if scenario.twin.reclaim.is_some() {
            refuse("twin.reclaim".into(), why);
        }
        return refuse_uncounted_metrics(scenario, refusals);
    }
    if !scenario.tiers.is_empty() {
        refuse(
            "tier".into(),
            "the twin does not model reclaim on a host with tiers",
        );
    }
    if scenario.disks.is_empty() {
        refuse(
            "disk".into(),
            "is missing: add a `[[disk]]`, with `filesystem = \"swap\"` for what is swapped out",
        );
    }
    let old = matches!(
        scenario.twin.reclaim,
        Some(Reclaim::Waits | Reclaim::Throttles)
    );
    if old && scenario.host.lru_gen == Some(true) {
        refuse(
            "host.lru_gen".into(),
            "is of Linux 6.1 and later: leave out `[twin] reclaim`, or give it `6.12`",
        );
    }
    for (index, job) in scenario.jobs.iter().enumerate() {
        let huge = job.memory.as_ref().is_some_and(|memory| memory.huge_pages);
        if job.is_allocating() && huge {
            let key = format!("job[{index}].memory.huge_pages");
            refuse(key, "the twin does not model huge pages");
        }
        if works[index].as_ref().is_some_and(|work| work.holds > 0) {
            let key = format!("job[{index}].fio.ioengine");
            refuse(
                key,
                "the twin does not swap `null` buffers: use `memory` of the pattern `churn`",
            );
        }
    }
    for (path, cgroup) in &scenario.cgroups {
        for file in ["memory.max", "memory.high", "memory.min", "memory.low"] {
            if cgroup.files.contains_key(file) {
                refuse(
                    format!("cgroup.{}.\"{file}\"", quote_key(path)),
                    "the twin does not model it where jobs map memory: run the scenario in the lab",
                );
            }
        }
    }
    let swap: Vec<_> = disks().filter(|(_, disk)| swaps(disk.filesystem)).collect();
    for (index, _) in swap.iter().skip(1) {
        refuse(
            format!("disk[{index}].filesystem"),
            "the twin models one swap disk",
        );
    }
    let Some((index, disk)) = swap.first() else {
        return;
    };
    if disk.io_cost {
        let key = format!("disk[{index}].io_cost");
        refuse(
            key,
            "the twin does not model it on a swap disk, whose writes belong to no cgroup",
        );
    }
    for (path, cgroup) in &scenario.cgroups {
        let limits = cgroup.files.get("io.max");
        if limits.is_some_and(|limits| limits.contains(&disk.name)) {
            refuse(
                format!("cgroup.{}.\"io.max\"", quote_key(path)),
                "the twin does not limit the swap disk",
            );
        }
    }
    let twin = &scenario.twin;
    for (key, is_set) in [
        ("fails", twin.fails.is_some()),
        ("burst", twin.burst_ns.is_some()),
    ] {
        if is_set {
            refuse(
                format!("twin.{key}"),
                "the twin does not model it with a swap disk",
            );
        }
    }
}

/// Expectations of counters that only are where pages are kept one by one.
fn refuse_uncounted_metrics(scenario: &Scenario, refusals: &mut Vec<Refusal>) {
    let counters = Vmstat::default().counters_by_name(&Reclaimed::default());
    let is_counter = |name: &str| counters.contains_key(name) || name == "reclaim_cpu_pct";
    for expect in &scenario.expects {
        let of_bound = expect.bound.0.iter().flat_map(|term| &term.metrics);
        let mut names = [&expect.metric].into_iter().chain(of_bound);
        let counted = |full: &&String| {
            Name::parse_full_name(full)
                .is_some_and(|name| name.subject == "host" && is_counter(&name.metric))
        };
        if let Some(name) = names.find(counted) {
            refusals.push((
                format!("expect[{}]", expect.index),
                format!("the twin measures `{name}` only where a job has `memory` of the pattern `fault` or `churn`"),
            ));
        }
    }
}
