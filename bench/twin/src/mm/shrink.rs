// SPDX-License-Identifier: GPL-2.0-only
//! A batch of pages: up to 32 are isolated from the tail of a list, looked at, and put back or
//! taken (`shrink_folio_list`).
//!
//! What is taken is free at once; that it took time is the reclaimer's to account for. What is
//! swapped out stays isolated until its write is in the disk's line.
//!
//! MGLRU takes an anonymous page that was used for hot at once, does not wait where others have
//! isolated too many, and does not go by what pages in writeback it met; what else its generations
//! do is not modelled.

use super::Mm;
use super::effort::SWAP_CLUSTER_MAX;
use super::node::Kernel;
use super::page::{ACTIVE_ANON, ACTIVE_FILE, INACTIVE_ANON, INACTIVE_FILE, Pfn, flag};
use super::scan_control::{Batch, Reclaimer};

impl Mm {
    /// Looks at up to `most` pages of an inactive list; returns how many it isolated.
    pub fn shrink_list(&mut self, by: &mut Reclaimer, list: usize, most: u64) -> u64 {
        let Some(node) = &mut self.node else { return 0 };
        let mut pages = Vec::new();
        while (pages.len() as u64) < most.min(SWAP_CLUSTER_MAX) {
            let Some(pfn) = node.lru.list_tail(list) else {
                break;
            };
            node.lru.remove_page(pfn);
            pages.push(pfn);
        }
        let count = pages.len() as u64;
        let before = (by.nr_reclaimed, by.found);
        for pfn in pages {
            self.shrink_page(by, pfn, list);
        }
        let Some(node) = &mut self.node else { return 0 };
        by.found.taken += count;
        by.nr_scanned += count;
        by.batch.isolated = (count, list);
        node.isolated[list / 2] += count;
        if list == INACTIVE_FILE {
            by.found.file_taken += count;
        }
        // What this list is to give next time, by what it cost (`lru_note_cost`).
        let (pageout, taken) = (by.batch.out.len() as u64, by.nr_reclaimed - before.0);
        node.cost[list / 2] += match node.kernel {
            Kernel::Today => pageout * SWAP_CLUSTER_MAX + (count - taken),
            Kernel::Waits | Kernel::Throttles => pageout,
        };
        let all: u64 = (0..4).map(|list| node.lru.list_length(list)).sum();
        if node.cost[0] + node.cost[1] > all / 4 {
            node.cost = node.cost.map(|cost| cost / 2);
        }
        let reclaimed = &mut self.zone.reclaimed;
        if by.is_kswapd {
            reclaimed.pgscan_kswapd += count;
            reclaimed.pgsteal_kswapd += taken;
        } else {
            reclaimed.pgscan_direct += count;
            node.vmstat.pgsteal_direct += taken;
        }
        by.only_dirty = count > 0 && by.found.unqueued_dirty - before.1.unqueued_dirty == count;
        count
    }

    /// An isolated page.
    fn shrink_page(&mut self, by: &mut Reclaimer, pfn: Pfn, list: usize) {
        let Some(node) = &mut self.node else { return };
        let page = *node.lru.page(pfn);
        let (is_file, lru_gen) = (!page.is_anon(), node.lru_gen);
        let mut keep = |list| by.batch.kept.push((pfn, list));
        let active = list + 1;
        if page.has_flags(flag::WRITEBACK) {
            by.found.dirty += u64::from(is_file);
            by.found.congested += u64::from(is_file && page.has_flags(flag::RECLAIM));
            if by.is_kswapd && page.has_flags(flag::RECLAIM) && node.writeback {
                by.found.immediate += 1;
            } else {
                node.lru.page_mut(pfn).flags |= flag::RECLAIM;
                by.found.writeback += 1;
            }
            return keep(active);
        }
        if is_file {
            if !self.is_page_dirty(page.owner, page.index) {
                by.nr_reclaimed += 1;
                return self.evict_file_page(pfn);
            }
            by.found.dirty += 1;
            by.found.unqueued_dirty += 1;
            if let Some(node) = &mut self.node {
                node.vmstat.nr_vmscan_immediate_reclaim += 1;
                node.lru.page_mut(pfn).flags |= flag::RECLAIM;
            }
            return keep(active);
        }
        if page.has_flags(flag::YOUNG) {
            let flags = &mut node.lru.page_mut(pfn).flags;
            *flags = (*flags & !flag::YOUNG) | flag::REFERENCED;
            return match page.has_flags(flag::REFERENCED) || lru_gen {
                true => keep(active),
                false => keep(list),
            };
        }
        if page.has_flags(flag::SWAPCACHE) {
            by.nr_reclaimed += 1;
            return self.evict_anon_page(pfn);
        }
        let Some(swap) = node.swap.as_mut().filter(|swap| swap.free > 0) else {
            return keep(active);
        };
        swap.free -= 1;
        node.vmstat.nr_vmscan_write += 1;
        let wanted = flag::SWAPCACHE | flag::UNMAPPED | flag::WRITEBACK | flag::RECLAIM;
        node.lru.page_mut(pfn).flags |= wanted;
        keep(list);
        by.batch.out.push(pfn);
    }

