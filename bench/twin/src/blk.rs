// SPDX-License-Identifier: GPL-2.0-only
//! A disk: so many bytes per second, first come first served, and so many requests at a time.
//!
//! Requests of all cgroups queue up in one line; each takes size / bandwidth. A read overtakes the
//! writes that wait, as the kernel's schedulers and its writeback throttling have it, but after two
//! reads a write is next; or reads have a bandwidth and a line of their own, as disks of the lab
//! have. Each CPU has a number of slots in that line: 32 on a disk the lab slows down, 256
//! otherwise, as virtio has; or a disk has a queue of its own for all CPUs, as SATA's. A flusher
//! takes those of its CPU, and waits when they are taken; who waits is woken when several are free
//! again (sbitmap.rs). That is what divides a disk between cgroups, whatever they hold. Of all CPUs
//! together the kernel's writeback throttling (`blk-wbt.c`, as it is without readers) lets in three
//! quarters of the queue: 192 of virtio's 256, however many CPUs have as many each. That leaves room
//! for what it does not count, reads, the journal's writes and flushes; a disk that the lab slows
//! down has fewer slots than that, and there these wait for one with the flushers.
//!
//! Where `io.weight` counts, each writeback has those slots to itself, and the line is in the order
//! that iocost.rs gives.
//!
//! A server that commits, as NFS's, takes pages at that speed too, but they are written, for the
//! kernel, only when it says so, all at once. How long a request takes may vary (vary.rs). A disk
//! may stand still for a while, as one does that collects garbage or retries: everything in line is
//! late by that. And each so many-th request may fail: its time is spent, its pages count as
//! written for the throttle and as clean, as the kernel has it, and are lost.
//!
//! How requests come here, and what happens when they are complete: path.rs. `io.max`: throttle.rs.
//!
//! Example. A disk of 256 KiB/s with requests of a page: 32 in the line take 500 ms.

mod iocost;
mod medium;
mod path;
mod queue;
mod request;
mod sbitmap;
#[cfg(test)]
mod tests;
mod throttle;
mod vary;

pub use iocost::Weights;
pub use medium::{Medium, sector_of};
pub use request::{Request, Waiter, What};
pub use throttle::ThrotlGrp;
pub use vary::Vary;

use crate::mm::Mm;
use crate::sim::clock::{Ns, SECOND};
use queue::RequestQueue;
use std::collections::{BTreeMap, VecDeque};

/// Pages the largest bio has: what ext4 maps at once, as pages that were allocated one after the
/// other are one segment.
pub const BIO: u64 = 2048;
/// Slots of a CPU.
const SLOTS: u32 = 256;
/// On a disk that the lab slows down. The kernel's throttling knows only of those it had before.
const FEW_SLOTS: u32 = 32;

/// CPU time of a request, and of a bio besides.
pub const REQUEST: Ns = 2_700;
pub const BIO_COST: Ns = 3_400;

/// The host's disks.
#[derive(Clone, Debug)]
pub struct Blk {
    mm: Mm,
    /// Disks in file order.
    pub devices: Vec<Device>,
}

above!(Blk.mm: Mm, devices);

/// Properties of a disk besides its speed.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// The disk's name in events.
    pub name: String,
    /// Bytes read per second, if reads have a line of their own.
    pub read_bandwidth: Option<u64>,
    /// Commits this often; 0 is no server.
    pub burst: Ns,
    /// Stands still for so long, so often; 0 never.
    pub stalls: (Ns, Ns),
    /// Each so many-th request fails; 0 none.
    pub fails: u64,
    /// CPU time that submitting takes besides the kernel's own, in nanoseconds per 1,024 pages.
    pub submit_1024: Ns,
    /// Requests it takes at a time, if from all CPUs together.
    pub queue: Option<u16>,
    /// Not all of one size take as long.
    pub vary: Option<Vary>,
    /// Percent of the host's limit that it may hold at most, whatever others hold.
    pub strict: Option<u64>,
    /// Latency and seeks; reads and writes then share the line.
    pub medium: Option<Medium>,
    /// Weights, if `io.weight` divides the disk.
    pub weights: Option<Weights>,
    /// `io.max`, by cgroup and whether it is for reads.
    pub limits: BTreeMap<(usize, bool), ThrotlGrp>,
}

/// A disk and the requests in its queue.
#[derive(Clone, Debug)]
pub struct Device {
    /// Bytes per second.
    bandwidth: u64,
    traits: Traits,
    /// Pages the largest request has.
    pub largest: u64,
    queue: RequestQueue,
    reads: RequestQueue,
    /// Requests with a slot, and how many there may be in all hctxs together.
    inflight: u32,
    wb_normal: u32,
    /// Slots of a hctx, and of those seen so far who has how many left.
    depth: u32,
    tags: Vec<u32>,
    /// Slots that became free since a flusher was woken.
    completion_cnt: Vec<u32>,
    /// Waiters for a slot, in turn, by hctx.
    waiters: Vec<VecDeque<Waiter>>,
    /// Waiters while all hctxs together have no room, in turn.
    outside: VecDeque<(u32, Waiter)>,
    /// CPU time that the flusher woken first last had used.
    clock: Ns,
    /// Bytes written so far.
    pub written: u64,
    /// Requests that it has, since when, and what all took together until then.
    has: u64,
    has_since: Ns,
    queued: Ns,
    /// Requests so far.
    done: u64,
    /// Taken, not committed.
    uncommitted: Vec<Request>,
}

