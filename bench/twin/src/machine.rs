// SPDX-License-Identifier: GPL-2.0-only
//! CPU costs of a machine, and how many CPUs it has.

use crate::sim::clock::Ns;

/// A machine's size, and the CPU time of its work.
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
    /// CPU time of filling a CPU's own list of free pages.
    pub refill: Ns,
    /// Further CPU time of the first write() after a sleep.
    pub wake: Ns,
    /// CPU time of a look at the host.
    pub look: Ns,
    /// Until a process that was started does its first operation.
    pub start: Ns,
    /// CPU time of a page that a flusher submits, in nanoseconds per 1,024 pages.
    pub flush_1024: Ns,
    /// Cost of each further page of a large folio, in percent of that.
    pub flush_more: u64,
    /// CPU time of a page that is looked at to take it.
    pub scan: Ns,
}
