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

use super::Writeback;
use crate::mm::domain::{BANDWIDTH_INTERVAL, Dtc};
use crate::mm::ratelimit::RATELIMIT_CALC_SHIFT;
use crate::mm::{Dirtier, Sleeper};
use crate::sim::clock::{HZ, Ticks, timer_expiry};
use crate::trace::{PAGE_KIB, cgroup_inode, task_id};
use observe::event::{Event, Pause, What};
use policy::arith;
use policy::ceiling::{Limits, Memory};
use policy::pass::Pass;

/// Milliseconds of a tick.
const PER_TICK: i64 = (1000 / HZ) as i64;

/// Ends of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The task goes on.
    Go,
    /// The task sleeps before it goes on.
    Sleep,
}

impl Writeback {
    /// The host as a pass on `wb` finds it. A flusher does not count what is in flight already.
    pub fn build_gdtc(&mut self, wb: usize, kind: Pass) -> Dtc {
        let avail = self.dirtyable_pages();
        let (thresh, bg_thresh) = self.sysctl.dirty_levels(avail, None);
        let mut limits = Limits {
            thresh,
            bg_thresh,
            dirty: (self.counts.dirty + counted_writeback(kind, self.counts.writeback))
                .saturating_sub(self.copied_pages(wb, kind)),
            dom_limit: self.domain.dirty_limit,
        };
        self.weir_amend_host(wb, kind, &mut limits);
        self.domain.dirty_limit = self.domain.dirty_limit.min(limits.dom_limit);
        let share = self.wb_fraction(wb);
        self.build_wb_dtc(wb, kind, avail, limits, share)
    }

    /// The cgroup of `wb` as the same pass finds it; none for the root.
    pub fn build_mdtc(&mut self, wb: usize, kind: Pass, host: &Dtc) -> Option<Dtc> {
        let index = self.wbs[wb].cgroup;
        if index == 0 {
            return None;
        }
        let cgroup = &self.cgroups[index];
        let dirty = cgroup.flushed.dirty + counted_writeback(kind, cgroup.flushed.writeback);
        let memory = Memory {
            file: cgroup.flushed_file,
            dirty,
            headroom: self.cgroup_headroom(index),
            host_avail: host.avail,
            host_dirty: host.limits.dirty,
        };
        let avail = memory.dirtyable_pages();
        let (thresh, bg_thresh) = self.sysctl.dirty_levels(avail, Some(host.avail));
        let mut limits = Limits {
            thresh,
            bg_thresh,
            dirty,
            dom_limit: cgroup.domain.dirty_limit,
        };
        self.weir_amend_cgroup(wb, kind, avail, host, &mut limits);
        let domain = &mut self.cgroups[index].domain;
        domain.dirty_limit = domain.dirty_limit.min(limits.dom_limit);
        let share = self.memcg_fraction(wb);
        Some(self.build_wb_dtc(wb, kind, avail, limits, share))
    }

    fn build_wb_dtc(
        &self,
        wb: usize,
        kind: Pass,
        avail: u64,
        limits: Limits,
        share: (u64, u64),
    ) -> Dtc {
        let of = |level: u64| level * share.0 / share.1;
        let strict = self.devices[self.wbs[wb].device].strict_percent();
        let most = |level: u64| strict.map_or(u64::MAX, |percent| level * percent / 100);
        let wb_thresh = of(limits.thresh).min(most(limits.thresh));
        let counts = &self.wbs[wb].counts;
        Dtc {
            avail,
            limits,
            freerun: arith::freerun_level(limits.thresh, limits.bg_thresh),
            wb_dirty: (counts.dirty + counted_writeback(kind, counts.writeback))
                .saturating_sub(self.copied_pages(wb, kind)),
            wb_thresh,
            wb_bg_thresh: of(limits.bg_thresh).min(most(limits.bg_thresh)),
            is_strict: strict.is_some(),
        }
    }

    /// `true` if a flusher has reason to go on.
    pub fn wb_over_bg_thresh(&mut self, wb: usize) -> bool {
        let over = |view: &Dtc| {
            view.limits.dirty > view.limits.bg_thresh || view.wb_dirty > view.wb_bg_thresh
        };
        let host = self.build_gdtc(wb, Pass::Flusher);
        over(&host)
            || self
                .build_mdtc(wb, Pass::Flusher, &host)
                .as_ref()
                .is_some_and(over)
    }

