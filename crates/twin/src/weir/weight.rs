// SPDX-License-Identifier: GPL-2.0-only
//! The weight: what `kmod/weight.c` and `kmod/rounds.c` do around `policy/weight.c`.
//!
//! While any cgroup has a weight, each pass of a writer pays for what its cgroup's writeback recorded as dirtied since the last
//! one; if that is paid until later than now, the writer waits instead of passing, in steps, and has its next look, the kernel's own, with its next
//! page. Every beat ends a round on each disk: what it cleaned makes its pace, and those who were put to sleep within two seconds divide it.
//!
//! The module makes the group of a cgroup that has none at the beat after its first pass; so does this.

use crate::clock::{HZ, MS, Ns, Ticks, wake_at};
use crate::world::World;
use policy::floor::{FloorPass, Verdict};
use policy::weight::{self, PORTION_ONE, ROUND_MS, Turn, WEIGHT_DEFAULT};

/// Put to sleep within this time: wants more than it gets.
const COMPETES: Ticks = 2 * HZ;
/// Not written to for this time: not in use.
const FORGET: Ticks = 10 * HZ;

/// What one cgroup's writeback on one disk has paid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    due: Ns,
    price: Ns,
    portion: u32,
    pace: u64,
    queue: u64,
    /// What had been dirtied and written at the last look, when that was, and what was cleaned since the round began.
    paid: u64,
    written: u64,
    seen: Option<Ticks>,
    cleaned: u64,
    queued: u64,
    slept: Option<Ticks>,
}

