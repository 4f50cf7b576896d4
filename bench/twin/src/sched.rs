// SPDX-License-Identifier: GPL-2.0-only
//! CPUs: who runs on which, and what that is for pressure (PSI).
//!
//! The run queue: rq.rs. Flushers, kswapd and samples of the host are not queued: they take CPU
//! time beside the task that runs.

pub mod psi;
mod rq;

pub use rq::SLICE;

use crate::machine::Machine;
use crate::sim::Sim;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND};
use psi::{HOST, Psi, PsiFlags};
use std::collections::VecDeque;

/// State that the scheduler keeps of a task.
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    /// The CPU it is on, or was last.
    pub cpu: u16,
    /// Group whose pressure it counts for first.
    pub pressure: u32,
    /// Activity that counts for that.
    pub doing: PsiFlags,
    /// `true` while it waits for its CPU.
    queued: bool,
}

/// A kernel thread, of the host's own cgroup; on no run queue.
#[derive(Clone, Copy, Debug)]
pub struct Kthread {
    /// The CPU it is on, or was last.
    pub cpu: u16,
    /// Activity that counts for pressure.
    pub doing: PsiFlags,
}

impl Default for Kthread {
    fn default() -> Self {
        Kthread {
            cpu: 0,
            doing: PsiFlags::Nothing,
        }
    }
}

/// Variables of a CPU's own, and who is on it.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Pages dirtied on it since the last pass on it.
    pub bdp_ratelimits: u64,
    /// Pages dirtied by tasks that have ended without a pass for them.
    pub dirty_throttle_leaks: u64,
    /// Pages taken from its own list of free ones since that was filled.
    pub pcp_taken: u64,
    /// Time at which all that want to run on it now are through.
    pub free_at: Ns,
    /// The task that is on it.
    curr: Option<u32>,
    /// Until when that one is in any case.
    slice_end: Ns,
    /// Tasks that wait for it.
    queue: VecDeque<u32>,
}

/// The host's CPUs.
#[derive(Clone, Debug)]
pub struct Sched {
    sim: Sim,
    /// Machine, with the CPU time of its work.
    pub machine: Machine,
    /// CPUs by their number.
    pub cpus: Vec<Cpu>,
    /// Entities, by number of the task.
    pub entities: Vec<Entity>,
    /// Tasks that wait for a CPU.
    nr_queued: usize,
    /// A task that wakes up gets the CPU of one that has had its slice.
    pub wakes_preempt: bool,
    /// Pressure of host and cgroups.
    pub psi: Psi,
}

above!(Sched.sim: Sim);

impl Sched {
    /// CPUs that are idle.
    pub fn new(machine: Machine, sim: Sim) -> Sched {
        let mut sched = Sched {
            machine,
            cpus: vec![Cpu::default(); machine.cpus as usize],
            entities: Vec::new(),
            nr_queued: 0,
            wakes_preempt: false,
            psi: Psi::new(machine.cpus, sim.now),
            sim,
        };
        sched.schedule_after(0, SimEvent::Pressure);
        sched
    }

    /// Averages pressure, every two seconds.
    pub fn update_psi_averages(&mut self) {
        let now = self.now;
        self.psi.update_memory_average(now);
        self.schedule_event(now + 2 * SECOND, SimEvent::Pressure);
    }

    /// Queues `time` of computing on `cpu` behind what came before; returns when it is done.
    pub fn occupy_cpu(&mut self, cpu: u16, time: Ns) -> Ns {
        let now = self.now;
        let free_at = &mut self.cpus[usize::from(cpu)].free_at;
        *free_at = now.max(*free_at) + time;
        *free_at
    }

    /// A new task, which `pressure` counts, has not run yet.
    pub fn add_task(&mut self, pressure: u32) {
        let index = self.entities.len();
        self.entities.push(Entity {
            cpu: (index % self.machine.cpus as usize) as u16,
            pressure,
            doing: PsiFlags::Nothing,
            queued: false,
        });
    }

    /// A task goes from what it was doing to something else.
    pub fn change_task_activity(&mut self, index: usize, doing: PsiFlags) {
        if self.entities[index].doing == doing {
            return;
        }
        let computes = |doing| matches!(doing, PsiFlags::Running | PsiFlags::MemstallRunning);
        if !computes(doing) {
            self.leave_cpu(index);
        }
        let now = self.now;
        let task = &mut self.entities[index];
        if computes(doing) && !computes(task.doing) {
            // It has not run, so where it comes to does not depend on what it did.
            let cpu = self.psi.choose_cpu(task.cpu);
            if cpu != task.cpu {
                self.psi
                    .change_state(task.cpu, task.pressure, task.doing, PsiFlags::Nothing, now);
                task.doing = PsiFlags::Nothing;
                task.cpu = cpu;
            }
        }
        self.psi
            .change_state(task.cpu, task.pressure, task.doing, doing, now);
        task.doing = doing;
    }

    /// The same of a kernel thread, which leaves the CPU it was on before it comes to another if it
    /// `moves`.
    pub fn change_kthread_activity(&mut self, thread: &mut Kthread, doing: PsiFlags, moves: bool) {
        let now = self.now;
        if moves {
            self.psi
                .change_state(thread.cpu, HOST, thread.doing, PsiFlags::Nothing, now);
            thread.doing = PsiFlags::Nothing;
            thread.cpu = self.psi.choose_cpu(thread.cpu);
        }
        self.psi
            .change_state(thread.cpu, HOST, thread.doing, doing, now);
        thread.doing = doing;
    }

    /// `true` if a kernel thread shares its CPU.
    pub fn shares_cpu(&self, thread: &Kthread) -> bool {
        self.psi.running_on(thread.cpu) > 1
    }
}
