// SPDX-License-Identifier: GPL-2.0-only
//! The module's probes of a pass: they leave it out below a floor, amend the limits it finds, and
//! have the task look again sooner.

use super::{Hooks, Weir};
use crate::mm::Dirtier;
use crate::mm::domain::Dtc;
use policy::amend;
use policy::ceiling::{self, Limits};
use policy::drain;
use policy::floor::Verdict;
use policy::pass::{Facts, Pass};
use policy::pause::Decider;

/// Of a pass over a cgroup's domain.
fn pass_facts(kind: Pass) -> Facts {
    Facts {
        has_wb: 1,
        has_gdtc: 1,
        gdtc_has_wb: 1,
        in_flusher: u32::from(kind == Pass::Flusher),
        strictlimit: 0,
    }
}

impl Hooks {
    /// At the entry of a pass: true if it is left out, and the task goes on.
    pub fn weir_admit(&mut self, task: &mut Dirtier) -> bool {
        let wb = task.wb as usize;
        let index = self.wbs[wb].cgroup;
        self.weir_note_writer(index);
        match self
            .weir
            .as_mut()
            .and_then(|weir| weir.groups.get_mut(index))
        {
            Some(group) if group.known => group.stats.passes += 1,
            _ => {
                if self.weir.as_ref().is_some_and(Weir::has_divisions) {
                    self.weir_add_record(index);
                }
                return false;
            }
        }
        task.below_floor = false;
        let Some(pass) = self.open_floor_pass(wb) else {
            return false;
        };
        let verdict = pass.decide();
        task.below_floor = matches!(verdict, Verdict::Admit | Verdict::HostFull);
        let now = self.current_tick();
        let Some(weir) = &mut self.weir else {
            return false;
        };
        if verdict != Verdict::Admit {
            return false;
        }
        weir.groups[index].stats.admitted += 1;
        task.end_free_run(now, pass.poll_pages());
        task.nr_dirtied_pause = task.pace.poll_pages(task.nr_dirtied_pause);
        true
    }

    /// `true` if the host is above its background level as the module amends it.
    pub fn is_over_amended_background(&self) -> bool {
        let limits = self.weir.as_ref().map(Weir::host_limits);
        limits.is_some_and(|limits| self.counts.dirty > limits.bg_thresh)
    }

    /// The host's limits in a pass on `wb`.
    pub fn weir_amend_host(&mut self, wb: usize, kind: Pass, limits: &mut Limits) {
        let cgroup = self.wbs[wb].cgroup;
        if self.weir.is_none() {
            return;
        }
        if kind == Pass::Flusher && cgroup != 0 {
            self.weir_report_held(cgroup);
        }
        if kind == Pass::Writer {
            self.weir_note_writer(cgroup);
        }
        let floor = match kind {
            Pass::Writer => self.open_floor_pass(wb),
            _ => None,
        };
        let Some(weir) = &mut self.weir else { return };
        let released = amend::amend_global(limits, kind, &weir.drain_host(), floor.as_ref());
        weir.released_poll = floor.filter(|_| released).map(|floor| floor.poll_pages());
        if released && weir.groups[cgroup].known {
            weir.groups[cgroup].stats.released += 1;
        }
    }

    /// Of the dirty pages of `wb`, those that a flusher does not find: a task copies to them.
    pub fn copied_pages(&self, wb: usize, kind: Pass) -> u64 {
        match kind {
            Pass::Flusher => self.wbs[wb].pages_being_copied(self.now),
            _ => 0,
        }
    }

    /// The limits of the cgroup's domain in the same pass.
    pub fn weir_amend_cgroup(
        &mut self,
        wb: usize,
        kind: Pass,
        avail: u64,
        host: &Dtc,
        limits: &mut Limits,
    ) {
        let index = self.wbs[wb].cgroup;
        let Some(weir) = &self.weir else { return };
        let follows = drain::DrainHost {
            thresh: host.limits.thresh,
            avail: host.avail,
            ..weir.drain_host()
        };
        let released = weir.released_poll.is_some();
        if !amend::amend_memcg(limits, &pass_facts(kind), &follows, avail, released) {
            return;
        }
        let stock = *limits;
        let mut judged_by = Decider::Cgroup;
        let mut next = Some(index);
        while let Some(at) = next {
            next = self.cgroups[at].parent;
            let Some((ceiling, mut counts)) = self.ceiling_and_held(at) else {
                continue;
            };
            counts.dirty = counts.dirty.saturating_sub(self.copied_pages(wb, kind));
            if limits.amend_by_ceiling(ceiling, &counts, kind) {
                judged_by = match at == index {
                    true => Decider::Ceiling,
                    false => Decider::Ancestor,
                };
            }
            if let Some(weir) = &mut self.weir {
                weir.groups[at].freerun = ceiling::freerun_level(ceiling, &stock);
            }
        }
        let Some(weir) = &mut self.weir else { return };
        weir.judged_by = judged_by;
        let is_judged = judged_by != Decider::Cgroup && kind == Pass::Writer;
        if is_judged && limits.brakes_writers() {
            weir.groups[index].stats.held += 1;
        }
    }

    /// After a pass: under a ceiling or a bandwidth the task looks again sooner, and after `most`
    /// pages if a floor has let it go.
    pub fn weir_shorten_poll(&mut self, task: &mut Dirtier, most: Option<u64>) {
        let cgroup = self.wbs[task.wb as usize].cgroup;
        let mut allowed = task.nr_dirtied_pause.min(most.unwrap_or(policy::UNLIMITED));
        for (at, ceiling, counts) in self.ceilings_above(cgroup) {
            let freerun = self.weir.as_ref().map_or(0, |weir| weir.groups[at].freerun);
            allowed = ceiling::poll_pages(ceiling, freerun, &counts, allowed);
        }
        task.nr_dirtied_pause = allowed;
        task.nr_dirtied_pause = task.pace.poll_pages(task.nr_dirtied_pause);
    }
}
