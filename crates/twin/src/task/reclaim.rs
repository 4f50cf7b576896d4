// SPDX-License-Identifier: GPL-2.0-only
//! A task that needs memory: it takes what is free, and where that is too little looks for clean
//! pages itself, or waits for some.
//!
//! A task with memory of its own (fio's `null` engine: `iodepth` buffers of `bs`, filled before it
//! begins) takes it page by page, and frees it at its end.

use super::{State, Task};
use crate::clock::{TICK, wake_at};
use crate::psi::Doing;
use crate::ram::BATCH;
use crate::ram::kswapd::PATIENCE;
use crate::world::{Event, World};

impl World {
    /// Whether a task has yet to take memory of its own.
    pub(super) fn must_take(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        task.held < self.jobs[task.job].work.holds
    }

    /// Takes as much of it as it gets at once, for a tick at most; little by little where kswapd is
    /// about to be woken.
    pub(super) fn takes_memory(&mut self, index: usize) {
        let task = &self.tasks[index];
        if self.now >= task.end {
            return self.task_ends(index);
        }
        let left = self.jobs[task.job].work.holds - task.held;
        let within = (TICK / self.machine.page.max(1)).max(1);
        let plenty = self.ram.free.saturating_sub(self.ram.marks.low);
        let pages = left
            .min(within)
            .min(plenty.max(BATCH))
            .min(self.ram.at_once());
        if pages == 0 {
            return self.reclaims(index);
        }
        self.task_does(index, Doing::Running);
        let task = &mut self.tasks[index];
        task.held += pages;
        task.state = State::Idle;
        let (cpu, cgroup) = (task.cpu, task.home);
        self.holds(cgroup, pages);
        let over = self.takes_cpu(cpu, pages * self.machine.page);
        self.plan(over, Event::Task(index as u32));
    }

    /// Lets go of it.
    pub(super) fn gives_back(&mut self, index: usize) {
        let Task { held, home, .. } = &mut self.tasks[index];
        let (cgroup, pages) = (*home, std::mem::take(held));
        self.lets_go(cgroup, pages);
    }

    /// How many of `count` pages of a file from `at` on it can write to without looking for memory
    /// first, after `taken` others.
    pub(super) fn writable(&self, file: usize, at: u64, count: u64, taken: u64) -> u64 {
        let at_once = self.ram.at_once().saturating_sub(taken);
        if count <= at_once {
            return count;
        }
        match self.files[file].cache.alike(at, at + count) {
            (true, cached) => cached,
            (false, absent) => absent.min(at_once),
        }
    }

    /// Looks for clean pages, unless there are free ones by now.
    pub(super) fn reclaims(&mut self, index: usize) {
        if self.ram.at_once() > 0 {
            self.tasks[index].vain = 0;
            self.tasks[index].state = State::Found;
            return self.task_goes_on(index);
        }
        let look = self.reclaim(BATCH);
        self.ram.reclaimed.stalls += 1;
        self.ram.reclaimed.direct_scanned += look.scanned;
        self.task_does(index, Doing::Reclaiming);
        let cpu = self.tasks[index].cpu;
        let time = self.machine.call + look.scanned * self.machine.scan;
        let over = self.takes_cpu(cpu, time);
        let task = &mut self.tasks[index];
        task.is_cold = true;
        task.state = State::Found;
        if look.taken > 0 {
            task.vain = 0;
            self.ram.may_hope();
        } else {
            // The second time around counts as well.
            self.ram.reclaimed.stalls += 1;
            task.vain += 1;
            task.state = State::Short;
            if task.vain > PATIENCE {
                task.vain = 0;
                self.kills();
            }
        }
        self.plan(over, Event::Task(index as u32));
    }

    /// It has found none: after the time that took it waits for a tick, goes around once more, and
    /// waits for another.
    pub(super) fn waits_for_memory(&mut self, index: usize) {
        self.task_does(index, Doing::Stalled);
        self.tasks[index].state = State::Scarce;
        self.plan_wake(wake_at(wake_at(self.now, 1), 1), Event::Task(index as u32));
    }

    /// An operation of the null engine: nothing but the call.
    pub(super) fn does_nothing(&mut self, index: usize) {
        self.operation_begins(index, self.now);
        self.operates(index, self.machine.call.max(1), |_| true);
    }
}
