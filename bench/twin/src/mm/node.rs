// SPDX-License-Identifier: GPL-2.0-only
//! A node (`pg_data_t`) whose pages are kept one by one: whose each is, what reclaim knows of it,
//! and the swap disk.
//!
//! Only a host on which jobs map memory has one: there reclaim decides who waits, and what it
//! finds depends on the page. Elsewhere counts and the order of pages do (zone.rs).
//!
//! A mapping is what a task has mapped: each of its pages is absent, in memory, or on the swap
//! disk. Anonymous pages begin on the inactive list (since Linux 5.9), as used. One that is swapped
//! out stays in memory until it is written, and longer if its task uses it meanwhile; one that is
//! read back keeps its place on the disk until it is written to.
//!
//! Which pages of a file are in flight is known by the order in which they were submitted: a file's
//! pages are written in that order.
//!
//! | page | reclaim |
//! | --- | --- |
//! | anonymous, used since | goes round once more, and is active the second time |
//! | anonymous | unmapped, written to the swap disk, taken when written |
//! | of a file, clean | taken |
//! | of a file, dirty | made active and marked: taken when written (*immediate reclaim*) |
//! | in writeback | made active and marked; met again so, it tells that reclaim is too fast |

use super::Mm;
use super::page::{ACTIVE_ANON, ACTIVE_FILE, ANON, INACTIVE_ANON, INACTIVE_FILE};
use super::page::{Lruvec, NONE, Pfn, flag};
use super::vmstat::{Reason, Vmstat};
use std::collections::{BTreeMap, VecDeque};

/// A page of a mapping that has not been touched.
pub const ABSENT: Pfn = NONE;
/// One that is on the swap disk alone; of a file, one that reclaim has taken.
pub const GONE: Pfn = NONE - 1;

/// Kernels to reclaim by, which differ in the tasks that sleep: `[twin] reclaim`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// Up to 5.15: `congestion_wait()`, for a time.
    #[default]
    Waits,
    /// 5.16-rc: `reclaim_throttle()` as published, for 100, 20 and 500 ms at most.
    Throttles,
    /// 6.12: it throttles seldom, and for a tick.
    Today,
}

/// Memory that a task has mapped.
#[derive(Clone, Debug)]
pub struct Mapping {
    cgroup: usize,
    /// By page: its number, [`ABSENT`] or [`GONE`].
    pub pages: Vec<Pfn>,
}

/// A swap disk.
#[derive(Clone, Debug)]
pub struct Swap {
    /// Index of the disk.
    pub device: usize,
    /// Pages it has room for.
    pub free: u64,
    /// On their way there, by number of the write.
    writes: BTreeMap<u32, Vec<Pfn>>,
    next: u32,
}

/// State of a file's pages.
#[derive(Clone, Debug, Default)]
struct FilePages {
    /// By page: its number, [`ABSENT`] or [`GONE`].
    pages: Vec<Pfn>,
    /// First page and how many, as they were submitted.
    in_flight: VecDeque<(u64, u64)>,
}

/// A task that sleeps in reclaim, or kswapd.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    /// Index of the task, or [`super::throttle::KSWAPD`].
    pub who: u32,
    /// Number of its sleep.
    pub number: u32,
    /// Reason that it waits for.
    pub reason: Reason,
}

/// Pages one by one, and the state of reclaim.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Pages and lists.
    pub lru: Lruvec,
    /// By number; one that was unmapped is empty.
    pub mappings: Vec<Mapping>,
    files: Vec<FilePages>,
    /// None without a disk for it.
    pub swap: Option<Swap>,
    /// Kernel to reclaim by.
    pub kernel: Kernel,
    /// `true` if the multi-generational LRU reclaims.
    pub lru_gen: bool,
    /// Isolated pages: anonymous, of files.
    pub isolated: [u64; 2],
    /// Costs of reclaiming anonymous pages and pages of files, which share out the next.
    pub cost: [u64; 2],
    /// kswapd met only pages in writeback (`PGDAT_WRITEBACK`).
    pub writeback: bool,
    /// All dirty pages it met were marked and in writeback (`LRUVEC_NODE_CONGESTED`).
    pub congested: bool,
    /// Reclaimers that sleep until woken.
    pub sleepers: Vec<Sleeper>,
    /// Tasks that sleep for writeback, pages written since the first did.
    pub throttled: (u64, u64),
    /// Since the host began.
    pub vmstat: Vmstat,
    /// Pages of mappings in memory.
    pub anonymous: u64,
}

