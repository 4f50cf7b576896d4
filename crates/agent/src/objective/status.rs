// SPDX-License-Identifier: GPL-2.0-only
//! What there is to tell in a scrape.

use crate::family::Family;
use knobs::PAGE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the last step measured and set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// By objective: its name, what was measured and what it should not exceed, in its unit.
    pub values: Vec<(String, Option<u64>, u64)>,
    /// Ceilings in pages, by cgroup.
    pub ceilings: BTreeMap<String, u64>,
    /// Windows in pages, by cgroup.
    pub windows: BTreeMap<String, u64>,
}

impl Status {
    /// The status as metrics.
    pub fn families(&self) -> Arc<[Family]> {
        let mut part = Family::gauge(
            "weir_agent_objective_part",
            "What was measured of an objective, as a part of its bound: above 1 it is not kept.",
        );
        for (name, value, bound) in &self.values {
            if let Some(value) = value {
                let part_of = *value as f64 / (*bound).max(1) as f64;
                part.add(&[("objective", &Arc::from(name.as_str()))], part_of);
            }
        }
        let mut ceilings = Family::gauge(
            "weir_agent_objective_ceiling",
            "memory.dirty_bytes that the agent has set to keep objectives.",
        )
        .bytes();
        let mut windows = Family::gauge(
            "weir_agent_objective_window",
            "memory.writeback_bytes that the agent has set to keep objectives.",
        )
        .bytes();
        for (family, limits) in [
            (&mut ceilings, &self.ceilings),
            (&mut windows, &self.windows),
        ] {
            for (cgroup, pages) in limits {
                family.add(&[("cgroup", &Arc::from(cgroup.as_str()))], pages * PAGE);
            }
        }
        Arc::from([part, ceilings, windows])
    }
}
