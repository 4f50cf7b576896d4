// SPDX-License-Identifier: GPL-2.0-only
//! One who reclaims, between two steps (`struct scan_control`). What it does:
//! `vmscan/reclaimer.rs`.

use super::effort::SWAP_CLUSTER_MAX;
use super::page::Pfn;
use super::throttle::Nap;
use crate::sim::clock::Ticks;

/// Priority that each pass begins with.
pub const DEF_PRIORITY: u32 = 12;

/// Stages that it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// A priority begins.
    #[default]
    Begins,
    /// The next list is to be looked at.
    Lists,
    /// A batch was looked at.
    Looked,
    /// All lists were (the end of `shrink_node`).
    Node,
    /// It is checked for progress (`consider_reclaim_throttle`).
    Progress,
    /// A priority ends.
    Ends,
}

/// Pages found, by state (`struct reclaim_stat`, and what `scan_control` sums up of it).
#[derive(Clone, Copy, Debug, Default)]
pub struct ReclaimStat {
    /// Pages of files that were dirty or in writeback.
    pub dirty: u64,
    /// Dirty pages that are not in writeback.
    pub unqueued_dirty: u64,
    /// Of these, in writeback and marked before.
    pub congested: u64,
    /// Pages in writeback.
    pub writeback: u64,
    /// In writeback, marked before, where only such are met.
    pub immediate: u64,
    /// Pages that were isolated.
    pub taken: u64,
    /// Pages of files that were isolated.
    pub file_taken: u64,
}

/// Pages that a reclaimer has isolated.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Pages kept, with the list of each.
    pub(super) kept: Vec<(Pfn, usize)>,
    /// Of these, to be written to the swap disk first.
    pub out: Vec<Pfn>,
    /// Number of pages isolated, and the list they are from.
    pub(super) isolated: (u64, usize),
}

/// State of one who reclaims.
#[derive(Clone, Debug, Default)]
pub struct Reclaimer {
    /// kswapd, not a task.
    pub is_kswapd: bool,
    pub priority: u32,
    /// Active pages become inactive however many are; it has left some alone for want of that.
    pub force: bool,
    pub skipped: bool,
    /// Pages it has taken.
    pub nr_reclaimed: u64,
    /// Pages looked at, at this priority.
    pub nr_scanned: u64,
    /// Pages it wants.
    pub nr_to_reclaim: u64,
    /// Taken before this priority.
    pub before: u64,
    /// Pages found in this priority.
    pub found: ReclaimStat,
    /// Pages that it has isolated.
    pub batch: Batch,
    /// All of the last batch were dirty and not in writeback.
    pub only_dirty: bool,
    /// Pages left to look at, by list, and which is next.
    pub left: [u64; 4],
    pub next: usize,
    /// It has waited for others' isolated pages.
    pub stalled: bool,
    pub stage: Stage,
    /// Of its sleep; what that is, and since when.
    pub number: u32,
    pub nap: Option<(Nap, Ticks)>,
}

impl Reclaimer {
    /// A task that needs a page.
    pub fn for_task(number: u32) -> Reclaimer {
        Reclaimer {
            priority: DEF_PRIORITY,
            nr_to_reclaim: SWAP_CLUSTER_MAX,
            number,
            ..Reclaimer::default()
        }
    }

    /// kswapd, which wants `pages` looked at.
    pub fn for_kswapd(number: u32, pages: u64) -> Reclaimer {
        Reclaimer {
            is_kswapd: true,
            nr_to_reclaim: pages,
            ..Reclaimer::for_task(number)
        }
    }
}
