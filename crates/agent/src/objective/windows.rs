// SPDX-License-Identifier: GPL-2.0-only
//! Windows for an objective: what the flushers of others have under writeback is what an fsync or a
//! read stands behind. `policy/narrow.c` decides how much that may be.
//!
//! A module that is older has no such file; then ceilings have to do.

use super::applied::Applied;
use crate::held;
use crate::limits::Found;
use crate::tree::Place;
use knobs::PAGE;
use observe::stack::Stack;
use policy::UNLIMITED;
use policy::narrow::{Look, Narrow};
use policy::window::WINDOW_MIN;
use std::collections::BTreeMap;

/// No window is less, in pages.
const LEAST: u64 = WINDOW_MIN / PAGE;
/// A cgroup counts as one that writes if it has written this part of what the first of them has.
const WRITES: u64 = 16;

/// What an objective has found out.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What was measured, if anything.
    pub value: Option<u64>,
    /// What it should not exceed.
    pub bound: u64,
    /// A wait that it allows, in microseconds.
    pub wait_us: u64,
    /// Time since the look before.
    pub ms: u64,
    /// Ceilings are in force, too.
    pub frozen: bool,
    /// Whether windows are set, not only observed.
    pub is_on: bool,
}

/// A cgroup that may have a window.
struct Holder {
    place: Place,
    /// Pages under writeback.
    in_flight: u64,
    /// Pages written since it was made.
    written: u64,
    /// Pages written since the look before.
    wrote: u64,
}

/// The windows of one objective.
#[derive(Default)]
pub struct Windows {
    narrow: Narrow,
    holders: BTreeMap<u64, Holder>,
    /// There was a look at them before.
    is_known: bool,
    is_spent: bool,
    /// Pages that each of them may have.
    each: Option<u64>,
}

impl Windows {
    /// Whether there is one.
    pub fn are_set(&self) -> bool {
        self.narrow.window != UNLIMITED
    }

    /// Whether ceilings have to do the rest.
    pub fn are_spent(&self) -> bool {
        self.is_spent
    }

    /// Values that began longer ago do not count.
    pub fn since_ms(&self) -> u64 {
        self.narrow.since_ms()
    }

    /// Pages of each cgroup's window.
    pub fn each(&self) -> Option<u64> {
        self.each
    }

    /// How many cgroups may have one.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Windows that are wanted.
    pub fn wanted(&self) -> impl Iterator<Item = (&Place, u64)> {
        let each = self.each;
        let holders = self.holders.values();
        holders.filter_map(move |holder| Some((&holder.place, each?)))
    }

    /// What is written now is not compared with what was the last time.
    pub fn pause(&mut self) {
        self.holders.clear();
        self.is_known = false;
        self.is_spent = false;
    }

    /// Looks at cgroups that may be limited; whether the windows have changed.
    pub fn look(
        &mut self,
        places: &[Place],
        applied: &Applied,
        stack: &Stack,
        of: &Measured,
    ) -> bool {
        self.measure(places, applied, stack);
        if !std::mem::replace(&mut self.is_known, true) {
            self.is_spent = self.holders.is_empty();
            return false;
        }
        let holders = self.holders.values();
        let wrote: u64 = holders.clone().map(|holder| holder.wrote).sum();
        let look = Look {
            value: of.value.unwrap_or(0),
            bound: of.bound,
            wait_us: of.wait_us,
            in_flight: holders.map(|holder| holder.in_flight).sum(),
            written: wrote.saturating_mul(1_000) / of.ms.max(1),
            least: LEAST,
            elapsed_ms: of.ms,
            measured: of.value.is_some().into(),
            frozen: of.frozen.into(),
        };
        let before = self.narrow.window;
        if !of.is_on && self.are_set() {
            // What is only observed changes nothing that could be judged.
            if of.value.is_some_and(|value| value <= of.bound) {
                self.narrow = Narrow::default();
            }
        } else {
            self.narrow.step(&look);
        }
        self.is_spent = self.holders.is_empty() || (of.is_on && self.narrow.is_spent(&look));
        self.each = self.are_set().then(|| self.level());
        self.narrow.window != before
    }

    /// What each may have, of what those that write may have together.
    fn level(&self) -> u64 {
        let most = self.holders.values().map(|holder| holder.wrote).max();
        let writes = |holder: &&Holder| holder.wrote > most.unwrap_or(0) / WRITES;
        let writers = self.holders.values().filter(writes).count();
        let each = self.narrow.window / u64::try_from(writers).unwrap_or(1).max(1);
        each.max(LEAST)
    }

    fn measure(&mut self, places: &[Place], applied: &Applied, stack: &Stack) {
        let before = std::mem::take(&mut self.holders);
        for place in places {
            if applied.look(place) != Found::Own && !applied.has(place) {
                continue;
            }
            let Some(held) = held::held(&place.directory, false) else {
                continue;
            };
            let written = held::written(&place.directory, stack).unwrap_or(0);
            let then = before.get(&place.inode).map(|holder| holder.written);
            let holder = Holder {
                place: place.clone(),
                in_flight: held.writeback,
                written,
                wrote: written.saturating_sub(then.unwrap_or(written)),
            };
            self.holders.insert(place.inode, holder);
        }
    }
}
