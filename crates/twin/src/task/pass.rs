// SPDX-License-Identifier: GPL-2.0-only
//! A task meets the throttle: past the module, if it is there, into the kernel's pass, and out
//! again.

use super::{State, Tasks};
use crate::sched::psi::PsiFlags;
use crate::sim::Event;
use crate::sim::clock::{HZ, MS, wake_at};
use crate::writeback::throttle::Passed;
use policy::weight::ROUND_MS;

impl Tasks {
    /// Enters the throttle.
    pub(super) fn passes(&mut self, index: usize) -> Passed {
        let task = &mut self.tasks[index];
        if self.writeback.weir.is_some() && self.writeback.weir_paces(&mut task.dirtier) {
            if self.writeback.weir_over_background() {
                self.writeback.wake_flusher(task.dirtier.wb as usize);
            }
            let due_ms = task.dirtier.pace.due_ms;
            return self.sleeps_paced(index, due_ms);
        }
        self.enters(index)
    }

    /// Enters it, and is not held by a bandwidth.
    fn enters(&mut self, index: usize) -> Passed {
        let task = &mut self.tasks[index];
        task.pass_began = self.writeback.now;
        task.pauses = 0;
        if self.writeback.weir.is_some() {
            let dirtier = &mut task.dirtier;
            let is_admitted = self.writeback.weir_admits(dirtier);
            let is_held = !is_admitted && self.writeback.weir_holds(dirtier);
            // Who does not come to the kernel's pass starts background writeback all the same, if
            // it is due.
            if (is_admitted || is_held) && self.writeback.weir_over_background() {
                self.writeback.wake_flusher(dirtier.wb as usize);
            }
            if is_admitted {
                return Passed::Go;
            }
            if is_held {
                return self.sleeps_held(index);
            }
        }
        self.looks_again(index)
    }

    /// Once more, after a pause that did not do.
    pub(super) fn looks_again(&mut self, index: usize) -> Passed {
        let dirtier = &mut self.tasks[index].dirtier;
        let passed = self.writeback.balance_dirty_pages(dirtier);
        match passed {
            Passed::Go => {
                let most = self.weir.as_ref().and_then(|weir| weir.released_poll);
                self.leaves_pass(index, most);
            }
            Passed::Sleep => {
                self.task_does(index, PsiFlags::Iowait);
                let task = &mut self.tasks[index];
                task.pauses += 1;
                task.is_cold = true;
                task.state = State::Throttled;
                let at = task.dirtier.wakes_at;
                self.schedule_timer(at, Event::Task(index as u32));
            }
        }
        passed
    }

    /// What the module does as the kernel's pass returns. A task that a floor has let go looks
    /// again after `most` pages.
    pub(super) fn leaves_pass(&mut self, index: usize, most: Option<u64>) {
        if self.weir.is_none() {
            return;
        }
        let task = &mut self.tasks[index];
        let (pauses, time) = (task.pauses, self.writeback.now - task.pass_began);
        let dirtier = &mut task.dirtier;
        if pauses > 0 {
            self.writeback.weir_counts_pauses(dirtier, pauses, time);
        }
        let asleep = if pauses > 0 { time.max(1) } else { 0 };
        self.writeback.weir_shortens(dirtier, asleep, most);
    }

    /// The next step of a wait for a bandwidth, which is to last for `due_ms`.
    fn sleeps_paced(&mut self, index: usize, due_ms: u64) -> Passed {
        self.task_does(index, PsiFlags::Iowait);
        let task = &mut self.tasks[index];
        task.state = State::Paced;
        self.sleeps_step(index, due_ms)
    }

    /// A step has ended: another, or the rest of the throttle.
    pub(super) fn is_paced(&mut self, index: usize) -> Passed {
        let due_ms = (self.writeback).weir_still_paces(&self.tasks[index].dirtier);
        match due_ms {
            0 => self.enters(index),
            due_ms => self.sleeps_paced(index, due_ms),
        }
    }

    fn sleeps_step(&mut self, index: usize, ms: u64) -> Passed {
        let now = self.now;
        let task = &mut self.tasks[index];
        task.is_cold = true;
        task.dirtier.held_since = now;
        let until = wake_at(now, (ms.min(ROUND_MS) * HZ).div_ceil(1000));
        self.schedule_timer(until, Event::Task(index as u32));
        Passed::Sleep
    }

    /// The next step of a wait for its cgroup's weight.
    fn sleeps_held(&mut self, index: usize) -> Passed {
        let now = self.now;
        self.task_does(index, PsiFlags::Iowait);
        let task = &mut self.tasks[index];
        task.state = State::Held;
        let step = (task.dirtier.held_until - now) / MS + 1;
        self.sleeps_step(index, step)
    }

    /// A step has ended: another, or the kernel's own pass.
    pub(super) fn is_held(&mut self, index: usize) -> Passed {
        let dirtier = &self.tasks[index].dirtier;
        if self.writeback.weir_still_holds(dirtier) && self.now < dirtier.held_until {
            return self.sleeps_held(index);
        }
        self.tasks[index].pass_began = self.now;
        self.looks_again(index)
    }
}
