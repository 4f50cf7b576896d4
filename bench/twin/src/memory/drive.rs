// SPDX-License-Identifier: GPL-2.0-only
//! The memory of a phase as time goes on: its holders begin, every 10 ms everything goes on, and at
//! the end all is free again.

use super::holder::MemoryHolder;
use super::{BEAT, Heat, TieredMemory};
use crate::mm::Cgroup;
use crate::sim::SimEvent;
use crate::task::Tasks;

impl TieredMemory {
    /// A phase with `holders` begins.
    pub fn start_phase(&mut self, holders: Vec<MemoryHolder>, tasks: &mut Tasks) {
        if holders.is_empty() {
            return;
        }
        let now = tasks.now;
        let begins = holders.iter().map(|holder| holder.begins);
        let span = (now, begins.max().unwrap_or(now), holders[0].ends);
        tasks.busy += holders.len() as u32;
        self.holders = holders;
        self.record.start_span(span, tasks.cgroups.len());
        tasks.schedule_event(now + BEAT, SimEvent::Memory);
        if let Some(agent) = &self.agent {
            tasks.schedule_event(now + agent.interval, SimEvent::Agent);
        }
    }

    /// Goes on, every 10 ms.
    pub fn advance_phase(&mut self, tasks: &mut Tasks) {
        let now = tasks.now;
        tasks.busy -= self.advance_beat(now);
        if self.record.is_sample_due(now) {
            let held = self.held_in_tiers(&tasks.cgroups);
            self.record.record_tier_sample(now, &held, self.migrated);
        }
        if cfg!(any(test, debug_assertions)) {
            self.check_pages();
        }
        if self.has_unended_holders() {
            tasks.schedule_event(now + BEAT, SimEvent::Memory);
        }
    }

    /// Pages that each cgroup and those below it hold, by tier.
    pub fn held_in_tiers(&self, cgroups: &[Cgroup]) -> Vec<Vec<Heat>> {
        let mut all = vec![vec![[0; 2]; self.tiers.len()]; cgroups.len()];
        for holder in &self.holders {
            let mut next = Some(holder.cgroup);
            while let Some(at) = next {
                for (sum, held) in all[at].iter_mut().zip(&holder.held) {
                    (0..2).for_each(|heat| sum[heat] += held[heat]);
                }
                next = cgroups[at].parent;
            }
        }
        all
    }
}
