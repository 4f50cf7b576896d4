// SPDX-License-Identifier: GPL-2.0-only
//! A reader: finds pages in the page cache or waits for them.
//!
//! One that reads at random asks for what an operation needs, and waits. One that reads in order
//! has the kernel read ahead: first two or four times what it asked for, then, each time it comes to
//! the first page of what was read ahead, twice as much as before, up to 256 KiB, so that the disk
//! reads while the task computes. fio drops a file's pages before each round over it; so each
//! begins with none.
//!
//! Example. 4 KiB in order: pages 0..4 are asked for; at page 1, 4..12; at 4, 12..28; at 12,
//! 28..60; at 28, 60..124; and from there 64 more each 64 pages.

use super::{State, Tasks};
use crate::blk::{Request, What, sector_of};
use crate::mm::xarray::Pages;
use crate::sched::psi::PsiFlags;
use std::collections::VecDeque;

/// Pages that are read ahead at most: `read_ahead_kb` is 128, and fio says that it reads in order
/// (`POSIX_FADV_SEQUENTIAL`), which doubles that.
const AHEAD: u64 = 64;

/// Pages that a task has asked its disk for.
#[derive(Clone, Debug)]
pub struct FileReader {
    size: u64,
    /// Pages in the page cache.
    here: Pages,
    /// There, or on the way.
    asked: Pages,
    /// On the way: first page and how many, in the order they come in.
    coming: VecDeque<(u64, u64)>,
    /// Pages of the last reading ahead, where it began, and where the next will.
    window: u64,
    mark: u64,
    next: u64,
    /// Pages that were taken from free memory and not paid for by an operation.
    taken: u64,
    round: u64,
}

impl FileReader {
    /// Of a file of `size` pages.
    pub fn new(size: u64) -> FileReader {
        FileReader {
            size,
            here: Pages::new(size),
            asked: Pages::new(size),
            coming: VecDeque::new(),
            window: 0,
            mark: u64::MAX,
            next: 0,
            taken: 0,
            round: 0,
        }
    }

    /// `true` if `count` pages from `at` on are all there.
    fn has_pages(&self, at: u64, count: u64) -> bool {
        self.here.first_clear(at) >= at + count
    }

    /// Pages to ask for as `count` pages from `at` on are wanted: the first and how many.
    fn pages_to_read_ahead(&mut self, at: u64, count: u64, in_order: bool) -> Option<(u64, u64)> {
        let end = at + count;
        let first = self.asked.first_clear(at);
        if !in_order {
            return (first < end).then(|| (first, end - first));
        }
        let most = AHEAD.max(count);
        let start = if first < end {
            self.window = match count.next_power_of_two() {
                few if few <= most / 32 => few * 4,
                some if some <= most / 4 => some * 2,
                _ => most,
            };
            // The next reading ahead begins with what is beyond this operation.
            self.mark = if self.window > end - first {
                end
            } else {
                first
            };
            first
        } else if (at..end).contains(&self.mark) {
            self.window = (self.window * 2).min(most);
            self.mark = self.next;
            self.next
        } else {
            return None;
        };
        self.next = (start + self.window).min(self.size);
        (start < self.next).then_some((start, self.next - start))
    }
}

impl Tasks {
    /// Reads until it has to wait or something has to be looked at, and schedules what follows.
    pub(super) fn run_reader(&mut self, index: usize) {
        if self.tasks[index].op_left == 0 {
            self.begin_operation(index, self.now);
        }
        if self.zone.pages_above_min() == 0 {
            return self.start_reclaim(index);
        }
        if !self.submit_reads(index) {
            self.change_task_activity(index, PsiFlags::Iowait);
            self.tasks[index].state = State::Reading;
            self.tasks[index].is_cold = true;
            return;
        }
        let reader = self.tasks[index].reader.as_mut().expect("a reader");
        // Reading ahead takes pages for operations to come, which copy them.
        let taken = std::mem::take(&mut reader.taken);
        let take = self.machine.page.saturating_sub(self.machine.read);
        let each = self.machine.call + self.tasks[index].op_left * self.machine.read + taken * take;
        self.schedule_operation(index, each, |tasks| {
            taken * take == 0 && tasks.may_read_next_at_once(index)
        });
    }

