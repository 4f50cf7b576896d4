// SPDX-License-Identifier: GPL-2.0-only
//! Pages on their way: dirtied, in flight, written or dropped, each time counted for the host, the cgroups on the path and the
//! writeback, so that what was dirtied is always written, dirty, in flight or dropped.

use super::{Counts, Event, World};
#[cfg(any(test, debug_assertions))]
use crate::device::Device;
use crate::device::{Request, Waiter, What};

impl World {
    /// Applies `change` to everybody who counts a page of `wb`.
    fn count(&mut self, wb: usize, change: impl Fn(&mut Counts)) {
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

    /// `pages` more of a file are in the cache, which its cgroup's `memory.max` bounds.
    pub fn caches(&mut self, file: usize, pages: u64) {
        let cgroup = &mut self.cgroups[self.wbs[self.files[file].wb as usize].cgroup];
        let more = pages.min(cgroup.max.saturating_sub(cgroup.file));
        cgroup.file += more;
        self.files[file].cached += more;
    }

    /// No page of a file is in the cache any more; none of them is dirty.
    pub fn uncaches(&mut self, file: usize) {
        let cached = std::mem::take(&mut self.files[file].cached);
        self.cgroups[self.wbs[self.files[file].wb as usize].cgroup].file -= cached;
    }

    pub(super) fn request_completes(&mut self, device: usize) {
        let request = match self.devices[device].complete(self.now) {
            Ok(request) => request,
            // It was overtaken.
            Err(due) => return self.plan(due, Event::Complete(device as u32)),
        };
        match request.what {
            What::Read(task) => return self.pages_are_read(task as usize),
            What::Commit(task) => return self.plan(self.now, Event::Task(task)),
            What::Pages { .. } => {}
        }
        match self.devices[device].commits(request, self.now) {
            Err(request) => self.is_written(request),
            Ok(None) => {}
            Ok(Some(at)) => self.plan(at, Event::Commit(device as u32)),
        }
        while let Some(waiter) = self.devices[device].next_waiter(request.cpu) {
            match waiter {
                Waiter::Flusher(wb) => return self.flusher_is_let_in(wb as usize),
                Waiter::Task(task) if self.task_is_let_in(task as usize) => return,
                Waiter::Task(_) => {}
            }
        }
    }

    pub(super) fn server_commits(&mut self, device: usize) {
        for request in self.devices[device].committed() {
            self.is_written(request);
        }
    }

    fn is_written(&mut self, request: Request) {
        let What::Pages { wb: owner, file } = request.what else {
            return;
        };
        let (wb, pages) = (owner as usize, u64::from(request.pages));
        self.count(wb, |counts| {
            counts.writeback -= pages;
            counts.written += pages;
        });
        self.completed(wb, pages);
        let wb = &mut self.wbs[wb];
        let file = &mut self.files[file as usize];
        file.in_flight -= pages;
        if file.in_flight == 0 {
            wb.files_in_flight -= 1;
            let waits = file.synced_by.take();
            if !wb.measuring {
                wb.measuring = true;
                self.plan(
                    self.now + crate::domain::INTERVAL * crate::clock::TICK,
                    Event::Bandwidth(owner),
                );
            }
            if let Some(task) = waits {
                self.plan(self.now, Event::Task(task));
            }
        }
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

    /// The conservation of pages, and that nothing is where it cannot be; `deeply` also looks into every file.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, deeply: bool) {
        assert!(
            self.counts.is_even(),
            "pages lost or made up: {:?}",
            self.counts
        );
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
        assert_eq!(line + waiting, self.counts.writeback);
    }
}
