// SPDX-License-Identifier: GPL-2.0-only
//! The module, in its arm: where the real one has a probe, this asks the same policy and applies its answer.
//!
//! Decisions are `policy/`'s, by the very C code that is in the module; here is only what the module's own code does in the
//! kernel: which counts it hands in and what it does to a pass, and in beat.rs what it does by the clock. Sums over subtrees are exact here; the module's are up to a beat old.

mod beat;

use crate::clock::Ns;
use crate::domain::View;
use crate::world::World;
use policy::ceiling::{self, Ceiling, Counts, Limits};
use policy::drain::{self, Drain};
use policy::floor::{FloorPass, Verdict};
use policy::pass::{Facts, Pass};
use policy::reserve;

/// What the module counts, as in `memory.dirty_stat`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Passes of the cgroup's writers.
    pub passes: u64,
    /// Left out below the floor.
    pub admitted: u64,
    /// Held by a ceiling.
    pub held: u64,
    /// Pauses.
    pub throttled: u64,
    /// Time in passes that paused.
    pub throttled_ns: Ns,
}

/// What the module knows of one cgroup.
#[derive(Clone, Debug)]
pub struct Group {
    /// It is at, above or below a cgroup with a knob.
    pub known: bool,
    /// `memory.dirty_min`, in bytes.
    pub floor_bytes: u64,
    /// `memory.dirty_bytes` and `memory.dirty_ratio`.
    pub ceiling: Ceiling,
    /// Counted.
    pub stats: Stats,
    floor: u64,
    avail: u64,
    unused: u64,
    /// Own pages as last told to the path, those that claim its floor, and of them those beyond it.
    told: u64,
    claim: i64,
    beyond: u64,
    freerun: u64,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            known: false,
            floor_bytes: 0,
            ceiling: Ceiling {
                bytes: policy::UNLIMITED,
                ratio_percent: 0,
            },
            stats: Stats::default(),
            floor: 0,
            avail: 0,
            unused: 0,
            told: 0,
            claim: 0,
            beyond: 0,
            freerun: 0,
        }
    }
}

impl Group {
    fn has_ceiling(&self) -> bool {
        self.ceiling.bytes != policy::UNLIMITED || self.ceiling.ratio_percent != 0
    }

    fn has_knob(&self) -> bool {
        self.floor_bytes > 0 || self.has_ceiling()
    }
}

/// The module.
#[derive(Clone, Debug, Default)]
pub struct Weir {
    /// By cgroup.
    pub groups: Vec<Group>,
    /// `drain_seconds`.
    pub seconds: u64,
    /// `drain_tighten`.
    pub tighten: bool,
    drain: Drain,
    drain_seen: Option<(Ns, u64)>,
    stock: u64,
    host_thresh: u64,
    host_background: u64,
    floors_total: u64,
    unused_total: u64,
}

impl Weir {
    fn drain_host(&self) -> drain::Host {
        drain::Host {
            limit: self.drain.limit,
            stock: self.stock,
            thresh: 0,
            unused: self.unused_total,
            avail: 0,
        }
    }

    fn note_unused(&mut self, cgroup: usize, unused: u64) {
        let before = std::mem::replace(&mut self.groups[cgroup].unused, unused);
        self.unused_total = self.unused_total + unused - before;
    }

    /// The host's limits as of the last beat, as passes find them.
    fn host_limits(&self) -> Limits {
        let mut limits = Limits {
            thresh: self.host_thresh,
            bg_thresh: self.host_background,
            dirty: 0,
            dom_limit: 0,
        };
        drain::amend(&mut limits, self.drain.limit, self.stock);
        let host = reserve::Host {
            unused: self.unused_total,
        };
        host.amend(&mut limits, Pass::Writer);
        limits
    }
}

fn facts(kind: Pass, cgroup: bool) -> Facts {
    Facts {
        has_wb: 1,
        has_gdtc: u32::from(cgroup),
        gdtc_has_wb: u32::from(cgroup),
        in_flusher: u32::from(kind == Pass::Flusher),
        strictlimit: 0,
    }
}

impl World {
    /// The ceilings from a cgroup up, in pages, each with what its subtree holds; the nearest first.
    fn ceilings(&self, cgroup: usize) -> Vec<(usize, u64, Counts)> {
        let Some(weir) = &self.weir else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut next = cgroup;
        while next != 0 {
            let group = &weir.groups[next];
            if group.has_ceiling() {
                let held = &self.cgroups[next].subtree;
                let counts = Counts {
                    dirty: held.dirty,
                    writeback: held.writeback,
                };
                found.push((next, group.ceiling.pages(group.avail), counts));
            }
            next = self.cgroups[next].parent.unwrap_or(0);
        }
        found
    }

