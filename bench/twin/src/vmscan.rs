// SPDX-License-Identifier: GPL-2.0-only
//! Reclaim, of the whole host: for kswapd, which takes clean pages when few are free, until enough
//! are, and for tasks.
//!
//! kswapd looks for up to 512 pages at a time, and each that it looks at costs it CPU time. After
//! 16 looks without a single clean page it gives up, until a task has found one for itself. All the
//! while it is stalled on memory: on its CPU nothing else is done.
//!
//! Where jobs map memory ([`crate::mm::node`]) pages are looked at one by one instead: by whom,
//! reclaimer.rs; what becomes of them, [`crate::mm::shrink`]; who sleeps,
//! [`crate::mm::throttle`].

mod reclaimer;

pub use reclaimer::Step;

use crate::blk::Waiter;
use crate::mm::ScanResult;
use crate::mm::effort::{MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::mm::scan_control::Reclaimer;
use crate::mm::throttle::KSWAPD;
use crate::mm::zone::KSWAPD_WAKE;
use crate::sched::psi::PsiFlags;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, timer_expiry};
use crate::writeback::Writeback;

/// Pages kswapd wants at a time.
const PART: u64 = 512;

impl Writeback {
    /// Looks for `wanted` clean pages all over the host. Who finds none has looked at everything.
    pub fn reclaim_clean_pages(&mut self, wanted: u64) -> ScanResult {
        let (mut look, mut in_vain, mut dirty) = (ScanResult::default(), 0, 0);
        while look.taken < wanted && in_vain < self.cgroups.len() {
            let index = self.zone.hand % self.cgroups.len();
            self.zone.hand = index + 1;
            in_vain += 1;
            let cgroup = &self.cgroups[index];
            if cgroup.file <= cgroup.min {
                continue;
            }
            let file = cgroup.file;
            let here = self.reclaim_clean_pages_of(
                index,
                (file / 8).max(SWAP_CLUSTER_MAX).min(wanted - look.taken),
            );
            look.scanned += here.scanned;
            look.taken += here.taken;
            if here.taken > 0 {
                in_vain = 0;
            } else {
                dirty += file;
            }
        }
        if look.taken == 0 {
            look.scanned = look.scanned.max(dirty);
        }
        if dirty > 0 {
            (0..self.wbs.len()).for_each(|wb| self.start_full_writeback(wb));
        }
        look
    }

    /// kswapd's next step.
    pub fn run_kswapd(&mut self) {
        if self.node.is_some() {
            return self.balance_node();
        }
        let wanted = self.zone.marks.high.saturating_sub(self.zone.free);
        if wanted == 0 || self.zone.kswapd.kswapd_failures >= MAX_RECLAIM_RETRIES {
            self.zone.kswapd.awake = false;
            return self.change_kswapd_activity(PsiFlags::Nothing);
        }
        let ScanResult { scanned, taken } = self.reclaim_clean_pages(wanted.min(PART));
        self.zone.reclaimed.pgscan_kswapd += scanned;
        self.zone.reclaimed.pgsteal_kswapd += taken;
        let kswapd = &mut self.zone.kswapd;
        kswapd.kswapd_failures = if taken > 0 {
            0
        } else {
            kswapd.kswapd_failures + 1
        };
        self.change_kswapd_activity(PsiFlags::MemstallRunning);
        let (cpu, scan) = (self.zone.kswapd.thread.cpu, self.machine.scan);
        let over = self.occupy_cpu(cpu, KSWAPD_WAKE + scanned * scan);
        self.schedule_event(over, SimEvent::Kswapd);
    }

    /// The same where pages are looked at one by one (`balance_pgdat`).
    fn balance_node(&mut self) {
        loop {
            let high = self.zone.marks.high;
            let is_balanced = self.zone.free >= high;
            let hopeless = self.zone.kswapd.kswapd_failures >= MAX_RECLAIM_RETRIES;
            let Some(mut by) = self.zone.kswapd.reclaimer.take() else {
                if is_balanced || hopeless {
                    if let (true, Some(node)) = (is_balanced, &mut self.node) {
                        (node.writeback, node.congested) = (false, false);
                    }
                    self.zone.kswapd.awake = false;
                    return self.change_kswapd_activity(PsiFlags::Nothing);
                }
                let wanted = high.max(SWAP_CLUSTER_MAX);
                self.zone.kswapd.naps += 1;
                self.zone.kswapd.reclaimer = Some(Box::new(Reclaimer::for_kswapd(
                    self.zone.kswapd.naps,
                    wanted,
                )));
                continue;
            };
            let cpu = self.zone.kswapd.thread.cpu;
            match self.reclaim_step(&mut by, cpu) {
                Step::Done => {
                    let kswapd = &mut self.zone.kswapd;
                    kswapd.kswapd_failures = match by.nr_reclaimed {
                        0 => kswapd.kswapd_failures + 1,
                        _ => 0,
                    };
                    continue;
                }
                Step::Computes(time) => {
                    self.change_kswapd_activity(PsiFlags::MemstallRunning);
                    let cpu = self.zone.kswapd.thread.cpu;
                    self.count_reclaim_time(time);
                    let over = self.occupy_cpu(cpu, time);
                    self.schedule_event(over, SimEvent::Kswapd);
                }
                Step::Sleeps(nap) => {
                    self.zone.kswapd.naps += 1;
                    by.number = self.zone.kswapd.naps;
                    by.nap = Some((nap, self.current_tick()));
                    self.begin_reclaim_sleep(KSWAPD, by.number, nap);
                    self.change_kswapd_activity(PsiFlags::Memstall);
                    let at = timer_expiry(self.now, nap.0);
                    self.schedule_timer(at, SimEvent::Reclaim(KSWAPD, by.number));
                }
                Step::Waits(device, hctx) => {
                    self.devices[device].add_slot_waiter(Waiter::Kswapd, hctx);
                    self.change_kswapd_activity(PsiFlags::Memstall);
                }
            }
            self.zone.kswapd.reclaimer = Some(by);
            return;
        }
    }

    /// kswapd's sleep ends, if it is the one of this number.
    pub fn end_kswapd_sleep(&mut self, number: u32) {
        let now = self.current_tick();
        let by = self
            .zone
            .kswapd
            .reclaimer
            .as_mut()
            .filter(|by| by.number == number);
        if let Some((nap, since)) = by.and_then(|by| by.nap.take()) {
            self.end_reclaim_sleep(KSWAPD, nap, now - since);
            self.balance_node();
        }
    }

    /// Reclaim takes CPU time.
    pub fn count_reclaim_time(&mut self, time: Ns) {
        if let Some(node) = &mut self.node {
            node.vmstat.cpu += time;
        }
    }

    fn change_kswapd_activity(&mut self, doing: PsiFlags) {
        let mut thread = self.zone.kswapd.thread;
        // One that shares a CPU goes to another that has nothing to do.
        let moves = thread.doing == PsiFlags::Nothing || self.shares_cpu(&thread);
        self.change_kthread_activity(&mut thread, doing, moves);
        self.zone.kswapd.thread = thread;
    }
}
