// SPDX-License-Identifier: GPL-2.0-only
//! `memory.high`: a task that has charged a batch of pages to a cgroup that holds more than that, and
//! has no clean ones to give up, sleeps before it goes on (`mem_cgroup_handle_over_high()`).
//!
//! It sleeps by the square of how far the cgroup is over, for two seconds at most; two ticks or
//! less are let off. Example: 24 MiB, 5 % over: 39 ticks of 4 ms for a batch of 64 pages, 1.6 MiB
//! a second. 12 % over: 230 ticks. So a flood of dirty pages ends within an eighth of the limit.

use super::{State, Tasks};
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{HZ, Ticks, timer_expiry};

/// Pages that a CPU charges at once (`MEMCG_CHARGE_BATCH`).
const BATCH: u64 = 64;

/// Ticks of sleep for `pages` charged to what may hold `high` and holds `usage`.
fn high_delay(usage: u64, high: u64, pages: u64) -> Ticks {
    let over = (u128::from(usage.saturating_sub(high)) << 20) / u128::from(high.max(1));
    let ticks = (over * over * u128::from(HZ)) >> 34;
    let ticks = (ticks * u128::from(pages) / u128::from(BATCH)).min(u128::from(2 * HZ)) as Ticks;
    if ticks <= HZ / 100 { 0 } else { ticks }
}

impl Tasks {
    /// Puts a task to sleep for what it has charged; `true` if it sleeps.
    pub(super) fn throttle_over_high(&mut self, index: usize) -> bool {
        let task = &self.tasks[index];
        let (pages, mut at) = (task.charged, task.home);
        if pages < BATCH {
            return false;
        }
        self.tasks[index].charged = 0;
        let mut ticks = 0;
        while let Some(parent) = self.cgroups[at].parent {
            let cgroup = &self.cgroups[at];
            ticks = ticks.max(high_delay(
                cgroup.file + cgroup.anonymous,
                cgroup.high,
                pages,
            ));
            at = parent;
        }
        if ticks == 0 {
            return false;
        }
        self.change_task_activity(index, PsiFlags::Memstall);
        let task = &mut self.tasks[index];
        (task.state, task.is_cold) = (State::OverHigh, true);
        let until = timer_expiry(self.now, ticks);
        self.schedule_timer(until, SimEvent::Task(index as u32));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let high = 6144;
        assert_eq!(high_delay(high, high, 64), 0);
        assert_eq!(high_delay(high + high / 20, high, 64), 39);
        assert_eq!(high_delay(high + high * 12 / 100, high, 64), 230);
        assert_eq!(high_delay(2 * high, high, 64), 2 * HZ);
        // A hundredth is let off.
        assert_eq!(high_delay(high + high / 100, high, 64), 0);
        assert_eq!(high_delay(u64::MAX, u64::MAX, 64), 0, "no limit");
    }
}
