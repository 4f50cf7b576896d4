// SPDX-License-Identifier: GPL-2.0-only
//! Samples of the tiers, ten times a second, as the lab takes them.

use super::{BEAT, COLD, HOT, Heat};
use crate::sim::clock::{MS, Ns};

/// Time between two samples.
const LOOK: Ns = 100 * MS;
const _: () = assert!(LOOK % BEAT == 0);

/// Pages that a cgroup and those below it hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Pages in the fastest tier.
    pub top: u64,
    /// Pages in all other tiers.
    pub low: u64,
}

/// Looks at a phase, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Times at which the phase began, the last of its jobs did, and all end.
    span: (Ns, Ns, Ns),
    /// Time of each look.
    pub looks: Vec<Ns>,
    /// Pages by cgroup, the root first.
    pub cgroups: Vec<Vec<Held>>,
    /// Pages moved so far.
    pub migrated: Vec<u64>,
}

impl Record {
    /// Of a phase that begins, sees its last job begin, and ends then; of `cgroups` cgroups with
    /// the root.
    pub fn start_span(&mut self, span: (Ns, Ns, Ns), cgroups: usize) {
        *self = Record {
            span,
            cgroups: vec![Vec::new(); cgroups],
            ..Record::default()
        };
    }

    /// Time at which the last job began.
    pub fn last_start(&self) -> Ns {
        self.span.1
    }

    /// Half of the time in which all jobs run is over.
    pub fn half_time(&self) -> Ns {
        self.span.1.midpoint(self.span.2)
    }

    /// `true` if it is time to look.
    pub fn is_sample_due(&self, now: Ns) -> bool {
        (now - self.span.0) % LOOK == 0
    }

    /// Looks: by cgroup and tier what is held, and the pages moved so far.
    pub fn record_tier_sample(&mut self, now: Ns, held: &[Vec<Heat>], migrated: u64) {
        self.looks.push(now);
        for (series, held) in self.cgroups.iter_mut().zip(held) {
            let mut tiers = held.iter().map(|heat| heat[HOT] + heat[COLD]);
            series.push(Held {
                top: tiers.next().unwrap_or(0),
                low: tiers.sum(),
            });
        }
        self.migrated.push(migrated);
    }
}
