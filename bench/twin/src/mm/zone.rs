// SPDX-License-Identifier: GPL-2.0-only
//! Memory: what of it is free, whose pages are taken when little is, and who waits for that.
//!
//! Each page is free, in the page cache, or a task's own (anonymous, which stays; where jobs map
//! memory there is swap, [`super::node`]). A page of the cache that is neither dirty nor in flight
//! is *clean* and can be taken. Each cgroup has its pages in a line in the order they came
//! ([`super::lru`]); the search for clean ones (reclaim.rs) begins at the old end and goes from cgroup to
//! cgroup, at each for an eighth of what it has. A page that is found dirty goes to the end of the
//! line. `memory.min` protects a cgroup that has no more than that.
//!
//! Three marks, as `mm/page_alloc.c` and `mm/khugepaged.c` set them, say when:
//!
//! - below *low* kswapd is woken; it takes pages until *high* of them are free (`vmscan.rs`);
//! - *min* is kept: a task that would go below looks for 32 pages itself (direct reclaim,
//!   task/reclaim.rs). If there is no clean page it waits a tick, twice, and looks again
//!   (`VMSCAN_THROTTLE_NOPROGRESS`); after 16 times in vain the task that holds most is killed.
//!
//! Where a cgroup has only dirty pages, all flushers are told to write what there is. Who looks or
//! waits here is stalled on memory, kswapd too: that is what pressure of memory counts
//! ([`crate::sched::psi`]).
//!
//! Dirtyable is what is free beyond *high*, which the kernel keeps in reserve, and the cache: it
//! shrinks as anonymous memory grows, and with it all limits that are a part of it.
//!
//! Example. 2 GiB with two zones: min 44 MiB (11 blocks of 2 MiB for each zone, for huge pages),
//! low 55, high 66. A task fills 300 MiB at 4 GB/s: once 55 are left kswapd begins; it takes a page
//! a microsecond, as many as it fills, and stays some 10 MiB ahead of the task as long as there are
//! clean ones.

use super::Mm;
use super::domain::PAGE;
use super::effort::MAX_RECLAIM_RETRIES;
use super::scan_control::Reclaimer;
use super::vmstat::Reclaimed;
use crate::sched::Kthread;
use crate::sim::SimEvent;
use crate::sim::clock::Ns;

/// Levels of free pages that are low.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watermarks {
    /// Tasks reclaim for themselves below this (`WMARK_MIN`).
    pub min: u64,
    /// kswapd is woken.
    pub low: u64,
    /// It has done enough; as much is never dirtyable.
    pub high: u64,
}

impl Watermarks {
    /// Of a host with so many bytes.
    pub fn new(memory: u64) -> Watermarks {
        /// Pages of a huge page.
        const BLOCK: u64 = 512;
        /// One per kind of allocation and what each may fall back to, and two.
        const BLOCKS: u64 = 3 * 3 + 2;
        let pages = memory / PAGE;
        // DMA, DMA32, and what is above 4 GiB, which begins where devices have taken one of them.
        let zones = if memory > 3 << 30 { 3 } else { 2 };
        let usual = (memory / 1024 * 16).isqrt() * 1024 / PAGE;
        let for_huge_pages = (BLOCK * BLOCKS * zones).min(pages / 20);
        let min = usual.clamp(32, 65_536).max(for_huge_pages).min(pages / 8);
        let step = (min / 4).max(pages / 1000);
        Watermarks {
            min,
            low: min + step,
            high: min + 2 * step,
        }
    }
}

/// From being woken to running, and what a look takes besides its pages.
pub const KSWAPD_WAKE: Ns = 20_000;

/// kswapd: its CPU and consecutive failed scans.
#[derive(Clone, Debug, Default)]
pub struct Kswapd {
    /// On which CPU.
    pub thread: Kthread,
    /// `true` if it runs, or is about to.
    pub awake: bool,
    /// Scans that found no clean page.
    pub kswapd_failures: u32,
    /// At work, where pages are kept one by one, and how often it has slept.
    pub reclaimer: Option<Box<Reclaimer>>,
    pub naps: u32,
}

