// SPDX-License-Identifier: GPL-2.0-only
//! A writer through a mapping (`ioengine=mmap`) meets a page that is not in the cache: it is read
//! before it is written to, with fifteen that follow (half of the kernel's 32, read around it).
//!
//! The read needs a slot of the disk, as writes do, and waits for it with them; that is what holds
//! such a writer, from the moment on that its flusher is at work, below freerun too. What it reads
//! is there at once then, as the lab's disks have it that bound writes alone.
//!
//! Who makes a file on vfat longer reads the next sector of the allocation table first, and waits
//! for a slot likewise.

use super::{State, Tasks};
use crate::blk::Waiter;
use crate::sched::psi::PsiFlags;

/// Pages from the one it met on.
const AHEAD: u64 = 16;
/// Pages of the clusters of 4 KiB whose entries are in a sector of FAT32.
const FAT_SECTOR: u64 = 512 / 4;

impl Tasks {
    /// Number of `count` pages of a file from `at` on that a task can write to at once: none if it
    /// has to read first.
    pub(super) fn cached_pages_from(&self, file: usize, at: u64, count: u64) -> u64 {
        match self.files[file].cache.run_alike(at, at + count) {
            (true, cached) => cached,
            (false, _) => 0,
        }
    }

    /// Reads, if there is a slot; else waits for one.
    pub(super) fn fault_page(&mut self, index: usize) {
        let task = &self.tasks[index];
        let (file, wb, cpu, at) = (
            task.file,
            task.dirtier.wb as usize,
            self.entities[index].cpu,
            task.op_at,
        );
        let device = self.wbs[wb].device;
        let hctx = self.devices[device].hctx_of(wb, cpu);
        if !self.devices[device].has_room(hctx) {
            self.devices[device].add_slot_waiter(Waiter::Task(index as u32), hctx);
            self.change_task_activity(index, PsiFlags::Iowait);
            self.tasks[index].state = State::Faulting;
            self.tasks[index].is_cold = true;
            return;
        }
        if let Some(end) = &mut self.files[file].fat {
            *end = at + FAT_SECTOR;
            return self.write_stretch(index);
        }
        let left = self.files[file].cache.size() - at;
        let (chargeable, _) = self.chargeable_pages(file);
        let pages = AHEAD
            .min(left)
            .min(self.zone.pages_above_min())
            .min(chargeable);
        if pages == 0 {
            return self.start_reclaim(index);
        }
        self.add_to_page_cache(file, at, pages);
        self.write_stretch(index);
    }
}