    /// Puts a batch back on the lists.
    pub fn put_batch_back(&mut self, batch: &mut Batch) {
        let (count, list) = std::mem::take(&mut batch.isolated);
        if let Some(node) = &mut self.node {
            node.isolated[list / 2] -= count;
        }
        for (pfn, list) in batch.kept.drain(..) {
            let Some(node) = &mut self.node else { return };
            if node.lru.page(pfn).has_flags(flag::ORPHAN) {
                self.free_if_orphan(pfn);
            } else {
                node.lru.add_to_head(pfn, list);
            }
        }
    }

    /// A reclaimer is no more: what it had isolated goes back, and is not swapped out.
    pub fn abandon_batch(&mut self, batch: &mut Batch) {
        for pfn in batch.out.drain(..) {
            let Some(node) = &mut self.node else { return };
            let wanted = flag::SWAPCACHE | flag::UNMAPPED | flag::WRITEBACK | flag::RECLAIM;
            let page = node.lru.page_mut(pfn);
            let has_slot = page.has_flags(flag::SWAPCACHE);
            page.flags &= !wanted;
            if let (true, Some(swap)) = (has_slot, &mut node.swap) {
                swap.free += 1;
            }
        }
        self.put_batch_back(batch);
    }

    /// Makes up to 32 active pages inactive; returns how many (`shrink_active_list`).
    pub fn deactivate_pages(&mut self, list: usize, most: u64) -> u64 {
        let Some(node) = &mut self.node else { return 0 };
        let mut count = 0;
        while count < most.min(SWAP_CLUSTER_MAX) {
            let Some(pfn) = node.lru.list_tail(list) else {
                break;
            };
            node.lru.page_mut(pfn).flags &= !(flag::YOUNG | flag::REFERENCED);
            node.lru.remove_page(pfn);
            node.lru.add_to_head(pfn, list - 1);
            count += 1;
        }
        count
    }

    /// Pages to look at of each list at a priority (`get_scan_count`).
    pub fn scan_counts(&self, priority: u32, force: bool) -> [u64; 4] {
        /// `vm.swappiness`, of 200.
        const SWAPPINESS: u64 = 60;
        let Some(node) = &self.node else {
            return [0; 4];
        };
        let length = |list| node.lru.list_length(list);
        let at = |list| length(list) >> priority;
        let (anon, file) = (
            [at(INACTIVE_ANON), at(ACTIVE_ANON)],
            [at(INACTIVE_FILE), at(ACTIVE_FILE)],
        );
        if node.swap.as_ref().is_none_or(|swap| swap.free == 0) {
            return [0, 0, file[0], file[1]];
        }
        // So few pages of files that only anonymous ones can help.
        let files = length(INACTIVE_FILE) + length(ACTIVE_FILE);
        if files + self.zone.free <= self.zone.marks.high && anon[0] > 0 {
            return [anon[0], anon[1], 0, 0];
        }
        // So many that were used once that these are enough.
        let trims = file[0] > 0 && !force && !node.lru.inactive_is_low(INACTIVE_FILE);
        if trims && !node.lru_gen {
            return [0, 0, file[0], file[1]];
        }
        if priority == 0 {
            return [anon[0], anon[1], file[0], file[1]];
        }
        let total = node.cost[0] + node.cost[1];
        let part = |cost: u64, weight: u64| weight * (total + 1) / (total + cost + 1);
        let parts = [
            part(node.cost[0], SWAPPINESS),
            part(node.cost[1], 200 - SWAPPINESS),
        ];
        let all = (parts[0] + parts[1]).max(1);
        let of = |pages: u64, kind: usize| (pages * parts[kind]).div_ceil(all);
        [
            of(anon[0], 0),
            of(anon[1], 0),
            of(file[0], 1),
            of(file[1], 1),
        ]
    }

    /// `true` if tasks have isolated more than an eighth of an inactive list (`too_many_isolated`).
    pub fn too_many_isolated(&self, list: usize) -> bool {
        let Some(node) = &self.node else { return false };
        node.isolated[list / 2] > node.lru.list_length(list) >> 3
    }
}