impl Node {
    /// A host's, of which `swap` says the disk and how many pages it takes.
    pub fn new(kernel: Kernel, lru_gen: bool, swap: Option<(usize, u64)>) -> Node {
        Node {
            kernel,
            lru_gen,
            swap: swap.map(|(device, free)| Swap {
                device,
                free,
                writes: BTreeMap::new(),
                next: 0,
            }),
            ..Node::default()
        }
    }

    /// Pages that reclaim could take if all were clean.
    pub fn reclaimable_pages(&self) -> u64 {
        let file = self.lru.list_length(INACTIVE_FILE) + self.lru.list_length(ACTIVE_FILE);
        let anon = self.lru.list_length(INACTIVE_ANON) + self.lru.list_length(ACTIVE_ANON);
        match &self.swap {
            Some(swap) if swap.free > 0 => file + anon,
            _ => file,
        }
    }

    fn file_entry_mut(&mut self, file: usize) -> &mut FilePages {
        if self.files.len() <= file {
            self.files.resize(file + 1, FilePages::default());
        }
        &mut self.files[file]
    }

    /// Pages of a file have come into the cache.
    pub fn add_file_pages(&mut self, file: usize, start: u64, pages: u64) {
        let end = (start + pages) as usize;
        if self.file_entry_mut(file).pages.len() < end {
            self.file_entry_mut(file).pages.resize(end, ABSENT);
        }
        for index in start..start + pages {
            let pfn = self.lru.alloc_page(file as u32, index, 0);
            self.lru.add_to_head(pfn, INACTIVE_FILE);
            let was = std::mem::replace(&mut self.files[file].pages[index as usize], pfn);
            self.vmstat.workingset_refault_file += u64::from(was == GONE);
        }
    }

    /// Pages of a file are written to once more: used twice they are active
    /// (`folio_mark_accessed`).
    pub fn mark_pages_accessed(&mut self, file: usize, start: u64, pages: u64) {
        let known = self.file_entry_mut(file).pages.len() as u64;
        for index in start..(start + pages).min(known) {
            let pfn = self.files[file].pages[index as usize];
            if pfn >= GONE {
                continue;
            }
            let page = self.lru.page_mut(pfn);
            if !page.has_flags(flag::REFERENCED) {
                page.flags |= flag::REFERENCED;
            } else if self.lru.is_listed(pfn) && self.lru.list_of(pfn) == INACTIVE_FILE {
                self.lru.page_mut(pfn).flags &= !flag::REFERENCED;
                self.lru.remove_page(pfn);
                self.lru.add_to_head(pfn, ACTIVE_FILE);
            }
        }
    }

    /// A file is in the cache no more.
    pub fn forget_file(&mut self, file: usize) {
        let pages = std::mem::take(&mut self.file_entry_mut(file).pages);
        for pfn in pages {
            self.free_or_orphan_page(pfn);
        }
    }

    /// One of its pages has been taken.
    pub fn mark_file_page_evicted(&mut self, file: usize, index: u64) {
        self.files[file].pages[index as usize] = GONE;
    }

    /// A page whose owner is gone: no more, unless reclaim or the disk has it.
    fn free_or_orphan_page(&mut self, pfn: Pfn) -> bool {
        if pfn >= GONE {
            return false;
        }
        let page = *self.lru.page(pfn);
        let is_held = page.has_flags(flag::WRITEBACK) && page.is_anon() || !self.lru.is_listed(pfn);
        if self.lru.is_listed(pfn) {
            self.lru.remove_page(pfn);
        }
        if is_held {
            self.lru.page_mut(pfn).flags |= flag::ORPHAN;
            return false;
        }
        self.lru.free_page(pfn);
        true
    }

    /// Pages of a file are submitted.
    pub fn begin_writeback(&mut self, file: usize, start: u64, pages: u64) {
        self.file_entry_mut(file)
            .in_flight
            .push_back((start, pages));
        let known = self.files[file].pages.len() as u64;
        for index in start..(start + pages).min(known) {
            let pfn = self.files[file].pages[index as usize];
            if pfn < GONE {
                self.lru.page_mut(pfn).flags |= flag::WRITEBACK;
            }
        }
    }

