// SPDX-License-Identifier: GPL-2.0-only
//! Pages on their way: dirtied, in flight, written or dropped, each time counted for the host, the
//! cgroups on the path and the writeback, so that what was dirtied is always written, dirty, in
//! flight or dropped.

use super::{Counts, World};
#[cfg(any(test, debug_assertions))]
use crate::device::Device;

impl World {
    /// Applies `change` to all that count a page of `wb`.
    pub fn count(&mut self, wb: usize, change: impl Fn(&mut Counts)) {
        change(&mut self.counts);
        change(&mut self.wbs[wb].counts);
        let mut next = Some(self.wbs[wb].cgroup);
        if let Some(own) = next {
            change(&mut self.cgroups[own].counts);
        }
        while let Some(index) = next {
            let cgroup = &mut self.cgroups[index];
            change(&mut cgroup.subtree);
            next = cgroup.parent;
        }
    }

    /// `pages` of a file have become dirty.
    pub fn dirtied(&mut self, file: usize, pages: u64) {
        let wb = self.files[file].wb as usize;
        self.count(wb, |counts| {
            counts.dirty += pages;
            counts.dirtied += pages;
        });
        if !self.files[file].listed {
            self.files[file].listed = true;
            self.files[file].dirtied_at = self.tick();
            self.list_dirty(wb, file as u32);
        }
    }

    /// `pages` of a file go in flight.
    pub fn in_flight(&mut self, file: usize, pages: u64) {
        let wb = self.files[file].wb as usize;
        self.count(wb, |counts| {
            counts.dirty -= pages;
            counts.writeback += pages;
        });
        if self.files[file].in_flight == 0 {
            self.wbs[wb].files_in_flight += 1;
        }
        self.files[file].in_flight += pages;
    }

    /// All dirty pages of a file are forgotten.
    pub fn drop_file(&mut self, file: usize) {
        let wb = self.files[file].wb as usize;
        let pages = self.files[file].pages.drop_all();
        self.count(wb, |counts| {
            counts.dirty -= pages;
            counts.dropped += pages;
        });
        self.uncaches(file);
    }

    /// `pages` of `wb` count as completed in both domains.
    pub fn completed(&mut self, wb: usize, pages: u64) {
        let now = self.tick();
        let wb = &mut self.wbs[wb];
        self.domain.completions.add(&mut wb.share, pages, now);
        if wb.cgroup != 0 {
            let domain = &mut self.cgroups[wb.cgroup].domain;
            domain.completions.add(&mut wb.cgroup_share, pages, now);
        }
    }

    pub(super) fn measure_bandwidth(&mut self, wb: usize) {
        self.wbs[wb].measuring = false;
        self.adapt(wb, &[]);
    }

    /// The conservation of pages, and that nothing is where it cannot be; `deeply` also looks into
    /// every file.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, deeply: bool) {
        assert!(
            self.counts.is_even(),
            "pages lost or made up: {:?}",
            self.counts
        );
        self.check_memory(deeply);
        if !deeply && self.handled % 1024 != 0 {
            return;
        }
        let sum =
            |pick: fn(&Counts) -> u64| self.wbs.iter().map(|wb| pick(&wb.counts)).sum::<u64>();
        assert_eq!(sum(|c| c.dirty), self.counts.dirty);
        assert_eq!(sum(|c| c.writeback), self.counts.writeback);
        let all = self
            .cgroups
            .iter()
            .map(|c| &c.counts)
            .chain(self.wbs.iter().map(|wb| &wb.counts));
        all.for_each(|counts| assert!(counts.is_even(), "{counts:?}"));
        if let Some(root) = self.cgroups.first() {
            assert_eq!(root.subtree, self.counts, "the root's subtree is the host");
        }
        let files = self
            .files
            .iter()
            .map(|file| file.pages.dirty())
            .sum::<u64>();
        assert_eq!(files, self.counts.dirty);
        let waiting: u64 = self.wbs.iter().map(|wb| wb.flusher.in_hand()).sum();
        let line: u64 = self.devices.iter().map(Device::pages).sum();
        let unended: u64 = self.files.iter().map(|file| file.unended).sum();
        assert_eq!(line + waiting + unended, self.counts.writeback);
    }
}
