// SPDX-License-Identifier: GPL-2.0-only
//! Memory in tiers: how many pages of whom lie in which kind of memory. Reclaim has to take from
//! here what is not in use.
//!
//! A page lies where there was room when it was first touched, the fastest tier first, and stays
//! there: a stock kernel moves nothing between tiers while there is free memory at all. So who
//! comes last gets what is left. Three hogs of 220 GB and then a victim of 220 GB, 730 GB of fast
//! memory for them: the hogs have 220 each, the victim 70, and 150 in the slow tier.
//!
//! Pages are not kept one by one but counted, by holder (a job's memory), tier and heat. All of a
//! kind are alike: a move that is blind to heat takes hot and cold ones in proportion.
//!
//! | file | what |
//! | --- | --- |
//! | [`tier`] | a kind of memory, and what an access to it costs under load |
//! | [`holder`] | a job's memory: touched first, then read at random by its threads |
//! | [`agent`] | weir's agent: asks the policy what to move, and moves it |
//! | [`drive`] | a phase: holders begin, go on, end |
//! | [`record`] | what is looked at |

pub mod agent;
mod drive;
pub mod holder;
pub mod record;
pub mod tier;

use crate::mm::domain::PAGE;
use crate::sim::clock::{MS, Ns};
use agent::Agent;
use holder::MemoryHolder;
use policy::tier::Tiers;
use record::Record;
use tier::Tier;

/// Pages by their heat: hot ones, cold ones.
pub type Heat = [u64; 2];
/// Index of a holder's hot pages.
pub const HOT: usize = 0;
/// Index of a holder's other pages.
pub const COLD: usize = 1;

/// Time from one step of the state to the next: nothing in it changes faster.
pub const BEAT: Ns = 10 * MS;

/// Properties of a machine that matter for its memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// CPUs that threads share.
    pub cpus: u64,
    /// CPU time to touch a page first.
    pub touch: Ns,
    /// Bytes that an access moves.
    pub access: u64,
    /// Bytes per second that can be moved from tier to tier.
    pub migrate: u64,
}

/// Memory in tiers, and its holders.
#[derive(Clone, Debug, Default)]
pub struct TieredMemory {
    /// Tiers of memory, fastest first.
    pub tiers: Vec<Tier>,
    /// Holders of the running phase.
    pub holders: Vec<MemoryHolder>,
    /// CPU costs of the machine.
    pub costs: Costs,
    /// Tiers that budgets are made of, if there are any.
    pub budgeted: Option<Tiers>,
    /// In arm weir, if the scenario has one.
    pub agent: Option<Agent>,
    /// Record of the running phase.
    pub record: Record,
    /// Pages ever moved from tier to tier.
    pub migrated: u64,
}

impl TieredMemory {
    /// Brings everything forward by a beat that ends `now`. Returns how many holders have come to
    /// their end.
    pub fn advance_beat(&mut self, now: Ns) -> u32 {
        self.touch_for_holders(now);
        self.carry_out_moves();
        self.read_for_holders(now);
        let mut ended = 0;
        for index in 0..self.holders.len() {
            if !self.holders[index].over && now >= self.holders[index].ends {
                self.end_holder(index);
                ended += 1;
            }
        }
        ended
    }

    /// Touches more memory for holders that have not touched all of theirs.
    fn touch_for_holders(&mut self, now: Ns) {
        let speed = self.cpu_share(now);
        for holder in &mut self.holders {
            if !holder.is_running(now) {
                continue;
            }
            let time = holder.threads * BEAT * speed.0 / speed.1;
            let mut pages = (time / self.costs.touch).min(holder.untouched_pages());
            for (index, tier) in self.tiers.iter_mut().enumerate() {
                let here = pages.min(tier.free);
                let heat = holder.next(here);
                tier.free -= here;
                holder.held[index][HOT] += heat[HOT];
                holder.held[index][COLD] += heat[COLD];
                pages -= here;
            }
        }
    }

