// SPDX-License-Identifier: GPL-2.0-only
//! `memory.dirty_stat`, as `kmod/files.c` prints it.

use super::{CgroupRecord, Hooks};
use crate::mm::Dirtier;
use crate::mm::domain::{Dtc, PAGE};
use crate::sim::clock::{HZ, Ns};
use policy::UNLIMITED;
use policy::division;
use policy::pause::{Decider, Facts};
use std::collections::BTreeMap;

/// The module's counters of a cgroup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// Passes of the cgroup's writers.
    pub passes: u64,
    /// Left out below the floor.
    pub admitted: u64,
    /// Let go out of their sleep, as the floor got room.
    pub released: u64,
    /// Held by a ceiling.
    pub held: u64,
    /// Number of pauses slept; of these, in passes that began below a floor.
    pub throttled: u64,
    pub below_floor: u64,
    /// Time in passes that paused.
    pub throttled_ns: Ns,
    /// Pauses, and time in them, by who decided them.
    pub by: [(u64, Ns); Decider::ALL.len()],
    /// Calls of the cgroup's flushers that a weight held, and for how long.
    pub weight_held: u64,
    pub weight_held_ns: Ns,
    /// Passes that waited for what the cgroup may dirty in a second, and for how long.
    pub bandwidth_held: u64,
    pub bandwidth_held_ns: Ns,
    /// Calls of the cgroup's flushers that a window held, and for how long.
    pub window_held: u64,
    pub window_held_ns: Ns,
}

impl Hooks {
    /// All keys of a cgroup; none without the module. A cgroup that it need not know has no counts.
    pub fn dirty_stat(&self, cgroup: usize) -> BTreeMap<&'static str, u64> {
        let Some(weir) = &self.weir else {
            return BTreeMap::new();
        };
        let (group, held) = (&weir.groups[cgroup], &self.cgroups[cgroup]);
        let subtree = if group.known {
            held.subtree
        } else {
            held.counts
        };
        let in_effect = weir.groups.iter().any(|group| group.known);
        let ceilings = self
            .ceilings_above(cgroup)
            .map(|(_, ceiling, _)| ceiling * PAGE);
        let stats = &group.stats;
        let mut stat = BTreeMap::from([
            ("in_effect", in_effect.into()),
            ("dirty", held.counts.dirty * PAGE),
            ("writeback", held.counts.writeback * PAGE),
            ("subtree_dirty", subtree.dirty * PAGE),
            ("subtree_writeback", subtree.writeback * PAGE),
            ("floor", group.floor * PAGE),
            ("floor_unused", group.unused * PAGE),
            ("ceiling", ceilings.min().unwrap_or(UNLIMITED)),
            ("weight_portion", self.weight_portion(cgroup)),
            ("nr_passes", stats.passes),
            ("nr_floor_admitted", stats.admitted),
            ("nr_floor_released", stats.released),
            ("nr_ceiling_held", stats.held),
            ("nr_throttled", stats.throttled),
            ("nr_throttled_below_floor", stats.below_floor),
            ("throttled_usec", stats.throttled_ns / 1000),
            ("nr_weight_held", stats.weight_held),
            ("weight_held_usec", stats.weight_held_ns / 1000),
            ("nr_bandwidth_held", stats.bandwidth_held),
            ("bandwidth_held_usec", stats.bandwidth_held_ns / 1000),
            ("nr_writeback_held", stats.window_held),
            ("writeback_held_usec", stats.window_held_ns / 1000),
        ]);
        // Pauses by decider are two keys each.
        let keys = knobs::stat_keys().iter().map(|key| key.name);
        let by_decider = keys.clone().filter(|key| key.contains("throttled_by_"));
        let by = stats
            .by
            .iter()
            .flat_map(|(pauses, ns)| [*pauses, ns / 1000]);
        stat.extend(by_decider.zip(by));
        // What does not happen on the model: docs/twin.md.
        for key in keys {
            stat.entry(key).or_insert(0);
        }
        stat
    }

    /// A cgroup's part of what is divided where it competes, as it is shown; 0 if it does not.
    fn weight_portion(&self, cgroup: usize) -> u64 {
        let now = self.current_tick();
        let hweight = self
            .weir
            .as_ref()
            .and_then(|weir| weir.groups[cgroup].hweight);
        let lately = hweight.filter(|(_, set)| now <= set + 2 * HZ);
        lately.map_or(0, |(hweight, _)| division::shown(hweight).into())
    }

    /// The record of the cgroup whose pages a task's passes are about.
    pub(super) fn pass_record(&mut self, task: &Dirtier) -> Option<&mut CgroupRecord> {
        self.known_record(self.wbs[task.wb as usize].cgroup)
    }

    /// The record of the cgroup that a task is in.
    pub(super) fn home_record(&mut self, task: &Dirtier) -> Option<&mut CgroupRecord> {
        self.known_record(task.home as usize)
    }

    fn known_record(&mut self, cgroup: usize) -> Option<&mut CgroupRecord> {
        let group = self.weir.as_mut()?.groups.get_mut(cgroup)?;
        group.known.then_some(group)
    }

    /// A pause of a task begins, by the domain `dtc`.
    pub fn weir_begin_pause(&mut self, task: &mut Dirtier, dtc: &Dtc, mdtc: Option<&Dtc>) {
        let Some(weir) = &self.weir else { return };
        let cgroup = mdtc.map_or((0, 0), |dtc| (dtc.limits.thresh, dtc.limits.dirty));
        let facts = Facts {
            thresh: dtc.limits.thresh,
            dirty: dtc.limits.dirty,
            cgroup_thresh: cgroup.0,
            cgroup_dirty: cgroup.1,
            cgroup_seen: mdtc.is_some().into(),
            strictlimit: dtc.is_strict.into(),
            judged_by: weir.judged_by,
        };
        task.paused = Some((facts.decided_by(), self.now));
    }

    /// Counts the end of a pause.
    pub fn weir_end_pause(&mut self, task: &mut Dirtier) {
        let now = self.now;
        if let (Some((by, since)), Some(group)) = (task.paused.take(), self.pass_record(task)) {
            let (pauses, time) = &mut group.stats.by[by as usize];
            *pauses += 1;
            *time += now - since;
        }
    }

    /// A pass that paused has ended.
    pub fn weir_count_pauses(&mut self, task: &Dirtier, pauses: u64, time: Ns) {
        if let Some(group) = self.pass_record(task) {
            group.stats.throttled += pauses;
            group.stats.throttled_ns += time;
            if task.below_floor {
                group.stats.below_floor += pauses;
            }
        }
    }
}