    /// From a cgroup up to below the root.
    fn path(&self, cgroup: usize) -> impl Iterator<Item = usize> + '_ {
        let below_root = |at: &usize| *at != 0;
        std::iter::successors(Some(cgroup).filter(below_root), move |at| {
            self.cgroups[*at].parent.filter(below_root)
        })
    }

    /// A pass under the floor on the path that has most room; none if there is no floor.
    fn floor_pass(&mut self, wb: usize) -> Option<FloorPass> {
        let index = self.wbs[wb].cgroup;
        self.weir_tells(index);
        let roomiest = self
            .path(index)
            .filter_map(|at| self.floor_pass_at(wb, at))
            .max_by_key(FloorPass::unused)?;
        let full = |at: usize| self.cgroups[at].subtree.held() >= self.room(at);
        Some(FloorPass {
            capped: u32::from(roomiest.capped != 0 || self.path(index).any(full)),
            ..roomiest
        })
    }

    fn floor_pass_at(&self, wb: usize, at: usize) -> Option<FloorPass> {
        let weir = self.weir.as_ref()?;
        let index = self.wbs[wb].cgroup;
        let group = weir.groups.get(at).filter(|group| group.floor > 0)?;
        let claim = u64::try_from(group.claim).unwrap_or(0);
        let in_wb = self.wbs[wb].counts.held();
        let beyond_folios = in_wb.saturating_sub(self.cgroups[at].subtree.held());
        Some(FloorPass {
            floor: group.floor,
            memcg_dirty: claim,
            wb_dirty: claim + beyond_folios,
            foreign: 0,
            host_dirty: self.counts.held(),
            host_thresh: if weir.drain.limit == 0 {
                weir.host_thresh
            } else {
                weir.drain.limit
            },
            floors_total: weir.floors_total,
            strictlimit: 0,
            cgroup_domain: u32::from(index != 0),
            capped: u32::from(
                self.ceilings(index)
                    .iter()
                    .any(|(_, ceiling, counts)| counts.dirty + counts.writeback >= *ceiling),
            ),
        })
    }

    /// At the entry of a pass: true if it is left out, and the task goes on.
    pub fn weir_admits(&mut self, task: usize) -> bool {
        let wb = self.tasks[task].wb as usize;
        let index = self.wbs[wb].cgroup;
        match self
            .weir
            .as_mut()
            .and_then(|weir| weir.groups.get_mut(index))
        {
            Some(group) if group.known => group.stats.passes += 1,
            _ => return false,
        }
        let Some(pass) = self.floor_pass(wb) else {
            return false;
        };
        let now = self.tick();
        let Some(weir) = &mut self.weir else {
            return false;
        };
        if pass.decide() != Verdict::Admit {
            return false;
        }
        weir.groups[index].stats.admitted += 1;
        let background = weir.host_limits().bg_thresh;
        self.tasks[task].freed(now, pass.poll());
        if self.counts.dirty > background {
            self.wake_flusher(wb);
        }
        true
    }

    /// The host's limits in a pass on `wb`.
    pub fn weir_amends_host(&mut self, wb: usize, kind: Pass, limits: &mut Limits) {
        let cgroup = self.wbs[wb].cgroup;
        if self.weir.is_none() {
            return;
        }
        if kind == Pass::Flusher && cgroup != 0 {
            self.weir_tells(cgroup);
        }
        let floor = match kind {
            Pass::Writer => self.floor_pass(wb),
            _ => None,
        };
        let Some(weir) = &mut self.weir else { return };
        drain::amend(limits, weir.drain.limit, weir.stock);
        let facts = facts(kind, false);
        if weir.floors_total > 0 && facts.may_reserve() {
            let host = reserve::Host {
                unused: weir.unused_total,
            };
            host.amend(limits, facts.kind());
        }
        // One that has slept while a floor got room is let go.
        if floor.is_some_and(|pass| pass.decide() == Verdict::Admit) {
            limits.dirty = 0;
        }
    }

    /// The limits of the cgroup's domain in the same pass.
    pub fn weir_amends_cgroup(
        &mut self,
        wb: usize,
        kind: Pass,
        avail: u64,
        host: &View,
        limits: &mut Limits,
    ) {
        let index = self.wbs[wb].cgroup;
        let Some(weir) = &self.weir else { return };
        let follows = drain::Host {
            thresh: host.limits.thresh,
            avail: host.avail,
            ..weir.drain_host()
        };
        follows.follow(limits, avail);
        if !facts(kind, true).may_cap() {
            return;
        }
        let floored = self.path(index).any(|at| weir.groups[at].floor > 0);
        if kind == Pass::Writer && floored && host.limits.dirty == 0 {
            limits.dirty = 0;
            return;
        }
        let stock = *limits;
        let mut judged = false;
        let ceilings = self.ceilings(index);
        for (_, ceiling, counts) in &ceilings {
            judged |= limits.amend(*ceiling, counts, kind);
        }
        let Some(weir) = &mut self.weir else { return };
        for (at, ceiling, _) in ceilings {
            weir.groups[at].freerun = ceiling::freerun(ceiling, &stock);
        }
        if judged && kind == Pass::Writer && limits.brake() {
            weir.groups[index].stats.held += 1;
        }
    }

    /// After a pass: under a ceiling a task looks again sooner.
    pub fn weir_shortens(&mut self, task: usize) {
        let cgroup = self.wbs[self.tasks[task].wb as usize].cgroup;
        for (at, ceiling, counts) in self.ceilings(cgroup) {
            let freerun = self.weir.as_ref().map_or(0, |weir| weir.groups[at].freerun);
            if !ceiling::brakes(freerun, &counts) {
                let task = &mut self.tasks[task];
                task.allowed = ceiling::poll(ceiling, &counts, task.allowed);
            }
        }
    }

    /// A pass that paused has ended.
    pub fn weir_counts_pauses(&mut self, task: usize, pauses: u64, time: Ns) {
        let cgroup = self.wbs[self.tasks[task].wb as usize].cgroup;
        if let Some(group) = self
            .weir
            .as_mut()
            .and_then(|weir| weir.groups.get_mut(cgroup))
            .filter(|group| group.known)
        {
            group.stats.throttled += pauses;
            group.stats.throttled_ns += time;
        }
    }
}
