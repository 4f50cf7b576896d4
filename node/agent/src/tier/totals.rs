// SPDX-License-Identifier: GPL-2.0-only
//! What was moved since the agent began.

use crate::tier::engine::{Move, MoveOutcome, Way};
use crate::tier::groups::Reading;
use crate::tier::host::PAGE;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes moved between tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes moved to slower tiers.
    pub down: u64,
    /// Bytes moved to faster tiers.
    pub up: u64,
    /// Pages passed over in the last step because several processes share them.
    pub shared: u64,
}

/// Totals of all cgroups, and of each that is there.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Bytes moved of all cgroups, those that are gone included.
    pub all: Moved,
    /// Steps of one cgroup.
    pub moves: u64,
    /// Pages that could not be moved.
    pub failed: u64,
    /// Bytes moved, by the cgroup's path.
    pub cgroups: BTreeMap<String, Moved>,
}

impl Totals {
    /// Adds what a move came to.
    pub fn add(&mut self, wanted: &Move, outcome: &MoveOutcome) {
        let bytes = outcome.moved * PAGE;
        let one = self.cgroups.entry(wanted.cgroup.to_string()).or_default();
        match wanted.way {
            Way::Down => {
                one.down += bytes;
                self.all.down += bytes;
            }
            Way::Up => {
                one.up += bytes;
                self.all.up += bytes;
            }
        }
        one.shared = outcome.shared;
        self.all.shared += outcome.shared;
        self.failed += outcome.failed;
        self.moves += 1;
    }

    /// Forgets cgroups that are gone.
    pub fn retain_present(&mut self, there: &[Reading]) {
        let there: BTreeSet<&str> = there.iter().map(|reading| &*reading.path).collect();
        self.cgroups.retain(|path, _| there.contains(path.as_str()));
    }
}
