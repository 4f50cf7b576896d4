// SPDX-License-Identifier: GPL-2.0-only
//! The weight: what `kmod/weight.c` and `kmod/share.c` do around `policy/weight.c` and
//! `policy/share.c`.
//!
//! A writer whose cgroup is in a division first pays, in each pass, for what its cgroup's writeback
//! recorded as dirtied since the last one. If that is paid until later than now it waits, in steps,
//! and then makes the kernel's own pass. Every beat ends a round of each division on each disk:
//! what its members got makes its wb_rate, and those that compete divide it.
//!
//! The module makes the group of a cgroup that has none at the beat after its first pass; so does
//! this.

use super::{Group, Hooks};
use crate::mm::Cgroup;
use crate::mm::Dirtier;
use crate::sim::clock::{HZ, MS, Ns, Ticks};
use policy::UNLIMITED;
use policy::bill::Bill;
use policy::floor::{FloorPass, Verdict};
use policy::names::FORGET_MS;
use policy::recorded::Look;
use policy::share::{self, Contender, Standing};
use policy::weight::{self, HWEIGHT_ONE, ROUND_MS, Turn, WEIGHT_DEFAULT};

/// Not written to for this time: not in use.
const FORGET: Ticks = FORGET_MS * HZ / 1000;
/// In what part of a page is counted what a member got.
const FINE: u64 = 256;

/// What one cgroup's writeback on one disk has paid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// What was cleaned and dirtied is since the round began.
    bill: Bill,
    hweight: u32,
    is_nested: bool,
    is_behind: bool,
    wb_rate: u64,
    queue: u64,
    /// When the last look was.
    seen: Option<Ticks>,
    slept: Option<Ticks>,
    /// In this round, of all its tasks; and in a round, smoothed, in microseconds.
    asleep: Ns,
    asleep_us: u64,
    /// Dirtied in a round, smoothed.
    got: u64,
}

impl Account {
    fn competes(&self, now: Ticks) -> bool {
        let ago = |slept| (now - slept) * 1000 / HZ;
        Contender {
            nested: self.is_nested.into(),
            slept_ago_ms: self.slept.map_or(UNLIMITED, ago),
            asleep_us: self.asleep_us,
        }
        .competes()
    }

    /// A round of `elapsed` milliseconds ends; returns what was cleaned in it.
    fn ends_round(&mut self, elapsed: u64) -> u64 {
        let cleaned = std::mem::take(&mut self.bill.cleaned);
        let dirtied = std::mem::take(&mut self.bill.dirtied);
        let asleep = (std::mem::take(&mut self.asleep) / 1000).min(elapsed * 1000);
        self.got = share::smooth(self.got, dirtied * FINE, elapsed);
        self.asleep_us = share::smooth(self.asleep_us, asleep, elapsed);
        cleaned
    }
}

/// Accounts of all writeback structures.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights {
    /// By cgroup: it is a division.
    divided: Vec<bool>,
    /// Some cgroup is.
    enabled: bool,
    /// What each writeback owes, by index.
    accounts: Vec<Account>,
    /// By disk: pages it cleans in a round, of all that are in the root's division.
    wb_rates: Vec<u64>,
    round: Ns,
    /// Cgroups without a group that dirty pages.
    ungrouped: Vec<usize>,
}

impl Weights {
    fn account(&mut self, wb: usize) -> &mut Account {
        if self.accounts.len() <= wb {
            self.accounts.resize(wb + 1, Account::default());
        }
        &mut self.accounts[wb]
    }

    /// By writeback, what part of its disk it is due.
    pub fn hweights(&self) -> impl Iterator<Item = (usize, u32)> {
        let accounts = self.accounts.iter().enumerate();
        accounts.map(|(wb, account)| (wb, account.hweight))
    }

    /// The topmost division that a cgroup is in.
    fn scope(&self, cgroups: &[Cgroup], cgroup: usize) -> Option<usize> {
        std::iter::successors(cgroups[cgroup].parent, |at| cgroups[*at].parent)
            .filter(|at| self.divided.get(*at).is_some_and(|divided| *divided))
            .last()
    }
}

impl Hooks {
    /// A cgroup without a group has a pass.
    pub(super) fn weir_meets(&mut self, cgroup: usize) {
        if let Some(weir) = self.weir.as_mut().filter(|weir| weir.weights.enabled) {
            if cgroup != 0 && !weir.weights.ungrouped.contains(&cgroup) {
                weir.weights.ungrouped.push(cgroup);
            }
        }
    }

    fn turn(&self, wb: usize) -> Option<Turn> {
        let weir = self.weir.as_ref()?;
        let limits = weir.host_limits();
        let account = weir.weights.accounts.get(wb)?;
        Some(Turn {
            hweight: account.hweight,
            nested: account.is_nested.into(),
            behind: account.is_behind.into(),
            wb_rate: account.wb_rate,
            queued: account.queue,
            host_dirty: self.counts.held(),
            host_thresh: limits.thresh,
            host_bg_thresh: limits.bg_thresh,
        })
    }

