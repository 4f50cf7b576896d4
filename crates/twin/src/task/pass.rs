// SPDX-License-Identifier: GPL-2.0-only
//! A task meets the throttle: past the module, if it is there, into the kernel's pass, and out
//! again.

use super::State;
use crate::clock::{HZ, MS, wake_at};
use crate::psi::Doing;
use crate::throttle::Passed;
use crate::world::{Event, World};
use policy::weight::ROUND_MS;

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
                return self.sleeps_held(index);
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
        self.weir_shortens(index, if pauses > 0 { time.max(1) } else { 0 });
    }

    /// The next step of a wait for its cgroup's weight.
    fn sleeps_held(&mut self, index: usize) -> Passed {
        let now = self.now;
        self.task_does(index, Doing::Waiting);
        let task = &mut self.tasks[index];
        task.state = State::Held;
        task.is_cold = true;
        task.held_since = now;
        let step = ((task.held_until - now) / MS + 1).min(ROUND_MS);
        let until = wake_at(now, (step * HZ).div_ceil(1000));
        self.plan_wake(until, Event::Task(index as u32));
        Passed::Sleep
    }

    /// A step has ended: another, or the kernel's own pass.
    pub(super) fn is_held(&mut self, index: usize) -> Passed {
        if self.weir_still_holds(index) && self.now < self.tasks[index].held_until {
            return self.sleeps_held(index);
        }
        self.tasks[index].pass_began = self.now;
        self.looks_again(index)
    }
}