/// A request that is complete.
#[derive(Clone, Copy, Debug)]
pub struct CompletedRequest {
    /// The request that has ended.
    pub request: Request,
    /// `true` if the request failed.
    pub failed: bool,
    /// Time at which the next in its line will be complete.
    pub next: Option<Ns>,
}

impl Device {
    /// Of `bandwidth` bytes per second; `throttled` ones are given a small queue, as the lab does.
    pub fn new(bandwidth: u64, throttled: bool, traits: Traits) -> Device {
        let (kib, depth) = if throttled {
            ((bandwidth / 64 / 1024).clamp(4, 1280), FEW_SLOTS)
        } else {
            (1280, SLOTS)
        };
        let wb_normal = match traits.weights {
            // That switches the throttling off.
            Some(_) => u32::MAX,
            None => traits.queue.map_or(SLOTS, u32::from) * 3 / 4,
        };
        let queue = RequestQueue::new(traits.medium.unwrap_or_default());
        let depth = if traits.queue.is_some() {
            wb_normal
        } else {
            depth
        };
        Device {
            bandwidth,
            traits,
            largest: kib / 4,
            queue,
            reads: RequestQueue::default(),
            inflight: 0,
            wb_normal,
            depth,
            tags: Vec::new(),
            completion_cnt: Vec::new(),
            waiters: Vec::new(),
            outside: VecDeque::new(),
            clock: 0,
            written: 0,
            has: 0,
            has_since: 0,
            queued: 0,
            done: 0,
            uncommitted: Vec::new(),
        }
    }

    /// The disk's name in events.
    pub fn name(&self) -> &str {
        &self.traits.name
    }

    /// Percent of the host's limit that it is held to strictly.
    pub fn strict_percent(&self) -> Option<u64> {
        self.traits.strict
    }

    /// In which hctx a writeback's requests from a CPU are.
    pub fn hctx_of(&self, wb: usize, cpu: u16) -> u32 {
        match self.traits.weights {
            Some(_) => wb as u32,
            None => cpu.into(),
        }
    }

    /// `true` if one more request of a flusher may be put in line.
    pub fn has_room(&self, hctx: u32) -> bool {
        self.inflight < self.wb_normal && self.has_tag(hctx)
    }

    fn has_tag(&self, hctx: u32) -> bool {
        self.tags.get(hctx as usize).is_none_or(|left| *left > 0)
    }

    /// `true` if a request may be put in line.
    pub fn may_queue(&self, request: &Request) -> bool {
        match request.is_wbt_tracked() {
            true => self.has_room(request.hctx),
            false => !self.takes_tag(request) || self.has_tag(request.hctx),
        }
    }

    /// `true` if it has one of the slots that flushers wait for.
    pub fn takes_tag(&self, request: &Request) -> bool {
        let is_short = self.traits.queue.is_none() && self.traits.weights.is_none();
        let swaps_in = matches!(request.what, What::SwapIn(_));
        request.is_wbt_tracked() || (is_short && self.depth == FEW_SLOTS && !swaps_in)
    }

    fn hctx_mut(&mut self, hctx: u32) -> (&mut u32, &mut VecDeque<Waiter>) {
        let at = hctx as usize;
        if self.tags.len() <= at {
            self.tags.resize(at + 1, self.depth);
            self.waiters.resize(at + 1, VecDeque::new());
            self.completion_cnt.resize(at + 1, 0);
        }
        (&mut self.tags[at], &mut self.waiters[at])
    }

    /// CPU time that submitting a write of so many pages takes besides the kernel's own.
    pub fn submit_cost(&self, pages: u64) -> Ns {
        (pages * self.traits.submit_1024).div_ceil(1024)
    }

    /// Sum of the times of requests until `now`, from when they were submitted.
    pub fn time_in_queue(&self, now: Ns) -> Ns {
        self.queued + self.has * now.saturating_sub(self.has_since)
    }

