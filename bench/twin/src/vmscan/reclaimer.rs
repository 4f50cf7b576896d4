// SPDX-License-Identifier: GPL-2.0-only
//! One who reclaims: a task that found no free page, or kswapd. It goes through the lists with
//! rising priority, until a task has 32 pages, or kswapd enough are free.
//!
//! At priority p it looks at 1 / 2^p of each list, 32 pages at a time, at 12 first. Between batches
//! others run. It sleeps where throttle.rs says, and where the swap disk has no slot for what it
//! writes: so the task that needs one page waits for others' to be written.
//!
//! Example. 200 MiB inactive are 51,200 pages; at 12 it looks at 12 of them, at 9 at 100. If all are
//! dirty it looks at 102,400 in all before it gives up, at 1 us each a tenth of a second.

use crate::blk::{Request, What};
use crate::mm::effort::SWAP_CLUSTER_MAX;
use crate::mm::node::Kernel;
use crate::mm::page::{ACTIVE_FILE, INACTIVE_ANON, INACTIVE_FILE};
use crate::mm::scan_control::ReclaimStat;
use crate::mm::scan_control::{DEF_PRIORITY, Reclaimer, Stage};
use crate::mm::throttle::Nap;
use crate::mm::vmstat::Reason;
use crate::sim::clock::Ns;
use crate::writeback::Writeback;

/// The step that comes next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Reclaim computes for so long.
    Computes(Ns),
    /// Reclaim sleeps, for the nap's reason.
    Sleeps(Nap),
    /// It waits for a slot of a disk, in this hctx.
    Waits(usize, u32),
    /// Reclaim has ended.
    Done,
}