    /// Whether the weight has anything to do with a writeback.
    fn is_weighed(&self, wb: usize) -> bool {
        let cgroup = self.wbs[wb].cgroup;
        self.weir.as_ref().is_some_and(|weir| {
            weir.weights.enabled
                && weir.groups[cgroup].known
                && weir.weights.scope(&self.cgroups, cgroup).is_some()
        })
    }

    /// Pays for what was dirtied on `wb`; for how long is its writer to wait, in milliseconds?
    fn pays(&mut self, wb: usize) -> u64 {
        let (now, tick, counts) = (self.now, self.tick(), self.wbs[wb].counts);
        let Some(weir) = &mut self.weir else { return 0 };
        weir.weights.account(wb);
        let Some(turn) = self.turn(wb) else { return 0 };
        let Some(weir) = &mut self.weir else { return 0 };
        let account = weir.weights.account(wb);
        let is_next = account.seen.is_some_and(|seen| tick <= seen + FORGET);
        account.seen = Some(tick);
        let pages = account.bill.note(&Look {
            begun_ns: now,
            ended_ns: now,
            dirtied: counts.dirtied,
            written: counts.written,
            queued: counts.held(),
            unreported: 0,
            first: (!is_next).into(),
        });
        let wait = account.bill.charge(&turn, now, pages);
        if wait > 0 {
            account.slept = Some(tick);
        }
        wait
    }

    /// A pass of a task pays for its pages; for how long it waits, at its return, is fixed then.
    pub fn weir_holds(&mut self, task: &mut Dirtier) {
        let wb = task.wb as usize;
        if !self.is_weighed(wb) {
            return;
        }
        let wait = self.pays(wb);
        if wait == 0 {
            return;
        }
        let cgroup = self.wbs[wb].cgroup;
        if let (None, Some(weir)) = (task.owed_until, &mut self.weir) {
            weir.groups[cgroup].stats.weight_held += 1;
        }
        task.owed_until = Some(self.now + wait * MS);
    }

    /// A step of that wait has ended; for how many milliseconds is it to wait still?
    pub fn weir_still_holds(&mut self, task: &mut Dirtier) -> u64 {
        let Some(until) = task.owed_until else {
            return 0;
        };
        let wb = task.wb as usize;
        let cgroup = self.wbs[wb].cgroup;
        let slept = self.now - task.held_since;
        if let Some(weir) = &mut self.weir {
            weir.groups[cgroup].stats.weight_held_ns += slept;
        }
        let mut is_held = self.is_weighed(wb) && self.now < until;
        if self.is_weighed(wb) {
            self.weir_notes_sleep(wb, slept);
            let floor = self.floor_pass(wb);
            is_held &= floor.as_ref().map(FloorPass::decide) != Some(Verdict::Admit)
                && self.turn(wb).is_some_and(|turn| turn.holds());
        }
        if !is_held {
            task.owed_until = None;
            return 0;
        }
        (until - self.now) / MS + 1
    }

    fn weir_notes_sleep(&mut self, wb: usize, asleep: Ns) {
        let tick = self.tick();
        if let Some(weir) = &mut self.weir {
            let account = weir.weights.account(wb);
            account.slept = Some(tick);
            account.asleep += asleep;
        }
    }

    /// A kernel's pass ends in which a task was `asleep`: it competes, and if it pays it looks
    /// again soon.
    pub(super) fn weir_leaves(&mut self, task: &mut Dirtier, asleep: Ns) {
        let wb = task.wb as usize;
        if !self.is_weighed(wb) {
            return;
        }
        if asleep > 0 {
            self.weir_notes_sleep(wb, asleep);
        }
        if let Some(weir) = &mut self.weir {
            let price = weir.weights.account(wb).bill.cost_ns;
            task.nr_dirtied_pause = weight::poll(price, task.nr_dirtied_pause);
        }
    }

    /// Ends a round of every division on every disk and begins the next.
    pub(super) fn weir_ends_round(&mut self) {
        let (now, tick) = (self.now, self.tick());
        let Some(weir) = &mut self.weir else { return };
        let mut divided = vec![false; weir.groups.len()];
        for (group, cgroup) in weir.groups.iter().zip(&self.jbd2.cgroups) {
            if let (true, Some(parent)) = (group.weight != WEIGHT_DEFAULT, cgroup.parent) {
                divided[parent] = true;
            }
        }
        weir.weights.enabled = divided.contains(&true);
        weir.weights.divided = divided;
        let elapsed = (now - weir.weights.round) / MS;
        if elapsed < ROUND_MS * 3 / 4 {
            return;
        }
        weir.weights.round = now;
        for cgroup in std::mem::take(&mut weir.weights.ungrouped) {
            let mut next = cgroup;
            while next != 0 && !std::mem::replace(&mut weir.groups[next].known, true) {
                next = self.jbd2.cgroups[next].parent.unwrap_or(0);
            }
        }
        weir.weights
            .accounts
            .resize(self.jbd2.wbs.len(), Account::default());
        weir.weights.wb_rates.resize(self.jbd2.devices.len(), 0);
        for disk in 0..self.devices.len() {
            self.weir_runs(disk, elapsed, tick);
        }
    }

