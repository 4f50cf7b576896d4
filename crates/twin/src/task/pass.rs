// SPDX-License-Identifier: GPL-2.0-only
//! A task meets the throttle: past the module, if it is there, into the kernel's pass, and out again.

use super::State;
use crate::psi::Doing;
use crate::throttle::Passed;
use crate::world::{Event, World};

impl World {
    /// Enters the throttle.
    pub(super) fn passes(&mut self, index: usize) -> Passed {
        self.tasks[index].pass_began = self.now;
        self.tasks[index].pauses = 0;
        if self.weir.is_some() {
            if self.weir_admits(index) {
                return Passed::Go;
            }
            if self.weir_holds(index) {
                let wb = self.tasks[index].wb as usize;
                self.weir_wakes_flusher(wb);
                return self.is_held(index);
            }
        }
        self.looks_again(index)
    }

    /// Once more, after a pause that did not do.
    pub(super) fn looks_again(&mut self, index: usize) -> Passed {
        let passed = self.pass(index);
        match passed {
            Passed::Go => self.leaves_pass(index),
            Passed::Sleep => {
                self.task_does(index, Doing::Waiting);
                let task = &mut self.tasks[index];
                task.pauses += 1;
                task.is_cold = true;
                task.state = State::Throttled;
                let at = task.wakes_at;
                self.plan_wake(at, Event::Task(index as u32));
            }
        }
        passed
    }

    /// What the module does as the kernel's pass returns.
    pub(super) fn leaves_pass(&mut self, index: usize) {
        if self.weir.is_none() {
            return;
        }
        let task = &self.tasks[index];
        let (pauses, time) = (task.pauses, self.now - task.pass_began);
        if pauses > 0 {
            self.weir_counts_pauses(index, pauses, time);
        }
        self.weir_shortens(index, pauses > 0);
    }

    /// Waits for its cgroup's weight, or, if there is nothing more to wait for, goes on. Its next page brings it to the kernel's own pass.
    pub(super) fn is_held(&mut self, index: usize) -> Passed {
        if let Some(until) = self.weir_asks(index) {
            self.task_does(index, Doing::Waiting);
            self.tasks[index].state = State::Held;
            self.tasks[index].is_cold = true;
            self.plan_wake(until, Event::Task(index as u32));
            return Passed::Sleep;
        }
        let task = &mut self.tasks[index];
        task.allowed = 0;
        let time = self.now - task.pass_began;
        self.weir_counts_wait(index, time);
        Passed::Go
    }
}
