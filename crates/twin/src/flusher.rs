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
//! request needs a slot in the disk's line. Waiting for that is waiting for I/O.
//!
//! What comes next is decided in work.rs.
//!
//! Example. At 256 KiB/s half a second is 32 pages, so a turn is 1,024: 16 s without a look at
//! levels.

mod work;

use crate::clock::{MS, Ns, SECOND, Ticks};
use crate::device::{BIO, Request, Waiter, What};
use crate::psi::{Doing, HOST};
use crate::task::SLICE;
use crate::world::{Event, Wb, World};
use std::collections::VecDeque;

/// From being woken to running.
const WAKE: Ns = 20_000;
/// CPU time of a request, and of a bio besides.
pub const REQUEST: Ns = 2_700;
pub const BIO_COST: Ns = 3_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All that is there.
    Sync,
    /// As much as is there, because memory is wanted.
    Wanted,
    /// What was dirtied up to then.
    Periodic { before: Ticks },
    /// Until below the background levels.
    Background,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    kind: Kind,
    pages_left: u64,
    /// The files were queued since it began.
    queued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    file: u32,
    pages: u64,
    left: u64,
    /// Where it began, to go around once.
    origin: u64,
    wrapped: bool,
}

/// The worker that writes one writeback's dirty pages.
#[derive(Clone, Debug)]
pub struct Flusher {
    /// Index of the CPU it runs on.
    cpu: u16,
    doing: Doing,
    /// Working, or about to.
    active: bool,
    /// Which planned event is still meant.
    number: u32,
    /// A look is planned.
    dozing: bool,
    work: Option<Work>,
    /// Dirty files, the longest dirty first.
    dirty: VecDeque<u32>,
    /// To be written in this round.
    round: VecDeque<u32>,
    /// With pages left after their turn.
    more: VecDeque<u32>,
    /// A task in reclaim found only dirty pages (`WB_REASON_VMSCAN`).
    wanted: bool,
    /// When the round began, and whether anything was written in it.
    began: Option<(Ticks, bool)>,
    turn: Option<Turn>,
    /// Marked as in flight, not yet in line: of which file.
    bio: Option<(u32, u64)>,
    last_periodic: Ticks,
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
            cpu: 0,
            doing: Doing::Nothing,
            active: false,
            number: 0,
            dozing: false,
            work: None,
            dirty: VecDeque::new(),
            round: VecDeque::new(),
            more: VecDeque::new(),
            wanted: false,
            began: None,
            turn: None,
            bio: None,
            last_periodic: now,
            runs_since: 0,
            cpu_time: 0,
            used: 0,
        }
    }

    /// Pages marked as in flight that are not in line yet.
    #[cfg(any(test, debug_assertions))]
    pub fn in_hand(&self) -> u64 {
        self.bio.map_or(0, |(_, pages)| pages)
    }
}

impl World {
    /// A file of `wb` has its first dirty page.
    pub fn list_dirty(&mut self, wb: usize, file: u32) {
        let flusher = &mut self.wbs[wb].flusher;
        flusher.dirty.push_back(file);
        self.doze(wb);
    }

    /// Has the flusher look in five seconds.
    fn doze(&mut self, wb: usize) {
        let periodic = self.machine.periodic;
        let flusher = &mut self.wbs[wb].flusher;
        if flusher.active || flusher.dozing || periodic == 0 {
            return;
        }
        flusher.dozing = true;
        flusher.number += 1;
        let event = Event::Flusher(wb as u32, flusher.number);
        self.plan(self.now + periodic * crate::clock::TICK, event);
    }

    /// Wakes the flusher, unless it is at work.
    pub fn wake_flusher(&mut self, wb: usize) {
        let flusher = &mut self.wbs[wb].flusher;
        if !flusher.active {
            flusher.active = true;
            let device = &self.devices[self.wbs[wb].device];
            self.wbs[wb].flusher.used = device.joins(self.wbs[wb].flusher.used);
            self.flusher_again(wb, WAKE);
        }
    }

    /// Wakes it to write all that is dirty now.
    pub fn has_all_written(&mut self, wb: usize) {
        if self.wbs[wb].counts.dirty > 0 {
            self.wbs[wb].flusher.wanted = true;
            self.wake_flusher(wb);
        }
    }

    pub fn flusher_again(&mut self, wb: usize, after: Ns) {
        let flusher = &mut self.wbs[wb].flusher;
        flusher.dozing = false;
        flusher.number += 1;
        let event = Event::Flusher(wb as u32, flusher.number);
        self.plan(self.now + after, event);
    }

    fn flusher_does(&mut self, wb: usize, doing: Doing) {
        let flusher = &mut self.wbs[wb].flusher;
        let is_shared = self.psi.running(flusher.cpu) > 1;
        let moves = match flusher.doing {
            Doing::Nothing => true,
            // Who waits for a CPU's slot stays there. Not seen, but so guests of two CPUs share
            // their disk (docs/experiments/0015-twin-accuracy.md).
            Doing::Waiting => false,
            _ => is_shared,
        };
        if doing == Doing::Running && flusher.doing != Doing::Running {
            flusher.runs_since = self.now;
        }
        if doing == Doing::Running && moves {
            // It leaves the CPU it was on before it comes to another.
            self.psi
                .turn(flusher.cpu, HOST, flusher.doing, Doing::Nothing, self.now);
            flusher.doing = Doing::Nothing;
            flusher.cpu = self.psi.place(flusher.cpu);
        }
        self.psi
            .turn(flusher.cpu, HOST, flusher.doing, doing, self.now);
        flusher.doing = doing;
    }