    /// The rounds of one disk.
    fn weir_runs(&mut self, disk: usize, elapsed: u64, now: Ticks) {
        let (wbs, cgroups) = (&self.jbd2.wbs, &self.jbd2.cgroups);
        let Some(weir) = &mut self.weir else { return };
        let (weights, groups) = (&mut weir.weights, &weir.groups);
        let mut members: Vec<(usize, usize)> = Vec::new();
        for wb in (0..wbs.len()).filter(|wb| wbs[*wb].device == disk) {
            let is_seen = |seen: Ticks| now <= seen + FORGET;
            let scope = weights.scope(cgroups, wbs[wb].cgroup);
            match scope.filter(|_| weights.accounts[wb].seen.is_some_and(is_seen)) {
                Some(scope) => members.push((scope, wb)),
                None => weights.accounts[wb] = Account::default(),
            }
        }
        members.sort_unstable();
        if members.first().is_none_or(|member| member.0 != 0) {
            weights.wb_rates[disk] = 0;
        }
        for contest in members.chunk_by(|a, b| a.0 == b.0) {
            weights.runs(
                disk,
                elapsed,
                now,
                contest,
                |wb| wbs[wb].cgroup,
                cgroups,
                groups,
            );
        }
    }
}

impl Weights {
    /// The round of one contest: its members are writebacks of one disk, each after the division.
    #[expect(clippy::too_many_arguments)]
    fn runs(
        &mut self,
        disk: usize,
        elapsed: u64,
        now: Ticks,
        contest: &[(usize, usize)],
        home: impl Fn(usize) -> usize,
        cgroups: &[Cgroup],
        groups: &[Group],
    ) {
        let scope = contest[0].0;
        // What competes below each cgroup.
        let mut below = vec![0u64; cgroups.len()];
        let (mut cleaned, mut queued, mut got) = (0, 0, 0);
        let mut runners = Vec::new();
        for (_, wb) in contest {
            let account = &mut self.accounts[*wb];
            account.is_nested = scope != 0;
            cleaned += account.ends_round(elapsed);
            if !account.competes(now) {
                continue;
            }
            runners.push(*wb);
            queued += account.bill.queued;
            got += account.got;
            // Its own tasks are like one more child.
            let mut weight = WEIGHT_DEFAULT;
            let mut at = home(*wb);
            loop {
                below[at] += u64::from(weight);
                if below[at] > u64::from(weight) || at == scope {
                    break;
                }
                weight = groups[at].weight;
                at = cgroups[at].parent.unwrap_or(0);
            }
        }
        let wb_rate = match (scope, runners.len()) {
            (1.., _) => got / FINE,
            (0, 0) => 0,
            (0, _) => weight::wb_rate(self.wb_rates[disk], cleaned, elapsed),
        };
        if scope == 0 {
            self.wb_rates[disk] = wb_rate;
        }
        let marked = runners
            .iter()
            .copied()
            .find(|wb| self.accounts[*wb].is_behind);
        for (_, wb) in contest {
            let account = &mut self.accounts[*wb];
            (account.hweight, account.wb_rate, account.queue) = (0, wb_rate, queued);
            account.is_behind = false;
        }
        if runners.len() < 2 {
            return;
        }
        for wb in &runners {
            let mut at = home(*wb);
            let mut hweight = weight::hweight(HWEIGHT_ONE, WEIGHT_DEFAULT, below[at]);
            while let Some(parent) = cgroups[at].parent.filter(|_| at != scope) {
                hweight = weight::hweight(hweight, groups[at].weight, below[parent]);
                at = parent;
            }
            self.accounts[*wb].hweight = hweight;
        }
        let standing = |wb: usize| Standing {
            got: self.accounts[wb].got,
            hweight: self.accounts[wb].hweight,
            behind: u32::from(marked == Some(wb)),
        };
        let further = |a: usize, b: usize| {
            if standing(b).is_behind(&standing(a)) {
                b
            } else {
                a
            }
        };
        let behind = runners.into_iter().reduce(further);
        if let (1.., Some(behind)) = (scope, behind) {
            self.accounts[behind].is_behind = true;
        }
    }
}
