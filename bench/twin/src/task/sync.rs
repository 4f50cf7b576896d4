// SPDX-License-Identifier: GPL-2.0-only
//! fsync: a task puts its own file's dirty pages in line, waits until none is in flight, and then
//! for the filesystem.
//!
//! It needs slots of the disk as a flusher does, and waits in turn for them, and blocks for pages
//! that have none. Then it has the journal commit the file's inode (jbd2.rs), or the log forced
//! (xlog.rs), and waits for that, too. Where nothing is to be committed, as for fdatasync of an
//! overwrite, the disk empties its cache, which takes a slot and no time. `posix_fadvise(DONTNEED)`,
//! which fio calls as it opens a file, puts pages in line as well (`__filemap_fdatawrite_range`).
//! What could not be written is an error of the next fsync, and fio stops at an error.
//!
//! Example. A page is written and synced on a disk of 256 KiB/s: 16 ms for the page, 47 for the
//! journal's three, so 16 a second; with a flusher's 32 pages in front of each of them one second.

use super::{State, Tasks};
use crate::blk::{BIO, REQUEST, Request, Waiter, What, sector_of};
use crate::jbd2::Handle;
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;

/// CPU time of forgetting a page, in percent of a write's: 102,400 take 250 to 300 ms in guests that
/// count instructions (`scenarios/window/ext4-fast.toml`, from the last request to the next page
/// dirtied), and a write takes 6.4 us a page there.
const FORGET: u64 = 40;

/// Steps of it that a task can be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Putting pages in line.
    Pages,
    /// The file's pages are in flight.
    InFlight,
    /// The journal commits.
    Commit,
    /// The disk empties its cache.
    Flush,
    /// Putting pages in line because the file is to be forgotten, for which no task waits.
    Forget,
}

impl Tasks {
    /// `true` if fio calls for it now that an operation has ended.
    pub(super) fn must_sync(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        let sync = self.jobs[task.job].work.sync;
        sync.is_some_and(|sync| task.ops % sync.every == 0) && self.now < task.end
    }

    /// `true` if there are dirty pages to be put in line. A task that does not wait for pages
    /// passes over those that are in flight besides.
    fn must_write(&self, file: usize, step: Step) -> bool {
        let file = &self.files[file];
        let dirty = file.pages.dirty_pages();
        let both = (dirty + file.in_flight).saturating_sub(file.pages.size());
        dirty > if step == Step::Forget { both } else { 0 }
    }

    /// `true` if a round over the file has ended and another is to begin, for which fio opens it
    /// anew.
    pub(super) fn starts_round_anew(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        let work = &self.jobs[task.job].work;
        work.forgets && task.ops % work.ops == 0 && self.now < task.end
    }

