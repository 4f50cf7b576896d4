// SPDX-License-Identifier: GPL-2.0-only
//! A task that allocates: maps memory, touches it page by page and unmaps it, over and over, as the
//! lab's `memory` jobs of the patterns `fault` and `churn` do; `churn` goes through it again first.
//!
//! A first touch takes a free page, or the task reclaims some before it has one ([`super::reclaim`]).
//! A touch of a page that was swapped out reads it back, with up to seven that follow it on the swap
//! disk (`vm.page-cluster`), which takes free pages, too.
//!
//! Example. 512 pages at 1.7 us each are a mapping in 0.87 ms. Find the free list empty once, and
//! wait for three writes of 128 KiB to a disk of 64 MB/s: 6 ms more, all in one of 512 faults.

use super::{State, Task, Tasks};
use crate::blk::{Request, What};
use crate::mm::effort::SWAP_CLUSTER_MAX;
use crate::mm::node::ABSENT;
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, TICK};
use crate::task::latency::Latencies;
use scenario::measured::Spread;

/// CPU time of a first touch: 4,300 instructions (2.2 ms for 512 in
/// `docs/experiments/0022-fair-reclaim.md`), two to three of them a nanosecond.
const FAULT: Ns = 1_700;
/// CPU time of a touch of a page that is there: no page fault, and its content is not in a cache.
const TOUCH: Ns = 100;
/// Pages that are read back together.
const CLUSTER: u64 = 8;

/// Work of such a job's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maps {
    /// Pages of a mapping.
    pub pages: u64,
    /// `true` if it goes through each mapping twice.
    pub twice: bool,
    /// Between the beginnings of two mappings, at least.
    pub interval: Option<Ns>,
}

/// Times that something took, with all that figures are made of.
#[derive(Clone, Debug, Default)]
pub struct Times {
    latencies: Latencies,
    sum: f64,
    squares: f64,
}

impl Times {
    fn add(&mut self, ns: Ns, count: u64) {
        self.latencies.add(ns, count);
        self.sum += ns as f64 * count as f64;
        self.squares += (ns as f64).powi(2) * count as f64;
    }

    /// As figures want it; none if there was none.
    pub fn to_spread(&self) -> Option<Spread> {
        let of = &self.latencies;
        let number = of.latencies_counted() as f64;
        let mean_ns = self.sum / number;
        Some(Spread {
            p50_ns: of.per_mille(500)?,
            p90_ns: of.per_mille(900)?,
            p99_ns: of.per_mille(990)?,
            max_ns: of.longest_latency(),
            mean_ns,
            sd_ns: (self.squares / number - mean_ns * mean_ns).max(0.0).sqrt(),
        })
    }
}

/// Counts of what tasks of a job have done.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// First touches, and mappings until the last of these.
    pub fault: Times,
    pub map: Times,
    /// The longest first touch since the job began.
    pub worst: Ns,
    /// Pages touched first, and each time counted.
    pub first: u64,
    pub touched: u64,
    /// For how long it counted.
    pub elapsed: Ns,
}

/// A task's mapping, and the page that it has come to.
#[derive(Clone, Debug)]
pub struct Allocator {
    maps: Maps,
    /// Time from which mappings count.
    counts_from: Ns,
    mapping: Option<u32>,
    /// The next page, and whether it is the second time.
    at: u64,
    again: bool,
    /// Times at which the mapping began, the last touch ended, the next mapping may begin.
    began: Ns,
    last: Ns,
    next: Ns,
}

impl Allocator {
    /// An allocator that has mapped nothing.
    pub fn new(maps: Maps, counts_from: Ns) -> Allocator {
        Allocator {
            maps,
            counts_from,
            mapping: None,
            at: 0,
            again: false,
            began: 0,
            last: 0,
            next: 0,
        }
    }
}

impl Tasks {
    /// Touches memory until something has to be looked at, and schedules what follows.
    pub(super) fn run_allocator(&mut self, index: usize) {
        let now = self.now;
        if now >= self.tasks[index].end {
            return self.end_task(index);
        }
        let Some(mut alloc) = self.tasks[index].alloc.take() else {
            return;
        };
        let goes_on = self.map_or_wait(index, &mut alloc);
        let taken = goes_on
            .then(|| self.touch_pages(index, &mut alloc))
            .flatten();
        self.tasks[index].alloc = Some(alloc);
        if self.tasks[index].state == State::Scarce {
            return self.start_reclaim(index);
        }
        if let Some(time) = taken {
            self.change_task_activity(index, PsiFlags::Running);
            self.tasks[index].state = State::Found;
            let cpu = self.entities[index].cpu;
            let over = self.occupy_cpu(cpu, time);
            self.schedule_event(over, SimEvent::Task(index as u32));
        }
    }

