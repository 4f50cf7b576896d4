// SPDX-License-Identifier: GPL-2.0-only
//! Looking for clean pages of a cgroup: what kswapd, tasks and `memory.max` do.

use super::Mm;

/// Progress of a look for clean pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanResult {
    /// Pages that were looked at.
    pub scanned: u64,
    /// Clean ones, which are free now.
    pub taken: u64,
}

impl Mm {
    /// Looks for `wanted` clean pages of a cgroup's own.
    pub fn reclaim_clean_pages_of(&mut self, index: usize, wanted: u64) -> ScanResult {
        let cgroup = &mut self.cgroups[index];
        let clean = cgroup.file.saturating_sub(cgroup.counts.pages_held());
        let (mut look, mut line) = (ScanResult::default(), std::mem::take(&mut cgroup.lruvec));
        if clean == 0 {
            look.scanned = wanted.min(cgroup.file);
        }
        let wanted = wanted.min(clean);
        let mut runs = line.len();
        while look.taken < wanted && runs > 0 {
            runs -= 1;
            let Some(mut run) = line.pop() else { break };
            let file = &mut self.files[run.file as usize];
            if file.invalidate_seq != run.invalidate_seq {
                continue;
            }
            while run.pages > 0 && look.taken < wanted {
                let (is_dirty, alike) = file.pages.run_alike(run.start, run.end_page());
                // Which ones are in flight is not known, only how many.
                let held = file.pages.dirty_pages() + file.in_flight;
                let pages = match file.cached.saturating_sub(held) {
                    clean @ 1.. if !is_dirty => alike.min(wanted - look.taken).min(clean),
                    _ => {
                        line.push(
                            &mut file.run,
                            (run.file, run.invalidate_seq),
                            run.start,
                            alike,
                        );
                        look.scanned += alike;
                        run.skip_pages(alike);
                        continue;
                    }
                };
                file.cache.clear(run.start, pages);
                file.cached -= pages;
                look.scanned += pages;
                look.taken += pages;
                run.skip_pages(pages);
            }
            if run.pages > 0 {
                line.put_back(run);
            }
        }
        self.cgroups[index].lruvec = line;
        self.change_cache_charge(index, 0, look.taken);
        self.zone.cache -= look.taken;
        self.zone.free += look.taken;
        look
    }
}