impl Writeback {
    /// The next step of a reclaimer that is on `cpu`.
    pub fn reclaim_step(&mut self, by: &mut Reclaimer, cpu: u16) -> Step {
        loop {
            let step = match by.stage {
                Stage::Begins => {
                    by.left = self.scan_counts(by.priority, by.force);
                    (by.found, by.nr_scanned, by.before) =
                        (ReclaimStat::default(), 0, by.nr_reclaimed);
                    (by.next, by.stage) = (0, Stage::Lists);
                    None
                }
                Stage::Lists => self.scan_next_list(by),
                Stage::Looked => self.swap_out_batch(by, cpu),
                Stage::Node => {
                    by.stage = Stage::Progress;
                    self.throttle_after_node_scan(by).map(Step::Sleeps)
                }
                Stage::Progress => {
                    by.stage = Stage::Ends;
                    self.throttle_without_progress(by).map(Step::Sleeps)
                }
                Stage::Ends => {
                    if self.end_priority_round(by) {
                        return Step::Done;
                    }
                    by.stage = Stage::Begins;
                    None
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// The next batch of the next list (`shrink_lruvec`, `shrink_list`).
    fn scan_next_list(&mut self, by: &mut Reclaimer) -> Option<Step> {
        // At the first priority a task goes through all lists, so that one is not spared.
        let in_proportion = !by.is_kswapd && by.priority == DEF_PRIORITY;
        let enough = by.nr_reclaimed >= by.nr_to_reclaim && !in_proportion;
        let left = by.left[INACTIVE_ANON] + by.left[INACTIVE_FILE] + by.left[ACTIVE_FILE];
        if enough || left == 0 {
            by.stage = Stage::Node;
            return None;
        }
        let list = by.next;
        let pages = by.left[list].min(SWAP_CLUSTER_MAX);
        let (call, scan) = (self.machine.call, self.machine.scan);
        if list % 2 == 1 {
            by.next = (list + 1) % 4;
            by.left[list] -= pages;
            let node = self.node.as_ref()?;
            if pages == 0 || !(by.force || node.lru.inactive_is_low(list - 1)) {
                by.skipped |= pages > 0;
                return None;
            }
            let count = self.deactivate_pages(list, pages);
            return Some(Step::Computes(call + count * scan));
        }
        let lru_gen = self.node.as_ref()?.lru_gen;
        if pages > 0 && !by.is_kswapd && !lru_gen {
            if self.too_many_isolated(list) {
                if !std::mem::replace(&mut by.stalled, true) {
                    return self
                        .choose_reclaim_nap(Reason::Isolated, false)
                        .map(Step::Sleeps);
                }
                by.stalled = false;
                by.left[list] -= pages;
                by.next = (list + 1) % 4;
                return None;
            }
            by.stalled = false;
            self.wake_sleepers(Reason::Isolated);
        }
        by.next = (list + 1) % 4;
        by.left[list] -= pages;
        if pages == 0 {
            return None;
        }
        let count = self.shrink_list(by, list, pages);
        by.stage = Stage::Looked;
        Some(Step::Computes(call + count * scan))
    }

    /// Hands over what the batch swaps out, and puts it back on the lists.
    fn swap_out_batch(&mut self, by: &mut Reclaimer, cpu: u16) -> Option<Step> {
        while !by.batch.out.is_empty() {
            let device = self.node.as_ref()?.swap.as_ref()?.device;
            let hctx = self.devices[device].hctx_of(0, cpu);
            if !self.devices[device].has_room(hctx) {
                return Some(Step::Waits(device, hctx));
            }
            let most = self.devices[device].largest as usize;
            let rest = by.batch.out.split_off(by.batch.out.len().min(most));
            let pages = std::mem::replace(&mut by.batch.out, rest);
            let count = pages.len() as u32;
            let request = Request {
                what: What::SwapOut(self.node.as_mut()?.begin_swap_write(pages)),
                pages: count,
                sector: 0,
                hctx,
                cgroup: 0,
            };
            self.submit_request(device, request);
        }
        self.put_batch_back(&mut by.batch);
        let lru_gen = self.node.as_ref()?.lru_gen;
        if std::mem::take(&mut by.only_dirty) && !lru_gen {
            self.wake_flushers();
        }
        by.stage = Stage::Lists;
        None
    }

    /// Has all that is dirty written, as reclaim meets nothing else.
    fn wake_flushers(&mut self) {
        (0..self.wbs.len()).for_each(|wb| self.start_full_writeback(wb));
    }

    fn throttle_after_node_scan(&mut self, by: &mut Reclaimer) -> Option<Nap> {
        let found = by.found;
        let node = self.node.as_mut()?;
        if node.lru_gen {
            if found.unqueued_dirty > 0 && found.unqueued_dirty == found.file_taken {
                self.wake_flushers();
            }
            return None;
        }
        if by.is_kswapd {
            node.writeback |= found.writeback > 0 && found.writeback == found.taken;
            node.congested |= found.dirty > 0 && found.dirty == found.congested;
            if found.immediate > 0 {
                return self.choose_reclaim_nap(Reason::Writeback, true);
            }
        } else if node.congested {
            let reason = match node.kernel {
                Kernel::Today => Reason::Congested,
                Kernel::Waits | Kernel::Throttles => Reason::Writeback,
            };
            return self.choose_reclaim_nap(reason, false);
        }
        None
    }

    fn throttle_without_progress(&mut self, by: &Reclaimer) -> Option<Nap> {
        if by.nr_reclaimed > by.nr_scanned >> 3 {
            self.wake_sleepers(Reason::NoProgress);
            return None;
        }
        let late = match self.node.as_ref()?.kernel {
            Kernel::Waits => false,
            Kernel::Throttles => by.priority < DEF_PRIORITY - 2,
            Kernel::Today => by.priority == 1 && by.nr_reclaimed == 0,
        };
        if by.is_kswapd || !late {
            return None;
        }
        self.choose_reclaim_nap(Reason::NoProgress, false)
    }

    /// `true` if it is through; if not, sets the priority it goes on with.
    fn end_priority_round(&self, by: &mut Reclaimer) -> bool {
        if by.is_kswapd {
            let raises = by.nr_scanned < by.nr_to_reclaim || by.nr_reclaimed == by.before;
            by.priority -= u32::from(raises);
            return by.priority == 0 || self.zone.free >= self.zone.marks.high;
        }
        if by.nr_reclaimed >= by.nr_to_reclaim {
            return true;
        }
        if by.priority > 0 {
            by.priority -= 1;
            return false;
        }
        if by.nr_reclaimed > 0 || by.force || !by.skipped {
            return true;
        }
        (by.force, by.priority) = (true, DEF_PRIORITY);
        false
    }

    /// A reclaimer ends before it is through.
    pub fn abort_reclaim(&mut self, who: u32, by: &mut Reclaimer) {
        if let Some((nap, _)) = by.nap.take() {
            self.end_reclaim_sleep(who, nap, 0);
        }
        self.abandon_batch(&mut by.batch);
    }
}
