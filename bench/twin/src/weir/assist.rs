// SPDX-License-Identifier: GPL-2.0-only
//! Assistants of flushers (`[assist]` of the agent): threads that submit beside a flusher, as many as
//! `policy/assist.c` says.
//!
//! An assistant has a CPU of its own and submits what the flusher would, so a device's flushers and
//! assistants are modelled as flushers whose pages take less CPU time: with one flusher and two
//! assistants a third. They run and wait for the disk's queue as those do. Left out: which files they
//! find, and their calls for files with nothing to write.

use crate::sim::clock::Ns;
use policy::assist::{Assist, Look};
use policy::names::BEAT_MS;

/// Looks at flushers in one step, a beat each; the agent's steps take a second, too.
const LOOKS: u64 = 1_000 / BEAT_MS;

/// All that the agent has.
#[derive(Clone, Debug, Default)]
pub struct Assistants {
    /// Threads that may be had, `[assist] cpus`.
    pub most: u64,
    looks: u64,
    /// By number of the device.
    devices: Vec<AssistedDevice>,
}

#[derive(Clone, Copy, Debug, Default)]
struct AssistedDevice {
    assist: Assist,
    /// Looks of this step that found a flusher running, and waiting for the disk.
    ran: u64,
    waited: u64,
    /// Flushers that were at work at the last look.
    flushers: u64,
}

impl Assistants {
    /// Time that a flusher's CPU time for pages comes to.
    pub fn share_cost(&self, device: usize, cost: Ns) -> Ns {
        let Some(device) = self.devices.get(device) else {
            return cost;
        };
        let flushers = device.flushers.max(1);
        cost * flushers / (flushers + device.assist.threads)
    }

    /// Takes in what flushers of each device do, as the agent finds it between two beats: whether one
    /// runs, whether one waits for the disk, and how many do either. Decides once a second.
    pub fn observe_flushers(&mut self, seen: &[(bool, bool, u64)]) {
        if self.most == 0 {
            return;
        }
        self.devices.resize(seen.len(), AssistedDevice::default());
        for (device, (ran, waited, flushers)) in self.devices.iter_mut().zip(seen) {
            device.ran += u64::from(*ran);
            device.waited += u64::from(*waited);
            device.flushers = *flushers;
        }
        self.looks += 1;
        if self.looks == LOOKS {
            self.decide_threads();
        }
    }

    fn decide_threads(&mut self) {
        self.looks = 0;
        let all: u64 = self
            .devices
            .iter()
            .map(|device| device.assist.threads)
            .sum();
        let mut left = self.most.saturating_sub(all);
        for device in &mut self.devices {
            let before = device.assist.threads;
            let (ran, waited) = (
                std::mem::take(&mut device.ran) * 1_000 / LOOKS,
                std::mem::take(&mut device.waited) * 1_000 / LOOKS,
            );
            device.assist.adapt_by_look(&Look {
                elapsed_ms: LOOKS * BEAT_MS,
                flusher_ran: ran,
                flusher_waited: waited,
                ran,
                most: before + left,
            });
            left = (left + before).saturating_sub(device.assist.threads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::clock::MS;

    #[test]
    fn flushers_and_assistants_share_the_work() {
        let mut assistants = Assistants {
            most: 2,
            devices: vec![AssistedDevice::default()],
            ..Assistants::default()
        };
        assert_eq!(assistants.share_cost(0, 9 * MS), 9 * MS);
        for _ in 0..6 {
            assistants.devices[0].ran = LOOKS;
            assistants.decide_threads();
        }
        assert_eq!(
            assistants.share_cost(0, 9 * MS),
            3 * MS,
            "two are all there are"
        );
        assistants.devices[0].flushers = 2;
        assert_eq!(assistants.share_cost(0, 8 * MS), 4 * MS, "two and two");
        assert_eq!(assistants.share_cost(1, 9 * MS), 9 * MS, "another device");
    }
}
