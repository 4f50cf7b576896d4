// SPDX-License-Identifier: GPL-2.0-only
//! Sleeps in reclaim, their reasons, and what ends them: `congestion_wait()` up to 5.15,
//! `reclaim_throttle()` since.
//!
//! | met | up to 5.15 | 5.16-rc | 6.12 |
//! | --- | --- | --- | --- |
//! | pages in writeback come round again (kswapd) | 100 ms | writeback, 100 ms at most | as 5.16-rc |
//! | the same, found by a task | does not sleep | writeback, 100 ms at most | congested, a tick |
//! | too many isolated | 100 ms | isolated, 20 ms at most | as 5.16-rc |
//! | a task gets nowhere | 100 ms if half is to be written | noprogress, 500 ms at most | noprogress, a tick, in the last round only |
//!
//! Up to 5.15 nothing ends a sleep but its time: the block layer's multi-queue core had stopped
//! reporting congestion, on which that time was meant to end. `wait_iff_congested()`, in which
//! tasks were to wait, never slept for the same reason.
//!
//! *Writeback* ends when 32 pages have been written for each task that sleeps for it, *isolated*
//! when another reclaimer finds no more than an eighth isolated, *noprogress* when another gets an
//! eighth of what it looks at. The last two of 6.12 are left out unless half of what can be
//! reclaimed is to be written.

use super::Mm;
use super::effort::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use super::node::{Kernel, Sleeper};
use super::vmstat::Reason;
use crate::sim::SimEvent;
use crate::sim::clock::{HZ, Ticks};

/// Stands for kswapd where a task's number does for a task.
pub const KSWAPD: u32 = u32::MAX;

/// A sleep: for how long at most, and why if anything can end it before.
pub type Nap = (Ticks, Reason, bool);

impl Mm {
    /// `true` if half of what can be reclaimed is to be written.
    pub fn write_is_pending(&self) -> bool {
        let reclaimable = self
            .node
            .as_ref()
            .map_or(0, |node| node.reclaimable_pages());
        2 * self.counts.pages_held() > reclaimable
    }

    /// The sleep for a reason, if there is one.
    pub fn choose_reclaim_nap(&mut self, reason: Reason, is_kswapd: bool) -> Option<Nap> {
        let pending = self.write_is_pending();
        let hopeless = self.zone.kswapd.kswapd_failures >= MAX_RECLAIM_RETRIES;
        let node = self.node.as_mut()?;
        let stalls = &mut node.vmstat.stalls[reason as usize];
        match (node.kernel, reason) {
            (Kernel::Waits, Reason::Writeback) if !is_kswapd => {
                stalls.all += 1;
                stalls.zero += 1;
                None
            }
            (Kernel::Waits, _) => Some((HZ / 10, reason, false)),
            (_, Reason::Isolated) => Some((HZ / 50, reason, true)),
            (_, Reason::Writeback) => Some((HZ / 10, reason, true)),
            (Kernel::Throttles, _) => Some((HZ / 2, reason, true)),
            (Kernel::Today, _) if hopeless || !pending => None,
            (Kernel::Today, _) => Some((1, reason, true)),
        }
    }

    /// The sleep of a task that found nothing to take, where most of what there is has to be
    /// written first: up to 5.15 (`should_reclaim_retry`).
    pub fn choose_congestion_nap(&mut self) -> Option<Nap> {
        let waits = self.node.as_ref()?.kernel == Kernel::Waits && self.write_is_pending();
        waits.then_some((HZ / 10, Reason::NoProgress, false))
    }

    /// A reclaimer goes to sleep.
    pub fn begin_reclaim_sleep(&mut self, who: u32, number: u32, (_, reason, wakes): Nap) {
        let Some(node) = &mut self.node else { return };
        if wakes {
            node.sleepers.push(Sleeper {
                who,
                number,
                reason,
            });
        }
        if wakes && reason == Reason::Writeback {
            if node.throttled.0 == 0 {
                node.throttled.1 = 0;
            }
            node.throttled.0 += 1;
        }
    }

    /// It has slept for `ticks` of `timeout`.
    pub fn end_reclaim_sleep(&mut self, who: u32, nap: Nap, ticks: Ticks) {
        let (timeout, reason, wakes) = nap;
        let Some(node) = &mut self.node else { return };
        node.sleepers.retain(|sleeper| sleeper.who != who);
        if wakes && reason == Reason::Writeback {
            node.throttled.0 -= 1;
        }
        if who != KSWAPD {
            let stalls = &mut node.vmstat.stalls[reason as usize];
            stalls.all += 1;
            stalls.zero += u64::from(ticks == 0);
            stalls.full += u64::from(ticks >= timeout);
        }
    }

    /// All that sleep for a reason wake up.
    pub fn wake_sleepers(&mut self, reason: Reason) {
        let Some(node) = &mut self.node else { return };
        let (woken, others) = std::mem::take(&mut node.sleepers)
            .into_iter()
            .partition(|sleeper| sleeper.reason == reason);
        node.sleepers = others;
        let woken: Vec<Sleeper> = woken;
        for sleeper in woken {
            self.schedule_after(0, SimEvent::Reclaim(sleeper.who, sleeper.number));
        }
    }

    /// Pages have been written: enough of them end the sleep for writeback.
    pub fn count_pages_written(&mut self, pages: u64) {
        let Some(node) = &mut self.node else { return };
        let (tasks, written) = &mut node.throttled;
        if *tasks == 0 {
            return;
        }
        *written += pages;
        if *written > SWAP_CLUSTER_MAX * *tasks {
            self.wake_sleepers(Reason::Writeback);
        }
    }
}
