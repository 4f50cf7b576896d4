// SPDX-License-Identifier: GPL-2.0-only
//! What a recording of a run has, for its pictures: the passes through the throttle as the kernel's
//! `balance_dirty_pages` event has them, when sleepers woke, the host's levels twenty times a
//! second, and twice a second how far each process has come. Watching changes nothing: a run that
//! is watched comes to the same.

use crate::clock::{HZ, Ns, Ticks};
use crate::domain::View;
use crate::world::World;

/// A phase that was watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Name of the phase.
    pub phase: String,
    /// When it began and ended.
    pub span: (Ns, Ns),
    /// In their order.
    pub passes: Vec<Seen>,
    /// When which process woke in the throttle.
    pub wakes: Vec<(Ns, u32)>,
    /// The host's pages.
    pub levels: Vec<(Ns, Levels)>,
    /// By process, the bytes it has written so far.
    pub progress: Vec<(Ns, Vec<(u32, u64)>)>,
    /// By cgroup, pages dirty and in flight.
    pub cgroups: Vec<(String, Vec<(Ns, u64)>)>,
    /// By process: its job, by its place among the phase's, and its cgroup's path.
    pub processes: Vec<(u32, usize, String)>,
    first: usize,
}

/// Pages of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// Dirty, not in flight.
    pub dirty: u64,
    /// Pages in writeback.
    pub writeback: u64,
    /// Where flushers start.
    pub background: u64,
    /// The host's dirty limit.
    pub thresh: u64,
}

/// A pass that did not run freely; pages, pages a second, milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Time of the pass.
    pub at: Ns,
    /// Number of the process.
    pub process: u32,
    /// Of its writeback, 0 for the root.
    pub cgroup: usize,
    /// Of its writeback.
    pub device: usize,
    /// The cgroup's domain decided, not the host's.
    pub by_cgroup: bool,
    /// The host's smoothed limit.
    pub limit: u64,
    /// Half way between that and the freerun level of the domain that decided.
    pub setpoint: u64,
    /// What that domain holds.
    pub dirty: u64,
    /// The device's part of the setpoint.
    pub device_setpoint: u64,
    /// What it holds.
    pub device_dirty: u64,
    /// The base rate.
    pub base: u64,
    /// What the process was held to.
    pub rate: u64,
    /// Since its last pass.
    pub dirtied: u64,
    /// To be slept; not if negative or zero.
    pub pause_ms: i64,
    /// How long dirtying that much is to take.
    pub period_ms: u64,
}

const PER_TICK: i64 = (1000 / HZ) as i64;
/// Looks between two at the processes.
const LOOKS: usize = 10;

impl World {
    /// Begins a phase, before its processes start.
    pub(crate) fn watch_phase(&mut self, phase: &str) {
        let (first, now) = (self.tasks.len(), self.now);
        if let Some(all) = &mut self.watched {
            all.push(Watched {
                phase: phase.into(),
                span: (now, now),
                first,
                ..Watched::default()
            });
        }
    }

    /// A pass has been decided.
    pub(crate) fn saw_pass(
        &mut self,
        process: usize,
        (view, by_cgroup): (&View, bool),
        rate: u64,
        pause: i64,
        period: Ticks,
    ) {
        if self.watched.is_none() {
            return;
        }
        let limit = self.domain.limit;
        let wb = &self.wbs[self.tasks[process].wb as usize];
        let setpoint = policy::arith::setpoint(view.freerun(), limit);
        let seen = Seen {
            by_cgroup,
            at: self.now,
            process: process as u32,
            cgroup: wb.cgroup,
            device: wb.device,
            limit,
            setpoint,
            dirty: view.limits.dirty,
            device_setpoint: setpoint * view.wb_thresh / (view.limits.thresh + 1),
            device_dirty: view.wb_dirty,
            base: wb.rates.base,
            rate,
            dirtied: self.tasks[process].dirtied,
            pause_ms: pause * PER_TICK,
            period_ms: period * PER_TICK as u64,
        };
        if let Some(phase) = self.watched.iter_mut().flatten().last() {
            phase.passes.push(seen);
        }
    }

    /// A sleeper has woken.
    pub(crate) fn saw_wake(&mut self, process: usize) {
        let now = self.now;
        if let Some(phase) = self.watched.iter_mut().flatten().last() {
            phase.wakes.push((now, process as u32));
        }
    }

    /// A look at the host.
    pub(crate) fn saw_levels(&mut self) {
        let Some(mut phase) = self.watched.iter_mut().flatten().last().map(std::mem::take) else {
            return;
        };
        let (thresh, background) = self.sysctl.levels(self.dirtyable(), None);
        phase.span.1 = self.now;
        if phase.levels.len() % LOOKS == 0 {
            let processes = self.tasks.iter().enumerate().skip(phase.first);
            let progress = processes.map(|(index, task)| (index as u32, task.bytes(&self.jobs)));
            phase.progress.push((self.now, progress.collect()));
        }
        if phase.processes.is_empty() {
            for (index, task) in self.tasks.iter().enumerate().skip(phase.first) {
                let home = &self.cgroups[self.wbs[task.wb as usize].cgroup].path;
                phase
                    .processes
                    .push((index as u32, task.job(), home.clone()));
            }
            let paths = self
                .cgroups
                .iter()
                .map(|cgroup| (cgroup.path.clone(), Vec::new()));
            phase.cgroups = paths.collect();
        }
        for (cgroup, (_, series)) in self.cgroups.iter().zip(&mut phase.cgroups) {
            series.push((self.now, cgroup.subtree.held()));
        }
        let levels = Levels {
            dirty: self.counts.dirty,
            writeback: self.counts.writeback,
            background,
            thresh,
        };
        phase.levels.push((self.now, levels));
        if let Some(slot) = self.watched.iter_mut().flatten().last() {
            *slot = phase;
        }
    }
}
