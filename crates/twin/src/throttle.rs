// SPDX-License-Identifier: GPL-2.0-only
//! A writer's pass through the throttle, and a flusher's look at the levels.
//!
//! A writer passes after it has dirtied as many pages as its last pass allowed. If the host and its
//! cgroup are at or below freerun it goes on, with about the square root of the room left. Else it
//! may go at the rate of whichever domain gives it less, and sleeps until it is no faster. Time it
//! spent otherwise since its last pause counts, up to a second: a writer that is slow by itself
//! does not sleep; one that paused much longer starts afresh. Above the hard limit it may not go at
//! all, and looks again after each pause.
//!
//! What the kernel believes of a cgroup's pages is up to two seconds old; the host's and each
//! writeback's are exact. With the module, limits are amended on the way (weir.rs).
//!
//! Example. Rate 437 pages/s, 32 pages dirtied: 72 ms, of which 20 have passed since the last
//! pause. It sleeps 52.

use crate::clock::{HZ, Ticks, wake_at};
use crate::controller::ONE;
use crate::domain::{INTERVAL, View};
use crate::world::World;
use policy::ceiling::Limits;
use policy::pass::Pass;

/// How a pass ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The task goes on.
    Go,
    /// It sleeps first.
    Sleep,
}

/// What a sleeper finds when it wakes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleeper {
    /// `dirty_paused_when` after the sleep, in ticks.
    pub paused_at: Ticks,
    /// Pages until its next pass.
    pub pages: u64,
    /// It may not go yet.
    pub again: bool,
}

impl World {
    /// The host as a pass on `wb` finds it. A flusher does not count what is in flight already.
    pub fn host_view(&mut self, wb: usize, kind: Pass) -> View {
        let avail = self.dirtyable();
        let (thresh, bg_thresh) = self.sysctl.levels(avail, None);
        let mut limits = Limits {
            thresh,
            bg_thresh,
            dirty: self.counts.dirty + in_flight(kind, self.counts.writeback),
            dom_limit: self.domain.limit,
        };
        self.weir_amends_host(wb, kind, &mut limits);
        self.domain.limit = self.domain.limit.min(limits.dom_limit);
        let now = self.tick();
        let share = self
            .domain
            .completions
            .fraction(&mut self.wbs[wb].share, now);
        self.view(wb, kind, avail, limits, share)
    }

    /// The cgroup of `wb` as the same pass finds it; none for the root.
    pub fn cgroup_view(&mut self, wb: usize, kind: Pass, host: &View) -> Option<View> {
        let index = self.wbs[wb].cgroup;
        if index == 0 {
            return None;
        }
        let cgroup = &self.cgroups[index];
        let dirty = cgroup.believed.dirty + in_flight(kind, cgroup.believed.writeback);
        let clean = cgroup.believed_file.saturating_sub(dirty);
        let others = host
            .avail
            .saturating_sub(host.limits.dirty)
            .saturating_sub(clean);
        let avail = cgroup.believed_file + self.headroom(index).min(others);
        let (thresh, bg_thresh) = self.sysctl.levels(avail, Some(host.avail));
        let mut limits = Limits {
            thresh,
            bg_thresh,
            dirty,
            dom_limit: cgroup.domain.limit,
        };
        self.weir_amends_cgroup(wb, kind, avail, host, &mut limits);
        let now = self.tick();
        let domain = &mut self.cgroups[index].domain;
        domain.limit = domain.limit.min(limits.dom_limit);
        let share = domain
            .completions
            .fraction(&mut self.wbs[wb].cgroup_share, now);
        Some(self.view(wb, kind, avail, limits, share))
    }

    fn view(&self, wb: usize, kind: Pass, avail: u64, limits: Limits, share: (u64, u64)) -> View {
        let of = |level: u64| level * share.0 / share.1;
        let wb_thresh = of(limits.thresh);
        let counts = &self.wbs[wb].counts;
        View {
            avail,
            limits,
            wb_dirty: counts.dirty + in_flight(kind, counts.writeback),
            wb_thresh,
            wb_background: of(limits.bg_thresh),
        }
    }

    /// What `memory.max` and `memory.high` from a cgroup up still leave it.
    pub fn headroom(&self, cgroup: usize) -> u64 {
        let mut least = u64::MAX;
        let mut next = cgroup;
        while let Some(parent) = self.cgroups[next].parent {
            let cgroup = &self.cgroups[next];
            let used = cgroup.file + cgroup.anonymous;
            least = least.min(cgroup.max.min(cgroup.high).saturating_sub(used));
            next = parent;
        }
        least
    }