/// The host's memory, as far as it is not the kernel's own.
#[derive(Clone, Debug)]
pub struct Zone {
    /// All pages: what the others add up to.
    #[cfg(any(test, debug_assertions))]
    all: u64,
    /// Pages that are free.
    pub free: u64,
    /// Pages in the page cache.
    pub cache: u64,
    /// Levels below which few are free.
    pub marks: Watermarks,
    /// Counters of kswapd and direct reclaim.
    pub reclaimed: Reclaimed,
    /// The cgroup that is looked at next.
    pub hand: usize,
    /// Thread that takes pages before tasks have to.
    pub kswapd: Kswapd,
}

impl Zone {
    /// Of which `dirtyable` pages can be dirty while no task holds any.
    pub fn new(dirtyable: u64, marks: Watermarks) -> Zone {
        let all = dirtyable + marks.high;
        Zone {
            #[cfg(any(test, debug_assertions))]
            all,
            free: all,
            cache: 0,
            marks,
            reclaimed: Reclaimed::default(),
            hand: 0,
            kswapd: Kswapd::default(),
        }
    }

    /// Pages that a task may have without looking for any.
    pub fn pages_above_min(&self) -> u64 {
        self.free.saturating_sub(self.marks.min)
    }

    /// A task has found a clean page: kswapd may, too.
    pub fn reset_kswapd_failures(&mut self) {
        self.kswapd.kswapd_failures = 0;
    }

    /// Pages that can be dirty at all.
    pub fn dirtyable_pages(&self) -> u64 {
        self.free.saturating_sub(self.marks.high) + self.cache
    }
}

impl Mm {
    /// Pages become a task's own, in the cgroup and those above it.
    pub fn charge_anonymous(&mut self, cgroup: usize, pages: u64) {
        self.zone.free -= pages;
        self.change_anonymous_of_path(cgroup, |held| *held += pages);
        self.wake_kswapd_if_low();
    }

    /// Wakes kswapd if few pages are free.
    pub fn wake_kswapd_if_low(&mut self) {
        if self.zone.free >= self.zone.marks.low {
            return;
        }
        let kswapd = &mut self.zone.kswapd;
        if !kswapd.awake && kswapd.kswapd_failures < MAX_RECLAIM_RETRIES {
            kswapd.awake = true;
            self.schedule_after(KSWAPD_WAKE, SimEvent::Kswapd);
        }
    }

    /// And are no more.
    pub fn uncharge_anonymous(&mut self, cgroup: usize, pages: u64) {
        self.zone.free += pages;
        self.change_anonymous_of_path(cgroup, |held| *held -= pages);
    }

    fn change_anonymous_of_path(&mut self, cgroup: usize, change: impl Fn(&mut u64)) {
        let mut next = Some(cgroup);
        while let Some(at) = next {
            change(&mut self.cgroups[at].anonymous);
            next = self.cgroups[at].parent;
        }
    }

    /// `pages` of a file from `start` on are in the cache, as far as there is room and they have
    /// not been. A cgroup that has more than its `memory.max` or `memory.high` then gives up old
    /// ones, which takes no time here. Returns how many came.
    pub fn add_to_page_cache(&mut self, file: usize, start: u64, pages: u64) -> u64 {
        if self.node.is_some() {
            self.add_single_pages_to_cache(file, start, pages);
            return 0;
        }
        let index = self.files[file].memcg as usize;
        let (cached, cgroup) = (&mut self.files[file], &mut self.cgroups[index]);
        if cached.cached == cached.cache.size() {
            return 0;
        }
        let (line, last, whose) = (
            &mut cgroup.lruvec,
            &mut cached.run,
            (file as u32, cached.invalidate_seq),
        );
        let tell = |start, pages| line.push(last, whose, start, pages);
        let (_, more) = cached
            .cache
            .set_and_tell(start, pages, self.zone.free, tell);
        cached.cached += more;
        self.zone.free -= more;
        self.zone.cache += more;
        self.change_cache_charge(index, more, 0);
        let mut at = index;
        while let Some(parent) = self.cgroups[at].parent {
            let cgroup = &self.cgroups[at];
            let most = cgroup.max.saturating_sub(cgroup.kept).min(cgroup.high);
            if cgroup.subtree_file > most {
                let over = cgroup.subtree_file - most;
                self.reclaim_clean_pages_of(index, over);
            }
            at = parent;
        }
        self.wake_kswapd_if_low();
        more
    }

