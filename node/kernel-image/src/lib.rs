// SPDX-License-Identifier: GPL-2.0-only
//! Kernels in files: what `weir doctor` judges without booting it, and what `weir load` unpacks.
//!
//! Everything is unpacked here, by no program of the machine: a static binary that is alone in its
//! root reads the same files as an installed one.

mod archive;
mod config;
mod file;
mod kallsyms;
mod packed;
mod system_map;

pub use config::Config;
pub use file::{Image, KernelFile};
pub use packed::unpacked_module;
