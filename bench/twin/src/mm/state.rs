// SPDX-License-Identifier: GPL-2.0-only
//! Owners of pages, with their counts: cgroups, writebacks, files, tasks.

use super::domain::WbDomain;
use super::fprop::FpropLocal;
use super::lru::Lru;
use super::ratelimit::{DIRTY_POLL_THRESH, Rates};
use super::xarray::Pages;
use crate::sim::clock::{HZ, Ns, Ticks};
use policy::bandwidth::Hold;
use policy::pause::Decider;

/// Pages by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Dirty, not yet in flight.
    pub dirty: u64,
    /// Pages in writeback.
    pub writeback: u64,
    /// Pages ever dirtied.
    pub dirtied: u64,
    /// Pages ever written.
    pub written: u64,
    /// Forgotten before they were written.
    pub dropped: u64,
}

impl PageCounts {
    /// Dirty and in flight.
    pub fn pages_held(&self) -> u64 {
        self.dirty + self.writeback
    }

    /// `true` if nothing has been lost or made up.
    #[cfg(any(test, debug_assertions))]
    pub fn accounts_for_all_pages(&self) -> bool {
        self.dirtied == self.written + self.dirty + self.writeback + self.dropped
    }
}

/// A cgroup; the first is the root.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// Below the root; empty for it.
    pub path: String,
    /// Not for the root.
    pub parent: Option<usize>,
    /// Its own pages.
    pub counts: PageCounts,
    /// Its and its descendants'.
    pub subtree: PageCounts,
    /// Counts that the kernel believes: those at the last refresh.
    pub flushed: PageCounts,
    /// Pages of page cache charged to it.
    pub file: u64,
    /// The same of it and its descendants.
    pub subtree_file: u64,
    /// The same in the order it came.
    pub lruvec: Lru,
    /// Memory that is its tasks' own, and those of cgroups below it.
    pub anonymous: u64,
    /// File pages by the last flush of counters.
    pub flushed_file: u64,
    /// In pages, `u64::MAX` without one; `memory.max`.
    pub max: u64,
    /// Of `max`, what processes and the kernel take besides page cache.
    pub kept: u64,
    /// Tasks that were killed in it and its descendants.
    pub kills: u64,
    /// `memory.high` in pages.
    pub high: u64,
    /// `memory.min` in pages.
    pub min: u64,
    /// `memory.low` in pages.
    pub low: u64,
    /// Its domain; the root has none.
    pub domain: WbDomain,
    /// Group whose pressure its tasks count for first.
    pub pressure: u32,
}

impl Cgroup {
    /// A cgroup without pages and limits.
    pub fn new(path: String, parent: Option<usize>, pressure: u32) -> Cgroup {
        Cgroup {
            path,
            parent,
            counts: PageCounts::default(),
            subtree: PageCounts::default(),
            flushed: PageCounts::default(),
            file: 0,
            subtree_file: 0,
            lruvec: Lru::default(),
            anonymous: 0,
            flushed_file: 0,
            max: u64::MAX,
            kept: 0,
            kills: 0,
            high: u64::MAX,
            min: 0,
            low: 0,
            domain: WbDomain::default(),
            pressure,
        }
    }
}

/// The writeback of one cgroup on one disk.
#[derive(Clone, Debug)]
pub struct Wb {
    /// Index of the owning cgroup.
    pub cgroup: usize,
    /// Index of the disk.
    pub device: usize,
    /// Pages of this writeback.
    pub counts: PageCounts,
    /// Rates that the controller has learnt.
    pub rates: Rates,
    /// Part of the host's completions.
    pub completions: FpropLocal,
    /// Part of the cgroup's completions.
    pub memcg_completions: FpropLocal,
    /// A writer found it over its share.
    pub exceeded: bool,
    /// A measurement of bandwidth is scheduled.
    pub measuring: bool,
    /// Files with pages in flight.
    pub writeback_inodes: u32,
    /// Of its dirty pages, those of the large folio that was last copied to, and until when.
    pub copied: (u64, Ns),
}

impl Wb {
    /// One that is first needed at `now`.
    pub fn new(cgroup: usize, device: usize, now: Ticks) -> Wb {
        Wb {
            cgroup,
            device,
            counts: PageCounts::default(),
            rates: Rates::new(now),
            completions: FpropLocal::default(),
            memcg_completions: FpropLocal::default(),
            exceeded: false,
            measuring: false,
            writeback_inodes: 0,
            copied: (0, 0),
        }
    }

    /// Of its dirty pages, those that a task still copies to: Linux marks them dirty afterwards.
    pub fn pages_being_copied(&self, now: Ns) -> u64 {
        let (pages, until) = self.copied;
        if now < until { pages } else { 0 }
    }
}

/// Bytes of a page's part of a node of the xarray.
const XARRAY: u64 = 576 / 64;
/// Bytes of a buffer head, one for each block of a page where the filesystem has such.
const BUFFER_HEAD: u64 = 104;

