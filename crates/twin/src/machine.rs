// SPDX-License-Identifier: GPL-2.0-only
//! CPU costs of a machine, and how many CPUs it has.

use crate::sim::clock::Ns;

/// What a machine has, and what it takes for what.
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
    /// CPU time of a page that is copied out of the page cache.
    pub read: Ns,
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
    /// What a page more of a large folio takes of that, in percent.
    pub flush_more: u64,
    /// CPU time of a page that is looked at to take it.
    pub scan: Ns,
}
