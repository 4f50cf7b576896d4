// SPDX-License-Identifier: GPL-2.0-only
//! Whom a cgroup shares a device with by weight.
//!
//! Weights are shared out among the children of a cgroup, level by level. The level that is told is
//! the lowest at which a weight is set, for the cgroup on the path or for a sibling. Example:
//! `/web/a` waits, `/web` has 100 and its sibling `/db` 400: `/web` is due 100 / (100 + 400) = 20
//! %.

use super::command::cgroup_file;
use super::group::Group;
use super::remedy::{Remedy, echo, floor};
use crate::model::cgroup::Cgroup;
use crate::model::cgroup::{parent, path_up, shown};
use crate::model::observation::Observation;
use knobs::Knob;

/// Siblings that are told.
const MOST: usize = 4;

/// A cgroup and its siblings.
pub struct Beside {
    /// The stalled cgroup, or the one above it at that level.
    pub path: String,
    /// The `memory.dirty_weight` of `path`.
    pub weight: u64,
    /// Siblings that wrote or hold pages, with their weights, who wrote most first.
    siblings: Vec<(String, u64)>,
    /// In percent, what the stalled cgroup is due by now, as the module says it.
    due: Option<f64>,
}

/// Finds the level; nothing if no weight is set on the way.
pub fn beside(seen: &Observation, path: &str) -> Option<Beside> {
    let stat = seen.cgroup_at(path).and_then(|cgroup| cgroup.stat);
    let stack = seen.stack();
    path_up(path).find_map(|path| {
        let above = parent(path)?;
        let own = seen.cgroup_at(path)?;
        let mut siblings: Vec<&Cgroup> = seen
            .cgroups
            .iter()
            .filter(|cgroup| cgroup.path != path && parent(&cgroup.path) == Some(above))
            .collect();
        if own.weight.is_none() && siblings.iter().all(|cgroup| cgroup.weight.is_none()) {
            return None;
        }
        let use_of_it = |cgroup: &Cgroup| {
            let written = cgroup.written(&stack);
            (written, cgroup.dirty + cgroup.writeback)
        };
        siblings.retain(|cgroup| use_of_it(cgroup) != (0, 0));
        siblings.sort_by_key(|cgroup| std::cmp::Reverse(use_of_it(cgroup)));
        Some(Beside {
            path: path.into(),
            weight: weight(own),
            siblings: siblings
                .iter()
                .map(|cgroup| (cgroup.path.clone(), weight(cgroup)))
                .collect(),
            due: stat
                .map(|stat| stat.weight_portion as f64 / 100.0)
                .filter(|due| *due > 0.0),
        })
    })
}

/// For writers that wait for their turn.
pub fn remedies(seen: &Observation, group: &Group, beside: Option<&Beside>) -> Vec<Remedy> {
    let heavier = beside.and_then(|beside| {
        let weight = (beside.weight * 4).min(Knob::DirtyWeight.range().1);
        let file = cgroup_file(&beside.path, Knob::DirtyWeight.file());
        (weight > beside.weight).then(|| {
            let effect = format!(
                "its part of the device, while all of these write, grows from {:.0} to {:.0} %; the others' shrink",
                beside.percent(beside.weight),
                beside.percent(weight)
            );
            echo(Knob::DirtyWeight.file(), &weight.to_string(), &file, effect)
        })
    });
    heavier.into_iter().chain(floor(seen, group)).collect()
}

fn weight(cgroup: &Cgroup) -> u64 {
    cgroup.weight.unwrap_or_else(|| Knob::DirtyWeight.default())
}

impl Beside {
    /// The sibling with the largest portion, if it is due as much or more; none if that is the
    /// cgroup itself.
    pub fn culprit(&self) -> Option<String> {
        // Of equal weights the first wrote most.
        let heaviest = self.siblings.iter().rev().max_by_key(|(_, weight)| *weight);
        let heaviest = heaviest.filter(|(_, weight)| *weight >= self.weight);
        heaviest.map(|(path, _)| shown(path))
    }

    /// What it is due at that level if all write and it had this weight.
    pub fn percent(&self, weight: u64) -> f64 {
        let others: u64 = self.siblings.iter().map(|(_, weight)| weight).sum();
        weight as f64 * 100.0 / (weight + others) as f64
    }

    /// The comparison as a sentence of the explanation.
    pub fn sentence(&self) -> String {
        let told = self.siblings.iter().take(MOST);
        let told: Vec<String> = told
            .map(|(path, weight)| format!("{} {weight}", shown(path)))
            .collect();
        let more = match self.siblings.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let due = match self.due {
            Some(due) => format!("; now it is due {due:.0} % of a device"),
            None => String::new(),
        };
        format!(
            "{} of {} is {}, beside {}{more}: {:.0} % if all of them write{due}",
            Knob::DirtyWeight.file(),
            shown(&self.path),
            self.weight,
            told.join(", "),
            self.percent(self.weight)
        )
    }
}
