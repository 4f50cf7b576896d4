// SPDX-License-Identifier: GPL-2.0-only
//! weir's agent: once a second it asks the policy what should change its tier
//! (`policy/tier_plan.c`, as the real one does), and moves that until it asks again, as fast as
//! pages can be moved.
//!
//! What an engine knows and can choose is modelled, not how it works. `move_pages` is blind to
//! heat: it moves pages as they come. DAMON knows which are hot: cold ones go down first, hot ones
//! up; where `move_pages` goes up instead, only down. What it knows is exact here.
//!
//! What goes down goes first: it makes room. Half of what can be moved in a second may go each way;
//! with 2 GiB a second, a cgroup that is 95 GiB under its budget beside one that is as much over it
//! takes 95 seconds and a few more.

use super::{BEAT, COLD, HOT, Heat, TieredMemory};
use crate::mm::domain::PAGE;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND};
use crate::task::Tasks;
use policy::tier::{Group, Move, Room, Settings};

/// Differences that the engine in use can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// `true` if it tells hot pages from cold ones: the policy is told, and cold ones go down
    /// first.
    pub knows_heat: bool,
    /// Hot ones go up first.
    pub lifts_hot: bool,
}

/// Pages of a cgroup that are still to be moved.
#[derive(Clone, Copy, Debug)]
struct Order {
    cgroup: usize,
    from: usize,
    to: usize,
    pages: u64,
}

/// The agent that moves pages between tiers.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Mechanism that it moves pages by.
    pub engine: Engine,
    /// Time from one look to the next.
    pub interval: Ns,
    /// Settings that the policy is handed.
    pub settings: Settings,
    /// Free memory left to allocations, by tier.
    pub headroom: Vec<u64>,
    orders: Vec<Order>,
}

impl Agent {
    /// One that has not looked yet.
    pub fn new(engine: Engine, interval: Ns, settings: Settings, headroom: Vec<u64>) -> Agent {
        Agent {
            engine,
            interval,
            settings,
            headroom,
            orders: Vec::new(),
        }
    }
}

impl TieredMemory {
    /// The agent looks, and changes its mind about what is still to be moved.
    pub fn replan_moves(&mut self, tasks: &mut Tasks) {
        let Some(moves) = self.plan_moves(tasks) else {
            return;
        };
        let mut down = Vec::new();
        let mut up = Vec::new();
        for upper in 0..self.tiers.len() - 1 {
            for (index, its) in moves.iter().enumerate() {
                let order = |from, to, pages| Order {
                    cgroup: index + 1,
                    from,
                    to,
                    pages,
                };
                down.push(order(upper, upper + 1, its.demote[upper]));
                up.push(order(upper + 1, upper, its.promote[upper]));
            }
        }
        // The lowest boundary first: what goes down there makes room for what comes from above.
        down.reverse();
        down.extend(up);
        if let Some(agent) = &mut self.agent {
            agent.orders = down;
            let next = tasks.now + agent.interval;
            if self.has_unended_holders() {
                tasks.schedule_event(next, SimEvent::Agent);
            }
        }
    }

    /// Moves that the policy wants now.
    fn plan_moves(&self, tasks: &Tasks) -> Option<Vec<Move>> {
        let (agent, tiers) = (self.agent.as_ref()?, self.budgeted?);
        let mut room = Room::default();
        for (index, tier) in self.tiers.iter().enumerate() {
            room.free[index] = tier.free;
            room.headroom[index] = agent.headroom[index];
        }
        let groups = self.tier_groups(tasks, agent.engine);
        Some(policy::tier::plan(&tiers, &room, &agent.settings, &groups))
    }

    /// Pages of each cgroup but the root that may lie in the fastest tier, if there are budgets.
    pub fn toptier_budgets(&self, tasks: &Tasks) -> Option<Vec<u64>> {
        let tiers = self.budgeted?;
        let groups = self.tier_groups(tasks, Engine::default());
        let strict = Settings {
            band: 0,
            step: 0,
            lend: 0,
        };
        let moves = policy::tier::plan(&tiers, &Room::default(), &strict, &groups);
        Some(moves.iter().map(|its| its.budget[0]).collect())
    }

    /// The root has no limits; what lies in it directly is left alone.
    fn tier_groups(&self, tasks: &Tasks, engine: Engine) -> Vec<Group> {
        let held = self.held_in_tiers(&tasks.cgroups);
        let held = held.iter().enumerate().skip(1);
        held.map(|(index, held)| tier_group(tasks, index, held, engine))
            .collect()
    }
}

fn tier_group(tasks: &Tasks, index: usize, held: &[Heat], engine: Engine) -> Group {
    let cgroup = &tasks.cgroups[index];
    let weir = tasks.weir.as_ref();
    let ratio = weir.map(|weir| weir.groups[index].toptier_ratio);
    let mut group = Group {
        min: cgroup.min,
        low: cgroup.low,
        high: cgroup.high,
        max: cgroup.max,
        ratio: ratio.unwrap_or(policy::tier::BY_CAPACITY),
        heat_known: u32::from(engine.knows_heat),
        parent: match cgroup.parent {
            Some(parent @ 1..) => parent as u32 - 1,
            _ => policy::tier::NO_PARENT,
        },
        ..Group::default()
    };
    for (tier, heat) in held.iter().enumerate() {
        group.held[tier] = heat[HOT] + heat[COLD];
        group.hot[tier] = heat[HOT];
    }
    group
}

impl TieredMemory {
    /// Moves as much as the agent gets done in a beat.
    pub(super) fn carry_out_moves(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let engine = agent.engine;
        let mut orders = std::mem::take(&mut agent.orders);
        let bytes = u128::from(self.costs.migrate) * u128::from(BEAT) / u128::from(SECOND);
        let mut left = bytes as u64 / PAGE;
        for order in &mut orders {
            let first = match order.from < order.to {
                true => engine.knows_heat.then_some(COLD),
                false => engine.lifts_hot.then_some(HOT),
            };
            let moved = self.migrate_pages(
                order.cgroup,
                (order.from, order.to),
                order.pages.min(left),
                first,
            );
            order.pages -= moved;
            left -= moved;
        }
        orders.retain(|order| order.pages > 0);
        if let Some(agent) = &mut self.agent {
            agent.orders = orders;
        }
    }
}
