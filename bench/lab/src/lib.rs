// SPDX-License-Identifier: GPL-2.0-only
//! The lab: boots stock distribution kernels in QEMU and runs scenarios and scripts in them.
//!
//! What a guest is made of comes from the distribution's packages ([`cache`], [`kernel_spec`]); what it
//! does is in its configuration (`guest::protocol`); what it says comes back as events over a
//! channel of its own. A guest that dies, hangs, warns or oopses is failed or inconclusive, with its log kept and
//! named, never passed.

mod apt;
pub mod arch;
pub mod cache;
pub mod catalogue;
pub mod debian;
pub mod debug_kernel;
mod disks;
pub mod emulator;
mod exec;
mod initramfs;
pub mod kernel;
mod kernel_modules;
mod kernel_source;
pub mod kernel_spec;
mod libraries;
mod madt;
pub mod module;
mod monitor;
mod numa;
mod packages;
pub mod patch;
pub mod patched_kernel;
mod prepare;
mod qemu;
pub mod refused_kernel;
mod run;
pub mod tool;
mod toolchain;
mod tsc;
mod userland;
mod verdict;
mod watchdog;

pub use cache::Cache;
pub use exec::{Said, ScriptDisk, ScriptRequest, ScriptResult, run_script};
pub use qemu::FailedBoot;
pub use run::{Lab, list_refusals};
pub use scenario::executor::Outcome;
pub use scenario::model::Arm;

/// Made for people: each error says what was wrong, where, and what to do; `{:#}` prints all of it.
pub type Error = anyhow::Error;
