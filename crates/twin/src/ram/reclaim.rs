// SPDX-License-Identifier: GPL-2.0-only
//! Looking for clean pages, and what is done where there are none: what both kswapd and tasks do.

use super::BATCH;
use crate::world::World;

/// How far a look for clean pages came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Pages that were looked at.
    pub scanned: u64,
    /// Clean ones, which are free now.
    pub taken: u64,
}

impl World {
    /// Looks for `wanted` clean pages all over the host. Who finds none has looked at everything.
    pub fn reclaim(&mut self, wanted: u64) -> Look {
        let (mut look, mut in_vain, mut dirty) = (Look::default(), 0, 0);
        while look.taken < wanted && in_vain < self.cgroups.len() {
            let index = self.ram.hand % self.cgroups.len();
            self.ram.hand = index + 1;
            in_vain += 1;
            let cgroup = &self.cgroups[index];
            if cgroup.file <= cgroup.min {
                continue;
            }
            let file = cgroup.file;
            let here = self.takes_from(index, (file / 8).max(BATCH).min(wanted - look.taken));
            look.scanned += here.scanned;
            look.taken += here.taken;
            if here.taken > 0 {
                in_vain = 0;
            } else {
                dirty += file;
            }
        }
        if look.taken == 0 {
            look.scanned = look.scanned.max(dirty);
        }
        if dirty > 0 {
            (0..self.wbs.len()).for_each(|wb| self.has_all_written(wb));
        }
        look
    }

    /// Looks for `wanted` clean pages of a cgroup's own.
    pub(super) fn takes_from(&mut self, index: usize, wanted: u64) -> Look {
        let cgroup = &mut self.cgroups[index];
        let clean = cgroup.file.saturating_sub(cgroup.counts.held());
        let (mut look, mut line) = (Look::default(), std::mem::take(&mut cgroup.line));
        if clean == 0 {
            look.scanned = wanted.min(cgroup.file);
        }
        let wanted = wanted.min(clean);
        let mut runs = line.len();
        while look.taken < wanted && runs > 0 {
            runs -= 1;
            let Some(mut run) = line.pop() else { break };
            let file = &mut self.files[run.file as usize];
            if file.life != run.life {
                continue;
            }
            while run.pages > 0 && look.taken < wanted {
                let (is_dirty, alike) = file.pages.alike(run.start, run.end());
                // Which ones are in flight is not known, only how many.
                let held = file.pages.dirty() + file.in_flight;
                let pages = match file.cached.saturating_sub(held) {
                    clean @ 1.. if !is_dirty => alike.min(wanted - look.taken).min(clean),
                    _ => {
                        line.push(&mut file.run, (run.file, run.life), run.start, alike);
                        look.scanned += alike;
                        run.skip(alike);
                        continue;
                    }
                };
                file.cache.clear(run.start, pages);
                file.cached -= pages;
                look.scanned += pages;
                look.taken += pages;
                run.skip(pages);
            }
            if run.pages > 0 {
                line.put_back(run);
            }
        }
        let cgroup = &mut self.cgroups[index];
        cgroup.line = line;
        cgroup.file -= look.taken;
        self.ram.cache -= look.taken;
        self.ram.free += look.taken;
        look
    }

    /// Kills the task that holds most, if one holds memory.
    pub fn kills(&mut self) {
        let tasks = self.tasks.iter().enumerate();
        let most = tasks.max_by_key(|(index, task)| (task.held, std::cmp::Reverse(*index)));
        if let Some((index, _)) = most.filter(|(_, task)| task.held > 0) {
            self.ram.reclaimed.kills += 1;
            self.task_ends(index);
        }
    }
}
