// SPDX-License-Identifier: GPL-2.0-only
//! Keeps cgroups at their shares of fast memory: looks, lets the policy plan, hands the plan to an
//! engine.
//!
//! ```text
//! tick ─► tiers on? ─► due? ─► memory.tier_stat, limits, free memory ─► policy::tier::plan ─► worker ─► engine
//!   └─────────────────────────────── next step, from what is true then ◄──────────────────────────────┘
//! ```
//!
//! A step begins where the one before left the host, whatever that was said to have done: what is
//! fed back is what the kernel counts. So a process that took up memory meanwhile, a full node, an
//! agent that was killed and its successor are all the same: another look. Nothing is kept in the
//! kernel between steps.
//!
//! It looks every `interval` (1 s) while something moves. When nothing does it looks every 5 s, and
//! at the next tick when a node's free memory has changed by more than 4 MiB since, a limit or a
//! ratio was written, or a cgroup came or went; so a burst of allocation is seen within a second,
//! and 400 idle cgroups cost little (`groups.rs` says how). No allocation ever waits for a step.
//!
//! A cgroup whose pages will not move (shared, or charged to another) is left alone for 4 s, then
//! for 8, up to a minute.

use crate::controller::Controller;
use crate::family::Family;
use crate::journal::{Journal, JournalEvent};
use crate::tier::choice::choose_engine;
use crate::tier::damon;
use crate::tier::engine::{Move, Way};
use crate::tier::groups::{Groups, Reading};
use crate::tier::heat::Heats;
use crate::tier::host::{TIERS, Tier, TierHost};
use crate::tier::metrics;
use crate::tier::settings::{Choice, TierSettings};
use crate::tier::status::BalancerStatus;
use crate::tier::stuck::Stuck;
use crate::tier::totals::Totals;
use crate::tier::worker::{Orders, Worker};
use crate::tree::Hierarchy;
use policy::tier::{BY_CAPACITY, Reason, Room, Tiers, plan};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between looks while no page moves.
const IDLE: Duration = Duration::from_secs(5);

/// Pages by which free memory has changed that are worth a look: 4 MiB.
const STIR: u64 = 1024;

/// A difference of fewer pages is none: 2 MiB, a huge page.
const BAND: u64 = 512;

/// Pages moved between two tiers in one step at most, each way: 4 GiB.
const STEP: u64 = 1 << 20;

/// Without an engine, or without DAMON after it failed, another is looked for this often.
const RETRY: Duration = Duration::from_secs(60);

/// The part of the agent that keeps tiers.
pub struct TierBalancer {
    host: TierHost,
    groups: Groups,
    settings: Rc<RefCell<TierSettings>>,
    /// Settings as they were when the worker began.
    used: TierSettings,
    state: PathBuf,
    journal: Journal,
    worker: Option<Worker>,
    /// Why DAMON is not used, and since when.
    without_damon: Option<(String, Instant)>,
    /// The time at which an engine was last looked for in vain.
    refused: Option<Instant>,
    /// Moves that are under way.
    moves: Vec<Move>,
    looked: Option<Instant>,
    /// The module's parameters then: which tiers, and the ratio.
    on: Option<(String, u32)>,
    /// Free pages of each node then.
    free: BTreeMap<u32, u64>,
    moving: bool,
    totals: Totals,
    stuck: Stuck,
    heats: Heats,
    told: BalancerStatus,
    /// The status as metrics.
    shown: Arc<[Family]>,
    said: Option<String>,
}

impl TierBalancer {
    /// Makes a balancer that does nothing before its first tick, and while tiers are off.
    pub fn new(
        host: TierHost,
        tree: Hierarchy,
        settings: Rc<RefCell<TierSettings>>,
        state: PathBuf,
        journal: Journal,
    ) -> TierBalancer {
        damon::take_over(&host, &state);
        let used = settings.borrow().clone();
        TierBalancer {
            host,
            groups: Groups::new(tree),
            settings,
            used,
            state,
            journal,
            worker: None,
            without_damon: None,
            refused: None,
            moves: Vec::new(),
            looked: None,
            on: None,
            free: BTreeMap::new(),
            moving: true,
            totals: Totals::default(),
            stuck: Stuck::default(),
            heats: Heats::default(),
            told: BalancerStatus::default(),
            shown: Arc::default(),
            said: None,
        }
    }

