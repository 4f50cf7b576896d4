// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU FIFO run queue. A task runs until it sleeps or its slice ends.
//!
//! A slice ends with a tick, and only if another task waits, as in Linux since 6.12; a task that
//! wakes up does not preempt, unless a task syncs: who has waited for a commit then goes on as soon
//! as the one on the CPU has had its slice, as in traces of guests, and before what that one would
//! write meanwhile. (It is so for all in Linux. Elsewhere it decides nothing, and takes the twin
//! five times as many steps of those who never sleep.)
//!
//! A CPU whose queue is empty takes over a task that waits for another. So of all tasks that wake
//! in one tick to look for room for their pages, the first uses it up.

use super::Sched;
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, TICK};

/// The kernel's `sysctl_sched_base_slice` on one CPU; 1 + log2 of CPUs, eight at most, times as
/// much on more.
pub const SLICE: Ns = 750_000;

impl Sched {
    /// True if the task is on a CPU now. Else it is called again when it is.
    pub fn claim_cpu(&mut self, index: usize) -> bool {
        debug_assert!(!self.entities[index].queued, "woken twice");
        self.change_task_activity(index, PsiFlags::Running);
        let cpu = usize::from(self.entities[index].cpu);
        let waits = match self.cpus[cpu].curr {
            None => {
                self.give_cpu(cpu, index);
                false
            }
            Some(task) if task as usize == index => {
                let is_over = self.now >= self.cpus[cpu].slice_end;
                is_over && !self.cpus[cpu].queue.is_empty()
            }
            Some(_) => true,
        };
        if waits {
            self.cpus[cpu].queue.push_back(index as u32);
            self.entities[index].queued = true;
            self.nr_queued += 1;
            if self.cpus[cpu].curr == Some(index as u32) {
                self.run_next_queued(cpu);
            }
        }
        !waits
    }

    /// Longest time that a stretch of the task may take.
    pub fn slice_left(&self, index: usize) -> Ns {
        let cpu = &self.cpus[usize::from(self.entities[index].cpu)];
        match cpu.queue.is_empty() {
            true if self.wakes_preempt => SLICE,
            true => TICK,
            false => cpu.slice_end.saturating_sub(self.now).min(TICK),
        }
    }

    /// The task sleeps, or has ended.
    pub fn leave_cpu(&mut self, index: usize) {
        let cpu = usize::from(self.entities[index].cpu);
        if std::mem::take(&mut self.entities[index].queued) {
            self.cpus[cpu].queue.retain(|task| *task as usize != index);
            self.nr_queued -= 1;
        } else if self.cpus[cpu].curr == Some(index as u32) {
            self.run_next_queued(cpu);
        }
    }

    fn give_cpu(&mut self, cpu: usize, index: usize) {
        let slice = SLICE * u64::from(1 + self.machine.cpus.min(8).ilog2());
        let end = self.now + slice;
        let end = match self.wakes_preempt {
            true => end,
            false => end.next_multiple_of(TICK),
        };
        let cpu = &mut self.cpus[cpu];
        (cpu.curr, cpu.slice_end) = (Some(index as u32), end);
    }

    fn run_next_queued(&mut self, cpu: usize) {
        self.cpus[cpu].curr = None;
        if self.nr_queued == 0 {
            return;
        }
        let next = match self.cpus[cpu].queue.pop_front() {
            Some(next) => next as usize,
            None => match self.take_over_task(cpu) {
                Some(next) => next,
                None => return,
            },
        };
        self.nr_queued -= 1;
        self.entities[next].queued = false;
        self.give_cpu(cpu, next);
        self.schedule_after(0, SimEvent::Task(next as u32));
    }

    /// Moves the task that waits longest, on the CPU with most waiting, to `cpu`.
    fn take_over_task(&mut self, cpu: usize) -> Option<usize> {
        let lengths = self.cpus.iter().map(|cpu| cpu.queue.len());
        let (from, _) = lengths.enumerate().max_by_key(|(_, length)| *length)?;
        let next = self.cpus[from].queue.pop_front()? as usize;
        let now = self.now;
        let task = &mut self.entities[next];
        let (was, group) = (task.cpu, task.pressure);
        task.cpu = cpu as u16;
        for (cpu, from, to) in [
            (was, PsiFlags::Running, PsiFlags::Nothing),
            (cpu as u16, PsiFlags::Nothing, PsiFlags::Running),
        ] {
            self.psi.change_state(cpu, group, from, to, now);
        }
        Some(next)
    }
}
