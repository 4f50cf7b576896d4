// SPDX-License-Identifier: GPL-2.0-only
//! A disk: so many bytes per second, first come first served, and so many requests at a time.
//!
//! Requests of all cgroups queue up in one line; each takes size / bandwidth. Each CPU has a number of slots in that line: 32 on a disk
//! the lab slows down, 256 otherwise, as virtio has. A flusher takes those of its CPU, and waits when they are taken; who waits is let in
//! one request at a time, in turn. That is what divides a disk evenly between cgroups, whatever they hold.
//!
//! A server that commits, as NFS's, takes pages at that speed too, but they are written, for the kernel, only when it says so, all at once.
//!
//! Example. A disk of 256 KiB/s with requests of a page: 32 in the line take 500 ms. Two flushers in turn get
//! 32 pages a second each.

use crate::clock::{Ns, SECOND};
use crate::domain::PAGE;
use std::collections::VecDeque;

/// Pages the largest bio has: what ext4 maps at once, as pages that were allocated one after the other are one segment.
pub const BIO: u64 = 2048;
/// Slots of a CPU.
const SLOTS: u32 = 256;
/// On a disk that the lab slows down.
const FEW_SLOTS: u32 = 32;

/// Pages on the way to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Whose writeback.
    pub wb: u32,
    /// Of which file.
    pub file: u32,
    /// How many.
    pub pages: u32,
    /// Whose slot it has: of which CPU.
    pub cpu: u16,
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
    /// Free slots, by CPU.
    slots: Vec<u32>,
    /// Flushers that wait for a slot, in turn, by CPU.
    waiters: Vec<VecDeque<u32>>,
    /// Bytes written so far.
    pub written: u64,
    /// Commits this often; 0 is no server.
    burst: Ns,
    /// Taken, not committed.
    uncommitted: Vec<Request>,
}

impl Device {
    /// Of `bandwidth` bytes per second; `throttled` ones are given a small queue, as the lab does.
    /// One with a `burst` reports what it has written only so often.
    pub fn new(bandwidth: u64, throttled: bool, burst: Ns, cpus: u32) -> Device {
        let (kib, slots) = if throttled {
            ((bandwidth / 64 / 1024).clamp(4, 1280), FEW_SLOTS)
        } else {
            (1280, SLOTS)
        };
        Device {
            bandwidth,
            largest: kib / 4,
            line: VecDeque::new(),
            free_at: 0,
            slots: vec![slots; cpus as usize],
            waiters: vec![VecDeque::new(); cpus as usize],
            written: 0,
            burst,
            uncommitted: Vec::new(),
        }
    }

    /// Whether one more request may be put in line from `cpu`.
    pub fn has_room(&self, cpu: u16) -> bool {
        self.slots[usize::from(cpu)] > 0
    }

    /// Puts a request in line and says when it will be complete.
    pub fn submit(&mut self, request: Request, now: Ns) -> Ns {
        self.slots[usize::from(request.cpu)] -= 1;
        self.line.push_back(request);
        let bytes = u128::from(u64::from(request.pages) * PAGE);
        let time = (bytes * u128::from(SECOND)).div_ceil(u128::from(self.bandwidth));
        self.free_at = self.free_at.max(now) + time as Ns;
        self.free_at
    }

    /// The first in line is complete, and its slot free.
    pub fn complete(&mut self) -> Request {
        let request = self.line.pop_front().expect("a completion is of a request");
        self.written += u64::from(request.pages) * PAGE;
        self.slots[usize::from(request.cpu)] += 1;
        request
    }

    /// A request is not written before the server commits: when it does, if that is not planned yet. Gives it back if there is no server.
    pub fn commits(&mut self, request: Request, now: Ns) -> Result<Option<Ns>, Request> {
        if self.burst == 0 {
            return Err(request);
        }
        self.uncommitted.push(request);
        let is_first = self.uncommitted.len() == 1;
        Ok(is_first.then(|| (now / self.burst + 1) * self.burst))
    }

    /// What is written now that the server has committed.
    pub fn committed(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.uncommitted)
    }

    /// A flusher waits for a slot of `cpu`.
    pub fn wait(&mut self, wb: u32, cpu: u16) {
        self.waiters[usize::from(cpu)].push_back(wb);
    }

    /// Who is to have the slot of `cpu` that has become free.
    pub fn next_waiter(&mut self, cpu: u16) -> Option<u32> {
        self.waiters[usize::from(cpu)].pop_front()
    }

    /// Pages in line, or not committed.
    #[cfg(any(test, debug_assertions))]
    pub fn pages(&self) -> u64 {
        self.line
            .iter()
            .chain(&self.uncommitted)
            .map(|request| u64::from(request.pages))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MS;

    fn request(cpu: u16) -> Request {
        Request {
            wb: 0,
            file: 0,
            pages: 1,
            cpu,
        }
    }

    #[test]
    fn worked_example() {
        let mut disk = Device::new(256 << 10, true, 0, 2);
        assert_eq!(disk.largest, 1);
        let mut last = 0;
        while disk.has_room(1) {
            last = disk.submit(request(1), 0);
        }
        assert_eq!(last, 500 * MS);
        assert_eq!(disk.pages(), 32);
        disk.wait(7, 1);
        disk.wait(8, 1);
        assert_eq!(disk.complete().cpu, 1);
        assert!(disk.has_room(1));
        assert_eq!(disk.next_waiter(1), Some(7));
    }

    #[test]
    fn a_server_commits_all_at_once() {
        let mut server = Device::new(256 << 10, true, 1000 * MS, 1);
        let commit = |server: &mut Device, at| server.commits(request(0), at).expect("a server");
        assert_eq!(commit(&mut server, 1300 * MS), Some(2000 * MS));
        assert_eq!(commit(&mut server, 1500 * MS), None);
        assert_eq!(
            (server.pages(), server.committed().len(), server.pages()),
            (2, 2, 0)
        );
        assert!(Device::new(1, true, 0, 1).commits(request(0), 0).is_err());
    }

    #[test]
    fn each_cpu_has_slots_of_its_own() {
        let mut disk = Device::new(256 << 10, true, 0, 2);
        (0..32).for_each(|_| assert!(disk.submit(request(0), 0) > 0));
        assert!(!disk.has_room(0) && disk.has_room(1));
        assert_eq!(disk.next_waiter(0), None);
    }
}
