// SPDX-License-Identifier: GPL-2.0-only
//! What the host is made of.

use crate::clock::{Ns, Ticks};
use crate::controller::Rates;
use crate::domain::Domain;
use crate::flusher::Flusher;
use crate::pages::Pages;
use crate::ram::Marks;
use crate::ram::lru::Lru;
use crate::share::Share;
use std::collections::VecDeque;

/// Pages by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dirty, not yet in flight.
    pub dirty: u64,
    /// Pages in writeback.
    pub writeback: u64,
    /// Pages ever dirtied.
    pub dirtied: u64,
    /// Pages ever written.
    pub written: u64,
    /// Forgotten before they were written.
    pub dropped: u64,
}

impl Counts {
    /// Dirty and in flight.
    pub fn held(&self) -> u64 {
        self.dirty + self.writeback
    }

    /// Whether nothing has been lost or made up.
    #[cfg(any(test, debug_assertions))]
    pub fn is_even(&self) -> bool {
        self.dirtied == self.written + self.dirty + self.writeback + self.dropped
    }
}

/// A cgroup; the first is the root.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// Below the root; empty for it.
    pub path: String,
    /// Not for the root.
    pub parent: Option<usize>,
    /// Its own pages.
    pub counts: Counts,
    /// Its and its descendants'.
    pub subtree: Counts,
    /// What the kernel believes of them: the counts at the last refresh.
    pub believed: Counts,
    /// Pages of page cache charged to it.
    pub file: u64,
    /// The same in the order it came.
    pub line: Lru,
    /// Memory that is its tasks' own, and those of cgroups below it.
    pub anonymous: u64,
    /// As the kernel believes.
    pub believed_file: u64,
    /// In pages, `u64::MAX` without one; `memory.max`.
    pub max: u64,
    /// `memory.high` in pages.
    pub high: u64,
    /// `memory.min` in pages.
    pub min: u64,
    /// `memory.low` in pages.
    pub low: u64,
    /// Its domain; the root has none.
    pub domain: Domain,
    /// Whose pressure its tasks count for first.
    pub pressure: u32,
}

/// The writeback of one cgroup on one disk.
#[derive(Clone, Debug)]
pub struct Wb {
    /// Index of the owning cgroup.
    pub cgroup: usize,
    /// Index of the disk.
    pub device: usize,
    /// Pages of this writeback.
    pub counts: Counts,
    /// What the controller has learnt.
    pub rates: Rates,
    /// Of the host's completions.
    pub share: Share,
    /// Of the cgroup's.
    pub cgroup_share: Share,
    /// A writer found it over its share.
    pub exceeded: bool,
    /// A measurement of bandwidth is planned.
    pub measuring: bool,
    /// Files with pages in flight.
    pub files_in_flight: u32,
    /// Who writes back.
    pub flusher: Flusher,
}

/// A file and its pages.
#[derive(Clone, Debug)]
pub struct File {
    /// Index of the owning writeback.
    pub wb: u32,
    /// What is dirty.
    pub pages: Pages,
    /// Pages in flight.
    pub in_flight: u64,
    /// Of these, written as parts of a bio that has more.
    pub unended: u64,
    /// What is in the cache.
    pub cache: Pages,
    /// How many pages that are.
    pub cached: u64,
    /// How often all that was in the cache has been forgotten.
    pub life: u16,
    /// Where in its cgroup's line its last pages are.
    pub run: u64,
    /// Where writeback goes on.
    pub cursor: u64,
    /// On one of its flusher's lists.
    pub listed: bool,
    /// When the first of its dirty pages was dirtied.
    pub dirtied_at: Ticks,
    /// Which block of its filesystem its inode is in.
    pub block: u32,
    /// The last transaction that its inode was in.
    pub transaction: u64,
    /// A commit waits until none is in flight.
    pub carried: bool,
    /// Some of its pages could not be written.
    pub failed: bool,
    /// A task that waits until none is in flight.
    pub synced_by: Option<u32>,
}

/// Costs of a machine, and what it has.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: u32,
    /// CPU time of a write() besides its pages.
    pub call: Ns,
    /// CPU time of a page that is written to.
    pub page: Ns,
    /// The same if it is dirty already: written to, and through a mapping.
    pub rewrite: Ns,
    pub store: Ns,
    /// What filling a CPU's own list of free pages takes.
    pub refill: Ns,
    /// What the first write() after a sleep takes more.
    pub wake: Ns,
    /// CPU time of a look at the host.
    pub look: Ns,
    /// Until a process that was started does its first operation.
    pub start: Ns,
    /// CPU time of a page that a flusher submits, in nanoseconds per 1,024 pages.
    pub flush_1024: Ns,
    /// CPU time of a page that is looked at to take it.
    pub scan: Ns,
    /// Pages that can be dirty at all, while no task holds memory of its own.
    pub dirtyable: u64,
    /// How many free pages are few.
    pub marks: Marks,
    /// Age at which pages are written whatever the levels.
    pub expire: Ticks,
    /// How often flushers look for such pages; 0 never.
    pub periodic: Ticks,
}

/// What each CPU keeps for the throttle, and who is on it.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Pages dirtied on it since the last pass on it.
    pub unseen: u64,
    /// Left behind by tasks that have ended.
    pub left: u64,
    /// Pages taken from its own list of free ones since that was filled.
    pub taken: u64,
    /// When those are through who want to run on it now.
    pub free_at: Ns,
    /// The task that is on it, and until when it is in any case.
    pub runs: Option<u32>,
    pub turn_ends: Ns,
    /// Tasks that wait for it.
    pub line: VecDeque<u32>,
}

/// What is looked at every 50 ms, in pages.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Of the host: dirty and in flight.
    pub held: Vec<u64>,
    /// Pages of the host in writeback.
    pub writeback: Vec<u64>,
    /// By cgroup: dirty and in flight.
    pub cgroups: Vec<Vec<u64>>,
}
