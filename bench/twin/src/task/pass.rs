// SPDX-License-Identifier: GPL-2.0-only
//! A task meets the throttle: past the module, if it is there, into the kernel's pass, and out
//! again.

use super::{State, Tasks};
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{HZ, timer_expiry};
use crate::writeback::throttle::Passed;
use policy::names::STEP_MS;

impl Tasks {
    /// Enters the throttle.
    pub(super) fn begin_pass(&mut self, index: usize) -> Passed {
        let task = &mut self.tasks[index];
        task.pass_began = self.writeback.now;
        task.pauses = 0;
        if self.writeback.weir.is_some() {
            let dirtier = &mut task.dirtier;
            self.writeback.weir_charge_pass(dirtier);
            if self.writeback.weir_admit(dirtier) {
                // A task that does not come to the kernel's pass starts background writeback all
                // the same, if it is due.
                if self.writeback.is_over_amended_background() {
                    self.writeback.wake_flusher(dirtier.wb as usize);
                }
                return Passed::Go;
            }
        }
        self.retry_pass(index)
    }

    /// Once more, after a pause that did not do.
    pub(super) fn retry_pass(&mut self, index: usize) -> Passed {
        let dirtier = &mut self.tasks[index].dirtier;
        let passed = self.writeback.balance_dirty_pages(dirtier);
        match passed {
            Passed::Go => {
                let most = self.weir.as_ref().and_then(|weir| weir.released_poll);
                self.end_pass(index, most);
            }
            Passed::Sleep => {
                self.change_task_activity(index, PsiFlags::Iowait);
                let task = &mut self.tasks[index];
                task.pauses += 1;
                task.is_cold = true;
                task.state = State::Throttled;
                let at = task.dirtier.wakes_at;
                self.schedule_timer(at, SimEvent::Task(index as u32));
            }
        }
        passed
    }

    /// The module's part as the kernel's pass returns. A task that a floor has let go looks again
    /// after `most` pages.
    pub(super) fn end_pass(&mut self, index: usize, most: Option<u64>) {
        if self.weir.is_none() {
            return;
        }
        let task = &mut self.tasks[index];
        let (pauses, time) = (task.pauses, self.writeback.now - task.pass_began);
        let dirtier = &mut task.dirtier;
        if pauses > 0 {
            self.writeback.weir_count_pauses(dirtier, pauses, time);
        }
        self.writeback.weir_shorten_poll(dirtier, most);
    }

    /// An operation is over: waits for what the task owes, if anything, before it returns.
    pub(super) fn begin_bandwidth_wait(&mut self, index: usize) -> Passed {
        let now = self.now;
        let dirtier = &mut self.tasks[index].dirtier;
        if !dirtier.has_owed_pace() {
            return Passed::Go;
        }
        self.writeback.weir_charge_rest_of_call(dirtier);
        dirtier.held_since = now;
        self.continue_bandwidth_wait(index)
    }

    /// A step of that wait has ended: another, or the task returns.
    pub(super) fn continue_bandwidth_wait(&mut self, index: usize) -> Passed {
        let now = self.now;
        let dirtier = &mut self.tasks[index].dirtier;
        let due_ms = self.writeback.weir_account_bandwidth_wait(dirtier);
        if due_ms == 0 {
            return Passed::Go;
        }
        self.change_task_activity(index, PsiFlags::Iowait);
        let task = &mut self.tasks[index];
        task.state = State::Owing;
        task.is_cold = true;
        task.dirtier.held_since = now;
        let until = timer_expiry(now, (due_ms.min(STEP_MS) * HZ).div_ceil(1000));
        self.schedule_timer(until, SimEvent::Task(index as u32));
        Passed::Sleep
    }
}
