// SPDX-License-Identifier: GPL-2.0-only
//! What there is to tell in a scrape.

use crate::family::Family;
use knobs::PAGE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings and limits as of the last step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StockStatus {
    /// Files, or parts of them, that are set.
    pub settings: u64,
    /// Ceilings by cgroup, in pages.
    pub ceilings: BTreeMap<String, u64>,
    /// KiB that disks may have in flight, by name.
    pub queues: BTreeMap<String, u64>,
    /// The host's limit by its seconds of drain, in pages; none while it is the kernel's own.
    pub limit: Option<u64>,
    /// Pages that the host drains in a second; 0 if that is not known.
    pub drain: u64,
}

impl StockStatus {
    /// The status as metrics.
    pub fn to_families(&self) -> Arc<[Family]> {
        let mut ceilings = Family::gauge(
            "weir_agent_stock_ceiling",
            "Dirty pages that a cgroup may have by the memory.high that the agent has set.",
        )
        .in_bytes();
        for (cgroup, pages) in &self.ceilings {
            ceilings.add(&[("cgroup", &Arc::from(cgroup.as_str()))], pages * PAGE);
        }
        let mut queues = Family::gauge(
            "weir_agent_stock_queue",
            "What a disk may have in flight by the nr_requests and max_sectors_kb that the agent has set.",
        )
        .in_bytes();
        for (disk, kib) in &self.queues {
            queues.add(&[("disk", &Arc::from(disk.as_str()))], kib << 10);
        }
        let mut limit = Family::gauge(
            "weir_agent_stock_limit",
            "Dirty pages of the host that vm.dirty_bytes allows for drain_seconds; none while nothing is lifted.",
        )
        .in_bytes();
        if let Some(pages) = self.limit {
            limit.add(&[], pages * PAGE);
        }
        Arc::from([
            limit,
            Family::gauge(
                "weir_agent_stock_drain",
                "What disks write in a second while there is enough to write, as drain_seconds measures it.",
            )
            .in_bytes()
            .with(self.drain * PAGE),
            Family::gauge(
                "weir_agent_stock_settings",
                "Files of the stock kernel that the agent has set, for want of the module.",
            )
            .with(self.settings),
            ceilings,
            queues,
        ])
    }
}
