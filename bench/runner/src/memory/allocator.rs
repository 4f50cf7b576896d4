// SPDX-License-Identifier: GPL-2.0-only
//! A job that allocates: maps memory, touches it page by page, unmaps it, and does so again.
//!
//! A first touch is a page fault, in which the kernel takes a free page, or reclaims one first. Each
//! is timed alone, and so is each mapping, from mmap(2) to its last first touch. `churn` then goes
//! through the mapping again: what was swapped out meanwhile is read back, and checked.
//!
//! The loop allocates nothing but what it measures, and the process is locked in memory, so that
//! it does not wait for pages of its own program.
//!
//! With a rate, mappings begin at regular intervals. One that begins late, because the one before
//! took longer, is not made up for by a shorter interval.

use super::histogram::Histogram;
use super::region::{PAGE, unwritten_word};
use crate::system::to_nanoseconds;
use anyhow::{Context, Result};
use nix::sys::mman::{self, MapFlags, MlockAllFlags, MmapAdvise, ProtFlags};
use scenario::model::{JobMemory, Pattern};
use scenario::rundir::Allocations;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Orders of the thread that waits for them to the one that allocates.
#[derive(Default)]
pub struct Orders {
    /// Number of times that counting was begun anew.
    pub marks: AtomicU64,
    /// Set when it is over.
    pub stop: AtomicBool,
}

/// Work done since the last mark.
pub struct AllocatorResults {
    /// As the scenario's figures want it.
    pub allocations: Allocations,
    /// Pages touched, each time counted.
    pub touched: u64,
    /// Pages that did not hold what was written to them.
    pub corrupt: u64,
}

/// The loop's state.
pub struct Allocator<'a> {
    memory: &'a JobMemory,
    orders: &'a Orders,
    /// The last mark that was seen.
    mark: u64,
    fault: Histogram,
    map: Histogram,
    worst: u64,
    touched: u64,
    corrupt: u64,
}