    fn run_step(&mut self) -> Result<(), String> {
        let Some(on) = self.host.read_text(TIERS).filter(|tiers| !tiers.is_empty()) else {
            self.switch_off();
            return Ok(());
        };
        let on = Some((on, self.host.tier_ratio()));
        if *self.settings.borrow() != self.used {
            self.used = self.settings.borrow().clone();
            (self.worker, self.refused, self.without_damon) = (None, None, None);
            self.moving = true;
        }
        self.finish_step();
        if self.worker.as_ref().is_some_and(Worker::is_busy) {
            return Ok(());
        }
        if !self.is_due() && self.on == on {
            return Ok(());
        }
        let tiers = self
            .host
            .read_tiers()
            .map_err(|why| format!("cannot parse the module's parameter `tiers`: {why:#}"))?;
        self.on = on;
        let idle = match tiers.iter().filter(|tier| tier.capacity() > 0).count() {
            _ if tiers.len() == 1 => Some("the host has one tier: no page can be moved"),
            2.. => None,
            _ => Some("no more than one tier has memory now"),
        };
        let without_engine = match idle {
            Some(why) => {
                self.worker = None;
                Some(why.to_string())
            }
            None => self.ensure_engine().err(),
        };
        self.plan_step(&tiers, without_engine);
        Ok(())
    }

    /// Tiers are off: nothing is to be done, or told.
    fn switch_off(&mut self) {
        if self.worker.take().is_some() {
            self.journal.log_event(&JournalEvent::TiersOff);
        }
        if !self.told.tiers.is_empty() {
            self.told = BalancerStatus::default();
            let removed = BalancerStatus::remove(&self.state);
            self.report_status_error(removed);
        }
        self.groups.forget_all();
        self.shown = Arc::default();
        (self.on, self.refused, self.without_damon, self.said) = (None, None, None, None);
        self.moving = true;
    }

    /// Sees to it that there is an engine.
    fn ensure_engine(&mut self) -> Result<(), String> {
        if self.worker.is_some() {
            return Ok(());
        }
        if self.refused.is_some_and(|since| since.elapsed() < RETRY) {
            return Err(self.told.why.clone());
        }
        if let Some((_, since)) = &self.without_damon {
            if since.elapsed() > RETRY {
                self.without_damon = None;
            }
        }
        let without = self.without_damon.as_ref().map(|(why, _)| why.as_str());
        let worker = choose_engine(&self.host, &self.used, &self.state, without)
            .and_then(|chosen| Worker::start(chosen).map_err(|why| why.to_string()));
        match worker {
            Ok(worker) => {
                self.journal.log_event(&JournalEvent::Engine {
                    engine: worker.name.into(),
                    why: worker.why.clone(),
                });
                (self.worker, self.refused) = (Some(worker), None);
                Ok(())
            }
            Err(why) => {
                self.refused = Some(Instant::now());
                Err(why)
            }
        }
    }

    /// Takes what a step that is done came to.
    fn finish_step(&mut self) {
        let Some(done) = self.worker.as_mut().and_then(Worker::take_done) else {
            return;
        };
        for (wanted, outcome) in self.moves.drain(..).zip(&done.outcomes) {
            self.totals.add(&wanted, outcome);
            // What comes up in an exchange depends on what went down.
            if !wanted.fit || wanted.way == Way::Down {
                self.stuck.note_outcome(&wanted, outcome);
            }
            self.heats.note_outcome(&wanted, outcome);
        }
        match done.heat {
            Ok(heat) => self.heats.add_sample(heat),
            Err(why) => self.report_once(format!("cannot measure how hot pages are: {why}")),
        }
        if let Some(why) = done.broken {
            self.journal.log_event(&JournalEvent::EngineFailed {
                engine: self.worker.as_ref().map_or("", |worker| worker.name).into(),
                why: why.clone(),
            });
            self.worker = None;
            match self.used.engine {
                Choice::Auto => self.without_damon = Some((why, Instant::now())),
                _ => (self.refused, self.told.why) = (Some(Instant::now()), why),
            }
        }
    }

    fn is_due(&mut self) -> bool {
        // Asked in any case: what was heard is not to be heard late.
        let stirred =
            self.groups.has_changed() || free_has_changed(&self.free, &self.host.free_by_node());
        let wait = match self.moving || stirred {
            // Ticks are a second apart, or a little less.
            true => self
                .used
                .interval
                .saturating_sub(Duration::from_millis(500)),
            false => IDLE,
        };
        self.looked.is_none_or(|looked| looked.elapsed() >= wait)
    }

