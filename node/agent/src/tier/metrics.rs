// SPDX-License-Identifier: GPL-2.0-only
//! Tiers in scrapes and in the status.

use crate::family::Family;
use crate::tier::groups::Reading;
use crate::tier::host::{PAGE, Tier, format_list};
use crate::tier::status::{BalancerStatus, CgroupStatus, TierStatus};
use crate::tier::stuck::Stuck;
use crate::tier::totals::Totals;
use policy::UNLIMITED;
use policy::tier::{Move, Tiers};
use std::sync::Arc;

/// Cgroups with series of their own at most: those with most memory.
const CGROUPS: usize = 1000;

/// A tier's status.
pub fn tier_status(tier: &Tier) -> TierStatus {
    let nodes: Vec<u32> = tier.nodes.iter().map(|node| node.id).collect();
    TierStatus {
        nodes: format_list(&nodes),
        capacity: tier.capacity() * PAGE,
        free: tier.free_pages() * PAGE,
        headroom: tier.headroom() * PAGE,
    }
}

/// The status of all cgroups that pages are charged to.
pub fn cgroup_statuses(
    tiers: &Tiers,
    readings: &[Reading],
    planned: &[Move],
    totals: &Totals,
    stuck: &Stuck,
) -> Vec<CgroupStatus> {
    let leaves = readings
        .iter()
        .zip(planned)
        .filter(|(reading, _)| reading.leaf);
    let status = |(reading, planned): (&Reading, &Move)| {
        let moved = totals.cgroups.get(&*reading.path).copied();
        let moved = moved.unwrap_or_default();
        let stuck = stuck.last_failure(&reading.directory);
        CgroupStatus {
            cgroup: reading.path.to_string(),
            bytes: reading.group.held[..tiers.count as usize]
                .iter()
                .map(|pages| pages * PAGE)
                .collect(),
            budget: tier_budgets(tiers, reading, planned),
            state: format!("{:?}", planned.reason).to_lowercase(),
            words: planned.reason.text().into(),
            moved_down: moved.down,
            moved_up: moved.up,
            shared_pages: moved.shared,
            problem: stuck.and_then(|outcome| outcome.why.clone()),
        }
    };
    leaves.map(status).collect()
}

/// Bytes that may lie in each tier. The last one takes what the limit leaves.
fn tier_budgets(tiers: &Tiers, reading: &Reading, planned: &Move) -> Vec<Option<u64>> {
    let group = &reading.group;
    let last = tiers.count as usize - 1;
    let whole = match group.high.min(group.max) {
        UNLIMITED => planned.budget[..last].last().copied().unwrap_or(UNLIMITED),
        limit => limit,
    };
    let mut above = 0;
    (0..=last)
        .map(|at| {
            let upto = if at < last { planned.budget[at] } else { whole };
            let part = upto.saturating_sub(above);
            above = above.max(upto);
            (upto != UNLIMITED && (at < last || group.high.min(group.max) != UNLIMITED))
                .then(|| part * PAGE)
        })
        .collect()
}

/// Metrics of tiers; none while tiers are off.
pub fn tier_families(told: &BalancerStatus, totals: &Totals) -> Vec<Family> {
    if told.tiers.is_empty() {
        return Vec::new();
    }
    let mut capacity = Family::gauge("weir_tier_capacity", "Memory of a tier.").in_bytes();
    let mut free = Family::gauge("weir_tier_free", "Free memory of a tier.").in_bytes();
    for (at, tier) in told.tiers.iter().enumerate() {
        let labels = [
            ("tier", &Arc::from(at.to_string())),
            ("nodes", &Arc::from(tier.nodes.as_str())),
        ];
        capacity.add(&labels, tier.capacity);
        free.add(&labels, tier.free);
    }
    let mut engine = Family::gauge("weir_tier_engine", "1 for the engine that moves pages.");
    let name = told.engine.as_deref().unwrap_or("none");
    engine.add(&[("engine", &Arc::from(name))], 1_u64);
    let mut moved = Family::counter("weir_tier_moved", "Moved between tiers.").in_bytes();
    for (way, bytes) in [("down", totals.all.down), ("up", totals.all.up)] {
        moved.add(&[("direction", &Arc::from(way))], bytes);
    }
    let mut held = Family::gauge("weir_tier_cgroup", "Memory of a cgroup in a tier.").in_bytes();
    let mut budget = Family::gauge(
        "weir_tier_cgroup_budget",
        "Its budget in a tier: the part of its limits that may lie there while faster tiers are full.",
    )
    .in_bytes();
    let mut largest: Vec<&CgroupStatus> = told.cgroups.iter().collect();
    largest.sort_by_key(|one| std::cmp::Reverse(one.bytes.iter().sum::<u64>()));
    for one in largest.into_iter().take(CGROUPS) {
        let path: Arc<str> = one.cgroup.as_str().into();
        for (at, (bytes, may)) in one.bytes.iter().zip(&one.budget).enumerate() {
            let labels = [("cgroup", &path), ("tier", &Arc::from(at.to_string()))];
            held.add(&labels, *bytes);
            if let Some(may) = may {
                budget.add(&labels, *may);
            }
        }
    }
    vec![
        capacity,
        free,
        engine,
        Family::gauge("weir_tier_moving", "1 while pages are being moved.").with(told.moving),
        Family::counter("weir_tier_moves", "Moves of one cgroup's pages begun.").with(totals.moves),
        moved,
        Family::counter("weir_tier_failed_pages", "Pages that could not be moved.")
            .with(totals.failed),
        Family::counter(
            "weir_tier_shared_pages",
            "Times that a page was passed over because several processes share it.",
        )
        .with(totals.all.shared),
        held,
        budget,
    ]
}