    /// The same where pages are kept one by one; no cgroup has a `memory.max` there.
    fn add_single_pages_to_cache(&mut self, file: usize, start: u64, pages: u64) {
        let Some(node) = &mut self.node else { return };
        node.mark_pages_accessed(file, start, pages);
        let cached = &mut self.files[file];
        let mut came = Vec::new();
        let tell = |start, pages| came.push((start, pages));
        let (_, more) = cached
            .cache
            .set_and_tell(start, pages, self.zone.free, tell);
        cached.cached += more;
        let memcg = cached.memcg as usize;
        self.zone.free -= more;
        self.zone.cache += more;
        for (start, pages) in came {
            node.add_file_pages(file, start, pages);
        }
        self.change_cache_charge(memcg, more, 0);
        self.wake_kswapd_if_low();
    }

    /// No page of a file is in the cache any more.
    pub fn drop_cache(&mut self, index: usize) {
        if let Some(node) = &mut self.node {
            node.forget_file(index);
        }
        let file = &mut self.files[index];
        let cached = std::mem::take(&mut file.cached);
        file.cache.drop_all();
        // What stands in the line is of a life before.
        file.invalidate_seq = file.invalidate_seq.wrapping_add(1);
        let memcg = file.memcg as usize;
        if file.invalidate_seq == 0 {
            self.cgroups[memcg].lruvec.empty_runs(index as u32);
        }
        self.change_cache_charge(memcg, 0, cached);
        self.zone.cache -= cached;
        self.zone.free += cached;
    }

    /// As fio begins with a file it has the kernel forget what is clean of it.
    pub fn invalidate_clean(&mut self, file: usize) {
        self.drop_cache(file);
        let mut at = 0;
        while at < self.files[file].pages.size() {
            let pages = &self.files[file].pages;
            let (is_dirty, alike) = pages.run_alike(at, pages.size());
            if is_dirty {
                self.add_to_page_cache(file, at, alike);
            }
            at += alike;
        }
    }

    /// Each page is free, cached, or a task's own; each cached one is in its file, its cgroup and,
    /// once, in its line. Returns how many are tasks' own.
    #[cfg(any(test, debug_assertions))]
    pub fn check_memory(&self, deeply: bool) -> u64 {
        let anonymous = self.cgroups.first().map_or(0, |root| root.anonymous);
        let sum = self.zone.free + self.zone.cache + anonymous;
        assert_eq!(sum, self.zone.all, "memory lost or made up");
        if !deeply {
            return anonymous;
        }
        if let Some(node) = &self.node {
            node.check_lists();
        }
        let mut cached = vec![0; self.cgroups.len()];
        for file in &self.files {
            assert_eq!(
                file.cached,
                file.cache.dirty_pages(),
                "the count of cached pages"
            );
            cached[file.memcg as usize] += file.cached;
        }
        assert_eq!(cached.iter().sum::<u64>(), self.zone.cache);
        let root = self.cgroups.first().map_or(0, |root| root.subtree_file);
        assert_eq!(root, self.zone.cache, "the root's subtree is the host");
        for (cgroup, cached) in self.cgroups.iter().zip(cached) {
            let lives = |file: u32| self.files[file as usize].invalidate_seq;
            assert_eq!(cgroup.file, cached, "cached pages of {}", cgroup.path);
            let listed = match self.node {
                Some(_) => cached,
                None => cgroup.lruvec.count_live_pages(lives),
            };
            assert_eq!(listed, cached, "the line of {}", cgroup.path);
        }
        anonymous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        let marks = Watermarks::new(2 << 30);
        let mib = |pages: u64| (pages * PAGE) >> 20;
        assert_eq!(
            (mib(marks.min), mib(marks.low), mib(marks.high)),
            (44, 55, 66)
        );
        // By the square root, and a thousandth of it between two marks.
        let marks = Watermarks::new(4 << 40);
        assert_eq!(
            (mib(marks.min), mib(marks.low)),
            (256, 256 + (4 << 20) / 1000)
        );
    }
}
