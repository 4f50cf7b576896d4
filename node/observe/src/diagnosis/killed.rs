// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups whose tasks were killed for memory, and what keeps a writer from it.
//!
//! A writer faster than its disk fills `memory.max` with pages that reclaim cannot free, and is
//! killed for that. A ceiling of 75 % leaves reclaim something (docs/experiments/0027). The files
//! do not tell such a kill from one for anonymous memory, so cgroups that have nothing dirty and
//! wrote nothing are left out.

use super::command::cgroup_file;
use super::remedy::{self, Remedy};
use crate::model::cgroup::{Cgroup, display_path};
use crate::model::observation::Observation;
use crate::model::target::Target;
use crate::model::text::format_size;
use knobs::Knob;
use serde::Serialize;

/// The part of `memory.max` that may be dirty, in percent.
const CEILING: u64 = 75;

/// A cgroup with kills.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Killed {
    /// The cgroup's path, `/` for the root.
    pub cgroup: String,
    /// Tasks killed since it was made, of descendants too: `oom_kill` of `memory.events`.
    pub kills: u64,
    /// The setting that keeps writers from it.
    pub remedy: Remedy,
}

/// Finds cgroups with kills at or below the target, and above it.
pub fn find_killed(seen: &Observation, target: &Target) -> Vec<Killed> {
    if !remedy::can_have_weir(seen) {
        return Vec::new();
    }
    let concerned = |path: &str| match target {
        Target::Host => true,
        Target::Cgroup(target) | Target::Process(_, target) => {
            is_within(path, target) || is_within(target, path)
        }
    };
    let has_kills = |cgroup: &Cgroup| cgroup.kills > 0 && cgroup.max.is_some();
    let found = seen.cgroups.iter().filter(|cgroup| {
        // Kills of a cgroup below count here, too.
        let is_belows = seen.cgroups.iter().any(|below| {
            has_kills(below) && below.path != cgroup.path && is_within(&below.path, &cgroup.path)
        });
        has_kills(cgroup) && !is_belows && concerned(&cgroup.path)
    });
    found.filter_map(|cgroup| killed_in(seen, cgroup)).collect()
}

/// Returns whether one path is the other, or below it.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn killed_in(seen: &Observation, cgroup: &Cgroup) -> Option<Killed> {
    let has_written = cgroup.io.values().any(|io| io.written > 0);
    let writes = has_written || cgroup.dirty + cgroup.writeback > 0;
    let remedy = ceiling_remedy(seen, cgroup).filter(|_| writes)?;
    Some(Killed {
        cgroup: display_path(&cgroup.path),
        kills: cgroup.kills,
        remedy,
    })
}

/// A ceiling of 75 % of the cgroup's `memory.max`; nothing if it has a ceiling.
pub(super) fn ceiling_remedy(seen: &Observation, cgroup: &Cgroup) -> Option<Remedy> {
    if !cgroup.ceilings.is_empty() || !remedy::can_have_weir(seen) {
        return None;
    }
    let kib = cgroup.max? / 1024 * CEILING / 100;
    let file = cgroup_file(&cgroup.path, Knob::DirtyBytes.file_name());
    let effect = format!(
        "if it writes faster than its disk: reclaim finds {} that are not dirty; weir agent keeps it by the rule \
         \"memory.dirty_bytes\" = \"{CEILING}%\". Reclaim that waits for writeback (MGLRU of Linux 7.2 and newer) kills for \
         this on disks only that take seconds",
        format_size(cgroup.max? - kib * 1024)
    );
    let set = remedy::echo_command(
        Knob::DirtyBytes.file_name(),
        &format!("{kib}K"),
        &file,
        effect,
    );
    Some(remedy::load_first(seen, set))
}
