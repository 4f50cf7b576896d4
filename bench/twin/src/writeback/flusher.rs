// SPDX-License-Identifier: GPL-2.0-only
//! The flusher: one per cgroup and disk, writes dirty files back.
//!
//! It is woken when a task is throttled or finds the host above its background level, and every
//! five seconds while anything is dirty. Then it does *periodic* work, on files that have been
//! dirty for 30 s, and *background* work until the host and its cgroup are below their background
//! levels and it holds less than its share of them. (A sync makes it write everything; so does who
//! looks for memory and finds only dirty pages, each time as much as is dirty then.)
//!
//! Files wait in a queue, those with pages left over first. Each gets a turn of half a second's
//! worth of writing, a whole number of 4 MiB: pages are taken from where the last turn ended, once
//! around the file, as bios of up to 8 MiB of pages that follow each other. After 100 ms it looks
//! again whether to go on.
//!
//! A page costs it CPU time, which bounds what it submits (encryption is done here); and each
//! request needs a slot in the disk's line. Waiting for that is waiting for I/O. Under a window of
//! weir's a turn has parts, each a bio of its own, and sleeps before one for which there is no room.
//!
//! What comes next is decided in work.rs.
//!
//! Example. At 256 KiB/s half a second is 32 pages, so a turn is 1,024: 16 s without a look at
//! levels.

use super::Writeback;
use crate::blk::{BIO, BIO_COST, REQUEST, Request, Waiter, What, sector_of};
use crate::jbd2::Handle;
use crate::mm::domain::PAGE;
use crate::sched::psi::PsiFlags;
use crate::sched::{Kthread, SLICE};
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND, TICK, Ticks};
use crate::weir::{Call, Room};
use std::collections::VecDeque;