/// The largest folio has as many pages as a huge page.
const MAX_PAGECACHE_ORDER: u32 = 9;

/// A file and its pages.
#[derive(Clone, Debug)]
pub struct File {
    /// Index of the owning writeback.
    pub wb: u32,
    /// The cgroup that its pages are charged to. Without cgroup writeback it is not that of `wb`.
    pub memcg: u32,
    /// Bytes that are charged with each of its pages.
    pub beside: u64,
    /// Pages that are dirty.
    pub pages: Pages,
    /// Pages in flight.
    pub in_flight: u64,
    /// Of these, written as parts of a bio that has more.
    pub unended: u64,
    /// Pages in the cache.
    pub cache: Pages,
    /// Number of pages in the cache.
    pub cached: u64,
    /// Number of times that all in the cache has been forgotten.
    pub invalidate_seq: u16,
    /// Place of its last pages in its cgroup's line.
    pub run: u64,
    /// Index where writeback goes on.
    pub writeback_index: u64,
    /// First page of the large folio that was last copied to, and until when.
    pub copied: Option<(u64, Ns)>,
    /// Pages of the largest folio that was copied to so far.
    pub folio_pages: u64,
    /// On one of its flusher's lists.
    pub listed: bool,
    /// Tick at which the first of its dirty pages was dirtied.
    pub dirtied_when: Ticks,
    /// Pages that have blocks on the disk; all have if `None`.
    pub mapped: Option<Pages>,
    /// Its filesystem keeps it in large folios.
    pub large_folios: bool,
    /// Of one that grows on vfat: up to where the allocation table was read for it, in pages.
    pub fat: Option<u64>,
    /// Block of its filesystem that its inode is in.
    pub block: u32,
    /// Its time stamp: they have ticks.
    pub mtime: Ticks,
    /// The last transaction that its inode was in.
    pub sync_tid: u64,
    /// The last that it was in for more than time stamps.
    pub datasync_tid: u64,
    /// A commit waits until none is in flight.
    pub carried: bool,
    /// Some of its pages could not be written.
    pub failed: bool,
    /// A task that waits until none is in flight.
    pub synced_by: Option<u32>,
}

impl File {
    /// One of `pages` pages, none of which is in the cache, with its inode in `block`.
    pub fn new(wb: usize, memcg: usize, block: u32, pages: u64) -> File {
        File {
            wb: wb as u32,
            memcg: memcg as u32,
            beside: XARRAY,
            pages: Pages::new(pages),
            in_flight: 0,
            unended: 0,
            cache: Pages::new(pages),
            cached: 0,
            invalidate_seq: 0,
            run: 0,
            writeback_index: 0,
            copied: None,
            folio_pages: 1,
            listed: false,
            dirtied_when: 0,
            mapped: None,
            large_folios: false,
            fat: None,
            block,
            mtime: 0,
            sync_tid: 0,
            datasync_tid: 0,
            carried: false,
            failed: false,
            synced_by: None,
        }
    }

    /// Its pages are divided into so many buffers: one on ext4, one for 512 bytes on vfat.
    pub fn divide_into_buffers(&mut self, blocks: u64) {
        self.beside = XARRAY + blocks * BUFFER_HEAD;
    }

    /// Pages of the folio that `left` pages from `at` on are written to, or their first ones: as
    /// many as they fill, a power of two that `at` is a multiple of.
    pub fn folio_pages_at(&self, at: u64, left: u64) -> u64 {
        if !self.large_folios || left == 0 {
            return 1;
        }
        let alignment = 1 << at.trailing_zeros().min(MAX_PAGECACHE_ORDER);
        alignment.min(1 << left.ilog2())
    }

    /// Number of the dirty `pages` from `start` on that a flusher finds at `now`: none of a folio
    /// that a task still copies to, which Linux marks dirty afterwards (`iomap_write_end`).
    pub fn pages_before_copied(&self, start: u64, pages: u64, now: Ns) -> u64 {
        match self.copied {
            Some((at, until)) if now < until && at >= start => pages.min(at - start),
            _ => pages,
        }
    }

    /// Number of the dirty `pages` from `start` on that are written where `part` are asked for: the
    /// last folio is written whole.
    pub fn round_up_to_folios(&self, start: u64, pages: u64, part: u64) -> u64 {
        let end = start.saturating_add(part);
        let end = end
            .checked_next_multiple_of(self.folio_pages)
            .unwrap_or(end);
        pages.min(end - start)
    }

    /// Tells if the page `start` has no block yet, and how many of `pages` from it on are like it.
    pub fn unmapped_run(&self, start: u64, pages: u64) -> (bool, u64) {
        let Some(mapped) = &self.mapped else {
            return (false, pages);
        };
        let (is_mapped, alike) = mapped.run_alike(start, start + pages);
        (!is_mapped, alike)
    }

