// SPDX-License-Identifier: GPL-2.0-only
//! From files: those of the kernel, and recordings of any kind.

pub(crate) mod bytes;
pub mod cgroup;
mod device;
mod dirty_stat;
pub(crate) mod file;
pub mod host;
pub mod recording;
pub(crate) mod trace;
mod values;

pub use file::read_content;
