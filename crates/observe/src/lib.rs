// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel shows of its dirty throttling, and what that means.
//!
//! ```text
//! tracefs ─┐                          /proc, /sys, cgroup files, sleeps ─┐
//! trace.dat├─► trace: events ─► stall: what lasted how long ─► observation ─► diagnosis: verdicts
//! text ────┘
//! ```
//!
//! [`recording`] keeps a look as a file. [`live`] looks at the running kernel, [`trace`] reads what
//! others recorded; both end in an [`Observation`], and [`diagnosis`] judges it without looking at
//! anything else. A file lacks what only the running kernel can tell, and the diagnosis says so.

mod bytes;
pub mod cgroup;
pub mod diagnosis;
mod dirty_stat;
pub mod host;
pub mod interval;
pub mod live;
pub mod observation;
pub mod plausible;
pub mod recording;
pub mod stall;
mod tasks;
pub mod trace;
mod tracefs;
mod wait;
pub mod watch;

pub use dirty_stat::DirtyStat;
pub use observation::Observation;
pub use tasks::Waits;
pub use wait::Wait;
