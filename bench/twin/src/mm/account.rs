// SPDX-License-Identifier: GPL-2.0-only
//! Pages on their way: dirtied, in flight, written or dropped, each time counted for the host, the
//! cgroups on the path and the writeback, so that what was dirtied is always written, dirty, in
//! flight or dropped.

use super::domain::Dtc;
use super::{Mm, PageCounts};

/// Pages of cache among `pages` that are charged, if the kernel charges `beside` bytes with each.
fn less_metadata(pages: u64, beside: u64) -> u64 {
    let page = super::domain::PAGE;
    (u128::from(pages) * u128::from(page) / u128::from(page + beside)) as u64
}

impl Mm {
    /// Applies `change` to all that count a page of a file.
    pub fn change_counts(&mut self, file: usize, change: impl Fn(&mut PageCounts)) {
        let (wb, memcg) = (self.files[file].wb as usize, self.files[file].memcg);
        change(&mut self.counts);
        change(&mut self.wbs[wb].counts);
        let mut next = Some(memcg as usize);
        if let Some(own) = next {
            change(&mut self.cgroups[own].counts);
        }
        while let Some(index) = next {
            let cgroup = &mut self.cgroups[index];
            change(&mut cgroup.subtree);
            next = cgroup.parent;
        }
    }

    /// `pages` of a file from `start` on go in flight.
    pub fn start_page_writeback(&mut self, file: usize, start: u64, pages: u64) {
        if let Some(node) = &mut self.node {
            node.begin_writeback(file, start, pages);
        }
        let wb = self.files[file].wb as usize;
        self.change_counts(file, |counts| {
            counts.dirty -= pages;
            counts.writeback += pages;
        });
        if self.files[file].in_flight == 0 {
            self.wbs[wb].writeback_inodes += 1;
        }
        self.files[file].in_flight += pages;
    }

    /// All dirty pages of a file are forgotten.
    pub fn truncate_pages(&mut self, file: usize) {
        let pages = self.files[file].pages.drop_all();
        self.change_counts(file, |counts| {
            counts.dirty -= pages;
            counts.dropped += pages;
        });
        self.drop_cache(file);
    }

    /// `pages` of `wb` count as completed in both domains.
    pub fn count_completions(&mut self, wb: usize, pages: u64) {
        let now = self.current_tick();
        let wb = &mut self.wbs[wb];
        self.domain.completions.add(&mut wb.completions, pages, now);
        if wb.cgroup != 0 {
            let domain = &mut self.cgroups[wb.cgroup].domain;
            domain
                .completions
                .add(&mut wb.memcg_completions, pages, now);
        }
    }

    /// Part of the host's limit that a writeback is entitled to.
    pub fn wb_fraction(&mut self, wb: usize) -> (u64, u64) {
        let now = self.current_tick();
        let completions = &mut self.wbs[wb].completions;
        self.domain.completions.fraction_of(completions, now)
    }

    /// And of its cgroup's.
    pub fn memcg_fraction(&mut self, wb: usize) -> (u64, u64) {
        let now = self.current_tick();
        let wb = &mut self.wbs[wb];
        let domain = &mut self.cgroups[wb.cgroup].domain;
        domain
            .completions
            .fraction_of(&mut wb.memcg_completions, now)
    }

    /// The writeback learns from what happened since it last did; a writer's pass gives what it
    /// found.
    pub fn update_wb_bandwidth(&mut self, wb: usize, views: &[(Dtc, u64)]) {
        let now = self.current_tick();
        let cgroup = self.wbs[wb].cgroup;
        for (index, (view, _)) in views.iter().enumerate() {
            let domain = if index == 0 {
                &mut self.domain
            } else {
                &mut self.cgroups[cgroup].domain
            };
            domain.update_dirty_limit(view.limits.thresh, view.limits.dirty, now);
        }
        // Moved before the base rates are, which go by them.
        let limits = [
            self.domain.dirty_limit,
            self.cgroups[cgroup].domain.dirty_limit,
        ];
        let mut smoothed = [(); 2].map(|()| None);
        for (index, (view, pos_ratio)) in views.iter().enumerate() {
            let mut view = *view;
            view.limits.dom_limit = limits[index];
            smoothed[index] = Some((view, *pos_ratio));
        }
        let views: Vec<(Dtc, u64)> = smoothed.into_iter().flatten().collect();
        let wb = &mut self.wbs[wb];
        wb.rates
            .adapt_rates(wb.counts.dirtied, wb.counts.written, now, &views);
    }

    /// Page cache of a cgroup, and of those above it, grows by `more` pages and shrinks by `less`.
    pub fn change_cache_charge(&mut self, memcg: usize, more: u64, less: u64) {
        self.cgroups[memcg].file = self.cgroups[memcg].file + more - less;
        let mut next = Some(memcg);
        while let Some(at) = next {
            let cgroup = &mut self.cgroups[at];
            cgroup.subtree_file = cgroup.subtree_file + more - less;
            next = cgroup.parent;
        }
    }

    /// Pages that `memory.max` from its cgroup up lets a file have more, those that are clean given up
    /// for them; and the cgroup whose limit it is, if there is one.
    pub fn chargeable_pages(&self, file: usize) -> (u64, usize) {
        let mut least = (u64::MAX, 0);
        let (mut next, beside) = (self.files[file].memcg as usize, self.files[file].beside);
        while let Some(parent) = self.cgroups[next].parent {
            let cgroup = &self.cgroups[next];
            if cgroup.max != u64::MAX {
                let most = less_metadata(
                    cgroup.max.saturating_sub(cgroup.kept + cgroup.anonymous),
                    beside,
                );
                let room = most.saturating_sub(cgroup.subtree.pages_held());
                least = least.min((room, next));
            }
            next = parent;
        }
        least
    }

    /// Pages that `memory.max` and `memory.high` from a cgroup up still leave it.
    pub fn cgroup_headroom(&self, cgroup: usize) -> u64 {
        let mut least = u64::MAX;
        let mut next = cgroup;
        while let Some(parent) = self.cgroups[next].parent {
            let cgroup = &self.cgroups[next];
            let used = cgroup.subtree_file + cgroup.anonymous + cgroup.kept;
            least = policy::ceiling::memory_headroom(least, cgroup.max.min(cgroup.high), used);
            next = parent;
        }
        least
    }

    /// The conservation of pages.
    #[cfg(any(test, debug_assertions))]
    pub fn check_counts(&self) {
        let sum =
            |pick: fn(&PageCounts) -> u64| self.wbs.iter().map(|wb| pick(&wb.counts)).sum::<u64>();
        assert_eq!(sum(|c| c.dirty), self.counts.dirty);
        assert_eq!(sum(|c| c.writeback), self.counts.writeback);
        let all = self
            .cgroups
            .iter()
            .map(|c| &c.counts)
            .chain(self.wbs.iter().map(|wb| &wb.counts));
        all.for_each(|counts| assert!(counts.accounts_for_all_pages(), "{counts:?}"));
        if let Some(root) = self.cgroups.first() {
            assert_eq!(root.subtree, self.counts, "the root's subtree is the host");
        }
        let files = self
            .files
            .iter()
            .map(|file| file.pages.dirty_pages())
            .sum::<u64>();
        assert_eq!(files, self.counts.dirty);
    }
}
