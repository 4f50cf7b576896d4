// SPDX-License-Identifier: GPL-2.0-only
//! Who holds the dirty pages.

use super::MOST_VERDICTS;
use super::verdict::Holder;
use crate::model::cgroup::Cgroup;
use crate::model::cgroup::{INODE, parent, shown};
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::stall::Kind;
use std::collections::BTreeMap;

/// Who holds the host's dirty pages, most first; descendants count for themselves. A trace, or a
/// run of the twin, only has those of the cgroups that were throttled, on the device they were
/// throttled for.
pub fn holders(seen: &Observation) -> Vec<Holder> {
    let is_known = |cgroup: &Cgroup| cgroup.dirty + cgroup.writeback > 0;
    if seen.cgroups.iter().any(is_known) {
        by_cgroup(seen, |cgroup| cgroup.dirty + cgroup.writeback)
    } else {
        most_first(held_by_events(seen))
    }
}

fn most_first(held: BTreeMap<String, u64>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = held
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(path, bytes)| Holder {
            cgroup: shown(&path),
            bytes,
        })
        .collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders.truncate(MOST_VERDICTS);
    holders
}

/// Who has most of what files count with all descendants'; here each counts for itself.
pub fn by_cgroup(seen: &Observation, bytes: impl Fn(&Cgroup) -> u64) -> Vec<Holder> {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    for cgroup in &seen.cgroups {
        let held = held.entry(cgroup.path.as_str()).or_default();
        *held = held.saturating_add(bytes(cgroup));
    }
    for cgroup in &seen.cgroups {
        if let Some(parent) = parent(&cgroup.path) {
            if let Some(held) = held.get_mut(parent) {
                *held = held.saturating_sub(bytes(cgroup));
            }
        }
    }
    most_first(
        held.into_iter()
            .map(|(path, bytes)| (path.to_string(), bytes))
            .collect(),
    )
}

/// What the throttled cgroups held when they were throttled last, in bytes, by the cgroup's path.
fn held_by_events(seen: &Observation) -> BTreeMap<String, u64> {
    let mut last: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    for stall in &seen.stalls {
        if let Kind::Throttle(throttled) = &stall.kind {
            let pause = &throttled.pause;
            last.insert((pause.cgroup, pause.bdi.as_str()), pause.bdi_dirty * PAGE);
        }
    }
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for ((cgroup, _), bytes) in last {
        let path = match seen.cgroup_of(cgroup) {
            Some(cgroup) => cgroup.path.clone(),
            None => format!("{INODE}{cgroup}"),
        };
        let held = held.entry(path).or_default();
        *held = held.saturating_add(bytes);
    }
    held
}
