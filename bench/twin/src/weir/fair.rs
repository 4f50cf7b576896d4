// SPDX-License-Identifier: GPL-2.0-only
//! Fair parts, as kmod/fair.c has them: the cgroups that write, and what each may hold. The module
//! evaluates those that write in turn; here all are evaluated at once, at each beat and for one
//! that begins to write.

use super::Hooks;
use crate::sim::clock::{MS, Ns};
use policy::fair;
use policy::floor::Pool;
use std::collections::BTreeSet;

const LINGERS: Ns = fair::LINGERS_MS * MS;

/// Cgroups that write, at or below one.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// Children that count, and its own tasks.
    counting: u32,
    weights: u64,
}

impl Hooks {
    /// A task of the cgroup is in a pass.
    pub(super) fn weir_note_writer(&mut self, cgroup: usize) {
        let now = self.now;
        let Some(weir) = self.weir.as_mut().filter(|weir| weir.fair) else {
            return;
        };
        let Some(group) = weir.groups.get_mut(cgroup).filter(|group| group.known) else {
            return;
        };
        let begins = group.wrote.replace(now).is_none();
        if begins {
            self.weir_divide_floors();
        }
    }

    /// A beat: cgroups that have ceased to write do not count any more, and what the host holds
    /// besides is one more, or is not.
    pub(super) fn weir_review_writers(&mut self) {
        let (now, host) = (self.now, self.counts.pages_held());
        let Some(weir) = self.weir.as_mut().filter(|weir| weir.fair) else {
            return;
        };
        for group in &mut weir.groups {
            group.wrote = group.wrote.filter(|then| now < then + LINGERS);
        }
        let counted = self.held_beside_writers();
        if let Some(weir) = &mut self.weir {
            weir.others = fair::counts_others(host, counted, weir.host_thresh);
        }
        self.weir_divide_floors();
    }

    /// Pages that topmost cgroups hold in which some cgroup writes.
    fn held_beside_writers(&self) -> u64 {
        let Some(weir) = &self.weir else { return 0 };
        let writing = (1..weir.groups.len()).filter(|index| weir.groups[*index].wrote.is_some());
        let tops: BTreeSet<usize> = writing
            .filter_map(|index| self.path_to_root(index).last())
            .collect();
        let held = |top: &usize| self.cgroups[*top].subtree.pages_held();
        tops.iter().map(held).sum()
    }

    /// `true` if the cgroup, or one above it, has a floor that is set.
    fn has_set_floor(&self, cgroup: usize) -> bool {
        let Some(weir) = &self.weir else { return false };
        self.path_to_root(cgroup)
            .any(|at| weir.groups[at].floor_bytes > 0)
    }

    /// The sums of those that write, by cgroup; the root's are of the topmost.
    fn writing_levels(&self) -> Vec<Level> {
        let Some(weir) = &self.weir else {
            return Vec::new();
        };
        let mut levels = vec![Level::default(); weir.groups.len()];
        levels[0].weights += u64::from(weir.others) * u64::from(policy::division::WEIGHT_DEFAULT);
        for index in 1..levels.len() {
            if weir.groups[index].wrote.is_none() || self.has_set_floor(index) {
                continue;
            }
            levels[index].weights += u64::from(policy::division::WEIGHT_DEFAULT);
            for at in self.path_to_root(index) {
                levels[at].counting += 1;
                if levels[at].counting > 1 {
                    break;
                }
                let above = self.cgroups[at].parent.unwrap_or(0);
                levels[above].weights += u64::from(weir.groups[at].weight);
            }
        }
        levels
    }

    fn weir_divide_floors(&mut self) {
        let levels = self.writing_levels();
        let Some(weir) = &self.weir else { return };
        let pool = fair::pool_pages(&Pool {
            wanted_total: weir.set_total,
            host_thresh: weir.drain_limit(weir.host_thresh),
        });
        for index in 1..levels.len() {
            if self.has_set_floor(index) {
                continue;
            }
            let mut floor = 0;
            if let Some(weir) = self.weir.as_ref() {
                if weir.groups[index].wrote.is_some() {
                    let own = policy::division::WEIGHT_DEFAULT;
                    let mut part = fair::child_part(pool, own, levels[index].weights);
                    for at in self.path_to_root(index) {
                        let above = self.cgroups[at].parent.unwrap_or(0);
                        let weight = weir.groups[at].weight;
                        part = fair::child_part(part, weight, levels[above].weights);
                    }
                    floor = self.cap_floor(index, fair::part_floor(part, pool));
                }
            }
            let Some(weir) = &mut self.weir else { return };
            if weir.groups[index].floor != floor {
                weir.groups[index].floor = floor;
                self.weir_report_held(index);
            }
        }
    }
}
