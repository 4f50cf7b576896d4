// SPDX-License-Identifier: GPL-2.0-only
//! What weir's module says of a cgroup, in `memory.dirty_stat`.

use serde::{Deserialize, Serialize};

/// The keys of it that are used; bytes, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyStat {
    /// In force here and now: its own, and what those of its ancestors have room for.
    pub floor: u64,
    /// In force here and now, the tightest on its path, if there is one.
    pub ceiling: Option<u64>,
    /// The largest part of a device it is due by weight, in 1/10000; 0 where it does not compete.
    #[serde(default)]
    pub weight_portion: u64,
    /// Slept in the throttle.
    pub throttled_usec: u64,
    /// Passes that waited for the cgroup's weight.
    pub weight_held: u64,
    /// Time that those waited.
    pub weight_held_usec: u64,
    /// Passes that waited for a `memory.dirty_bandwidth`.
    #[serde(default)]
    pub bandwidth_held: u64,
    /// Time that those waited.
    #[serde(default)]
    pub bandwidth_held_usec: u64,
    /// Times that flushers waited for a `memory.writeback_bytes`.
    #[serde(default)]
    pub window_held: u64,
    /// Time that those waited.
    #[serde(default)]
    pub window_held_usec: u64,
}

impl DirtyStat {
    /// Takes from running totals what they were at the beginning.
    pub(crate) fn subtract_totals(&mut self, before: &DirtyStat) {
        for (now, before) in [
            (&mut self.throttled_usec, before.throttled_usec),
            (&mut self.weight_held, before.weight_held),
            (&mut self.weight_held_usec, before.weight_held_usec),
            (&mut self.bandwidth_held, before.bandwidth_held),
            (&mut self.bandwidth_held_usec, before.bandwidth_held_usec),
            (&mut self.window_held, before.window_held),
            (&mut self.window_held_usec, before.window_held_usec),
        ] {
            *now = now.saturating_sub(before);
        }
    }
}