impl<'a> Allocator<'a> {
    /// Locks what the process has in memory; mappings made later are not locked.
    ///
    /// # Errors
    /// It takes CAP_IPC_LOCK, or a larger RLIMIT_MEMLOCK.
    pub fn new(memory: &'a JobMemory, orders: &'a Orders) -> Result<Allocator<'a>> {
        let allocator = Allocator::new_unlocked(memory, orders);
        mman::mlockall(MlockAllFlags::MCL_CURRENT)
            .context("locking the program in memory, so that it measures others' pages only")?;
        Ok(allocator)
    }

    fn new_unlocked(memory: &'a JobMemory, orders: &'a Orders) -> Allocator<'a> {
        Allocator {
            memory,
            orders,
            mark: 0,
            fault: Histogram::new(),
            map: Histogram::new(),
            worst: 0,
            touched: 0,
            corrupt: 0,
        }
    }

    /// Allocates until told to stop.
    ///
    /// # Errors
    /// The kernel maps no more memory.
    pub fn run(mut self) -> Result<AllocatorResults> {
        let mut next = Instant::now();
        while !self.is_over() {
            self.map_and_touch()?;
            let Some(rate) = self.memory.rate else {
                continue;
            };
            next = Instant::now().max(next + Duration::from_secs_f64(1.0 / rate as f64));
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(AllocatorResults {
            allocations: Allocations {
                pages: self.fault.times_added(),
                fault: self.fault.to_spread(),
                map: self.map.to_spread(),
                worst_fault_ns: self.worst,
            },
            touched: self.touched,
            corrupt: self.corrupt,
        })
    }

    fn is_over(&self) -> bool {
        self.orders.stop.load(Ordering::Relaxed)
    }

    /// Begins counting anew if that was ordered.
    fn take_orders(&mut self) {
        let mark = self.orders.marks.load(Ordering::Relaxed);
        if mark != self.mark {
            self.mark = mark;
            self.fault.clear();
            self.map.clear();
            (self.touched, self.corrupt) = (0, 0);
        }
    }

    fn map_and_touch(&mut self) -> Result<()> {
        self.take_orders();
        let (mark, begin) = (self.mark, Instant::now());
        let mapping = Mapping::new(self.memory)?;
        let mut before = Instant::now();
        for page in 0..mapping.pages {
            mapping
                .first_word(page)
                .store(unwritten_word(page, 0), Ordering::Relaxed);
            let now = Instant::now();
            let ns = to_nanoseconds(now - before);
            before = now;
            self.take_orders();
            self.fault.add(ns);
            self.worst = self.worst.max(ns);
            self.touched += 1;
            if self.is_over() {
                return Ok(());
            }
        }
        if mark == self.mark {
            self.map.add(to_nanoseconds(before - begin));
        }
        if self.memory.pattern != Pattern::Churn {
            return Ok(());
        }
        for page in 0..mapping.pages {
            let found = mapping
                .first_word(page)
                .swap(!unwritten_word(page, 0), Ordering::Relaxed);
            self.take_orders();
            self.touched += 1;
            self.corrupt += u64::from(found != unwritten_word(page, 0));
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }
}

/// Unmapped when it is dropped.
struct Mapping {
    base: NonNull<c_void>,
    length: NonZeroUsize,
    pages: usize,
}

impl Mapping {
    fn new(memory: &JobMemory) -> Result<Mapping> {
        let pages = usize::try_from(memory.size_bytes)? / PAGE;
        let length =
            NonZeroUsize::new(pages * PAGE).context("expected a size of at least one page")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let base = unsafe { mman::mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }
            .context("mapping memory")?;
        let mapping = Mapping {
            base,
            length,
            pages,
        };
        let advice = match memory.huge_pages {
            true => MmapAdvise::MADV_HUGEPAGE,
            false => MmapAdvise::MADV_NOHUGEPAGE,
        };
        // SAFETY: our own mapping, and the advice changes no content.
        unsafe { mman::madvise(base, length.get(), advice) }.context("advising on huge pages")?;
        Ok(mapping)
    }

    /// The first word of a page.
    fn first_word(&self, page: usize) -> &AtomicU64 {
        assert!(page < self.pages);
        // SAFETY: within the mapping, aligned, and used as an atomic only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u8>().add(page * PAGE).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which nothing is used any more. It can only fail if that were
        // not so.
        let _ = unsafe { mman::munmap(self.base, self.length.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::model::Backing;

    fn memory(pattern: Pattern, rate: Option<u64>) -> JobMemory {
        JobMemory {
            size_bytes: 1 << 20,
            backing: Backing::Anonymous,
            pattern,
            threads: 1,
            rate,
            writes_pct: 0,
            huge_pages: false,
        }
    }

    /// Runs the loop for `time`, a mark at its middle, without the lock that tests may not have.
    fn ran(memory: &JobMemory, time: Duration) -> AllocatorResults {
        let orders = Orders::default();
        std::thread::scope(|scope| {
            let allocator = Allocator::new_unlocked(memory, &orders);
            let running = scope.spawn(move || allocator.run());
            std::thread::sleep(time / 2);
            orders.marks.store(1, Ordering::Relaxed);
            std::thread::sleep(time / 2);
            orders.stop.store(true, Ordering::Relaxed);
            running.join().expect("ended").expect("memory")
        })
    }

    #[test]
    fn churn_touches_each_page_twice_and_finds_what_it_wrote() {
        let done = ran(&memory(Pattern::Churn, None), Duration::from_millis(200));
        let pages = done.allocations.pages;
        assert!(pages > 512, "{pages} pages in 100 ms");
        let off = done.touched.abs_diff(2 * pages);
        assert!(off <= 256, "{} touches of {pages} pages", done.touched);
        assert_eq!(done.corrupt, 0);
        let map = done.allocations.map.expect("some mappings");
        let fault = done.allocations.fault.expect("some faults");
        // Medians: on a busy machine the loop may lose its CPU for longer than a mapping takes.
        assert!(map.p50_ns > 100 * fault.p50_ns, "256 faults are a mapping");
        assert!(done.allocations.worst_fault_ns >= fault.max_ns);
    }

    #[test]
    fn a_rate_is_kept() {
        let done = ran(&memory(Pattern::Fault, Some(20)), Duration::from_secs(1));
        let pages = done.allocations.pages;
        // At most: on a busy machine a second may hold fewer.
        assert!((1..=11 * 256).contains(&pages), "{pages}");
        assert_eq!(done.touched, pages);
    }
}