    /// Uses CPU time, then goes on.
    fn flusher_computes(&mut self, wb: usize, cost: Ns) {
        self.flusher_does(wb, Doing::Running);
        let flusher = &mut self.wbs[wb].flusher;
        flusher.cpu_time += cost;
        // Who has slept is not behind; who runs on shares the CPU.
        let others = match self.now < flusher.runs_since + SLICE {
            true => 1,
            false => u64::from(self.psi.running(flusher.cpu)),
        };
        self.flusher_again(wb, cost * others);
    }

    /// There is a slot for one request; it goes on when others have had their turn on its CPU.
    pub fn flusher_is_let_in(&mut self, wb: usize, others: Ns) {
        self.submit(wb);
        self.flusher_computes(wb, REQUEST);
        self.flusher_again(wb, REQUEST + others);
    }

    /// Hands over the next part of the bio; false if there is no slot for it.
    fn submit(&mut self, wb: usize) -> bool {
        let device = self.wbs[wb].device;
        let Some((file, left)) = self.wbs[wb].flusher.bio else {
            return true;
        };
        let (lane, cgroup) = (self.flusher_lane(wb), self.wbs[wb].cgroup);
        let pages = self.takes(device, cgroup, lane, left);
        if pages == 0 {
            return false;
        }
        let request = Request {
            what: What::Pages {
                wb: wb as u32,
                file,
                last: left == pages,
            },
            pages: pages as u32,
            lane,
            cgroup: cgroup as u32,
        };
        self.submits(device, request);
        self.wbs[wb].flusher.used += REQUEST;
        self.wbs[wb].flusher.bio = (left > pages).then_some((file, left - pages));
        true
    }

    fn flusher_lane(&self, wb: usize) -> u32 {
        let Wb {
            device, flusher, ..
        } = &self.wbs[wb];
        self.devices[*device].lane(wb, flusher.cpu)
    }

    /// The flusher's next step.
    pub fn flusher_goes_on(&mut self, wb: usize, number: u32) {
        if self.wbs[wb].flusher.number != number {
            return;
        }
        self.wbs[wb].flusher.active = true;
        self.wbs[wb].flusher.dozing = false;
        loop {
            let flusher = &self.wbs[wb].flusher;
            if flusher.bio.is_some() {
                if self.submit(wb) {
                    return self.flusher_computes(wb, REQUEST);
                }
                let lane = self.flusher_lane(wb);
                self.devices[self.wbs[wb].device].wait(Waiter::Flusher(wb as u32), lane);
                return self.flusher_does(wb, Doing::Waiting);
            }
            if flusher.turn.is_some() {
                if let Some(cost) = self.take_pages(wb) {
                    self.flusher_computes(wb, cost);
                    return;
                }
                self.end_turn(wb);
            } else if !self.begin_turn(wb) && !self.begin_work(wb) {
                self.flusher_does(wb, Doing::Nothing);
                self.wbs[wb].flusher.active = false;
                if self.wbs[wb].counts.dirty > 0 {
                    self.doze(wb);
                }
                return;
            }
        }
    }

    /// Makes a bio of the next pages of the file whose turn it is; `None` if the turn is over.
    fn take_pages(&mut self, wb: usize) -> Option<Ns> {
        let flusher = &mut self.wbs[wb].flusher;
        let turn = flusher.turn.as_mut()?;
        let file = &mut self.files[turn.file as usize];
        if turn.left == 0 {
            return None;
        }
        let (start, mut pages) = file.pages.next_run(file.cursor, turn.left.min(BIO))?;
        turn.wrapped |= start < file.cursor;
        if turn.wrapped {
            if start >= turn.origin {
                return None;
            }
            pages = pages.min(turn.origin - start);
        }
        file.pages.clear(start, pages);
        file.cursor = start + pages;
        turn.left -= pages;
        let index = turn.file;
        flusher.bio = Some((index, pages));
        let cost = BIO_COST + (pages * self.machine.flush_1024).div_ceil(1024);
        flusher.used += cost;
        self.in_flight(index as usize, pages);
        Some(cost)
    }

    /// Writes everything back that is dirty now, and waits for that; gives up after `patience`.
    pub fn sync(&mut self, patience: Ns) {
        self.syncing = true;
        (0..self.wbs.len()).for_each(|wb| self.wake_flusher(wb));
        let end = self.now + patience;
        while self.counts.held() > 0 && self.now < end {
            let next = (self.now + 10 * MS).min(end);
            while self.counts.held() > 0 && self.step(next) {}
        }
        self.syncing = false;
    }

    /// CPU time of all flushers so far.
    pub fn flushers_cpu_time(&self) -> Ns {
        self.wbs.iter().map(|wb| wb.flusher.cpu_time).sum()
    }
}

/// What `bandwidth` bytes per second leave for 1,024 pages.
pub fn cost_of_1024(bandwidth: u64) -> Ns {
    (1024 * crate::domain::PAGE * SECOND) / bandwidth.max(1)
}