/// From being woken to running.
const WAKE: Ns = 20_000;
/// CPU time of a part under a window besides its bios: what flushers of guests that count
/// instructions need more than without a window, 0.4 to 0.55 % of a CPU for 124 parts a second of
/// appends on xfs and 248 of overwrites on ext4 (docs/experiments/0048-windows-on-the-twin.md).
const PART: Ns = 25_000;
/// CPU time of giving blocks to a bio's pages on ext4: there 248 parts of appends need 2.1 %.
const BLOCKS: Ns = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WbReason {
    /// All that is there.
    Sync,
    /// As much as is there, because memory is wanted.
    Vmscan,
    /// Pages that were dirtied up to then.
    Periodic { before: Ticks },
    /// Until below the background levels.
    Background,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WbWritebackWork {
    pub reason: WbReason,
    pub nr_pages: u64,
    /// The files were queued since it began.
    pub queued: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WritebackControl {
    pub file: u32,
    pub pages: u64,
    pub nr_to_write: u64,
    /// Page that it began at, to go around once.
    pub origin: u64,
    pub wrapped: bool,
}

/// Pages that are marked as in flight and not yet in line.
#[derive(Clone, Copy, Debug)]
struct Bio {
    file: u32,
    /// Begin on the disk of what is left.
    sector: u64,
    left: u64,
    unwritten: bool,
}

/// The worker that writes one writeback's dirty pages.
#[derive(Clone, Debug, Default)]
pub struct Flusher {
    thread: Kthread,
    /// Working, or about to.
    active: bool,
    /// Number of the scheduled event that is still meant.
    number: u32,
    /// A look is scheduled.
    dozing: bool,
    pub(super) work: Option<WbWritebackWork>,
    /// Dirty files, the longest dirty first.
    pub(super) b_dirty: VecDeque<u32>,
    /// To be written in this round.
    pub(super) b_io: VecDeque<u32>,
    /// With pages left after their turn.
    pub(super) b_more_io: VecDeque<u32>,
    /// A task in reclaim found only dirty pages.
    pub(super) vmscan: bool,
    /// Begin of the round, and if anything was written in it.
    pub(super) began: Option<(Ticks, bool)>,
    pub(super) turn: Option<WritebackControl>,
    /// Of that turn, under a window.
    pub(super) call: Option<Call>,
    bio: Option<Bio>,
    pub(super) last_old_flush: Ticks,
    /// On a CPU without a sleep.
    runs_since: Ns,
    /// CPU time it has used.
    pub cpu_time: Ns,
    /// Of it, what counts when it is woken together with others.
    pub used: Ns,
}

impl Flusher {
    /// One that is first needed at `now`.
    pub fn new(now: Ticks) -> Flusher {
        Flusher {
            last_old_flush: now,
            ..Flusher::default()
        }
    }

    /// Pages marked as in flight that are not in line yet.
    #[cfg(any(test, debug_assertions))]
    pub fn unsubmitted_pages(&self) -> u64 {
        self.bio.map_or(0, |bio| bio.left)
    }
}

impl Writeback {
    /// A file of `wb` has its first dirty page.
    pub fn list_dirty(&mut self, wb: usize, file: u32) {
        self.flushers[wb].b_dirty.push_back(file);
        self.schedule_periodic(wb);
    }

    /// Has the flusher look in five seconds.
    fn schedule_periodic(&mut self, wb: usize) {
        let periodic = self.sysctl.dirty_writeback_interval;
        let flusher = &mut self.flushers[wb];
        if flusher.active || flusher.dozing || periodic == 0 {
            return;
        }
        flusher.dozing = true;
        flusher.number += 1;
        let event = SimEvent::Flusher(wb as u32, flusher.number);
        self.schedule_after(periodic * TICK, event);
    }

    /// Wakes the flusher, unless it is at work.
    pub fn wake_flusher(&mut self, wb: usize) {
        let flusher = &mut self.flushers[wb];
        if !flusher.active {
            flusher.active = true;
            let device = &self.devices[self.wbs[wb].device];
            let used = device.catch_up_use(self.flushers[wb].used);
            self.flushers[wb].used = used;
            self.schedule_flusher(wb, WAKE);
        }
    }

    /// Wakes it to write all that is dirty now.
    pub fn start_full_writeback(&mut self, wb: usize) {
        if self.wbs[wb].counts.dirty > 0 {
            self.flushers[wb].vmscan = true;
            self.wake_flusher(wb);
        }
    }

    /// Has it go on after a time.
    fn schedule_flusher(&mut self, wb: usize, after: Ns) {
        let flusher = &mut self.flushers[wb];
        flusher.dozing = false;
        flusher.number += 1;
        let event = SimEvent::Flusher(wb as u32, flusher.number);
        self.schedule_after(after, event);
    }

    /// Notes what flushers are doing at this moment, as the agent's look at `/proc` does.
    pub fn weir_sample_flushers(&mut self) {
        let is_any = |doing| {
            let mut flushers = self.flushers.iter();
            u32::from(flushers.any(|flusher| flusher.thread.doing == doing))
        };
        let (ran, waited) = (is_any(PsiFlags::Running), is_any(PsiFlags::Iowait));
        if let Some(weir) = &mut self.weir {
            (weir.look.ran, weir.look.waited) = (ran, waited);
        }
    }

    /// Has the agent's assistants look at flushers.
    pub fn weir_observe_flushers(&mut self) {
        let mut seen = vec![(false, false, 0); self.devices.len()];
        for (wb, flusher) in self.flushers.iter().enumerate() {
            let of = &mut seen[self.wbs[wb].device];
            match flusher.thread.doing {
                PsiFlags::Running => of.0 = true,
                PsiFlags::Iowait => of.1 = true,
                _ => continue,
            }
            of.2 += 1;
        }
        if let Some(weir) = &mut self.weir {
            weir.assistants.observe_flushers(&seen);
        }
    }

    fn change_flusher_activity(&mut self, wb: usize, doing: PsiFlags) {
        let now = self.now;
        let flusher = &mut self.flushers[wb];
        let moves = doing == PsiFlags::Running
            && match flusher.thread.doing {
                PsiFlags::Nothing => true,
                // Who waits for a CPU's slot stays there. Not seen, but so guests of two CPUs
                // share their disk (docs/experiments/0015-twin-accuracy.md).
                PsiFlags::Iowait => false,
                _ => self.hooks.shares_cpu(&flusher.thread),
            };
        if doing == PsiFlags::Running && flusher.thread.doing != PsiFlags::Running {
            flusher.runs_since = now;
        }
        self.hooks
            .change_kthread_activity(&mut flusher.thread, doing, moves);
    }

    /// Uses CPU time, then goes on.
    fn use_flusher_cpu(&mut self, wb: usize, cost: Ns) {
        self.change_flusher_activity(wb, PsiFlags::Running);
        let flusher = &mut self.flushers[wb];
        flusher.cpu_time += cost;
        // Who has slept is not behind; who runs on shares the CPU.
        let others = match self.hooks.now < flusher.runs_since + SLICE {
            true => 1,
            false => u64::from(self.hooks.psi.running_on(flusher.thread.cpu)),
        };
        self.schedule_flusher(wb, cost * others);
    }

    /// It is woken as a slot has become free, after `before` others: it has one, or looks for one.
    pub fn resume_flusher(&mut self, wb: usize, before: u64, has_slot: bool) {
        let used = self.flushers[wb].used;
        let device = self.wbs[wb].device;
        let page = self.machine.flush_1024 / 1024 + self.devices[device].submit_cost(1);
        let device = &mut self.devices[device];
        let (used, turn) = (
            device.charge_wakeup(used, before == 0),
            device.turn_time(page),
        );
        self.flushers[wb].used = used;
        if has_slot {
            // Those of a hctx are on one CPU.
            let cpus = u64::from(self.machine.cpus);
            self.resume_flusher_with_slot(wb, before / cpus * turn);
        } else {
            self.schedule_flusher(wb, before * turn);
        }
    }

    /// There is a slot for one request; it goes on when others have had their turn on its CPU.
    fn resume_flusher_with_slot(&mut self, wb: usize, others: Ns) {
        self.submit_bio_part(wb);
        self.use_flusher_cpu(wb, REQUEST);
        self.schedule_flusher(wb, REQUEST + others);
    }

    /// Hands over the next part of the bio; false if there is no slot for it.
    fn submit_bio_part(&mut self, wb: usize) -> bool {
        let device = self.wbs[wb].device;
        let Some(bio) = self.flushers[wb].bio else {
            return true;
        };
        let (hctx, cgroup) = (self.flusher_hctx(wb), self.wbs[wb].cgroup);
        let pages = self.acceptable_pages(device, cgroup, hctx, bio.left);
        if pages == 0 {
            return false;
        }
        let request = Request {
            what: What::Pages {
                file: bio.file,
                last: bio.left == pages,
                unwritten: bio.unwritten,
            },
            pages: pages as u32,
            sector: bio.sector,
            hctx,
            cgroup: cgroup as u32,
        };
        self.submit_request(device, request);
        self.flushers[wb].used += REQUEST;
        let left = bio.left - pages;
        let sector = bio.sector + pages;
        self.flushers[wb].bio = (left > 0).then_some(Bio {
            left,
            sector,
            ..bio
        });
        true
    }

    fn flusher_hctx(&self, wb: usize) -> u32 {
        let device = &self.devices[self.wbs[wb].device];
        device.hctx_of(wb, self.flushers[wb].thread.cpu)
    }

    /// The flusher's next step.
    pub fn continue_flusher(&mut self, wb: usize, number: u32) {
        if self.flushers[wb].number != number {
            return;
        }
        self.flushers[wb].active = true;
        self.flushers[wb].dozing = false;
        loop {
            let flusher = &self.flushers[wb];
            if flusher.bio.is_some() {
                if self.submit_bio_part(wb) {
                    return self.use_flusher_cpu(wb, REQUEST);
                }
                let hctx = self.flusher_hctx(wb);
                let device = self.wbs[wb].device;
                self.devices[device].add_slot_waiter(Waiter::Flusher(wb as u32), hctx);
                return self.change_flusher_activity(wb, PsiFlags::Iowait);
            }
            if let Some(turn) = flusher.turn {
                match self.find_room_or_end_turn(wb, turn.nr_to_write) {
                    Room::Begins => {}
                    Room::Sleeps(time) => {
                        self.change_flusher_activity(wb, PsiFlags::Nothing);
                        return self.schedule_flusher(wb, time + WAKE);
                    }
                    Room::Ends => {
                        self.end_turn(wb);
                        continue;
                    }
                }
                if !self.get_blocks(wb, turn.file as usize) {
                    return self.change_flusher_activity(wb, PsiFlags::Iowait);
                }
                if let Some(cost) = self.build_next_bio(wb) {
                    self.use_flusher_cpu(wb, cost);
                    return;
                }
                let waits = self.time_until_copied(turn);
                self.end_turn(wb);
                if waits > 0 {
                    self.change_flusher_activity(wb, PsiFlags::Nothing);
                    return self.schedule_flusher(wb, waits);
                }
            } else if !self.begin_turn(wb) && !self.begin_work(wb) {
                self.change_flusher_activity(wb, PsiFlags::Nothing);
                self.flushers[wb].active = false;
                if self.wbs[wb].counts.dirty > 0 {
                    self.schedule_periodic(wb);
                }
                return;
            }
        }
    }

    /// Decides on the next pages of a turn, as far as windows are concerned. A turn that is to
    /// end counts as used up, so the file's next comes soon.
    fn find_room_or_end_turn(&mut self, wb: usize, left: u64) -> Room {
        let others_wait = self.syncing;
        let flusher = &mut self.flushers[wb];
        let call = flusher.call.as_mut().filter(|call| call.part_left() == 0);
        let (Some(call), Some(turn), 1..) = (call, &mut flusher.turn, left) else {
            return Room::Begins;
        };
        let reclaims = flusher
            .work
            .is_some_and(|work| work.reason == WbReason::Vmscan);
        // Reclaim's work is not broken off for a sync.
        let others_wait = others_wait.then_some(match reclaims {
            true => Room::Begins,
            false => Room::Ends,
        });
        let room = self.hooks.weir_find_room(wb, left, call, others_wait);
        match room {
            // Each part goes around the file by itself.
            Room::Begins => {
                turn.origin = self.hooks.files[turn.file as usize].writeback_index;
                turn.wrapped = false;
            }
            Room::Ends => turn.nr_to_write = 0,
            Room::Sleeps(_) => {}
        }
        room
    }

    /// Wait of a turn in which nothing was there but what a task copies: there is nothing else to
    /// do, and the kernel's flusher is woken then.
    fn time_until_copied(&self, turn: WritebackControl) -> Ns {
        let file = &self.files[turn.file as usize];
        match file.copied {
            Some((_, until)) if turn.nr_to_write == turn.pages && file.pages.dirty_pages() > 0 => {
                until.saturating_sub(self.now)
            }
            _ => 0,
        }
    }

    /// `true` if the next pages of a file have blocks, or get some now; else the flusher goes on
    /// after a commit.
    fn get_blocks(&mut self, wb: usize, index: usize) -> bool {
        let file = &self.files[index];
        let next = file.pages.next_run(file.writeback_index, 1);
        if !next.is_some_and(|(start, _)| file.unmapped_run(start, 1).0) {
            return true;
        }
        let flusher = &mut self.flushers[wb];
        flusher.number += 1;
        let handle = Handle::Flusher(wb as u32, flusher.number);
        self.begin_change_or_wait(handle, index)
    }

    /// Makes a bio of the next pages of the file whose turn it is; `None` if the turn is over.
    fn build_next_bio(&mut self, wb: usize) -> Option<Ns> {
        let now = self.now;
        let flusher = &mut self.flushers[wb];
        let turn = flusher.turn.as_mut()?;
        let file = &mut self.hooks.files[turn.file as usize];
        if turn.nr_to_write == 0 {
            return None;
        }
        let part = flusher.call.map_or(u64::MAX, |call| call.part_left());
        let most = turn.nr_to_write.min(BIO);
        let (start, pages) = file.pages.next_run(file.writeback_index, most)?;
        let mut pages = file.round_up_to_folios(start, pages, part);
        turn.wrapped |= start < file.writeback_index;
        if turn.wrapped {
            if start >= turn.origin {
                return None;
            }
            pages = pages.min(turn.origin - start);
        }
        pages = file.pages_before_copied(start, pages, now);
        if pages == 0 {
            return None;
        }
        let (unwritten, pages) = file.unmapped_run(start, pages);
        file.map_blocks(start, pages);
        file.pages.clear(start, pages);
        file.writeback_index = start + pages;
        turn.nr_to_write -= pages;
        let mut cost = BIO_COST;
        if let Some(call) = &mut flusher.call {
            cost += if call.count_submitted(pages) { PART } else { 0 };
        }
        let index = turn.file;
        flusher.bio = Some(Bio {
            file: index,
            sector: sector_of(index as usize, start),
            left: pages,
            unwritten,
        });
        let device = self.hooks.wbs[wb].device;
        if unwritten && self.hooks.journals[device].pays_for_block_mapping() {
            cost += BLOCKS;
        }
        let device = &self.hooks.devices[device];
        let folios = pages.div_ceil(self.hooks.files[index as usize].folio_pages);
        let whole = folios * 100 + (pages - folios) * self.hooks.machine.flush_more;
        let page_cost =
            (whole * self.hooks.machine.flush_1024).div_ceil(102_400) + device.submit_cost(pages);
        cost += match &self.hooks.weir {
            Some(weir) => weir
                .assistants
                .share_cost(self.hooks.wbs[wb].device, page_cost),
            None => page_cost,
        };
        flusher.used += cost;
        self.start_page_writeback(index as usize, start, pages);
        Some(cost)
    }

    /// CPU time of all flushers so far.
    pub fn flushers_cpu_time(&self) -> Ns {
        self.flushers.iter().map(|flusher| flusher.cpu_time).sum()
    }
}

/// Time that `bandwidth` bytes per second leave for 1,024 pages.
pub fn time_for_1024_pages(bandwidth: u64) -> Ns {
    (1024 * PAGE * SECOND) / bandwidth.max(1)
}