    /// Goes on with it.
    pub(super) fn continue_sync(&mut self, index: usize, step: Step) {
        let task = &self.tasks[index];
        let (file, wb, cpu) = (
            task.file,
            task.dirtier.wb as usize,
            self.entities[index].cpu,
        );
        let device = self.wbs[wb].device;
        let work = &self.jobs[task.job].work;
        let maps = work.maps;
        let datasync = work.sync.is_some_and(|sync| !sync.commits);
        match step {
            Step::Pages | Step::Forget if self.must_write(file, step) => {
                self.tasks[index].state = State::Syncing(step);
                if !self.get_blocks(index, file) {
                    self.change_task_activity(index, PsiFlags::Iowait);
                } else if !self.submit_next_dirty_run(index, device) {
                    let hctx = self.devices[device].hctx_of(wb, cpu);
                    self.devices[device].add_slot_waiter(Waiter::Task(index as u32), hctx);
                    self.change_task_activity(index, PsiFlags::Iowait);
                }
            }
            Step::Pages | Step::InFlight if self.files[file].in_flight > 0 => {
                self.tasks[index].state = State::Syncing(Step::InFlight);
                self.tasks[index].is_cold = true;
                self.files[file].synced_by = Some(index as u32);
                self.change_task_activity(index, PsiFlags::Iowait);
            }
            Step::Pages | Step::InFlight if self.sync_inode(index, file, datasync) => {
                self.tasks[index].state = State::Syncing(Step::Commit);
                self.tasks[index].is_cold = true;
                // The kernel counts this wait as one for a commit, not for I/O.
                self.change_task_activity(index, PsiFlags::Nothing);
            }
            Step::Pages | Step::InFlight if self.journals[device].flushes_on_fsync() => {
                self.tasks[index].state = State::Syncing(Step::Flush);
                self.change_task_activity(index, PsiFlags::Iowait);
                let hctx = self.devices[device].hctx_of(wb, cpu);
                self.blkdev_issue_flush(device, index, hctx);
            }
            Step::Forget => {
                // Pages that are mapped stay.
                self.tasks[index].state = State::Idle;
                if maps {
                    return self.start_next_step(index);
                }
                let cached = self.files[file].cached;
                self.invalidate_clean(file);
                let cpu = self.entities[index].cpu;
                self.change_task_activity(index, PsiFlags::Running);
                let folios = cached.div_ceil(self.files[file].folio_pages);
                let time = folios * self.machine.page * FORGET / 100;
                let over = self.occupy_cpu(cpu, time);
                self.schedule_event(over, SimEvent::Task(index as u32));
            }
            _ if std::mem::take(&mut self.files[file].failed) => self.end_task(index),
            Step::Pages | Step::InFlight | Step::Commit | Step::Flush => {
                let (now, task) = (self.now, &mut self.tasks[index]);
                task.state = State::Idle;
                if now >= task.measured_from {
                    let took = now - task.sync_began.max(task.measured_from);
                    self.jobs[task.job].syncs.add(took, 1);
                }
                self.start_next_step(index);
            }
        }
    }

    /// `true` if the next dirty pages have blocks, or get some now; else the task looks again after
    /// a commit.
    fn get_blocks(&mut self, index: usize, file: usize) -> bool {
        let next = self.files[file].pages.next_run(0, 1);
        let is_unmapped = next.is_some_and(|(start, _)| self.files[file].unmapped_run(start, 1).0);
        !is_unmapped || self.begin_change_or_wait(Handle::Writeback(index as u32), file)
    }

    /// The next run of dirty pages, as much as fits into a request; false if there is no slot for
    /// it.
    fn submit_next_dirty_run(&mut self, index: usize, device: usize) -> bool {
        let (file, cpu) = (self.tasks[index].file, self.entities[index].cpu);
        let wb = self.files[file].wb;
        let (hctx, cgroup) = (
            self.devices[device].hctx_of(wb as usize, cpu),
            self.wbs[wb as usize].cgroup,
        );
        let most = self.acceptable_pages(device, cgroup, hctx, BIO);
        if most == 0 {
            return false;
        }
        let Some((start, pages)) = self.files[file].pages.next_run(0, most) else {
            return false;
        };
        let written = &mut self.files[file];
        let (unwritten, pages) = written.unmapped_run(start, pages);
        written.map_blocks(start, pages);
        written.pages.clear(start, pages);
        self.start_page_writeback(file, start, pages);
        let request = Request {
            what: What::Pages {
                file: file as u32,
                last: true,
                unwritten,
            },
            pages: pages as u32,
            sector: sector_of(file, start),
            hctx,
            cgroup: cgroup as u32,
        };
        self.submit_request(device, request);
        self.change_task_activity(index, PsiFlags::Running);
        let cost = REQUEST
            + (pages * self.machine.flush_1024).div_ceil(1024)
            + self.devices[device].submit_cost(pages);
        let cpu = self.entities[index].cpu;
        let over = self.occupy_cpu(cpu, cost);
        self.schedule_event(over, SimEvent::Task(index as u32));
        true
    }

    /// A task that waits for a slot may look whether there is one, unless it has ended meanwhile.
    pub(super) fn resume_task_with_slot(&mut self, index: usize) {
        match self.tasks[index].state {
            State::Syncing(step @ (Step::Pages | Step::Forget)) => self.continue_sync(index, step),
            State::Faulting => self.continue_task(index),
            State::SwappingOut => {
                self.tasks[index].state = State::Reclaiming;
                self.continue_task(index);
            }
            _ => {}
        }
    }
}