    /// Asks for what the operation needs, and more ahead; true if all it needs is there.
    fn submit_reads(&mut self, index: usize) -> bool {
        let task = &mut self.tasks[index];
        let work = &self.jobs[task.job].work;
        let (at, count, in_order) = (task.op_at, task.op_left, !work.random);
        let round = task.ops / work.ops;
        let (file, wb) = (task.file, task.dirtier.wb as usize);
        let reader = task.reader.as_mut().expect("a reader");
        if reader.round != round {
            **reader = FileReader::new(reader.size);
            reader.round = round;
            self.drop_cache(file);
        }
        let device = self.wbs[wb].device;
        let cpu = self.entities[index].cpu;
        let hctx = self.devices[device].hctx_of(wb, cpu);
        let cgroup = self.wbs[wb].cgroup as u32;
        let largest = self.devices[device].largest;
        let reader = self.tasks[index].reader.as_mut().expect("a reader");
        let mut parts = Vec::new();
        // What it needs may be followed by what is to be read ahead.
        while let Some((start, pages)) = reader.pages_to_read_ahead(at, count, in_order) {
            reader.asked.set(start, pages, u64::MAX);
            reader.taken += pages;
            let end = start + pages;
            let starts = (start..end).step_by(largest as usize);
            parts.extend(starts.map(|from| (from, largest.min(end - from))));
        }
        reader.coming.extend(&parts);
        for (from, pages) in parts {
            let request = Request {
                what: What::Read(index as u32),
                pages: pages as u32,
                sector: sector_of(file, from),
                hctx,
                cgroup,
            };
            self.submit_request(device, request);
        }
        let reader = self.tasks[index].reader.as_ref().expect("a reader");
        reader.has_pages(at, count)
    }

    /// `true` if the next operation of the same round finds all it needs, and nothing has to be
    /// asked for.
    fn may_read_next_at_once(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        let work = &self.jobs[task.job].work;
        let (next, reader) = (task.ops + 1, task.reader.as_ref().expect("a reader"));
        if next % work.ops == 0 {
            return false;
        }
        let at = task.first_page_of(work, next);
        !(at..at + work.op_pages).contains(&reader.mark) && reader.has_pages(at, work.op_pages)
    }

    /// A request of a reader is complete, or has `failed`: then fio stops.
    pub(super) fn end_read(&mut self, index: usize, failed: bool) {
        let waits = self.entities[index].doing == PsiFlags::Iowait;
        let task = &mut self.tasks[index];
        let reader = task.reader.as_mut().expect("a reader");
        let Some((start, count)) = reader.coming.pop_front() else {
            return;
        };
        reader.here.set(start, count, u64::MAX);
        // Once it has been woken, it may be in line for a CPU while more is read.
        let sleeps = waits && task.state == State::Reading;
        let goes_on = sleeps && reader.has_pages(task.op_at, task.op_left);
        let file = task.file;
        if task.state != State::Over {
            if failed {
                return self.end_task(index);
            }
            self.add_to_page_cache(file, start, count);
        }
        if goes_on {
            self.continue_task(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let mut reader = FileReader::new(1_000);
        let mut asked = Vec::new();
        for page in 0..90 {
            while let Some((start, count)) = reader.pages_to_read_ahead(page, 1, true) {
                reader.asked.set(start, count, u64::MAX);
                asked.push((page, start, start + count));
            }
        }
        assert_eq!(
            asked,
            [
                (0, 0, 4),
                (1, 4, 12),
                (4, 12, 28),
                (12, 28, 60),
                (28, 60, 124),
                (60, 124, 188)
            ]
        );
    }

    #[test]
    fn at_random_only_what_is_needed_is_asked_for() {
        let mut reader = FileReader::new(1_000);
        assert_eq!(reader.pages_to_read_ahead(500, 4, false), Some((500, 4)));
        reader.asked.set(500, 4, u64::MAX);
        assert_eq!(reader.pages_to_read_ahead(500, 4, false), None);
        assert!(!reader.has_pages(500, 4), "it is on its way");
        reader.here.set(500, 4, u64::MAX);
        assert!(reader.has_pages(500, 4));
    }
}
