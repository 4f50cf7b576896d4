// SPDX-License-Identifier: GPL-2.0-only
//! The bandwidth: what `kmod/bandwidth.c` does around `policy/bandwidth.c`.
//!
//! Each pass of a task, and its end, charges what it dirtied since the last to every bound from its
//! cgroup upwards. The pass then waits, in steps, until that is paid, and goes on to floors, the
//! weight's wait and the kernel.

use super::{Group, Hooks};
use crate::mm::Dirtier;
use crate::sim::clock::{MS, Ns};
use policy::UNLIMITED;
use policy::bandwidth::{Hold, RETURN_MOST_MS};
use policy::weight::WAIT_MOST_MS;

impl Hooks {
    /// Bounds may have been written: what was dirtied until now is paid for by those until now.
    pub(super) fn weir_takes_bounds(&mut self) {
        let now = self.now;
        for group in self.weir.iter_mut().flat_map(|weir| &mut weir.groups) {
            let (was, bound) = (group.bound, group.bandwidth_bytes);
            if was == bound {
                continue;
            }
            match was {
                UNLIMITED => group.level.start(now),
                was => group.level.advance(was, now),
            }
            group.bound = bound;
        }
    }

    fn is_bounded(&self, cgroup: usize) -> bool {
        let bounded = |group: &Group| group.bound != UNLIMITED;
        let weir = self.weir.as_ref();
        weir.is_some_and(|weir| self.path(cgroup).any(|at| bounded(&weir.groups[at])))
    }

    /// A task reports what it has dirtied: charges it to the bounds on its path.
    pub fn weir_charges(&mut self, task: &mut Dirtier) {
        task.pace = Hold::of(std::mem::take(&mut task.unreported));
        let cgroup = self.wbs[task.wb as usize].cgroup;
        if !self.is_bounded(cgroup) {
            return;
        }
        let (now, path): (Ns, Vec<usize>) = (self.now, self.path(cgroup).collect());
        let Some(weir) = &mut self.weir else { return };
        for at in path {
            let group = &mut weir.groups[at];
            if group.bound != UNLIMITED {
                // 0 is no level, and the root has none.
                group
                    .level
                    .charge(group.bound, now, at as u64, &mut task.pace);
            }
        }
    }

    /// Whether a pass of a task is to wait first for what its cgroup may dirty.
    pub fn weir_paces(&mut self, task: &mut Dirtier) -> bool {
        self.weir_charges(task);
        if !task.pace.holds() {
            return false;
        }
        // The one is in the pass, the other at the return to user mode. Here a pass ends its write().
        task.held_until = self.now + (WAIT_MOST_MS + RETURN_MOST_MS) * MS;
        if let Some(group) = self.counts(task) {
            group.stats.bandwidth_held += 1;
        }
        true
    }

    /// A step of that wait has ended; how many milliseconds remain?
    pub fn weir_still_paces(&mut self, task: &Dirtier) -> u64 {
        let (now, slept) = (self.now, self.now - task.held_since);
        if let Some(group) = self.counts(task) {
            group.stats.bandwidth_held_ns += slept;
        }
        let Some(weir) = &mut self.weir else { return 0 };
        let group = &mut weir.groups[task.pace.number as usize];
        if group.bound == UNLIMITED || now >= task.held_until {
            return 0;
        }
        group.level.due_ms(group.bound, now, task.pace.ticket)
    }
}
