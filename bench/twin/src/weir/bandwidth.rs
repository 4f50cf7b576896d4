// SPDX-License-Identifier: GPL-2.0-only
//! The bandwidth: what `kmod/bandwidth.c` does around `policy/bandwidth.c`.
//!
//! Each pass of a task, and its end, charges what it dirtied since the last to every bound from its
//! cgroup upwards. When the pass is over, the task waits, in steps, until that is paid.

use super::{CgroupRecord, Hooks, Weir};
use crate::mm::Dirtier;
use crate::sim::clock::{MS, Ns};
use policy::UNLIMITED;
use policy::bandwidth::{Hold, Level, Line, PART_LINGERS_MS};

impl Hooks {
    /// Bounds may have been written: what was dirtied until now is paid for by those until now.
    pub(super) fn weir_apply_bandwidths(&mut self) {
        let now = self.now;
        for group in self.weir.iter_mut().flat_map(|weir| &mut weir.groups) {
            let (was, bound) = (group.bound, group.bandwidth_bytes);
            if was == bound {
                continue;
            }
            match was {
                UNLIMITED => group.level.start(now),
                was => group.level.advance_to(was, now),
            }
            group.bound = bound;
        }
    }

    fn has_bandwidth_limit(&self, cgroup: usize) -> bool {
        let bounded = |group: &CgroupRecord| group.bound != UNLIMITED;
        let weir = self.weir.as_ref();
        weir.is_some_and(|weir| {
            self.path_to_root(cgroup)
                .any(|at| bounded(&weir.groups[at]))
        })
    }

    /// A task reports what it has dirtied: charges it to the bounds on its path.
    pub fn weir_charge_bandwidth(&mut self, task: &mut Dirtier) {
        task.pace = Hold::for_pages(std::mem::take(&mut task.unreported));
        let cgroup = task.home as usize;
        if !self.has_bandwidth_limit(cgroup) {
            return;
        }
        let (now, path): (Ns, Vec<usize>) = (self.now, self.path_to_root(cgroup).collect());
        let parents = self.parent_of_each();
        let Some(weir) = &mut self.weir else { return };
        let mut below = cgroup;
        for at in path {
            if weir.groups[at].bound != UNLIMITED {
                weir.part_of_child_mut(at, below).until_ms = now / MS;
                weir.with_line_of_part(&parents, at, below, now, |line| {
                    // 0 is no level, and the root has none.
                    line.charge_pages(now, at as u64, &mut task.pace);
                });
                let until_ms = now / MS + task.pace.due_ms + PART_LINGERS_MS;
                weir.part_of_child_mut(at, below).until_ms = until_ms;
            }
            below = at;
        }
    }

    /// Each cgroup's parent.
    fn parent_of_each(&self) -> Vec<Option<usize>> {
        (self.jbd2.cgroups.iter())
            .map(|cgroup| cgroup.parent)
            .collect()
    }

    /// A pass charges what the task has dirtied, and notes what it is to wait for at its return.
    pub fn weir_charge_pass(&mut self, task: &mut Dirtier) {
        self.weir_charge_bandwidth(task);
        if !task.pace.must_wait() {
            return;
        }
        if let (None, Some(group)) = (task.owed_pace, self.home_record(task)) {
            group.stats.bandwidth_held += 1;
        }
        task.owed_pace = Some(task.pace);
        // Its next look is scheduled when it has waited.
        task.pace = Hold::default();
    }

    /// A task's operation is over: charges what it has dirtied since its last pass.
    pub fn weir_charge_rest_of_call(&mut self, task: &mut Dirtier) {
        if task.owed_pace.is_none() {
            return;
        }
        if task.unreported > 0 {
            self.weir_charge_bandwidth(task);
            task.owed_pace = Some(std::mem::take(&mut task.pace));
        }
        if let Some(owed) = &task.owed_pace {
            task.nr_dirtied_pause = owed.poll_pages(task.nr_dirtied_pause);
        }
    }

    /// A step of a wait has ended; for how many milliseconds is it to wait still?
    pub fn weir_account_bandwidth_wait(&mut self, task: &mut Dirtier) -> u64 {
        let Some(owed) = task.owed_pace else { return 0 };
        let (now, slept) = (self.now, self.now - task.held_since);
        if let Some(group) = self.home_record(task) {
            group.stats.bandwidth_held_ns += slept;
        }
        let due_ms = self.due_ms(task.home as usize, &owed, now);
        if due_ms == 0 {
            task.owed_pace = None;
        }
        due_ms
    }

    /// For how long tasks of a cgroup are still to wait for what `owed` says.
    fn due_ms(&mut self, cgroup: usize, owed: &Hold, now: Ns) -> u64 {
        let (at, parents) = (owed.number as usize, self.parent_of_each());
        let path: Vec<usize> = self.path_to_root(cgroup).collect();
        let place = path.iter().position(|of| *of == at).unwrap_or(0);
        let below = path[place.saturating_sub(1)];
        let Some(weir) = &mut self.weir else { return 0 };
        match weir.groups[at].bound {
            UNLIMITED => 0,
            _ => weir.with_line_of_part(&parents, at, below, now, |line| line.due_ms(now, owed)),
        }
    }
}

/// A child's part of its parent's line, or that of a cgroup's own tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    line: Level,
    /// Until when it counts among the line's parts.
    until_ms: u64,
}

impl Weir {
    /// The part of `at`'s line for tasks in `below`, its child or itself.
    fn part_of_child_mut(&mut self, at: usize, below: usize) -> &mut Part {
        match below == at {
            true => &mut self.groups[at].own_part,
            false => &mut self.groups[below].part,
        }
    }

    /// Looks at the line of `at`, as a task in `below` finds it.
    fn with_line_of_part<T>(
        &mut self,
        parents: &[Option<usize>],
        at: usize,
        below: usize,
        now: Ns,
        look: impl FnOnce(&mut Line) -> T,
    ) -> T {
        let counts = |part: &Part| part.until_ms >= now / MS;
        let children = (self.groups.iter().zip(parents))
            .filter(|(group, parent)| **parent == Some(at) && counts(&group.part))
            .count();
        let parts = (children + usize::from(counts(&self.groups[at].own_part))) as u64;
        let (mut level, bound) = (self.groups[at].level, self.groups[at].bound);
        let part = &mut self.part_of_child_mut(at, below).line;
        let found = look(&mut Line {
            level: &mut level,
            part,
            parts,
            bound,
        });
        self.groups[at].level = level;
        found
    }
}
