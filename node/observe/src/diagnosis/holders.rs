// SPDX-License-Identifier: GPL-2.0-only
//! Who holds the dirty pages.

use super::group::{Group, home_of};
use super::{MOST_VERDICTS, limit, owed};
use crate::model::cgroup::Cgroup;
use crate::model::cgroup::{INODE, display_path, parent_path};
use crate::model::host::PAGE;
use crate::model::observation::Observation;
use crate::model::stall::StallKind;
use crate::model::text::format_size;
use serde::Serialize;
use std::collections::BTreeMap;

/// A cgroup that holds dirty pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// The cgroup, `/` for the root.
    pub cgroup: String,
    /// Dirty + writeback, without its descendants'.
    pub bytes: u64,
}

/// Holders of the host's dirty pages, most first; descendants count for themselves. A trace, or a
/// run of the twin, only has those of the cgroups that were throttled, on the device they were
/// throttled for.
pub fn find_holders(seen: &Observation) -> Vec<Holder> {
    let is_known = |cgroup: &Cgroup| cgroup.dirty + cgroup.writeback > 0;
    if seen.cgroups.iter().any(is_known) {
        holders_by_cgroup(seen, |cgroup| cgroup.dirty + cgroup.writeback)
    } else {
        most_first(held_by_events(seen))
    }
}

/// The cgroup to blame for the host's dirty pages.
pub struct Blame {
    /// The cgroup that holds or dirties more than half of them; none if none does, or that is not
    /// known.
    pub culprit: Option<String>,
    /// `true` if it holds them itself.
    pub holds: bool,
    /// The cgroup that holds most of them, if fewer.
    pub most: Option<String>,
    /// Bytes that it holds, and that the host holds.
    held: (u64, u64),
    /// Cgroups that were not throttled are seen as well.
    is_complete: bool,
}

impl Blame {
    /// Why no cgroup is named.
    pub fn to_sentence(&self, cgroup: &str) -> String {
        let (held, all) = (format_size(self.held.0), format_size(self.held.1));
        match &self.most {
            None => "which cgroup holds them is not shown".into(),
            Some(most) if self.is_complete => {
                format!("no cgroup holds half of them: {most} holds most, {held} of {all}")
            }
            Some(most) => {
                let whose = if most == cgroup { "it" } else { most };
                format!("which cgroup holds them is not shown: {whose} holds {held} of {all}")
            }
        }
    }
}

/// Finds it, for tasks that wait for the host's limit.
pub fn blame_for_host(seen: &Observation, group: &Group, holders: &[Holder]) -> Blame {
    let last = group
        .pauses()
        .last()
        .map(|(_, throttled)| throttled.pause.dirty * PAGE);
    let all = limit::median_held(seen).or(last).unwrap_or(0);
    let holds = holders.first();
    let is_majority = |bytes: u64| bytes.saturating_mul(2) > all;
    let has_majority = holds.filter(|holder| is_majority(holder.bytes));
    // Pages of one cgroup's file that another dirties. What the root holds is another matter: a FUSE
    // daemon's there, for one, which its clients do not dirty.
    let dirties = owed::largest_host_culprit(seen)
        .filter(|path| seen.is_live && has_majority.is_none_or(|holder| holder.cgroup != *path));
    let is_of_fuse = |bdi: &str| {
        let device = seen.devices.iter().find(|device| device.bdi == bdi);
        let kind = device.and_then(|device| device.filesystem.as_deref());
        kind.is_some_and(|kind| kind.starts_with("fuse"))
    };
    let is_a_writer = |path: &str| {
        seen.stalls.iter().any(|stall| match &stall.kind {
            StallKind::Throttle(throttled) => {
                display_path(&home_of(seen, stall)) == path && !is_of_fuse(&throttled.pause.bdi)
            }
            _ => false,
        })
    };
    let own = |path: &str| {
        let held = holders_by_cgroup(seen, |cgroup| cgroup.dirty + cgroup.writeback);
        held.iter()
            .find(|holder| holder.cgroup == path)
            .map_or(0, |holder| holder.bytes)
    };
    let dirties = dirties.filter(|path| is_majority(own(path)) || is_a_writer(path));
    Blame {
        holds: dirties.is_none(),
        culprit: dirties.or_else(|| has_majority.map(|holder| holder.cgroup.clone())),
        most: holds.map(|holder| holder.cgroup.clone()),
        held: (holds.map_or(0, |holder| holder.bytes), all),
        is_complete: seen.is_live,
    }
}

fn most_first(held: BTreeMap<String, u64>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = held
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(path, bytes)| Holder {
            cgroup: display_path(&path),
            bytes,
        })
        .collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders.truncate(MOST_VERDICTS);
    holders
}

/// The cgroups with most of what files count with all descendants'; here each counts for itself.
pub fn holders_by_cgroup(seen: &Observation, bytes: impl Fn(&Cgroup) -> u64) -> Vec<Holder> {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    for cgroup in &seen.cgroups {
        let held = held.entry(cgroup.path.as_str()).or_default();
        *held = held.saturating_add(bytes(cgroup));
    }
    for cgroup in &seen.cgroups {
        if let Some(parent) = parent_path(&cgroup.path) {
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

/// Bytes that the throttled cgroups held when they were throttled last, by the cgroup's path.
fn held_by_events(seen: &Observation) -> BTreeMap<String, u64> {
    let mut last: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    for stall in &seen.stalls {
        if let StallKind::Throttle(throttled) = &stall.kind {
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
