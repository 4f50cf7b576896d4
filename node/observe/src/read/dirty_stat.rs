// SPDX-License-Identifier: GPL-2.0-only
//! What weir's module says of cgroups, from `memory.dirty_stat`.
//!
//! Asking for it makes the module keep a record of the cgroup, so only those are asked that it
//! keeps one of anyway: at and below a cgroup with a floor, a ceiling, a bandwidth or a window, and
//! all that compete with one that has a weight, which are its parent's children with all below them. Example:
//! `/db` has a weight: `/db`, `/web` and `/web/a` are asked, and so is the root, which has no such
//! file.

use super::values::{flat_value, parse_number};
use crate::model::bounds;
use crate::model::cgroup::{Cgroup, parent_path, path_up};
use crate::model::dirty_stat::DirtyStat;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

impl DirtyStat {
    fn parse(text: &str) -> DirtyStat {
        let ceiling = text
            .lines()
            .find_map(|line| line.strip_prefix("ceiling "))
            .and_then(parse_number)
            .and_then(bounds::plausible_limit);
        DirtyStat {
            floor: flat_value(text, "floor"),
            ceiling,
            weight_portion: flat_value(text, "weight_portion"),
            throttled_usec: flat_value(text, "throttled_usec"),
            weight_held: flat_value(text, "nr_weight_held"),
            weight_held_usec: flat_value(text, "weight_held_usec"),
            bandwidth_held: flat_value(text, "nr_bandwidth_held"),
            bandwidth_held_usec: flat_value(text, "bandwidth_held_usec"),
            window_held: flat_value(text, "nr_writeback_held"),
            window_held_usec: flat_value(text, "writeback_held_usec"),
        }
    }
}

/// Asks those that are counted; `top` is where cgroups are mounted.
pub(crate) fn read(top: &Path, cgroups: &mut [Cgroup]) {
    let counted = counted_paths(cgroups);
    if counted.is_empty() {
        return;
    }
    for cgroup in cgroups {
        if path_up(&cgroup.path).any(|path| counted.contains(path)) {
            let file = top.join(&cgroup.path).join(knobs::stat_file());
            // Not there in the root; one that is gone meanwhile has nothing to say.
            cgroup.stat = fs::read_to_string(file)
                .ok()
                .map(|text| DirtyStat::parse(&text));
        }
    }
}

/// Cgroups at and below which the module counts.
fn counted_paths(cgroups: &[Cgroup]) -> BTreeSet<String> {
    let mut counted = BTreeSet::new();
    for cgroup in cgroups {
        let has_limit =
            !cgroup.ceilings.is_empty() || cgroup.bandwidth.is_some() || cgroup.window.is_some();
        if cgroup.dirty_min.unwrap_or(0) > 0 || has_limit {
            counted.insert(cgroup.path.clone());
        }
        if cgroup.weight.is_some() {
            counted.extend(parent_path(&cgroup.path).map(str::to_string));
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
        stat.subtract_totals(&before);
        assert_eq!(
            (stat.throttled_usec, stat.weight_held, stat.weight_held_usec),
            (600, 0, 0)
        );
        assert_eq!(DirtyStat::parse("ceiling 4096\n").ceiling, Some(4096));
    }

    #[test]
    fn all_that_is_read_are_keys_of_the_module() {
        let lines = knobs::stat_keys().iter().zip(1..);
        let text: String = lines
            .map(|(key, n)| format!("{} {n}\n", key.name))
            .collect();
        let DirtyStat {
            floor,
            ceiling,
            weight_portion,
            throttled_usec,
            weight_held,
            weight_held_usec,
            bandwidth_held,
            bandwidth_held_usec,
            window_held,
            window_held_usec,
        } = DirtyStat::parse(&text);
        let read = [
            floor,
            ceiling.unwrap_or(0),
            weight_portion,
            throttled_usec,
            weight_held,
            weight_held_usec,
            bandwidth_held,
            bandwidth_held_usec,
            window_held,
            window_held_usec,
        ];
        assert!(read.iter().all(|value| *value > 0), "{read:?}");
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
        cgroups[5].dirty_min = None;
        cgroups[5].window = Some(1 << 18);
        cgroups.iter_mut().for_each(|cgroup| cgroup.stat = None);
        assert_eq!(asked(&mut cgroups), ["b"]);
    }
}
