// SPDX-License-Identifier: GPL-2.0-only
//! Looks at the running kernel.

pub mod live;
mod tasks;
mod tracefs;
pub mod watch;