    /// The next `pages` of those are written.
    pub fn end_writeback(&mut self, file: usize, mut pages: u64) {
        while pages > 0 {
            let known = self.file_entry_mut(file).pages.len() as u64;
            let Some((start, length)) = self.files[file].in_flight.front_mut() else {
                return;
            };
            let (from, now) = (*start, pages.min(*length));
            *start += now;
            *length -= now;
            if *length == 0 {
                self.files[file].in_flight.pop_front();
            }
            pages -= now;
            for index in from..(from + now).min(known) {
                let pfn = self.files[file].pages[index as usize];
                if pfn < GONE {
                    self.end_page_write(pfn);
                }
            }
        }
    }

    /// A page is written: one that was wanted stands where reclaim looks next.
    fn end_page_write(&mut self, pfn: Pfn) {
        let page = self.lru.page_mut(pfn);
        let wanted = page.has_flags(flag::RECLAIM);
        page.flags &= !(flag::WRITEBACK | flag::RECLAIM);
        if wanted && self.lru.is_listed(pfn) {
            let list = if self.lru.page(pfn).is_anon() {
                INACTIVE_ANON
            } else {
                INACTIVE_FILE
            };
            self.lru.remove_page(pfn);
            self.lru.add_to_tail(pfn, list);
        }
    }

    /// The number of a write of these pages to the swap disk.
    pub fn begin_swap_write(&mut self, pages: Vec<Pfn>) -> u32 {
        self.vmstat.pswpout += pages.len() as u64;
        let swap = self.swap.as_mut().expect("pages are swapped out to a disk");
        swap.next = swap.next.wrapping_add(1);
        swap.writes.insert(swap.next, pages);
        swap.next
    }

    /// Number of a new mapping of `pages`.
    pub fn add_mapping(&mut self, cgroup: usize, pages: u64) -> u32 {
        let mapping = Mapping {
            cgroup,
            pages: vec![ABSENT; pages as usize],
        };
        self.mappings.push(mapping);
        self.mappings.len() as u32 - 1
    }

    /// Its task uses pages of a mapping, and writes to them: how many from `at` on it finds in
    /// memory, of `count` at most.
    pub fn touch_mapped_pages(&mut self, mapping: u32, at: u64, count: u64) -> u64 {
        for index in at..at + count {
            let pfn = self.mappings[mapping as usize].pages[index as usize];
            if pfn >= GONE {
                return index - at;
            }
            let page = self.lru.page_mut(pfn);
            if page.has_flags(flag::SWAPCACHE) {
                if let Some(swap) = &mut self.swap {
                    swap.free += 1;
                }
            }
            page.flags &= !(flag::SWAPCACHE | flag::UNMAPPED);
            page.flags |= flag::YOUNG;
        }
        count
    }

    /// Number of pages from `at` on that are on the swap disk alone, of `count` at most.
    pub fn leading_swapped_pages(&self, mapping: u32, at: u64, count: u64) -> u64 {
        let pages = &self.mappings[mapping as usize].pages;
        let end = (at + count).min(pages.len() as u64);
        let rest = &pages[at as usize..end as usize];
        rest.iter().take_while(|pfn| **pfn == GONE).count() as u64
    }
}

impl Mm {
    /// A task touches `count` pages of its mapping first, for which there is room.
    pub fn fault_in(&mut self, mapping: u32, at: u64, count: u64) {
        let Some(node) = &mut self.node else { return };
        let cgroup = node.mappings[mapping as usize].cgroup;
        for index in at..at + count {
            let pfn = node.lru.alloc_page(ANON | mapping, index, flag::YOUNG);
            node.lru.add_to_head(pfn, INACTIVE_ANON);
            node.mappings[mapping as usize].pages[index as usize] = pfn;
        }
        node.anonymous += count;
        self.charge_anonymous(cgroup, count);
    }

    /// `count` pages that are on the swap disk have memory now, and are read.
    pub fn swap_in(&mut self, mapping: u32, at: u64, count: u64) {
        let Some(node) = &mut self.node else { return };
        let cgroup = node.mappings[mapping as usize].cgroup;
        for index in at..at + count {
            let flags = flag::SWAPCACHE | flag::UNMAPPED;
            let pfn = node.lru.alloc_page(ANON | mapping, index, flags);
            node.lru.add_to_head(pfn, INACTIVE_ANON);
            node.mappings[mapping as usize].pages[index as usize] = pfn;
        }
        node.vmstat.pswpin += count;
        node.vmstat.workingset_refault_anon += count;
        node.anonymous += count;
        self.charge_anonymous(cgroup, count);
    }

