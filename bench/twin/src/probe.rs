// SPDX-License-Identifier: GPL-2.0-only
//! The sampler, which looks at the host as the lab does; and what a recording of a run has, for its
//! pictures: the passes through the throttle as the kernel's
//! `balance_dirty_pages` event has them, when sleepers woke, the host's levels twenty times a
//! second, and twice a second how far each process has come. Watching changes nothing: a run that
//! is watched comes to the same.

use crate::sched::psi::{HOST, Lost, PsiFlags};
use crate::sim;
use crate::sim::clock::{MS, Ns};
use crate::task::Tasks;
use observe::event::{Event, Limits};

/// A phase that was watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Name of the phase.
    pub phase: String,
    /// Begin and end of the phase.
    pub span: (Ns, Ns),
    /// Passes that did not run freely, who decided them, and who woke in the throttle, in their
    /// order.
    pub events: Vec<Event>,
    /// The host's pages.
    pub levels: Vec<(Ns, Limits)>,
    /// By process, the bytes it has written so far.
    pub progress: Vec<(Ns, Vec<(u32, u64)>)>,
    /// By cgroup, pages dirty and in flight.
    pub cgroups: Vec<(String, Vec<(Ns, u64)>)>,
    /// By process: its job, by its place among the phase's, and its cgroup's path.
    pub processes: Vec<(u32, usize, String)>,
    first: usize,
}

/// Counts taken every 50 ms, in pages.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Of the host: dirty and in flight.
    pub held: Vec<u64>,
    /// Pages of the host in writeback.
    pub writeback: Vec<u64>,
    /// By cgroup: dirty and in flight.
    pub cgroups: Vec<Vec<u64>>,
    /// Time of each look, with what all tasks had lost to I/O.
    pub io_lost: Vec<(Ns, Lost)>,
}

/// Process that looks at the host.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// Looked at so far in this phase.
    pub samples: Samples,
    sampling: bool,
    /// The CPU that a look is keeping busy.
    looker: Option<u16>,
    /// The phases so far, if the run is recorded.
    watched: Option<Vec<Watched>>,
}

/// Looks between two at the processes.
const LOOKS: usize = 10;

impl Probe {
    /// Records the run from now on, but for passes through the throttle.
    pub fn watch_samples(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// Records the run from now on.
    pub fn watch_all(&mut self, tasks: &mut Tasks) {
        self.watched = Some(Vec::new());
        tasks.trace = Some(Vec::new());
    }

    /// A phase begins, before its processes start.
    pub fn begin_phase(&mut self, phase: &str, tasks: &mut Tasks) {
        self.take_trace(tasks);
        let (first, now) = (tasks.tasks.len(), tasks.now);
        if let Some(all) = &mut self.watched {
            all.push(Watched {
                phase: phase.into(),
                span: (now, now),
                first,
                ..Watched::default()
            });
        }
    }

    /// Recordings of each phase.
    pub fn take_recordings(mut self, tasks: &mut Tasks) -> Vec<Watched> {
        self.take_trace(tasks);
        self.watched.unwrap_or_default()
    }

    fn take_trace(&mut self, tasks: &mut Tasks) {
        let trace = tasks.trace.as_mut().map(std::mem::take);
        if let (Some(trace), Some(phase)) = (trace, self.watched.iter_mut().flatten().last()) {
            phase.events = trace;
        }
    }

    /// Looks at the host from now on.
    pub fn start_sampling(&mut self, tasks: &mut Tasks) {
        self.samples = Samples {
            cgroups: vec![Vec::new(); tasks.cgroups.len()],
            ..Samples::default()
        };
        self.sampling = true;
        tasks.schedule_after(0, sim::SimEvent::Sample);
    }

    /// The look that is scheduled will be none.
    pub fn stop_sampling(&mut self) {
        self.sampling = false;
    }

    /// Looks at the host.
    pub fn sample_host(&mut self, tasks: &mut Tasks) {
        if !self.sampling {
            return;
        }
        let now = tasks.now;
        if tasks.machine.look > 0 && self.looker.is_none() {
            // A different one each time: it must not drive all other tasks to the others.
            let turn = self.samples.held.len() as u32 % tasks.machine.cpus;
            let cpu = tasks.psi.choose_cpu(turn as u16);
            let (idle, busy) = (PsiFlags::Nothing, PsiFlags::Running);
            tasks.psi.change_state(cpu, HOST, idle, busy, now);
            self.looker = Some(cpu);
            let look = tasks.machine.look;
            let over = tasks.occupy_cpu(cpu, look);
            tasks.schedule_event(over, sim::SimEvent::Sampled);
        }
        self.record_host_sample(tasks);
        self.samples.io_lost.push((now, tasks.psi.host_io_lost()));
        self.samples.held.push(tasks.counts.pages_held());
        self.samples.writeback.push(tasks.counts.writeback);
        for (cgroup, series) in tasks.cgroups.iter().zip(&mut self.samples.cgroups) {
            series.push(cgroup.subtree.pages_held());
        }
        tasks.schedule_event(now + 50 * MS, sim::SimEvent::Sample);
    }

    /// A look is over.
    pub fn end_sample(&mut self, tasks: &mut Tasks) {
        if let Some(cpu) = self.looker.take() {
            let (now, idle) = (tasks.now, PsiFlags::Nothing);
            tasks
                .psi
                .change_state(cpu, HOST, PsiFlags::Running, idle, now);
        }
    }

    /// Adds a look at the host to the recording.
    fn record_host_sample(&mut self, tasks: &Tasks) {
        let Some(phase) = self.watched.iter_mut().flatten().last() else {
            return;
        };
        let now = tasks.now;
        phase.span.1 = now;
        let running = || tasks.tasks.iter().enumerate().skip(phase.first);
        if phase.levels.len() % LOOKS == 0 {
            let progress =
                running().map(|(index, task)| (index as u32, task.bytes_written(&tasks.jobs)));
            phase.progress.push((now, progress.collect()));
        }
        if phase.processes.is_empty() {
            let home = |cgroup: u32| tasks.cgroups[cgroup as usize].path.clone();
            let of = |(index, task): (usize, &crate::task::Task)| {
                (index as u32, task.job_index(), home(task.dirtier.home))
            };
            phase.processes = running().map(of).collect();
            let paths = tasks.cgroups.iter().map(|cgroup| cgroup.path.clone());
            phase.cgroups = paths.map(|path| (path, Vec::new())).collect();
        }
        for (cgroup, (_, series)) in tasks.cgroups.iter().zip(&mut phase.cgroups) {
            series.push((now, cgroup.subtree.pages_held()));
        }
        let (thresh, background) = tasks.sysctl.dirty_levels(tasks.dirtyable_pages(), None);
        let levels = Limits {
            dirty: tasks.counts.dirty,
            writeback: tasks.counts.writeback,
            background,
            thresh,
        };
        phase.levels.push((now, levels));
    }
}
