// SPDX-License-Identifier: GPL-2.0-only
//! Writeback: who throttles tasks that dirty pages, and who writes the pages.
//!
//! A dirty page goes down here once, from its task ([`Writeback::account_dirtied`]) to its flusher
//! and the disk, and up once, when it is written ([`Writeback::end_bio`]).

pub mod flusher;
pub mod throttle;
mod work;

use crate::blk::{Request, What};
use crate::jbd2::{Handle, MADE};
use crate::mm::domain::BANDWIDTH_INTERVAL;
use crate::mm::{File, Wb};
use crate::sim::SimEvent;
use crate::sim::clock::timer_expiry;
use crate::weir::Hooks;
use flusher::Flusher;

/// Pages that stand for a disk's metadata.
const METADATA: u64 = 1024;

/// The host's flushers and its throttle.
#[derive(Clone, Debug)]
pub struct Writeback {
    hooks: Hooks,
    /// Flushers by writeback.
    pub flushers: Vec<Flusher>,
    /// Everything is to be written, limits or not.
    pub syncing: bool,
    /// Pages a CPU may dirty unseen.
    pub ratelimit_pages: u64,
    /// Events that were traced, if any are.
    pub trace: Option<Vec<observe::event::Event>>,
}

above!(Writeback.hooks: Hooks);

impl Writeback {
    /// Nothing is dirty.
    pub fn new(hooks: Hooks) -> Writeback {
        let (thresh, _) = hooks.sysctl.dirty_levels(hooks.dirtyable_pages(), None);
        Writeback {
            flushers: Vec::new(),
            syncing: false,
            ratelimit_pages: (thresh / (u64::from(hooks.machine.cpus) * 32)).max(16),
            trace: None,
            hooks,
        }
    }

    /// The writeback of a cgroup on a disk, made if this is the first to need it.
    pub fn wb_get_create(&mut self, cgroup: usize, device: usize) -> usize {
        if let Some(found) = self.wb_of.get(&(cgroup, device)) {
            return *found;
        }
        let (index, now) = (self.wbs.len(), self.current_tick());
        self.wb_of.insert((cgroup, device), index);
        self.wbs.push(Wb::new(cgroup, device, now));
        self.flushers.push(Flusher::new(now));
        index
    }

    /// `pages` of a file have become dirty.
    pub fn account_dirtied(&mut self, file: usize, pages: u64) {
        let wb = self.files[file].wb as usize;
        self.change_counts(file, |counts| {
            counts.dirty += pages;
            counts.dirtied += pages;
        });
        if !self.files[file].listed {
            self.files[file].listed = true;
            self.files[file].dirtied_when = self.current_tick();
            self.list_dirty(wb, file as u32);
        }
    }

    /// A request of pages is complete.
    pub fn end_bio(&mut self, request: Request) {
        let What::Pages {
            file,
            last,
            unwritten,
            ..
        } = request.what
        else {
            return;
        };
        // The kernel splits a bio into chained ones, and its pages are written when all of these
        // are.
        self.files[file as usize].unended += u64::from(request.pages);
        if last && unwritten {
            self.end_ioend(file as usize);
        } else if last {
            self.end_page_writeback(file as usize);
        }
    }

    /// Converts the blocks of what is complete of a file, unless that has to wait for a commit.
    pub fn end_ioend(&mut self, file: usize) {
        if self.begin_change_or_wait(Handle::Ioend, file) {
            self.end_page_writeback(file);
        }
    }

    /// Pages of a file that are complete are written.
    fn end_page_writeback(&mut self, file: usize) {
        let owner = self.files[file].wb as usize;
        let pages = std::mem::take(&mut self.files[file].unended);
        if pages == 0 {
            return;
        }
        self.change_counts(file, |counts| {
            counts.writeback -= pages;
            counts.written += pages;
        });
        self.count_completions(owner, pages);
        if let Some(node) = &mut self.node {
            node.end_writeback(file, pages);
            self.count_pages_written(pages);
        }
        let written = &mut self.files[file];
        written.in_flight -= pages;
        if written.in_flight > 0 {
            return;
        }
        let waits = written.synced_by.take();
        let wb = &mut self.wbs[owner];
        wb.writeback_inodes -= 1;
        let device = wb.device;
        if !std::mem::replace(&mut wb.measuring, true) {
            let at = timer_expiry(self.now, BANDWIDTH_INTERVAL);
            self.schedule_event(at, SimEvent::Bandwidth(owner as u32));
        }
        if let Some(task) = waits {
            self.schedule_after(0, SimEvent::Task(task));
        }
        self.end_ordered_writeback(device, file as u32);
    }

    /// Blocks that a commit has written to a disk's journal become dirty pages of the disk.
    pub fn dirty_metadata(&mut self, device: usize) {
        let blocks = std::mem::take(&mut self.journals[device].checkpoint);
        let bdev = match self.journals[device].bdev {
            Some(bdev) => bdev,
            None => {
                let wb = self.wb_get_create(0, device);
                // Written when files were made, and part of what the disk is known to complete.
                self.count_completions(wb, MADE.len() as u64);
                self.files.push(File::new(wb, 0, 0, METADATA));
                let bdev = self.files.len() - 1;
                self.journals[device].bdev = Some(bdev);
                bdev
            }
        };
        for block in blocks {
            let at = u64::from(block) % METADATA;
            let (_, fresh) = self.files[bdev].pages.set(at, 1, u64::MAX);
            self.add_to_page_cache(bdev, at, 1);
            if fresh > 0 {
                self.account_dirtied(bdev, fresh);
            }
        }
    }

    /// By cgroup, pages that were ever written by its flushers and those below, as `io.stat` has it:
    /// without cgroup writeback all are the root's.
    pub fn pages_cleaned(&self) -> Vec<u64> {
        let mut pages = vec![0; self.cgroups.len()];
        for wb in &self.wbs {
            let mut next = Some(wb.cgroup);
            while let Some(at) = next {
                pages[at] += wb.counts.written;
                next = self.cgroups[at].parent;
            }
        }
        pages
    }

    /// Measures a writeback's bandwidth, some time after it was last at work.
    pub fn measure_bandwidth(&mut self, wb: usize) {
        self.wbs[wb].measuring = false;
        self.update_wb_bandwidth(wb, &[]);
    }

    /// Has everything written back that is dirty.
    pub fn start_sync(&mut self) {
        self.syncing = true;
        (0..self.wbs.len()).for_each(|wb| self.wake_flusher(wb));
    }
}