    /// A task's pass, with the pages it has dirtied since its last.
    pub fn balance_dirty_pages(&mut self, task: &mut Dirtier) -> Passed {
        let wb = task.wb as usize;
        let gdtc = self.build_gdtc(wb, Pass::Writer);
        let mdtc = self.build_mdtc(wb, Pass::Writer, &gdtc);
        let now = self.current_tick();
        if self.counts.dirty > gdtc.limits.bg_thresh {
            self.wake_flusher(wb);
        }
        if gdtc.is_in_freerun() && mdtc.as_ref().is_none_or(Dtc::is_in_freerun) {
            let poll = mdtc.map_or(u64::MAX, |dtc| dtc.dirty_poll_interval());
            task.end_free_run(now, poll.min(gdtc.dirty_poll_interval()));
            return Passed::Go;
        }
        self.wake_flusher(wb);
        let rates = &self.wbs[wb].rates;
        let mut both = [(gdtc, rates.pos_ratio(&gdtc)); 2];
        if let Some(dtc) = mdtc {
            both[1] = (dtc, rates.pos_ratio(&dtc));
        }
        let dtcs = &both[..1 + usize::from(mdtc.is_some())];
        // The host decides unless the cgroup gives less.
        let (by_cgroup, (dtc, pos_ratio)) = dtcs
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, (_, pos_ratio))| *pos_ratio)
            .map_or((false, dtcs[0]), |(index, least)| (index > 0, least));
        self.wbs[wb].exceeded = dtcs.iter().any(|(dtc, _)| dtc.is_exceeded());
        if now > self.wbs[wb].rates.bw_time_stamp + BANDWIDTH_INTERVAL {
            self.update_wb_bandwidth(wb, dtcs);
        }
        let rates = &self.wbs[wb].rates;
        let task_ratelimit = (rates.dirty_ratelimit * pos_ratio) >> RATELIMIT_CALC_SHIFT;
        let plan = rates.compute_pause(dtc.wb_dirty, task_ratelimit);
        let mut dirty_paused_when = now;
        let pause = match (HZ * task.nr_dirtied).checked_div(task_ratelimit) {
            None => plan.max_pause,
            Some(period) => {
                // Its clock is ahead of time if it was let off a pause.
                let ahead = match task.dirty_paused_when {
                    0 => 0,
                    at => at as i64 - now as i64,
                };
                let pause = period as i64 + ahead;
                if pause < plan.min_pause as i64 {
                    self.trace_pass(
                        task,
                        (&dtc, by_cgroup),
                        task_ratelimit,
                        pause.min(0),
                        period,
                    );
                    task.skip_short_pause(now, period, pause);
                    return Passed::Go;
                }
                let pause = pause as Ticks;
                if pause > plan.max_pause {
                    // What a pause cannot make up for is partly forgotten.
                    dirty_paused_when += (pause - plan.max_pause).min(plan.max_pause);
                }
                pause.min(plan.max_pause)
            }
        };
        self.trace_pass(task, (&dtc, by_cgroup), task_ratelimit, pause as i64, pause);
        task.sleeper = Sleeper {
            dirty_paused_when: dirty_paused_when + pause,
            nr_dirtied_pause: plan.nr_dirtied_pause,
            again: task_ratelimit == 0 && dtc.wb_dirty > counter_error(self.machine.cpus),
        };
        task.wakes_at = timer_expiry(self.now, pause);
        if pause > 0 {
            self.weir_begin_pause(task, &dtc, mdtc.as_ref());
        }
        Passed::Sleep
    }

    /// A pass has been decided.
    fn trace_pass(
        &mut self,
        task: &Dirtier,
        (dtc, by_cgroup): (&Dtc, bool),
        task_ratelimit: u64,
        pause: i64,
        period: Ticks,
    ) {
        let Some(trace) = &mut self.trace else { return };
        let wb = &self.hooks.wbs[task.wb as usize];
        let limit = self.hooks.domain.dirty_limit;
        let setpoint = arith::setpoint_level(dtc.freerun, limit);
        let pause = Pause {
            bdi: self.hooks.devices[wb.device].name().into(),
            cgroup: cgroup_inode(wb.cgroup),
            limit,
            setpoint,
            dirty: dtc.limits.dirty,
            bdi_setpoint: setpoint * dtc.wb_thresh / (dtc.limits.thresh + 1),
            bdi_dirty: dtc.wb_dirty,
            dirty_ratelimit: wb.rates.dirty_ratelimit * PAGE_KIB,
            task_ratelimit: task_ratelimit * PAGE_KIB,
            dirtied: task.nr_dirtied,
            pause_ms: pause * PER_TICK,
            period_ms: period * PER_TICK as u64,
        };
        let by = if by_cgroup { "cgroup" } else { "host" };
        let both = [What::Pause(pause), What::DecidedBy(by.into())];
        trace.extend(both.map(|what| Event {
            ns: self.hooks.now,
            task: task_id(task.pid),
            what,
        }));
    }
}

fn counted_writeback(kind: Pass, pages: u64) -> u64 {
    if kind == Pass::Flusher { 0 } else { pages }
}

/// Largest error of the kernel's quick reading of a per-CPU counter.
fn counter_error(cpus: u32) -> u64 {
    u64::from(cpus) * 8 * u64::from(1 + cpus.ilog2())
}
