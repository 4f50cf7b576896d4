// SPDX-License-Identifier: GPL-2.0-only
//! Tiers, jobs that hold memory, and the agent, from a scenario.

use super::Refusal;
use crate::memory::agent::{Agent, Engine};
use crate::memory::holder::MemoryHolder;
use crate::memory::tier::Tier;
use crate::memory::{BEAT, Costs, TieredMemory};
use crate::mm::domain::PAGE;
use crate::sim::clock::{MS, Ns, SECOND};
use policy::tier::{Settings, Tiers};
use scenario::model::{Arm, Job, Pattern, Phase, Scenario};

/// Bytes that an access moves: a cache line.
const ACCESS: u64 = 64;
/// Bytes per second that one thread can move from tier to tier on a machine of today.
const MIGRATE: u64 = 2 << 30;
/// The kernel describes each page in 64 bytes, in the fastest tier.
const PER_PAGE: u64 = 64;
/// Further memory that it keeps to itself: its image, and the reserve it gives no task.
const IMAGE: u64 = 96 << 20;
/// A difference that the agent takes for none, in bytes.
const BAND: u64 = 4 << 20;

/// Refusals of all this that the twin does not model.
pub fn refused_memory(scenario: &Scenario) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |key: String, why: &str| refusals.push((key, why.to_owned()));
    let tiered = !scenario.tiers.is_empty();
    for (index, job) in scenario.jobs.iter().enumerate() {
        let key = |what: &str| format!("job[{index}].{what}");
        let Some(memory) = &job.memory else {
            if tiered {
                refuse(
                    key("fio"),
                    "the twin does not model page cache in tiers: remove `[[tier]]`, or use `memory`",
                );
            }
            continue;
        };
        if memory.pattern.is_allocating() {
            continue;
        }
        if !tiered {
            refuse(
                key("memory"),
                "the twin runs `memory` jobs of this pattern only on a host with tiers: add `[[tier]]`",
            );
        }
        if memory.huge_pages {
            refuse(
                key("memory.huge_pages"),
                "the twin does not model huge pages",
            );
        }
        let cgroup = job
            .cgroup
            .as_ref()
            .and_then(|path| scenario.cgroups.get(path));
        if cgroup.is_some_and(|cgroup| cgroup.copies.is_some()) {
            refuse(
                key("cgroup"),
                "the twin does not run `memory` jobs in `copies`: give each its own cgroup",
            );
        }
        if cgroup.is_some_and(|cgroup| least_limit(&cgroup.files) < memory.size_bytes) {
            refuse(
                key("memory.size"),
                "is more than its cgroup's memory.high or memory.max: the twin does not model memory reclaim",
            );
        }
    }
    if let Some(text) = scenario.host.weir.get("tiers") {
        let each: Vec<String> = (0..scenario.tiers.len())
            .map(|node| node.to_string())
            .collect();
        if *text.trim_end_matches(';') != each.join(";") {
            refuse(
                "host.weir.tiers".into(),
                "the twin models one node for each `[[tier]]`, in the same order, as in `0;1`",
            );
        }
    }
    if tiered && kernel_bytes(scenario) >= scenario.tiers[0].size_bytes {
        refuse(
            "tier[0].size".into(),
            "leaves no room beside the kernel's own memory",
        );
    }
    for (index, tier) in scenario.tiers.iter().enumerate() {
        if !(1..=SECOND).contains(&tier.latency_ns) {
            refuse(
                format!("tier[{index}].latency"),
                "the twin takes `1ns` to `1s`",
            );
        }
    }
    for (index, phase) in scenario.phases.iter().enumerate() {
        let running = scenario
            .jobs
            .iter()
            .filter(|job| phase.jobs.contains(&job.name));
        let wanted: u64 = running
            .filter_map(|job| Some(job.memory.as_ref()?.size_bytes))
            .sum();
        if tiered
            && wanted
                > scenario
                    .host
                    .memory_bytes
                    .saturating_sub(kernel_bytes(scenario))
        {
            refuse(
                format!("phase[{index}].jobs"),
                "hold more memory than the host has: the twin does not model memory reclaim",
            );
        }
    }
    refusals
}

/// The least of `memory.high` and `memory.max`, in bytes.
pub fn least_limit(files: &std::collections::BTreeMap<String, String>) -> u64 {
    let of = |file: &str| {
        let text = files.get(file)?;
        policy::parse::parse_bytes(text.as_bytes()).ok()
    };
    let (high, max) = (of("memory.high"), of("memory.max"));
    high.unwrap_or(u64::MAX).min(max.unwrap_or(u64::MAX))
}