    /// A mapping is gone: its memory is free, but for what reclaim or the disk has.
    pub fn drop_mapping(&mut self, mapping: u32) {
        let Some(node) = &mut self.node else { return };
        let of = &mut node.mappings[mapping as usize];
        let (cgroup, pages) = (of.cgroup, std::mem::take(&mut of.pages));
        let mut freed = 0;
        for pfn in pages {
            let on_disk =
                pfn == GONE || pfn < GONE && node.lru.page(pfn).has_flags(flag::SWAPCACHE);
            if on_disk {
                if let Some(swap) = &mut node.swap {
                    swap.free += 1;
                }
            }
            let held = pfn < GONE;
            let is_free = node.free_or_orphan_page(pfn);
            if held && !is_free {
                node.lru.page_mut(pfn).flags &= !flag::SWAPCACHE;
            }
            freed += u64::from(is_free);
        }
        node.anonymous -= freed;
        self.uncharge_anonymous(cgroup, freed);
    }

    /// A write to the swap disk is done.
    pub fn end_swap_write(&mut self, number: u32) {
        let Some(node) = &mut self.node else { return };
        let Some(swap) = &mut node.swap else { return };
        let pages = swap.writes.remove(&number).unwrap_or_default();
        for pfn in pages {
            if let Some(node) = &mut self.node {
                node.end_page_write(pfn);
            }
            self.free_if_orphan(pfn);
        }
    }

    /// Frees a page that neither reclaim nor a disk has any more, if its owner is gone.
    pub fn free_if_orphan(&mut self, pfn: Pfn) -> bool {
        let Some(node) = &mut self.node else {
            return false;
        };
        let page = *node.lru.page(pfn);
        if !page.has_flags(flag::ORPHAN) || page.has_flags(flag::WRITEBACK) && page.is_anon() {
            return false;
        }
        node.lru.free_page(pfn);
        if page.is_anon() {
            let cgroup = node.mappings[(page.owner & !ANON) as usize].cgroup;
            node.anonymous -= 1;
            self.uncharge_anonymous(cgroup, 1);
        }
        true
    }

    /// An anonymous page that is on the swap disk, too, is taken.
    pub fn evict_anon_page(&mut self, pfn: Pfn) {
        let Some(node) = &mut self.node else { return };
        let page = *node.lru.page(pfn);
        let mapping = &mut node.mappings[(page.owner & !ANON) as usize];
        mapping.pages[page.index as usize] = GONE;
        let cgroup = mapping.cgroup;
        node.lru.free_page(pfn);
        node.anonymous -= 1;
        self.uncharge_anonymous(cgroup, 1);
    }

    /// A clean page of a file is taken.
    pub fn evict_file_page(&mut self, pfn: Pfn) {
        let Some(node) = &mut self.node else { return };
        let page = *node.lru.page(pfn);
        node.lru.free_page(pfn);
        let (file, index) = (page.owner as usize, u64::from(page.index));
        node.mark_file_page_evicted(file, index);
        let file = &mut self.files[file];
        file.cache.clear(index, 1);
        file.cached -= 1;
        let memcg = file.memcg as usize;
        self.change_cache_charge(memcg, 0, 1);
        self.zone.cache -= 1;
        self.zone.free += 1;
    }

    /// `true` if a page of a file is dirty, and not in flight.
    pub fn is_page_dirty(&self, file: u32, index: u32) -> bool {
        let (pages, index) = (&self.files[file as usize].pages, u64::from(index));
        pages.run_alike(index, index + 1).0
    }
}

impl Node {
    /// Checks that the pages of each list have an owner, and the count of anonymous pages.
    #[cfg(any(test, debug_assertions))]
    pub fn check_lists(&self) {
        self.lru.check_lists();
        let held = |pages: &[Pfn]| pages.iter().filter(|pfn| **pfn < GONE).count() as u64;
        let mapped: u64 = self.mappings.iter().map(|m| held(&m.pages)).sum();
        assert!(mapped <= self.anonymous, "{mapped} of {}", self.anonymous);
    }
}
