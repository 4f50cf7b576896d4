// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU FIFO run queue. A task runs until it sleeps or its slice ends.
//!
//! A slice ends with a tick, and only if another task waits, as in Linux since 6.12; a task that
//! wakes up does not preempt. A CPU whose queue is empty takes over a task that waits for another.
//! So of all tasks that wake in one tick to look for room for their pages, the first uses it up.
//!
//! Flushers, kswapd and samples of the host are not queued: they take CPU time beside the task that
//! runs.

use crate::clock::{Ns, TICK};
use crate::psi::Doing;
use crate::world::{Event, World};

/// The kernel's `sysctl_sched_base_slice` on one CPU; 1 + log2 of CPUs, eight at most, times as
/// much on more.
pub const SLICE: Ns = 750_000;

impl World {
    /// True if the task is on a CPU now. Else it is called again when it is.
    pub(super) fn has_cpu(&mut self, index: usize) -> bool {
        debug_assert!(!self.tasks[index].waits_for_cpu, "woken twice");
        self.task_does(index, Doing::Running);
        let cpu = usize::from(self.tasks[index].cpu);
        let waits = match self.cpus[cpu].runs {
            None => {
                self.begins_turn(cpu, index);
                false
            }
            Some(task) if task as usize == index => {
                let is_over = self.now >= self.cpus[cpu].turn_ends;
                is_over && !self.cpus[cpu].line.is_empty()
            }
            Some(_) => true,
        };
        if waits {
            self.cpus[cpu].line.push_back(index as u32);
            self.tasks[index].waits_for_cpu = true;
            self.in_line += 1;
            if self.cpus[cpu].runs == Some(index as u32) {
                self.next_turn(cpu);
            }
        }
        !waits
    }

    /// How long a stretch of the task may be.
    pub(super) fn turn_left(&self, index: usize) -> Ns {
        let cpu = &self.cpus[usize::from(self.tasks[index].cpu)];
        match cpu.line.is_empty() {
            true => TICK,
            false => cpu.turn_ends.saturating_sub(self.now).min(TICK),
        }
    }

    /// The task sleeps, or has ended.
    pub(super) fn leaves_cpu(&mut self, index: usize) {
        let cpu = usize::from(self.tasks[index].cpu);
        if std::mem::take(&mut self.tasks[index].waits_for_cpu) {
            self.cpus[cpu].line.retain(|task| *task as usize != index);
            self.in_line -= 1;
        } else if self.cpus[cpu].runs == Some(index as u32) {
            self.next_turn(cpu);
        }
    }

    fn begins_turn(&mut self, cpu: usize, index: usize) {
        let slice = SLICE * u64::from(1 + self.machine.cpus.min(8).ilog2());
        let cpu = &mut self.cpus[cpu];
        cpu.runs = Some(index as u32);
        cpu.turn_ends = (self.now + slice).next_multiple_of(TICK);
    }

    fn next_turn(&mut self, cpu: usize) {
        self.cpus[cpu].runs = None;
        if self.in_line == 0 {
            return;
        }
        let next = match self.cpus[cpu].line.pop_front() {
            Some(next) => next as usize,
            None => match self.takes_over(cpu) {
                Some(next) => next,
                None => return,
            },
        };
        self.in_line -= 1;
        self.tasks[next].waits_for_cpu = false;
        self.begins_turn(cpu, next);
        self.plan(self.now, Event::Task(next as u32));
    }

    /// Who waits longest where most wait comes to `cpu`.
    fn takes_over(&mut self, cpu: usize) -> Option<usize> {
        let lengths = self.cpus.iter().map(|cpu| cpu.line.len());
        let (from, _) = lengths.enumerate().max_by_key(|(_, length)| *length)?;
        let next = self.cpus[from].line.pop_front()? as usize;
        let task = &mut self.tasks[next];
        let (was, group) = (task.cpu, task.pressure);
        task.cpu = cpu as u16;
        for (cpu, from, to) in [
            (was, Doing::Running, Doing::Nothing),
            (cpu as u16, Doing::Nothing, Doing::Running),
        ] {
            self.psi.turn(cpu, group, from, to, self.now);
        }
        Some(next)
    }
}
