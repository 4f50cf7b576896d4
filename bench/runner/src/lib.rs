// SPDX-License-Identifier: GPL-2.0-only
//! Runs a scenario on the kernel it finds itself on: in a guest of the lab, or on a host.
//!
//! The caller of [`run`] has made the place where it happens, a [`Site`]: cgroup v2, mounted disks,
//! a directory for temporary files. What goes on is told as [`Event`](scenario::rundir::Event)s
//! through a [`Channel`]. What was measured is raw: figures are computed elsewhere, alike for all
//! places.

pub mod channel;
pub mod disks;
pub mod jobs;
pub mod klog;
pub mod memory;
pub mod sync;
pub mod system;

mod cgroups;
mod flusher;
mod limits;
mod phases;
mod record;
mod sample;
mod schedule;
mod site;
mod tiers;
mod weir_agent;

pub use channel::Channel;
pub use phases::{Machine, run};
pub use site::{MountedDisk, Site};