    /// Reads for holders that have all of their memory. A thread does one access after the other,
    /// so an access that takes longer makes fewer of them, and fewer make it shorter: the loop
    /// finds its own balance within a few beats.
    fn read_for_holders(&mut self, now: Ns) {
        let speed = self.cpu_share(now);
        let costs: Vec<u64> = self.tiers.iter().map(|tier| tier.cost).collect();
        let mut accesses = vec![0; self.tiers.len()];
        for holder in &mut self.holders {
            if holder.is_running(now) && holder.untouched_pages() == 0 {
                holder.read(now, &costs, speed, &mut accesses);
            }
        }
        for (tier, accesses) in self.tiers.iter_mut().zip(accesses) {
            let moved = std::mem::take(&mut tier.moved) * PAGE;
            let bytes = accesses.saturating_mul(self.costs.access);
            tier.adapt_access_cost(bytes.saturating_add(moved), BEAT);
        }
    }

    /// Part of its time for which a thread has a CPU.
    fn cpu_share(&self, now: Ns) -> (u64, u64) {
        let running = self.holders.iter().filter(|holder| holder.is_running(now));
        let threads: u64 = running.map(|holder| holder.threads).sum();
        (self.costs.cpus.min(threads.max(1)), threads.max(1))
    }

    /// Moves up to `pages` of the holders in `cgroup` from tier to tier: those of heat `first`
    /// before others, or as they come. Returns how many were moved: no more than there were, nor
    /// than there was room for.
    pub fn migrate_pages(
        &mut self,
        cgroup: usize,
        (from, to): (usize, usize),
        pages: u64,
        first: Option<usize>,
    ) -> u64 {
        let room = pages.min(self.tiers[to].free);
        let mut left = room;
        let rounds: &[&[usize]] = match first {
            Some(HOT) => &[&[HOT], &[COLD]],
            Some(_) => &[&[COLD], &[HOT]],
            None => &[&[HOT, COLD]],
        };
        for heats in rounds {
            let here = |holder: &MemoryHolder| {
                heats
                    .iter()
                    .map(|heat| holder.held[from][*heat])
                    .sum::<u64>()
            };
            let mut all: u64 = self
                .holders
                .iter()
                .filter(|holder| holder.cgroup == cgroup)
                .map(here)
                .sum();
            for holder in self
                .holders
                .iter_mut()
                .filter(|holder| holder.cgroup == cgroup)
            {
                for heat in *heats {
                    // In proportion, and what rounding leaves from the last.
                    let has = holder.held[from][*heat];
                    let takes = proportional_part(left, has, all).min(has);
                    holder.held[from][*heat] -= takes;
                    holder.held[to][*heat] += takes;
                    all -= has;
                    left -= takes;
                }
            }
        }
        let moved = room - left;
        for (tier, free) in [(from, true), (to, false)] {
            let tier = &mut self.tiers[tier];
            tier.moved += moved;
            tier.free = if free {
                tier.free + moved
            } else {
                tier.free - moved
            };
        }
        self.migrated += moved;
        moved
    }

    /// At least one job holds memory.
    pub fn has_unended_holders(&self) -> bool {
        self.holders.iter().any(|holder| !holder.over)
    }

    /// A job has ended: its memory is free.
    fn end_holder(&mut self, index: usize) {
        let holder = &mut self.holders[index];
        holder.over = true;
        let none = vec![[0; 2]; self.tiers.len()];
        holder.held_last = std::mem::replace(&mut holder.held, none);
        for (tier, held) in self.tiers.iter_mut().zip(&holder.held_last) {
            tier.free += held[HOT] + held[COLD];
        }
    }

    /// The conservation of pages: each is free or held by one job, and each job holds what it has
    /// touched.
    pub fn check_pages(&self) {
        for (index, tier) in self.tiers.iter().enumerate() {
            let held = self.holders.iter().flat_map(|holder| &holder.held[index]);
            assert_eq!(
                tier.free + held.sum::<u64>(),
                tier.room,
                "pages lost or made up"
            );
        }
        let lost: u64 = self.holders.iter().map(MemoryHolder::lost_pages).sum();
        assert_eq!(lost, 0, "pages lost or made up");
    }
}

/// `n * part / all`, nothing of nothing.
pub fn proportional_part(n: u64, part: u64, all: u64) -> u64 {
    if all == 0 {
        return 0;
    }
    (u128::from(n) * u128::from(part)).div_ceil(u128::from(all)) as u64
}
