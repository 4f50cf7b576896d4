// SPDX-License-Identifier: GPL-2.0-only
//! weir on the machine it runs on: can it run here ([`doctor`]) or
//! on another kernel ([`oracle`]), loading and unloading
//! ([`module`]), what is in effect now ([`status`]), tiers of memory ([`tier`]), a
//! unit's rate of writing ([`bandwidth`]).

mod bandwidth;
pub mod doctor;
mod module;
pub mod oracle;
mod refusal;
pub mod requirements;
mod status;
mod system;
mod tier;

pub use system::{GUEST_CONFIG, GUEST_MODULE, System};

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Commands for the module and for tiers.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "a variant's comment would replace its command's help"
)]
pub enum Command {
    Load(module::LoadArgs),
    Unload(module::UnloadArgs),
    Status(status::StatusArgs),
    Tier(tier::TierArgs),
    Bandwidth(bandwidth::BandwidthArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// It could not do what was asked.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Load(args) => module::load(args),
        Command::Unload(args) => module::unload_module(args),
        Command::Status(args) => status::run(args),
        Command::Tier(args) => tier::run(args),
        Command::Bandwidth(args) => bandwidth::run(args),
    }
}
