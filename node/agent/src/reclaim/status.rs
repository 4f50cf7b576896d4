// SPDX-License-Identifier: GPL-2.0-only
//! What there is to tell in a scrape.

use crate::family::Family;
use knobs::PAGE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limits and counters as of the last step; pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReclaimStatus {
    /// `true` while an episode is under way.
    pub active: bool,
    /// Episodes since the agent began.
    pub episodes: u64,
    /// Steps of limits so far.
    pub steps: u64,
    /// Memory that should stay free.
    pub headroom: u64,
    /// Idle memory that the kernel was asked for so far.
    pub idle_asked: u64,
    /// Limits by cgroup.
    pub limits: BTreeMap<String, u64>,
}

impl ReclaimStatus {
    /// The status as metrics.
    pub fn to_families(&self) -> Arc<[Family]> {
        let mut limits = Family::gauge(
            "weir_agent_reclaim_limit",
            "memory.high that the agent has set, of cgroups that allocate beyond their share.",
        )
        .in_bytes();
        for (cgroup, pages) in &self.limits {
            limits.add(&[("cgroup", &Arc::from(cgroup.as_str()))], pages * PAGE);
        }
        Arc::from([
            Family::gauge(
                "weir_agent_reclaim_active",
                "1 while allocations had to reclaim, or limits are set.",
            )
            .with(self.active),
            Family::gauge(
                "weir_agent_reclaim_headroom",
                "Free memory that limits are set for.",
            )
            .in_bytes()
            .with(self.headroom * PAGE),
            Family::counter(
                "weir_agent_reclaim_episodes",
                "Times that allocations began to reclaim.",
            )
            .with(self.episodes),
            Family::counter(
                "weir_agent_reclaim_idle_asked",
                "Idle memory of the host that the kernel was asked to reclaim.",
            )
            .in_bytes()
            .with(self.idle_asked * PAGE),
            Family::counter("weir_agent_reclaim_steps", "Looks at all allocators.")
                .with(self.steps),
            limits,
        ])
    }
}
