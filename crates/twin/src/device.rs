// SPDX-License-Identifier: GPL-2.0-only
//! A disk: so many bytes per second, first come first served, and so many requests at a time.
//!
//! Requests of all cgroups queue up in one line; each takes size / bandwidth. How many background writes may be in
//! that line is limited by the block layer (its writeback throttling), by who asks: 4 for a flusher's background work, 8 for other
//! writeback, 16 while a writer has been put to sleep within the last 100 ms. Who finds no room waits, and is let
//! in when the line has become short: 6 or less, or empty if nobody sleeps. Waiters are let in one request each,
//! in turn. That is what divides a disk evenly between cgroups, whatever they hold.
//!
//! Example. A disk of 256 KiB/s with requests of a page: 16 in the line take 250 ms. Two flushers in turn get
//! 32 pages a second each.

use crate::clock::{HZ, Ns, SECOND, Ticks};
use crate::domain::PAGE;
use std::collections::VecDeque;

/// Pages the largest bio has.
pub const BIO: u64 = 256;
/// Background writes in line.
const BACKGROUND: usize = 4;
/// Other writes in line.
const NORMAL: usize = 8;
/// While a writer sleeps.
const MOST: usize = 16;

/// Pages on the way to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Whose writeback.
    pub wb: u32,
    /// Of which file.
    pub file: u32,
    /// How many.
    pub pages: u32,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Device {
    /// Bytes per second.
    bandwidth: u64,
    /// Pages the largest request has.
    pub largest: u64,
    /// In line, the next to complete first.
    line: VecDeque<Request>,
    free_at: Ns,
    /// Flushers that wait for room, in turn.
    waiters: VecDeque<u32>,
    /// When a writer was last put to sleep.
    last_sleep: Option<Ticks>,
    /// Bytes written so far.
    pub written: u64,
}

impl Device {
    /// Of `bandwidth` bytes per second; `throttled` ones are given small requests, as the lab does.
    pub fn new(bandwidth: u64, throttled: bool) -> Device {
        let kib = if throttled {
            (bandwidth / 64 / 1024).clamp(4, 1280)
        } else {
            1280
        };
        Device {
            bandwidth,
            largest: kib / 4,
            line: VecDeque::new(),
            free_at: 0,
            waiters: VecDeque::new(),
            last_sleep: None,
            written: 0,
        }
    }

    /// Whether one more request may be put in line.
    pub fn has_room(&self, background: bool, now: Ticks) -> bool {
        let most = if self.somebody_sleeps(now) {
            MOST
        } else if background {
            BACKGROUND
        } else {
            NORMAL
        };
        self.line.len() < most
    }

    /// A writer is put to sleep.
    pub fn note_sleep(&mut self, now: Ticks) {
        self.last_sleep = Some(now);
    }

    fn somebody_sleeps(&self, now: Ticks) -> bool {
        self.last_sleep.is_some_and(|at| now <= at + HZ / 10)
    }

    /// Puts a request in line and says when it will be complete.
    pub fn submit(&mut self, request: Request, now: Ns) -> Ns {
        self.line.push_back(request);
        let bytes = u128::from(u64::from(request.pages) * PAGE);
        let time = (bytes * u128::from(SECOND)).div_ceil(u128::from(self.bandwidth));
        self.free_at = self.free_at.max(now) + time as Ns;
        self.free_at
    }

    /// The first in line is complete.
    pub fn complete(&mut self) -> Request {
        let request = self.line.pop_front().expect("a completion is of a request");
        self.written += u64::from(request.pages) * PAGE;
        request
    }

    /// A flusher waits for room.
    pub fn wait(&mut self, wb: u32) {
        self.waiters.push_back(wb);
    }

    /// Those to be let in now, in turn.
    pub fn let_in(&mut self, now: Ticks) -> VecDeque<u32> {
        let level = if self.somebody_sleeps(now) { NORMAL } else { 0 };
        let short = self.line.is_empty() || self.line.len() + BACKGROUND / 2 <= level;
        if short {
            std::mem::take(&mut self.waiters)
        } else {
            VecDeque::new()
        }
    }

    /// Pages in line.
    #[cfg(any(test, debug_assertions))]
    pub fn pages(&self) -> u64 {
        self.line
            .iter()
            .map(|request| u64::from(request.pages))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MS;

    #[test]
    fn worked_example() {
        let mut disk = Device::new(256 << 10, true);
        assert_eq!(disk.largest, 1);
        disk.note_sleep(1);
        let request = Request {
            wb: 0,
            file: 0,
            pages: 1,
        };
        let mut last = 0;
        while disk.has_room(true, 1) {
            last = disk.submit(request, 0);
        }
        assert_eq!(last, 250 * MS);
        disk.wait(7);
        for _ in 0..10 {
            assert!(disk.let_in(1).is_empty());
            disk.complete();
        }
        assert_eq!(disk.let_in(1), [7]);
        assert_eq!(disk.pages(), 6);
    }

    #[test]
    fn background_writes_leave_room() {
        let mut disk = Device::new(1 << 30, false);
        let request = Request {
            wb: 0,
            file: 0,
            pages: 256,
        };
        (0..4).for_each(|_| assert!(disk.submit(request, 0) > 0));
        assert!(!disk.has_room(true, 1_000) && disk.has_room(false, 1_000));
    }
}
