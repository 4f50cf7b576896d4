// SPDX-License-Identifier: GPL-2.0-only
//! Looks at the running kernel.

mod covered;
mod homes;
pub mod live;
pub mod losses;
pub mod reads;
pub mod syncs;
mod tasks;
mod tracefs;
pub mod watch;
