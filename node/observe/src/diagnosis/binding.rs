// SPDX-License-Identifier: GPL-2.0-only
//! The limit of a cgroup, or of one above it, that leaves the least room.

use crate::model::cgroup::{display_path, path_up};
use crate::model::observation::Observation;
use crate::model::stall::Throttled;
use crate::model::text::format_size;

/// The memory limit that leaves a cgroup the least room, or a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The cgroup whose file it is.
    pub path: String,
    /// `memory.max`, `memory.high`, `memory.dirty_bytes`
    pub file: &'static str,
    /// The limit in bytes.
    pub value: u64,
    /// `memory.current` of that cgroup.
    pub used: u64,
}

impl Binding {
    /// The limit as a sentence of the explanation.
    pub fn to_sentence(&self) -> String {
        format!(
            "{} of {} is {}, of which {} are used",
            self.file,
            display_path(&self.path),
            format_size(self.value),
            format_size(self.used)
        )
    }
}

/// Finds the memory limit that leaves the least room, from the cgroup up to the root.
pub fn tightest_binding(seen: &Observation, path: &str) -> Option<Binding> {
    let limits = path_up(path).filter_map(|path| {
        let cgroup = seen.cgroup_at(path)?;
        let (file, value) = match (cgroup.max, cgroup.high) {
            (Some(max), Some(high)) if high < max => ("memory.high", high),
            (Some(max), _) => ("memory.max", max),
            (None, Some(high)) => ("memory.high", high),
            (None, None) => return None,
        };
        Some(Binding {
            path: path.into(),
            file,
            value,
            used: cgroup.current,
        })
    });
    limits.min_by_key(|binding| binding.value.saturating_sub(binding.used))
}

/// Returns whether the domain of a pause is at least half as large as the host's.
pub fn is_about_the_hosts(seen: &Observation, throttled: &Throttled) -> bool {
    let host = throttled
        .host
        .or_else(|| seen.limits.last().map(|(_, limits)| *limits));
    host.is_some_and(|host| throttled.pause.freerun_pages() * 2 > host.freerun_pages())
}