    /// Looks at all cgroups and begins the next step, if one is due.
    fn plan_step(&mut self, tiers: &[Tier], without_engine: Option<String>) {
        self.looked = Some(Instant::now());
        self.free = self.host.free_by_node();
        let readings = self.groups.read_changed();
        let capacities: Vec<u64> = tiers.iter().map(Tier::capacity).collect();
        let mut known = Tiers::new(&capacities);
        known.ratio = match &self.on {
            Some((_, ratio @ 1..)) => *ratio,
            _ => BY_CAPACITY,
        };
        let mut room = Room::default();
        for (at, tier) in tiers.iter().enumerate().take(room.free.len()) {
            (room.free[at], room.headroom[at]) = (tier.free_pages(), tier.headroom());
        }
        let settings = policy::tier::Settings {
            band: BAND,
            step: STEP,
            lend: self.used.lend.into(),
        };
        let mut groups: Vec<_> = readings.iter().map(|reading| reading.group).collect();
        self.heats.inform_plan(readings, &mut groups);
        let planned = plan(&known, &room, &settings, &groups);
        self.moves = ordered_moves(tiers, &known, readings, &planned);
        self.moves.retain(|wanted| !self.stuck.is_stuck(wanted));
        self.moving = !self.moves.is_empty();
        let changes = self.moves.iter().filter(|wanted| wanted.fit);
        changes.for_each(|wanted| self.heats.begin_trial(&wanted.directory));
        self.totals.retain_present(readings);
        self.stuck.forget_gone();
        if let Some(why) = without_engine.as_ref().filter(|why| **why != self.told.why) {
            self.journal
                .log_event(&JournalEvent::Tiers { why: why.clone() });
        }
        let worker = self.worker.as_ref();
        self.told = BalancerStatus {
            at: BalancerStatus::seconds_since_epoch(),
            engine: worker.map(|worker| worker.name.into()),
            why: without_engine
                .or(worker.map(|worker| worker.why.clone()))
                .unwrap_or_default(),
            lend: self.used.lend,
            moving: self.moving && worker.is_some(),
            tiers: tiers.iter().map(metrics::tier_status).collect(),
            cgroups: metrics::cgroup_statuses(
                &known,
                readings,
                &planned,
                &self.totals,
                &self.stuck,
            ),
        };
        self.shown = metrics::tier_families(&self.told, &self.totals).into();
        let watched = match worker.is_some_and(|worker| worker.tells_heat) {
            true => self.heats.due_cgroups(readings, &self.moves),
            false => Vec::new(),
        };
        let written = self.told.write(&self.state);
        self.report_status_error(written);
        if let Some(why) = self.groups.watch_error().map(String::from) {
            self.report_once(why);
        }
        let Some(worker) = self.worker.as_mut() else {
            return;
        };
        if self.moving || !watched.is_empty() {
            worker.begin_step(Orders {
                moves: self.moves.clone(),
                watched,
                tiers: tiers.to_vec(),
            });
        }
    }

    /// Says once that status cannot be told.
    fn report_status_error(&mut self, told: std::io::Result<()>) {
        if let Err(why) = told {
            self.report_once(format!("cannot tell `weir tier status`: {why}"));
        }
    }

    /// Says what is wrong, unless that was the last thing said.
    fn report_once(&mut self, why: String) {
        if self.said.as_ref() != Some(&why) {
            self.journal
                .log_event(&JournalEvent::Tiers { why: why.clone() });
            self.said = Some(why);
        }
    }
}

/// Returns whether any node's free memory changed by more than what is worth a look.
fn free_has_changed(then: &BTreeMap<u32, u64>, now: &BTreeMap<u32, u64>) -> bool {
    !then.keys().eq(now.keys())
        || then
            .values()
            .zip(now.values())
            .any(|(then, now)| then.abs_diff(*now) > STIR)
}

/// The plan as an engine gets it: what goes down first, from the slowest tier up, so that there is
/// room for each next one.
fn ordered_moves(
    tiers: &[Tier],
    known: &Tiers,
    readings: &[Reading],
    planned: &[policy::tier::Move],
) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut add = |(reading, planned): (&Reading, &policy::tier::Move),
                   from: usize,
                   to: usize,
                   way,
                   pages| {
        if pages > 0 {
            moves.push(Move {
                cgroup: reading.path.clone(),
                directory: reading.directory.clone(),
                tier: from,
                way,
                from: tiers[from].nodes.clone(),
                held: reading.group.held[from],
                to: tiers[to].nodes.clone(),
                pages,
                fit: planned.reason == Reason::Exchanges,
            });
        }
    };
    for boundary in (0..tiers.len().saturating_sub(1)).rev() {
        for of in readings.iter().zip(planned) {
            let pages = of.1.demote[boundary];
            add(of, boundary, known.below(boundary), Way::Down, pages);
        }
    }
    for boundary in 0..tiers.len().saturating_sub(1) {
        for of in readings.iter().zip(planned) {
            let pages = of.1.promote[boundary];
            add(of, known.below(boundary), boundary, Way::Up, pages);
        }
    }
    moves
}

impl Controller for TierBalancer {
    fn on_tick(&mut self) {
        if let Err(why) = self.run_step() {
            self.report_once(why);
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.worker.as_ref().map(Worker::done_fd)
    }

    fn on_wake(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.clear_wake();
        }
        self.on_tick();
    }

    fn metric_families(&self) -> Arc<[Family]> {
        Arc::clone(&self.shown)
    }
}

#[cfg(test)]
mod tests;
