// SPDX-License-Identifier: GPL-2.0-only
//! What there is to tell in a scrape.

use crate::family::Family;
use knobs::PAGE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values that the last step measured and set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectiveStatus {
    /// Each objective's bound, and what was measured.
    pub values: Vec<ObjectiveValue>,
    /// Ceilings in pages, by cgroup.
    pub ceilings: BTreeMap<String, u64>,
    /// Windows in pages, by cgroup.
    pub windows: BTreeMap<String, u64>,
}

/// An objective's bound, and what was measured, in its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveValue {
    /// The objective's number in the policy file, and the name of its bound.
    pub objective: String,
    /// Globs of the cgroups whose waits are measured.
    pub cgroups: String,
    /// The last that was; none before.
    pub measured: Option<u64>,
    /// The bound that it should not exceed.
    pub bound: u64,
}

impl ObjectiveStatus {
    /// The status as metrics.
    pub fn to_families(&self) -> Arc<[Family]> {
        let mut part = Family::gauge(
            "weir_agent_objective_part",
            "What was measured of an objective, as a part of its bound: above 1 it is not kept.",
        );
        for of in &self.values {
            if let Some(measured) = of.measured {
                let labels: [(_, &Arc<str>); 2] = [
                    ("objective", &of.objective.as_str().into()),
                    ("cgroup", &of.cgroups.as_str().into()),
                ];
                part.add(&labels, measured as f64 / of.bound.max(1) as f64);
            }
        }
        let mut ceilings = Family::gauge(
            "weir_agent_objective_ceiling",
            "memory.dirty_bytes that the agent has set to keep objectives.",
        )
        .in_bytes();
        let mut windows = Family::gauge(
            "weir_agent_objective_window",
            "memory.writeback_bytes that the agent has set to keep objectives.",
        )
        .in_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::open_metrics;

    #[test]
    fn an_objective_is_told_with_its_cgroups() {
        let value = |objective: &str, measured| ObjectiveValue {
            objective: objective.into(),
            cgroups: "/db /web-*".into(),
            measured,
            bound: 50_000_000,
        };
        let status = ObjectiveStatus {
            values: vec![value("1 fsync_p99", Some(75_000_000)), value("2 x", None)],
            ..ObjectiveStatus::default()
        };
        let text = open_metrics(status.to_families().to_vec()).expect("written");
        let line =
            "weir_agent_objective_part{objective=\"1 fsync_p99\",cgroup=\"/db /web-*\"} 1.5\n";
        assert!(text.contains(line) && !text.contains("2 x"), "{text}");
    }
}
