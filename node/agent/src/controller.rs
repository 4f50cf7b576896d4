// SPDX-License-Identifier: GPL-2.0-only
//! What the agent is made of: parts that look at the host now and then, act, and tell of it in
//! metrics.

use crate::family::Family;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A part of the agent. All of them are called from one thread.
pub trait Controller {
    /// Looks and acts; called once a second.
    fn on_tick(&mut self);

    /// Metrics for a scrape. Asked for once a second, scrape or not.
    fn metric_families(&self) -> Arc<[Family]>;

    /// Directories of cgroups that are of interest before others.
    fn preferred_cgroups(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Readable when it wants to be called before the next tick.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called when its bell is readable.
    fn on_wake(&mut self) {}

    /// Called when an operator asks to read the configuration again.
    fn reload(&mut self) {}
}