    /// These pages have blocks from now on.
    pub fn map_blocks(&mut self, start: u64, pages: u64) {
        if let Some(mapped) = &mut self.mapped {
            mapped.set(start, pages, u64::MAX);
        }
    }
}

/// State that a sleeper finds when it wakes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleeper {
    /// `dirty_paused_when` after the sleep, in ticks.
    pub dirty_paused_when: Ticks,
    /// Pages until its next pass.
    pub nr_dirtied_pause: u64,
    /// `true` if the task must look again.
    pub again: bool,
}

/// State that the throttle keeps of a task that dirties pages.
#[derive(Clone, Debug)]
pub struct Dirtier {
    /// Number of the task.
    pub pid: u32,
    /// Writeback whose throttle it passes.
    pub wb: u32,
    /// Its cgroup, whose bandwidth it is bound by. Without cgroup writeback it is not that of `wb`.
    pub home: u32,
    /// Pages dirtied since its last pass.
    pub nr_dirtied: u64,
    /// Pages after which it passes again.
    pub nr_dirtied_pause: u64,
    /// Its clock in the throttle.
    pub dirty_paused_when: Ticks,
    /// State that it finds when it wakes.
    pub sleeper: Sleeper,
    /// End of its sleep, as a time.
    pub wakes_at: Ns,
    /// Pages it dirtied itself since it last reported to a bandwidth.
    pub unreported: u64,
    /// Outcome of its last report of `unreported`.
    pub pace: Hold,
    /// By bandwidth, what it waits for when its operation is over.
    pub owed_pace: Option<Hold>,
    /// The end of the step of that before.
    pub held_since: Ns,
    /// Its pass began below a floor.
    pub below_floor: bool,
    /// It sleeps in a pass of the module's: who decided that, and since when.
    pub paused: Option<(Decider, Ns)>,
}

impl Dirtier {
    /// A task that has dirtied nothing.
    pub fn new(pid: usize, wb: u32, home: usize) -> Dirtier {
        Dirtier {
            pid: pid as u32,
            wb,
            home: home as u32,
            nr_dirtied: 0,
            nr_dirtied_pause: DIRTY_POLL_THRESH,
            dirty_paused_when: 0,
            sleeper: Sleeper::default(),
            wakes_at: 0,
            unreported: 0,
            pace: Hold::default(),
            owed_pace: None,
            held_since: 0,
            below_floor: false,
            paused: None,
        }
    }

    /// `true` if it waits when its operation is over.
    pub fn has_owed_pace(&self) -> bool {
        self.owed_pace.is_some()
    }

    /// A free-running pass has ended.
    pub fn end_free_run(&mut self, now: Ticks, pages: u64) {
        (
            self.dirty_paused_when,
            self.nr_dirtied,
            self.nr_dirtied_pause,
        ) = (now, 0, pages);
    }

    /// A pause would be too short: it is credited instead, unless the task is a light one.
    pub fn skip_short_pause(&mut self, now: Ticks, period: Ticks, pause: i64) {
        if pause < -(HZ as i64) {
            (self.dirty_paused_when, self.nr_dirtied) = (now, 0);
        } else if period > 0 {
            self.dirty_paused_when += period;
            self.nr_dirtied = 0;
        } else if self.nr_dirtied_pause <= self.nr_dirtied {
            self.nr_dirtied_pause += self.nr_dirtied;
        }
    }

    /// Its sleep has ended.
    pub fn end_sleep(&mut self) {
        self.dirty_paused_when = self.sleeper.dirty_paused_when;
        self.nr_dirtied_pause = self.sleeper.nr_dirtied_pause;
        if !self.sleeper.again {
            self.nr_dirtied = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_folio_of_a_part_is_written_whole() {
        let mut file = File::new(0, 0, 0, 256);
        assert_eq!(file.round_up_to_folios(0, 160, 16), 16, "folios of a page");
        file.folio_pages = 32;
        assert_eq!(file.round_up_to_folios(0, 160, 16), 32);
        assert_eq!(file.round_up_to_folios(16, 160, 16), 16);
        assert_eq!(file.round_up_to_folios(0, 20, 16), 20, "no more is dirty");
        assert_eq!(file.round_up_to_folios(0, 160, u64::MAX), 160);
    }

    #[test]
    fn what_is_being_copied_is_not_found() {
        let mut file = File::new(0, 0, 0, 256);
        assert_eq!(file.pages_before_copied(0, 160, 5), 160);
        file.copied = Some((128, 10));
        assert_eq!(file.pages_before_copied(0, 160, 5), 128);
        assert_eq!(file.pages_before_copied(128, 32, 5), 0, "only that folio");
        assert_eq!(file.pages_before_copied(192, 32, 5), 32, "behind it");
        assert_eq!(file.pages_before_copied(0, 64, 5), 64, "in front of it");
        assert_eq!(file.pages_before_copied(0, 160, 10), 160, "copied");
    }
}