    /// Maps memory, unless there is a mapping; false if it waits until it may.
    fn map_or_wait(&mut self, index: usize, alloc: &mut Allocator) -> bool {
        let (now, home) = (self.now, self.tasks[index].home);
        let is_through = alloc.at == alloc.maps.pages && (alloc.again || !alloc.maps.twice);
        if alloc.mapping.is_some() && is_through {
            self.unmap_all(alloc);
        } else if alloc.mapping.is_some() {
            return true;
        }
        if now < alloc.next {
            let until = alloc.next.min(self.tasks[index].end);
            self.change_task_activity(index, PsiFlags::Nothing);
            self.tasks[index].state = State::Idle;
            self.schedule_event(until, SimEvent::Task(index as u32));
            return false;
        }
        let Some(node) = &mut self.node else {
            return false;
        };
        alloc.mapping = Some(node.add_mapping(home, alloc.maps.pages));
        (alloc.at, alloc.again) = (0, false);
        (alloc.began, alloc.last) = (now, now);
        // One that begins late is not made up for.
        let interval = alloc.maps.interval.unwrap_or(0);
        alloc.next = now.max(alloc.next) + interval;
        true
    }

    /// Touches pages as far as it can; the CPU time that takes, none if it does something else.
    fn touch_pages(&mut self, index: usize, alloc: &mut Allocator) -> Option<Ns> {
        let mapping = alloc.mapping?;
        let cpu = usize::from(self.entities[index].cpu);
        let start = self.now.max(self.cpus[cpu].free_at);
        let each = if alloc.again { TOUCH } else { FAULT };
        let within = (self.slice_left(index).min(TICK) / each).max(1);
        let left = (alloc.maps.pages - alloc.at).min(within);
        let count = if alloc.again {
            let count = self
                .node
                .as_mut()?
                .touch_mapped_pages(mapping, alloc.at, left);
            if count == 0 {
                self.begin_swap_in(index, alloc);
                return None;
            }
            count
        } else {
            // Little by little where kswapd is about to be woken.
            let plenty = self.zone.free.saturating_sub(self.zone.marks.low);
            let count = left
                .min(plenty.max(SWAP_CLUSTER_MAX))
                .min(self.zone.pages_above_min());
            if count == 0 {
                self.tasks[index].state = State::Scarce;
                return None;
            }
            self.fault_in(mapping, alloc.at, count);
            self.count_faults(index, alloc, start, count);
            count
        };
        alloc.at += count;
        if start >= alloc.counts_from {
            let job = self.tasks[index].job;
            self.jobs[job].mapped.touched += count;
        }
        if alloc.at == alloc.maps.pages && alloc.maps.twice && !alloc.again {
            (alloc.at, alloc.again) = (0, true);
        }
        Some(count * each)
    }

    /// `count` first touches, one after the other from `start` on.
    fn count_faults(&mut self, index: usize, alloc: &mut Allocator, start: Ns, count: u64) {
        let job = self.tasks[index].job;
        let mapped = &mut self.jobs[job].mapped;
        // The first has waited for whatever came between.
        let first = start + FAULT - alloc.last;
        mapped.worst = mapped.worst.max(first);
        alloc.last = start + count * FAULT;
        if start >= alloc.counts_from {
            mapped.fault.add(first, 1);
            mapped.first += count;
            if count > 1 {
                mapped.fault.add(FAULT, count - 1);
            }
        }
        let is_last = alloc.at + count == alloc.maps.pages;
        if is_last && alloc.began >= alloc.counts_from {
            mapped.map.add(alloc.last - alloc.began, 1);
        }
    }

    /// The next page is on the swap disk: it is read, with some that follow it there.
    fn begin_swap_in(&mut self, index: usize, alloc: &Allocator) {
        let room = self.zone.pages_above_min();
        let Some((mapping, node)) = alloc.mapping.zip(self.node.as_ref()) else {
            return;
        };
        if room == 0 {
            self.tasks[index].state = State::Scarce;
            return;
        }
        let Some(swap) = &node.swap else { return };
        let (device, pages) = (
            swap.device,
            node.leading_swapped_pages(mapping, alloc.at, CLUSTER.min(room)),
        );
        self.swap_in(mapping, alloc.at, pages);
        let request = Request {
            what: What::SwapIn(index as u32),
            pages: pages as u32,
            sector: 0,
            hctx: 0,
            cgroup: 0,
        };
        self.submit_request(device, request);
        self.change_task_activity(index, PsiFlags::Iowait);
        self.tasks[index].state = State::SwappingIn;
    }

    /// Pages that a task has read back are there.
    pub(super) fn end_swap_in(&mut self, index: usize) {
        if self.tasks[index].state == State::SwappingIn {
            self.tasks[index].state = State::Found;
            self.continue_task(index);
        }
    }

    /// Pages that a task has mapped and touched.
    pub(super) fn pages_mapped_by(&self, task: &Task) -> u64 {
        let mapping = task.alloc.as_ref().and_then(|alloc| alloc.mapping);
        let Some((mapping, node)) = mapping.zip(self.node.as_ref()) else {
            return 0;
        };
        let pages = &node.mappings[mapping as usize].pages;
        pages.iter().filter(|pfn| **pfn != ABSENT).count() as u64
    }

    /// Unmaps what a task has mapped, if it has.
    pub(super) fn unmap_all(&mut self, alloc: &mut Allocator) {
        if let Some(mapping) = alloc.mapping.take() {
            self.drop_mapping(mapping);
        }
    }
}