    /// Whether a flusher has reason to go on.
    pub fn is_over_background(&mut self, wb: usize) -> bool {
        let over = |view: &View| {
            view.limits.dirty > view.limits.bg_thresh || view.wb_dirty > view.wb_background
        };
        let host = self.host_view(wb, Pass::Flusher);
        over(&host)
            || self
                .cgroup_view(wb, Pass::Flusher, &host)
                .as_ref()
                .is_some_and(over)
    }

    /// The writeback learns from what happened since it last did; a writer's pass gives what it
    /// found.
    pub fn adapt(&mut self, wb: usize, views: &[(View, u64)]) {
        let now = self.tick();
        let cgroup = self.wbs[wb].cgroup;
        for (index, (view, _)) in views.iter().enumerate() {
            let domain = if index == 0 {
                &mut self.domain
            } else {
                &mut self.cgroups[cgroup].domain
            };
            domain.smooth(view.limits.thresh, view.limits.dirty, now);
        }
        // Moved before the base rates are, which go by them.
        let limits = [self.domain.limit, self.cgroups[cgroup].domain.limit];
        let mut smoothed = [(); 2].map(|()| None);
        for (index, (view, position)) in views.iter().enumerate() {
            let mut view = *view;
            view.limits.dom_limit = limits[index];
            smoothed[index] = Some((view, *position));
        }
        let views: Vec<(View, u64)> = smoothed.into_iter().flatten().collect();
        let wb = &mut self.wbs[wb];
        wb.rates
            .adapt(wb.counts.dirtied, wb.counts.written, now, &views);
    }

    /// A task's pass, with the pages it has dirtied since its last.
    pub fn pass(&mut self, task: usize) -> Passed {
        let wb = self.tasks[task].wb as usize;
        let host = self.host_view(wb, Pass::Writer);
        let cgroup = self.cgroup_view(wb, Pass::Writer, &host);
        let now = self.tick();
        if self.counts.dirty > host.limits.bg_thresh {
            self.wake_flusher(wb);
        }
        if host.is_free() && cgroup.as_ref().is_none_or(View::is_free) {
            let poll = cgroup.map_or(u64::MAX, |view| view.poll()).min(host.poll());
            self.tasks[task].freed(now, poll);
            return Passed::Go;
        }
        self.wake_flusher(wb);
        let rates = &self.wbs[wb].rates;
        let mut both = [(host, rates.position(&host)); 2];
        if let Some(view) = cgroup {
            both[1] = (view, rates.position(&view));
        }
        let views = &both[..1 + usize::from(cgroup.is_some())];
        // The host decides unless the cgroup gives less.
        let (by_cgroup, (view, position)) = views
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, (_, position))| *position)
            .map_or((false, views[0]), |(index, least)| (index > 0, least));
        self.wbs[wb].exceeded = views.iter().any(|(view, _)| view.is_exceeded());
        if now > self.wbs[wb].rates.stamp + INTERVAL {
            self.adapt(wb, views);
        }
        let rates = &self.wbs[wb].rates;
        let rate = rates.base * position / ONE;
        let plan = rates.plan(view.wb_dirty, rate);
        let dirtied = self.tasks[task].dirtied;
        let id = task;
        let task = &mut self.tasks[id];
        let mut paused_at = now;
        let pause = match (HZ * dirtied).checked_div(rate) {
            None => plan.longest,
            Some(period) => {
                // Its clock is ahead of time if it was let off a pause.
                let ahead = match task.paused_at {
                    0 => 0,
                    at => at as i64 - now as i64,
                };
                let pause = period as i64 + ahead;
                if pause < plan.shortest as i64 {
                    self.saw_pass(id, (&view, by_cgroup), rate, pause.min(0), period);
                    let task = &mut self.tasks[id];
                    task.not_worth_it(now, period, pause, dirtied);
                    return Passed::Go;
                }
                let pause = pause as Ticks;
                if pause > plan.longest {
                    // What a pause cannot make up for is partly forgotten.
                    paused_at += (pause - plan.longest).min(plan.longest);
                }
                pause.min(plan.longest)
            }
        };
        self.saw_pass(id, (&view, by_cgroup), rate, pause as i64, pause);
        let task = &mut self.tasks[id];
        task.sleeper = Sleeper {
            paused_at: paused_at + pause,
            pages: plan.pages,
            again: rate == 0 && view.wb_dirty > counter_error(self.machine.cpus),
        };
        task.wakes_at = wake_at(self.now, pause);
        Passed::Sleep
    }
}

fn in_flight(kind: Pass, pages: u64) -> u64 {
    if kind == Pass::Flusher { 0 } else { pages }
}

/// How far off the kernel's quick reading of a per-CPU counter may be.
fn counter_error(cpus: u32) -> u64 {
    u64::from(cpus) * 8 * u64::from(1 + cpus.ilog2())
}
