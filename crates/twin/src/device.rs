// SPDX-License-Identifier: GPL-2.0-only
//! A disk: so many bytes per second, first come first served, and so many requests at a time.
//!
//! Requests of all cgroups queue up in one line; each takes size / bandwidth. A read overtakes the writes that wait, as the kernel's
//! schedulers and its writeback throttling have it, but after two reads a write is next; or reads have a bandwidth
//! and a line of their own, as disks of the lab have. Each CPU has a number of slots in that line: 32 on a disk
//! the lab slows down, 256 otherwise, as virtio has. A flusher takes those of its CPU, and waits when they are taken; who waits is let in
//! one request at a time, in turn. That is what divides a disk evenly between cgroups, whatever they hold. For reads and the filesystem's
//! own writes there is always a slot: writeback is not let have them all.
//!
//! A server that commits, as NFS's, takes pages at that speed too, but they are written, for the kernel, only when it says so, all at once.
//!
//! Example. A disk of 256 KiB/s with requests of a page: 32 in the line take 500 ms. Two flushers in turn get
//! 32 pages a second each.

mod line;

use crate::clock::{Ns, SECOND};
use crate::domain::PAGE;
use line::Line;
use std::collections::VecDeque;

/// Pages the largest bio has: what ext4 maps at once, as pages that were allocated one after the other are one segment.
pub const BIO: u64 = 2048;
/// Slots of a CPU.
const SLOTS: u32 = 256;
/// On a disk that the lab slows down.
const FEW_SLOTS: u32 = 32;

/// What is on its way.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Dirty pages of a file, of whose writeback.
    Pages {
        /// Whose.
        wb: u32,
        /// Which file.
        file: u32,
    },
    /// Pages that a task reads.
    Read(u32),
    /// What the filesystem writes besides, before a task's file is on the disk.
    Commit(u32),
}

/// Pages on the way to the disk, or from it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What they are.
    pub what: What,
    /// How many.
    pub pages: u32,
    /// Whose slot it has: of which CPU.
    pub cpu: u16,
}

impl Request {
    fn has_slot(&self) -> bool {
        matches!(self.what, What::Pages { .. })
    }

    fn is_read(&self) -> bool {
        matches!(self.what, What::Read(_))
    }
}

/// Who waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// The flusher of a writeback.
    Flusher(u32),
    /// A task that writes its own file back.
    Task(u32),
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Device {
    /// Bytes per second.
    bandwidth: u64,
    /// Of reads, if they have a line of their own.
    read_bandwidth: Option<u64>,
    /// Pages the largest request has.
    pub largest: u64,
    line: Line,
    reads: Line,
    /// Free slots, by CPU.
    slots: Vec<u32>,
    /// Who waits for a slot, in turn, by CPU.
    waiters: Vec<VecDeque<Waiter>>,
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
            read_bandwidth: None,
            line: Line::default(),
            reads: Line::default(),
            slots: vec![slots; cpus as usize],
            waiters: vec![VecDeque::new(); cpus as usize],
            written: 0,
            burst,
            uncommitted: Vec::new(),
        }
    }

    /// Gives reads a line of their own, of `bandwidth` bytes per second.
    pub fn reads_apart(&mut self, bandwidth: Option<u64>) {
        self.read_bandwidth = bandwidth;
    }

    /// Whether one more request may be put in line from `cpu`.
    pub fn has_room(&self, cpu: u16) -> bool {
        self.slots[usize::from(cpu)] > 0
    }

    /// Puts a request in line and says when it will be complete, if no read overtakes it.
    pub fn submit(&mut self, request: Request, now: Ns) -> Ns {
        if request.has_slot() {
            self.slots[usize::from(request.cpu)] -= 1;
        }
        let (line, bandwidth) = match self.read_bandwidth {
            Some(bandwidth) if request.is_read() => (&mut self.reads, bandwidth),
            _ => (&mut self.line, self.bandwidth),
        };
        let bytes = u128::from(u64::from(request.pages) * PAGE);
        let time = (bytes * u128::from(SECOND)).div_ceil(u128::from(bandwidth)) as Ns;
        line.insert(request, time, now)
    }

    /// What is complete at `now`, its slot free; or when something will be.
    pub fn complete(&mut self, now: Ns) -> Result<Request, Ns> {
        let line = if self.reads.due() < self.line.due() {
            &mut self.reads
        } else {
            &mut self.line
        };
        let due = line.due();
        let request = (due <= now).then(|| line.pop()).flatten().ok_or(due)?;
        if !request.is_read() {
            self.written += u64::from(request.pages) * PAGE;
        }
        if request.has_slot() {
            self.slots[usize::from(request.cpu)] += 1;
        }
        Ok(request)
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

    /// Somebody waits for a slot of `cpu`.
    pub fn wait(&mut self, waiter: Waiter, cpu: u16) {
        self.waiters[usize::from(cpu)].push_back(waiter);
    }

    /// Who is to have the slot of `cpu` that has become free.
    pub fn next_waiter(&mut self, cpu: u16) -> Option<Waiter> {
        self.waiters[usize::from(cpu)].pop_front()
    }

    /// Dirty pages in line, or not committed.
    #[cfg(any(test, debug_assertions))]
    pub fn pages(&self) -> u64 {
        self.line
            .all()
            .chain(&self.uncommitted)
            .filter(|request| request.has_slot())
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
            what: What::Pages { wb: 0, file: 0 },
            pages: 1,
            cpu,
        }
    }

    fn read(task: u32) -> Request {
        Request {
            what: What::Read(task),
            ..request(0)
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
        disk.wait(Waiter::Flusher(7), 1);
        disk.wait(Waiter::Task(8), 1);
        let first = last / 32;
        assert_eq!(disk.complete(first - 1).err(), Some(first));
        assert_eq!(
            disk.complete(first).map(|request| request.cpu).ok(),
            Some(1)
        );
        assert!(disk.has_room(1));
        assert_eq!(disk.next_waiter(1), Some(Waiter::Flusher(7)));
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

    /// A page takes 10 ms. Three writes are in line when three reads come: the first write is under way, two reads overtake the
    /// others, the third comes after the next write.
    #[test]
    fn reads_overtake_but_starve_nobody() {
        let mut disk = Device::new(PAGE * 100, true, 0, 1);
        (0..3).for_each(|_| assert!(disk.submit(request(0), 0) > 0));
        let dues: Vec<Ns> = (0..3).map(|task| disk.submit(read(task), 0)).collect();
        assert_eq!(dues, [20 * MS, 30 * MS, 50 * MS]);
        let kinds: Vec<bool> = (1..=6)
            .map(|at| disk.complete(at * 10 * MS).expect("in time").is_read())
            .collect();
        assert_eq!(kinds, [false, true, true, false, true, false]);
        assert_eq!(
            (disk.written, disk.complete(SECOND).err()),
            (3 * PAGE, Some(Ns::MAX))
        );
    }

    #[test]
    fn reads_apart_wait_for_no_write() {
        let mut disk = Device::new(PAGE * 100, true, 0, 1);
        disk.reads_apart(Some(PAGE * 1000));
        assert_eq!(disk.submit(request(0), 0), 10 * MS);
        assert_eq!(
            (disk.submit(read(1), 0), disk.submit(read(2), 0)),
            (MS, 2 * MS)
        );
        assert!(disk.complete(2 * MS).expect("the first read").is_read());
        assert!(disk.complete(2 * MS).expect("the second").is_read());
        assert_eq!(disk.complete(2 * MS).err(), Some(10 * MS));
    }
}
