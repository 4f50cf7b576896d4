// SPDX-License-Identifier: GPL-2.0-only
//! Who waits for a slot is woken, with all others, when an eighth of a CPU's slots is free, eight
//! at most (`sbq_calc_wake_batch`); who waits for the kernel's writeback throttling when an eighth
//! of what that lets in is (`wbt_rqw_done`), and then has a slot for certain.
//!
//! Woken at once, flushers run one after the other on a CPU, first the one that has used less of
//! it, and the first takes what is free. So of two that write to a slow disk the one that needs
//! less CPU time for a request gets more of the disk.
//!
//! Example, counted in a guest (6.12, one CPU, 256 KiB/s, four slots free at a time): a file in
//! order takes 2.7 us a request, one at random 8.3; 20 and 41 us for four, and 4 and 5 for who
//! finds none left. (41 - 5) / (20 - 4): 2.25 times as often the first has them.

use super::{Device, Waiter};
use crate::clock::Ns;
use crate::flusher::{BIO_COST, REQUEST};
use crate::world::World;

/// By how much more than the first a flusher can have used. What Linux owes to whom it forgets in
/// part, depending on who else is on the CPU; this was chosen so that `weight` came out as guests
/// did (docs/experiments/0015-twin-accuracy.md).
const LAG: Ns = 100_000;
/// CPU time of being woken and finding none left; and of handing over besides, for who finds some.
const WOKEN: Ns = 4_500;
const SERVED: Ns = 9_000;

impl Device {
    /// What a flusher begins with that has used `used` and has slept: it is not owed what others
    /// used meanwhile.
    pub fn joins(&self, used: Ns) -> Ns {
        self.clock.max(used)
    }

    /// Who is to be woken: those who wait for a slot of `lane`, or for any; the latter have one.
    pub(super) fn woken(&mut self, lane: u32) -> (Vec<Waiter>, bool) {
        let at = lane as usize;
        if !self.waiters[at].is_empty() {
            let batch = (self.depth / 8).clamp(1, 8);
            let all_free = self.slots[at] == self.depth;
            if self.traits.weights.is_none() && self.freed[at] < batch && !all_free {
                return (Vec::new(), false);
            }
            self.freed[at] = 0;
            return (self.waiters[at].drain(..).collect(), false);
        }
        let batch = self.most.saturating_add(3) / 4 / 2;
        let free = self.most - self.inside;
        if self.outside.is_empty() || (free < batch && self.inside > 0) {
            return (Vec::new(), true);
        }
        let mut left = free as usize;
        let (mut woken, mut others) = (Vec::new(), self.outside.split_off(0));
        others.retain(|(lane, waiter)| {
            let wakes = left > 0 && self.has_room(*lane);
            if wakes {
                left -= 1;
                woken.push(*waiter);
            }
            !wakes
        });
        self.outside = others;
        (woken, true)
    }
}

impl World {
    /// A slot of `lane` has become free.
    pub(super) fn wakes_waiters(&mut self, device: usize, lane: u32) {
        let (mut woken, have_slot) = self.devices[device].woken(lane);
        woken.sort_by_key(|waiter| match waiter {
            Waiter::Flusher(wb) => self.wbs[*wb as usize].flusher.used,
            _ => 0,
        });
        let page = self.machine.flush_1024 / 1024;
        let turn = u64::from(self.devices[device].depth / 8 + 1) * (REQUEST + BIO_COST + page);
        let mut flushers = 0;
        for waiter in woken {
            match waiter {
                Waiter::Flusher(wb) => {
                    let wb = wb as usize;
                    // Those of a lane are on one CPU.
                    let before = match have_slot {
                        true => flushers / u64::from(self.machine.cpus),
                        false => flushers,
                    };
                    if flushers == 0 {
                        self.devices[device].clock = self.wbs[wb].flusher.used;
                    }
                    let most = self.devices[device].clock + LAG;
                    let used = &mut self.wbs[wb].flusher.used;
                    *used = (*used).min(most);
                    self.wbs[wb].flusher.used += if flushers == 0 { SERVED } else { WOKEN };
                    flushers += 1;
                    if have_slot {
                        self.flusher_is_let_in(wb, before * turn);
                    } else {
                        self.flusher_again(wb, before * turn);
                    }
                }
                Waiter::Task(task) => self.task_is_let_in(task as usize),
                Waiter::Pages(request) => self.goes_in_line(device, request),
            }
        }
    }
}
