// SPDX-License-Identifier: GPL-2.0-only
//! How the memory of a phase is driven: its holders begin, every 10 ms everything goes on, and at
//! the end all is free again.

use super::holder::Holder;
use super::{BEAT, Heat};
use crate::world::{Event, World};

impl World {
    /// A phase with `holders` begins.
    pub fn memory_starts(&mut self, holders: Vec<Holder>) {
        if holders.is_empty() {
            return;
        }
        let begins = holders.iter().map(|holder| holder.begins);
        let span = (self.now, begins.max().unwrap_or(self.now), holders[0].ends);
        self.busy += holders.len() as u32;
        self.memory.holders = holders;
        self.memory.record.starts(span, self.cgroups.len());
        self.plan(self.now + BEAT, Event::Memory);
        if let Some(agent) = &self.memory.agent {
            self.plan(self.now + agent.interval, Event::Agent);
        }
    }

    /// Brings the memory forward.
    pub fn memory_beats(&mut self) {
        self.busy -= self.memory.beats(self.now);
        if self.memory.record.is_due(self.now) {
            let held = self.held_in_tiers();
            self.memory
                .record
                .sees(self.now, &held, self.memory.migrated);
        }
        if cfg!(any(test, debug_assertions)) {
            self.memory.check();
        }
        if self.memory.is_held() {
            self.plan(self.now + BEAT, Event::Memory);
        }
    }

    /// The cgroup at `path`, which the scenario has; the root if it has not.
    pub fn cgroup(&self, path: &str) -> usize {
        let found = self.cgroups.iter().position(|cgroup| cgroup.path == path);
        found.unwrap_or(0)
    }

    /// What each cgroup and those below it hold, by tier.
    pub fn held_in_tiers(&self) -> Vec<Vec<Heat>> {
        let mut all = vec![vec![[0; 2]; self.memory.tiers.len()]; self.cgroups.len()];
        for holder in &self.memory.holders {
            let mut next = Some(holder.cgroup);
            while let Some(at) = next {
                for (sum, held) in all[at].iter_mut().zip(&holder.held) {
                    (0..2).for_each(|heat| sum[heat] += held[heat]);
                }
                next = self.cgroups[at].parent;
            }
        }
        all
    }
}
