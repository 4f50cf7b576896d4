// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel shows of its dirty throttling, and what that means.
//!
//! ```text
//! tracefs ─┐                          /proc, /sys, cgroup files, sleeps ─┐
//! trace.dat├─► trace: events ─► stall: what lasted how long ─► observation ─► diagnosis: verdicts
//! text ────┘
//! ```
//!
//! [`recording`] keeps a look as a file. [`live`] looks at the running kernel, others' recordings
//! are read; both end in an [`Observation`], and [`diagnosis`] judges it without looking at anything
//! else. A file lacks what only the running kernel can tell, and the diagnosis says so.
//!
//! Layers: `collect` uses [`read`], and all use [`model`]; [`diagnosis`] uses nothing else.

mod collect;
pub mod diagnosis;
pub mod model;
pub mod read;

pub use collect::{live, losses, reads, syncs, watch};
pub use diagnosis::{interval, owed};
pub use model::dirty_stat::DirtyStat;
pub use model::observation::Observation;
pub use model::target::Target;
pub use model::wait::{Wait, Waits};
pub use model::{bounds, cgroup, event, host, observation, reclaim, stack, stall, trace};
pub use read::recording;
