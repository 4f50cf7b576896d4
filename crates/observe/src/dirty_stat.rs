// SPDX-License-Identifier: GPL-2.0-only
//! What weir's module says of cgroups, from `memory.dirty_stat`.
//!
//! Asking for it makes the module keep a record of the cgroup, so only those are asked that it
//! keeps one of anyway: at and below a cgroup with a floor or a ceiling, and all that compete with
//! one that has a weight, which are its parent's children with all below them. Example: `/db` has a
//! weight: `/db`, `/web` and `/web/a` are asked, and so is the root, which has no such file.

use crate::cgroup::{Cgroup, flat, number};
use crate::plausible;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What is used of it; bytes, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyStat {
    /// In force here and now: its own, and what those of its ancestors have room for.
    pub floor: u64,
    /// In force here and now, the tightest on its path, if there is one.
    pub ceiling: Option<u64>,
    /// The largest part of a device it is due by weight, in 1/10000; 0 where it does not compete.
    #[serde(default)]
    pub weight_portion: u64,
    /// Slept in the throttle.
    pub throttled_usec: u64,
    /// Passes that waited for the cgroup's weight.
    pub weight_held: u64,
    /// How long those waited.
    pub weight_held_usec: u64,
}

impl DirtyStat {
    fn parse(text: &str) -> DirtyStat {
        let ceiling = text
            .lines()
            .find_map(|line| line.strip_prefix("ceiling "))
            .and_then(number)
            .and_then(plausible::limit);
        DirtyStat {
            floor: flat(text, "floor"),
            ceiling,
            weight_portion: flat(text, "weight_portion"),
            throttled_usec: flat(text, "throttled_usec"),
            weight_held: flat(text, "nr_weight_held"),
            weight_held_usec: flat(text, "weight_held_usec"),
        }
    }

    /// Takes from running totals what they were at the beginning.
    pub(crate) fn subtract(&mut self, before: &DirtyStat) {
        for (now, before) in [
            (&mut self.throttled_usec, before.throttled_usec),
            (&mut self.weight_held, before.weight_held),
            (&mut self.weight_held_usec, before.weight_held_usec),
        ] {
            *now = now.saturating_sub(before);
        }
    }
}

/// Asks those that are counted; `top` is where cgroups are mounted.
pub(crate) fn read(top: &Path, cgroups: &mut [Cgroup]) {
    let counted = counted(cgroups);
    if counted.is_empty() {
        return;
    }
    for cgroup in cgroups {
        if crate::diagnosis::path_up(&cgroup.path).any(|path| counted.contains(path)) {
            let file = top.join(&cgroup.path).join(knobs::stat_file());
            // Not there in the root; one that is gone meanwhile has nothing to say.
            cgroup.stat = fs::read_to_string(file)
                .ok()
                .map(|text| DirtyStat::parse(&text));
        }
    }
}

/// Cgroups at and below which the module counts.
fn counted(cgroups: &[Cgroup]) -> BTreeSet<String> {
    let mut counted = BTreeSet::new();
    for cgroup in cgroups {
        if cgroup.dirty_min.unwrap_or(0) > 0 || !cgroup.ceilings.is_empty() {
            counted.insert(cgroup.path.clone());
        }
        if cgroup.weight.is_some() {
            counted.extend(crate::diagnosis::parent(&cgroup.path).map(str::to_string));
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "in_effect 1\ndirty 4096\nfloor 16777216\nfloor_unused 5\nceiling max\n\
        throttled_usec 900\nthrottled_by_host_usec 900\nnr_weight_held 3\nweight_held_usec 40\n";

    #[test]
    fn keys_are_found_and_totals_become_differences() {
        let mut stat = DirtyStat::parse(TEXT);
        assert_eq!((stat.floor, stat.ceiling), (16 << 20, None));
        let before = DirtyStat {
            throttled_usec: 300,
            ..stat
        };
        stat.subtract(&before);
        assert_eq!(
            (stat.throttled_usec, stat.weight_held, stat.weight_held_usec),
            (600, 0, 0)
        );
        assert_eq!(DirtyStat::parse("ceiling 4096\n").ceiling, Some(4096));
    }

    #[test]
    fn only_who_is_counted_anyway_is_asked() {
        let cgroup = |path: &str, weight| Cgroup {
            path: path.into(),
            weight,
            ..Cgroup::default()
        };
        let root = tempfile::tempdir().expect("made");
        for path in ["a/db", "a/web/x", "b"] {
            fs::create_dir_all(root.path().join(path)).expect("made");
            fs::write(root.path().join(path).join(knobs::stat_file()), TEXT).expect("written");
        }
        let mut cgroups = ["", "a", "a/db", "a/web", "a/web/x", "b"].map(|path| cgroup(path, None));
        let asked = |cgroups: &mut [Cgroup]| {
            read(root.path(), cgroups);
            cgroups
                .iter()
                .filter(|cgroup| cgroup.stat.is_some())
                .map(|cgroup| cgroup.path.clone())
                .collect::<Vec<_>>()
        };
        assert!(asked(&mut cgroups).is_empty());
        cgroups[2].weight = Some(200);
        assert_eq!(asked(&mut cgroups), ["a/db", "a/web/x"]);
        cgroups[2].weight = None;
        cgroups[5].dirty_min = Some(1);
        assert!(asked(&mut cgroups).contains(&"b".to_string()));
    }
}