/// The kernel's own, and what the scenario calls `anonymous`.
fn kernel_bytes(scenario: &Scenario) -> u64 {
    scenario.host.memory_bytes / PAGE * PER_PAGE
        + IMAGE
        + scenario.twin.anonymous_bytes.unwrap_or(0)
}

/// The host's memory before the first phase.
pub fn build_memory(scenario: &Scenario, arm: Arm) -> TieredMemory {
    let tier = |(index, tier): (usize, &scenario::model::Tier)| {
        let own = if index == 0 {
            kernel_bytes(scenario)
        } else {
            0
        };
        let room = tier.size_bytes.saturating_sub(own) / PAGE;
        Tier {
            present: tier.size_bytes / PAGE,
            room,
            free: room,
            latency: tier.latency_ns * 1_000,
            bandwidth: tier.bandwidth,
            cost: tier.latency_ns * 1_000,
            moved: 0,
        }
    };
    let mut memory = TieredMemory {
        tiers: scenario.tiers.iter().enumerate().map(tier).collect(),
        costs: Costs {
            cpus: u64::from(scenario.host.cpus),
            touch: scenario.twin.page_ns.unwrap_or(super::PER_PAGE).max(1),
            access: scenario.twin.access_bytes.unwrap_or(ACCESS),
            migrate: scenario.twin.migrate_bandwidth.unwrap_or(MIGRATE),
        },
        ..TieredMemory::default()
    };
    if arm == Arm::Weir && scenario.host.weir.contains_key("tiers") {
        let capacities: Vec<u64> = memory.tiers.iter().map(|tier| tier.present).collect();
        let ratio = scenario
            .host
            .weir
            .get("tier_ratio")
            .and_then(|text| text.parse().ok());
        let tiers = Tiers {
            ratio: ratio
                .filter(|ratio| *ratio > 0)
                .unwrap_or(policy::tier::BY_CAPACITY),
            ..Tiers::new(&capacities)
        };
        memory.agent = scenario.agent.as_ref().map(|agent| {
            let interval = (agent.interval_ms.clamp(1, 3_600_000) * MS).max(BEAT);
            let moved =
                u128::from(memory.costs.migrate) * u128::from(interval) / u128::from(SECOND);
            let settings = Settings {
                band: BAND / PAGE,
                // Half of what can be moved until it looks again, each way.
                step: (moved as u64 / PAGE / 2).max(1),
                lend: u32::from(agent.lend),
            };
            let headroom = |tier: &Tier| policy::tier::headroom(tier.present);
            let headroom = memory.tiers.iter().map(headroom).collect();
            Agent::new(engine_by_name(&agent.engine), interval, settings, headroom)
        });
        memory.budgeted = Some(tiers);
    }
    memory
}

/// Differences that an engine can tell; `auto` is DAMON on the kernel that the twin models.
fn engine_by_name(name: &str) -> Engine {
    Engine {
        knows_heat: !matches!(name, "move_pages"),
        lifts_hot: matches!(name, "auto" | "damon"),
    }
}

/// Those of a phase that begins `now`, with its jobs' cgroups by `cgroup_of`. All end when the last
/// has run for its duration.
pub fn phase_holders(
    scenario: &Scenario,
    phase: &Phase,
    now: Ns,
    cgroup_of: impl Fn(&str) -> usize,
) -> Vec<MemoryHolder> {
    let running = scenario
        .jobs
        .iter()
        .filter(|job| phase.jobs.contains(&job.name));
    let delay = |job: &Job| phase.delay_ms.get(&job.name).copied().unwrap_or(0) * MS;
    let last = now + running.clone().map(delay).max().unwrap_or(0);
    let ends = last + phase.duration_ms * MS;
    running
        .filter(|job| !job.is_allocating())
        .filter_map(|job| {
            let memory = job.memory.as_ref()?;
            let pages = memory.size_bytes / PAGE;
            // Where all is read alike, all of it is hot.
            let (hot, hot_percent) = match memory.pattern {
                Pattern::Random | Pattern::Fault | Pattern::Churn => (pages, 100),
                Pattern::HotCold {
                    hot_bytes,
                    hot_reads_pct,
                } => (hot_bytes / PAGE, hot_reads_pct.into()),
            };
            let none = vec![[0; 2]; scenario.tiers.len()];
            Some(MemoryHolder {
                cgroup: job.cgroup.as_deref().map_or(0, &cgroup_of),
                size: [hot, pages - hot],
                hot_percent,
                threads: memory.threads.into(),
                held: none.clone(),
                held_last: none,
                touched: [0; 2],
                begins: now + delay(job),
                ends,
                over: false,
                rate: memory.rate.unwrap_or(u64::MAX),
                counts_from: last.midpoint(ends),
                reads: 0,
                reading: 0,
            })
        })
        .collect()
}
