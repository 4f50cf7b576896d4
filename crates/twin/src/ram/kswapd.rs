// SPDX-License-Identifier: GPL-2.0-only
//! kswapd: takes clean pages when few are free, until enough are.
//!
//! It looks for up to 512 pages at a time, and each that it looks at costs it CPU time. After 16
//! looks without a single clean page it gives up, until a task has found one for itself. All the
//! while it is stalled on memory: on its CPU nothing else is done.

use super::reclaim::Look;
use crate::clock::Ns;
use crate::psi::{Doing, HOST};
use crate::world::{Event, World};

/// Pages it wants at a time.
const PART: u64 = 512;
/// Looks in vain before it gives up.
pub const PATIENCE: u32 = 16;
/// From being woken to running, and what a look takes besides its pages.
const WAKE: Ns = 20_000;

/// kswapd: its CPU and consecutive failed scans.
#[derive(Clone, Debug)]
pub struct Kswapd {
    cpu: u16,
    doing: Doing,
    awake: bool,
    in_vain: u32,
}

impl Default for Kswapd {
    fn default() -> Self {
        Kswapd {
            cpu: 0,
            doing: Doing::Nothing,
            awake: false,
            in_vain: 0,
        }
    }
}

impl Kswapd {
    /// A task has found a clean page.
    pub fn may_hope(&mut self) {
        self.in_vain = 0;
    }
}

impl World {
    /// Wakes it if few pages are free.
    pub fn may_wake_kswapd(&mut self) {
        if self.ram.free >= self.ram.marks.low {
            return;
        }
        let kswapd = &mut self.ram.kswapd;
        if !kswapd.awake && kswapd.in_vain < PATIENCE {
            kswapd.awake = true;
            self.plan(self.now + WAKE, Event::Kswapd);
        }
    }

    /// Its next step.
    pub fn kswapd_goes_on(&mut self) {
        let wanted = self.ram.marks.high.saturating_sub(self.ram.free);
        if wanted == 0 || self.ram.kswapd.in_vain >= PATIENCE {
            self.ram.kswapd.awake = false;
            return self.kswapd_does(Doing::Nothing);
        }
        let Look { scanned, taken } = self.reclaim(wanted.min(PART));
        self.ram.reclaimed.kswapd_scanned += scanned;
        self.ram.reclaimed.kswapd_taken += taken;
        let kswapd = &mut self.ram.kswapd;
        kswapd.in_vain = if taken > 0 { 0 } else { kswapd.in_vain + 1 };
        self.kswapd_does(Doing::Reclaiming);
        let over = self.takes_cpu(self.ram.kswapd.cpu, WAKE + scanned * self.machine.scan);
        self.plan(over, Event::Kswapd);
    }

    fn kswapd_does(&mut self, doing: Doing) {
        let kswapd = &mut self.ram.kswapd;
        // One that shares a CPU goes to another that has nothing to do.
        let (before, is_shared) = (kswapd.doing, self.psi.running(kswapd.cpu) > 1);
        if before == Doing::Nothing || is_shared {
            self.psi
                .turn(kswapd.cpu, HOST, before, Doing::Nothing, self.now);
            kswapd.doing = Doing::Nothing;
            kswapd.cpu = self.psi.place(kswapd.cpu);
        }
        self.psi
            .turn(kswapd.cpu, HOST, kswapd.doing, doing, self.now);
        kswapd.doing = doing;
    }
}