    /// Puts a request in line. Returns when it will be complete if it is the first there.
    pub fn queue_request(&mut self, request: Request, now: Ns) -> Option<Ns> {
        self.queued = self.time_in_queue(now);
        (self.has, self.has_since) = (self.has + 1, now);
        self.inflight += u32::from(request.is_wbt_tracked());
        if self.takes_tag(&request) {
            *self.hctx_mut(request.hctx).0 -= 1;
        }
        let (line, bandwidth) = match self.traits.read_bandwidth {
            Some(bandwidth) if request.is_read() => match self.traits.medium {
                Some(_) => (&mut self.queue, bandwidth),
                None => (&mut self.reads, bandwidth),
            },
            _ => (&mut self.queue, self.bandwidth),
        };
        let bytes = u128::from(request.bytes());
        let time = (bytes * u128::from(SECOND)).div_ceil(u128::from(bandwidth)) as Ns;
        let weights = self.traits.weights.as_mut();
        let tag = weights.map(|weights| weights.queue_request(request.cgroup as usize, time));
        let vary = self.traits.vary.as_mut();
        let time = vary.map_or(time, |vary| vary.vary_time(time));
        line.insert(request, time, tag, now)
    }

    /// Takes out what is complete at `now`, its slot free; or tells when something will be.
    pub fn complete_first(&mut self, now: Ns) -> Result<CompletedRequest, Ns> {
        let line = if self.reads.first_due() < self.queue.first_due() {
            &mut self.reads
        } else {
            &mut self.queue
        };
        let due = line.first_due();
        let (request, tag) = (due <= now).then(|| line.pop()).flatten().ok_or(due)?;
        let next = Some(line.first_due()).filter(|due| *due < Ns::MAX);
        self.queued = self.time_in_queue(now);
        (self.has, self.has_since) = (self.has - 1, now);
        if let Some(weights) = &mut self.traits.weights {
            weights.complete_request(request.cgroup as usize, tag);
        }
        self.done += 1;
        let failed = self.traits.fails > 0 && self.done % self.traits.fails == 0;
        if !request.is_read() && !failed {
            self.written += request.bytes();
        }
        self.inflight -= u32::from(request.is_wbt_tracked());
        if self.takes_tag(&request) {
            let at = request.hctx as usize;
            self.tags[at] += 1;
            self.completion_cnt[at] += 1;
        }
        Ok(CompletedRequest {
            request,
            failed,
            next,
        })
    }

    /// Stands still for a while; returns when it does so again, none if it never does.
    pub fn delay_requests(&mut self, now: Ns) -> Option<Ns> {
        let (length, every) = self.traits.stalls;
        if every == 0 {
            return None;
        }
        self.queue.delay_requests(length, now);
        self.reads.delay_requests(length, now);
        Some(now.saturating_add(every))
    }

    /// A request is not written before the server commits: when it does, if that is not scheduled
    /// yet. Gives it back if there is no server.
    pub fn hold_uncommitted(&mut self, request: Request, now: Ns) -> Result<Option<Ns>, Request> {
        let burst = self.traits.burst;
        if burst == 0 {
            return Err(request);
        }
        self.uncommitted.push(request);
        let is_first = self.uncommitted.len() == 1;
        Ok(is_first.then(|| (now / burst + 1) * burst))
    }

    /// Takes the requests that are written now that the server has committed.
    pub fn take_committed(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.uncommitted)
    }

    /// A flusher or task waits for a slot.
    pub fn add_slot_waiter(&mut self, waiter: Waiter, hctx: u32) {
        let is_throttled = match &waiter {
            Waiter::Request(request) => request.is_wbt_tracked(),
            _ => true,
        };
        if self.inflight < self.wb_normal || !is_throttled {
            self.hctx_mut(hctx).1.push_back(waiter);
        } else {
            self.outside.push_back((hctx, waiter));
        }
    }

    /// `io.max` of a cgroup for reads, or for writes; none if it has none.
    pub fn throttle_of(&mut self, cgroup: usize, is_read: bool) -> Option<&mut ThrotlGrp> {
        self.traits.limits.get_mut(&(cgroup, is_read))
    }

    /// `true` if a cgroup has an `io.max` for reads, or for writes.
    pub fn is_limited(&self, cgroup: usize, is_read: bool) -> bool {
        self.traits.limits.contains_key(&(cgroup, is_read))
    }

    /// `true` if any cgroup has an `io.max`.
    pub fn has_limits(&self) -> bool {
        !self.traits.limits.is_empty()
    }

    /// Pages in flight: in line, not committed, or waiting to get there.
    #[cfg(any(test, debug_assertions))]
    pub fn pages_in_flight(&self) -> u64 {
        let waiting = self
            .waiters
            .iter()
            .flatten()
            .chain(self.outside.iter().map(|(_, waiter)| waiter))
            .filter_map(|waiter| match waiter {
                Waiter::Request(request) => Some(request),
                _ => None,
            });
        self.queue
            .all_requests()
            .chain(&self.uncommitted)
            .chain(waiting)
            .chain(self.traits.limits.values().flat_map(ThrotlGrp::all_waiting))
            .filter(|request| matches!(request.what, What::Pages { .. }))
            .map(|request| u64::from(request.pages))
            .sum()
    }
}
