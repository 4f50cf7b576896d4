// SPDX-License-Identifier: GPL-2.0-only
//! A waiter for a slot is woken, with all others, when an eighth of a CPU's slots is free, eight at
//! most (`sbq_calc_wake_batch`); a waiter for the kernel's writeback throttling when an eighth of
//! what that lets in is (`wbt_rqw_done`), and then has a slot for certain.
//!
//! Woken at once, flushers run one after the other on a CPU, first the one that has used less of
//! it, and the first takes what is free. So of two that write to a slow disk the one that needs
//! less CPU time for a request gets more of the disk.
//!
//! Example, counted in a guest (6.12, one CPU, 256 KiB/s, four slots free at a time): a file in
//! order takes 2.7 us a request, one at random 8.3; 20 and 41 us for four, and 4 and 5 for who
//! finds none left. (41 - 5) / (20 - 4): 2.25 times as often the first has them.

use super::{BIO_COST, Device, REQUEST, Waiter};
use crate::sim::clock::Ns;

/// By how much more than the first a flusher can have used. What Linux owes to whom it forgets in
/// part, depending on who else is on the CPU; this was chosen so that `weight` came out as guests
/// did (docs/experiments/0015-twin-accuracy.md).
const LAG: Ns = 100_000;
/// CPU time of being woken and finding none left; and of handing over besides, for who finds some.
const WOKEN: Ns = 4_500;
const SERVED: Ns = 9_000;

impl Device {
    /// CPU time that a flusher begins with which has used `used` and has slept: it is not owed what
    /// others used meanwhile.
    pub fn catch_up_use(&self, used: Ns) -> Ns {
        self.clock.max(used)
    }

    /// Waiters to be woken: those for a slot of `hctx`, or for any; the latter have one.
    pub fn take_waiters_to_wake(&mut self, hctx: u32) -> (Vec<Waiter>, bool) {
        let at = hctx as usize;
        if !self.waiters[at].is_empty() {
            let batch = (self.depth / 8).clamp(1, 8);
            let all_free = self.tags[at] == self.depth;
            if self.traits.weights.is_none() && self.completion_cnt[at] < batch && !all_free {
                return (Vec::new(), false);
            }
            self.completion_cnt[at] = 0;
            return (self.waiters[at].drain(..).collect(), false);
        }
        let batch = self.wb_normal.saturating_add(3) / 4 / 2;
        let free = self.wb_normal - self.inflight;
        if self.outside.is_empty() || (free < batch && self.inflight > 0) {
            return (Vec::new(), true);
        }
        let mut left = free as usize;
        let (mut woken, mut others) = (Vec::new(), self.outside.split_off(0));
        others.retain(|(hctx, waiter)| {
            let wakes = left > 0 && self.has_room(*hctx);
            if wakes {
                left -= 1;
                woken.push(*waiter);
            }
            !wakes
        });
        self.outside = others;
        (woken, true)
    }

    /// `true` if some of a CPU's slots are taken.
    pub fn has_tags_in_use(&self, hctx: u32) -> bool {
        let tags = self.tags.get(hctx as usize);
        tags.is_some_and(|left| *left < self.depth)
    }

    /// CPU time that a flusher counts as having used once it has been woken, first of all or not.
    pub fn charge_wakeup(&mut self, used: Ns, is_first: bool) -> Ns {
        if is_first {
            self.clock = used;
        }
        used.min(self.clock + LAG) + if is_first { SERVED } else { WOKEN }
    }

    /// For how long a flusher that has been woken keeps its CPU, where a page takes `page`.
    pub fn turn_time(&self, page: Ns) -> Ns {
        u64::from(self.depth / 8 + 1) * (REQUEST + BIO_COST + page)
    }
}