impl Account {
    fn competes(&self, now: Ticks) -> bool {
        self.slept.is_some_and(|slept| now < slept + COMPETES)
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights {
    /// Some cgroup has a weight.
    enabled: bool,
    /// By writeback.
    accounts: Vec<Account>,
    /// By disk: pages it cleans in a round.
    paces: Vec<u64>,
    round: Ns,
    /// Cgroups without a group that dirty pages.
    strangers: Vec<usize>,
}

impl Weights {
    fn account(&mut self, wb: usize) -> &mut Account {
        if self.accounts.len() <= wb {
            self.accounts.resize(wb + 1, Account::default());
        }
        &mut self.accounts[wb]
    }
}

impl World {
    /// A cgroup without a group has a pass.
    pub(super) fn weir_meets(&mut self, cgroup: usize) {
        if let Some(weir) = self.weir.as_mut().filter(|weir| weir.weights.enabled) {
            if cgroup != 0 && !weir.weights.strangers.contains(&cgroup) {
                weir.weights.strangers.push(cgroup);
            }
        }
    }

    /// Pays for what was dirtied on `wb`; for how long is its writer to wait, in milliseconds?
    fn pays(&mut self, wb: usize) -> u64 {
        let (now, tick, host) = (self.now, self.tick(), self.counts.held());
        let counts = self.wbs[wb].counts;
        let Some(weir) = &mut self.weir else { return 0 };
        let limits = weir.host_limits();
        let account = weir.weights.account(wb);
        let turn = Turn {
            portion: account.portion,
            pace: account.pace,
            queued: account.queue,
            host_dirty: host,
            host_thresh: limits.thresh,
            host_bg_thresh: limits.bg_thresh,
        };
        let mut pages = 0;
        if account.seen.is_some() {
            pages = counts.dirtied - account.paid;
            account.cleaned += counts.written - account.written;
        }
        (account.paid, account.written) = (counts.dirtied, counts.written);
        (account.queued, account.seen) = (counts.held(), Some(tick));
        account.price = turn.price_ns();
        account.due = turn.pay(account.due, now, pages);
        turn.wait_ms(account.due, now)
    }

    /// Whether a pass of a task is to be held. The one after a wait, which its task makes with its very next page, is not.
    pub fn weir_holds(&mut self, task: usize) -> bool {
        let wb = self.tasks[task].wb as usize;
        let cgroup = self.wbs[wb].cgroup;
        let waits = |weir: &super::Weir| weir.weights.enabled && weir.groups[cgroup].known;
        self.tasks[task].allowed != 0 && self.weir.as_ref().is_some_and(waits) && self.pays(wb) > 0
    }

    /// When a held task is to be asked again; none if it may go on.
    pub fn weir_asks(&mut self, task: usize) -> Option<Ns> {
        let wb = self.tasks[task].wb as usize;
        if !self.weir.as_ref().is_some_and(|weir| weir.weights.enabled) {
            return None;
        }
        let floor = self.floor_pass(wb);
        if floor.as_ref().map(FloorPass::decide) == Some(Verdict::Admit) {
            return None;
        }
        self.weir_notes_sleep(wb);
        match self.pays(wb) {
            0 => None,
            ms => Some(wake_at(self.now, (ms * HZ).div_ceil(1000))),
        }
    }

    fn weir_notes_sleep(&mut self, wb: usize) {
        let tick = self.tick();
        if let Some(weir) = &mut self.weir {
            weir.weights.account(wb).slept = Some(tick);
        }
    }

    /// A task has been held for `time`.
    pub fn weir_counts_wait(&mut self, task: usize, time: Ns) {
        let cgroup = self.wbs[self.tasks[task].wb as usize].cgroup;
        if let Some(weir) = &mut self.weir {
            weir.groups[cgroup].stats.weight_held += 1;
            weir.groups[cgroup].stats.weight_held_ns += time;
        }
    }

    /// A kernel's pass ends: who slept competes, and who pays looks again soon.
    pub(super) fn weir_leaves(&mut self, task: usize, slept: bool) {
        let wb = self.tasks[task].wb as usize;
        let cgroup = self.wbs[wb].cgroup;
        let is_on = |weir: &super::Weir| weir.weights.enabled && weir.groups[cgroup].known;
        if cgroup == 0 || !self.weir.as_ref().is_some_and(is_on) {
            return;
        }
        if slept {
            self.weir_notes_sleep(wb);
        }
        if let Some(weir) = &mut self.weir {
            let price = weir.weights.account(wb).price;
            let task = &mut self.tasks[task];
            task.allowed = weight::poll(price, task.allowed);
        }
    }

    /// Ends a round on every disk and begins the next.
    pub(super) fn weir_ends_round(&mut self) {
        let (now, tick) = (self.now, self.tick());
        let Some(weir) = &mut self.weir else { return };
        let enabled = weir
            .groups
            .iter()
            .any(|group| group.weight != WEIGHT_DEFAULT);
        if weir.weights.enabled != enabled {
            weir.weights.enabled = enabled;
            weir.weights.accounts.fill(Account::default());
        }
        let elapsed = (now - weir.weights.round) / MS;
        if !enabled || elapsed < ROUND_MS * 3 / 4 {
            return;
        }
        weir.weights.round = now;
        for stranger in std::mem::take(&mut weir.weights.strangers) {
            let mut next = stranger;
            while next != 0 && !std::mem::replace(&mut weir.groups[next].known, true) {
                next = self.cgroups[next].parent.unwrap_or(0);
            }
        }
        for disk in 0..self.devices.len() {
            self.weir_runs(disk, elapsed, tick);
        }
    }

    /// The round of one disk.
    fn weir_runs(&mut self, disk: usize, elapsed: u64, now: Ticks) {
        let (wbs, cgroups) = (&self.wbs, &self.cgroups);
        let Some(weir) = &mut self.weir else { return };
        let (weights, groups) = (&mut weir.weights, &weir.groups);
        weights.accounts.resize(wbs.len(), Account::default());
        weights.paces.resize(self.devices.len(), 0);
        let here: Vec<usize> = (0..wbs.len())
            .filter(|wb| wbs[*wb].device == disk && groups[wbs[*wb].cgroup].known)
            .collect();
        let seen = |wb: &usize| weights.accounts[*wb].seen;
        if !here
            .iter()
            .filter_map(seen)
            .any(|seen| now <= seen + FORGET)
        {
            weights.paces[disk] = 0;
            return;
        }
        // What competes below each cgroup; of the root, the cgroups below it.
        let mut below = vec![0u64; cgroups.len()];
        let (mut cleaned, mut queued) = (0, 0);
        let mut runners = Vec::new();
        for wb in &here {
            let account = &mut weights.accounts[*wb];
            cleaned += std::mem::take(&mut account.cleaned);
            if !account.competes(now) {
                continue;
            }
            runners.push(*wb);
            queued += account.queued;
            // Its own tasks are like one more child.
            let mut weight = WEIGHT_DEFAULT;
            let mut next = Some(wbs[*wb].cgroup);
            while let Some(at) = next {
                below[at] += u64::from(weight);
                if below[at] > u64::from(weight) {
                    break;
                }
                weight = groups[at].weight;
                next = cgroups[at].parent;
            }
        }
        let pace = &mut weights.paces[disk];
        *pace = match runners.len() {
            0 => 0,
            _ => weight::pace(*pace, cleaned, elapsed),
        };
        for wb in &here {
            let account = &mut weights.accounts[*wb];
            (account.portion, account.pace, account.queue) = (0, *pace, queued);
            if runners.len() < 2 || !account.competes(now) {
                continue;
            }
            let cgroup = wbs[*wb].cgroup;
            account.portion = weight::portion(PORTION_ONE, WEIGHT_DEFAULT, below[cgroup]);
            let mut at = cgroup;
            while let Some(parent) = cgroups[at].parent {
                account.portion =
                    weight::portion(account.portion, groups[at].weight, below[parent]);
                at = parent;
            }
        }
    }
}
