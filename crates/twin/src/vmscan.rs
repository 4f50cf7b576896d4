// SPDX-License-Identifier: GPL-2.0-only
//! Reclaim, of the whole host: for kswapd, which takes clean pages when few are free, until enough
//! are, and for tasks.
//!
//! kswapd looks for up to 512 pages at a time, and each that it looks at costs it CPU time. After
//! 16 looks without a single clean page it gives up, until a task has found one for itself. All the
//! while it is stalled on memory: on its CPU nothing else is done.

use crate::mm::Look;
use crate::mm::zone::{KSWAPD_WAKE, MAX_RECLAIM_RETRIES, SWAP_CLUSTER_MAX};
use crate::sched::psi::PsiFlags;
use crate::sim::Event;
use crate::writeback::Writeback;

/// Pages kswapd wants at a time.
const PART: u64 = 512;

impl Writeback {
    /// Looks for `wanted` clean pages all over the host. Who finds none has looked at everything.
    pub fn reclaim(&mut self, wanted: u64) -> Look {
        let (mut look, mut in_vain, mut dirty) = (Look::default(), 0, 0);
        while look.taken < wanted && in_vain < self.cgroups.len() {
            let index = self.zone.hand % self.cgroups.len();
            self.zone.hand = index + 1;
            in_vain += 1;
            let cgroup = &self.cgroups[index];
            if cgroup.file <= cgroup.min {
                continue;
            }
            let file = cgroup.file;
            let here = self.takes_from(
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
            (0..self.wbs.len()).for_each(|wb| self.has_all_written(wb));
        }
        look
    }

    /// kswapd's next step.
    pub fn kswapd_goes_on(&mut self) {
        let wanted = self.zone.marks.high.saturating_sub(self.zone.free);
        if wanted == 0 || self.zone.kswapd.kswapd_failures >= MAX_RECLAIM_RETRIES {
            self.zone.kswapd.awake = false;
            return self.kswapd_does(PsiFlags::Nothing);
        }
        let Look { scanned, taken } = self.reclaim(wanted.min(PART));
        self.zone.reclaimed.pgscan_kswapd += scanned;
        self.zone.reclaimed.pgsteal_kswapd += taken;
        let kswapd = &mut self.zone.kswapd;
        kswapd.kswapd_failures = if taken > 0 {
            0
        } else {
            kswapd.kswapd_failures + 1
        };
        self.kswapd_does(PsiFlags::MemstallRunning);
        let (cpu, scan) = (self.zone.kswapd.thread.cpu, self.machine.scan);
        let over = self.takes_cpu(cpu, KSWAPD_WAKE + scanned * scan);
        self.schedule(over, Event::Kswapd);
    }

    fn kswapd_does(&mut self, doing: PsiFlags) {
        let mut thread = self.zone.kswapd.thread;
        // One that shares a CPU goes to another that has nothing to do.
        let moves = thread.doing == PsiFlags::Nothing || self.is_shared(&thread);
        self.kthread_does(&mut thread, doing, moves);
        self.zone.kswapd.thread = thread;
    }
}
