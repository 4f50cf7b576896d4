// SPDX-License-Identifier: GPL-2.0-only
//! What can be known of a host: types, sums and bounds, without a look at anything.

pub mod bounds;
pub mod cgroup;
pub mod dirty_stat;
pub mod event;
pub mod host;
pub mod observation;
pub mod reclaim;
pub mod stack;
pub mod stall;
pub mod target;
pub(crate) mod text;
pub mod trace;
pub mod wait;
