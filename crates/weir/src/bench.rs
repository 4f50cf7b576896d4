// SPDX-License-Identifier: GPL-2.0-only
//! The commands that try weir out: scenarios in guests, on the twin and on this machine. Built with
//! the feature `bench`; a node needs none of them (`make static`).

use crate::{check, compare, exec, kernels, metrics, plan, run, sweep};
use anyhow::Result;
use clap::Subcommand;
use std::ffi::OsStr;
use std::process::ExitCode;

/// Commands of the bench.
#[derive(Subcommand)]
pub enum Command {
    Run(run::Args),
    Compare(compare::Args),
    Sweep(sweep::Args),
    Plan(plan::Args),
    Check(check::Args),
    Metrics(metrics::Args),
    Exec(Box<exec::Args>),
    Kernels(kernels::Args),
}

/// Runs the subcommand.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Exec(args) => exec::run(*args),
        Command::Kernels(args) => kernels::run(&args),
    }
}

/// Runs what the binary is besides the command: process 1 of the lab's guests, and the programs
/// that runs of scenarios start under a name of their own.
pub fn run_as(name: Option<&OsStr>) -> Option<ExitCode> {
    if guest::is_guest() {
        guest::init();
    }
    Some(match name.and_then(OsStr::to_str)? {
        runner::memory::PROGRAM => runner::memory::main(),
        runner::sync::PROGRAM => runner::sync::main(),
        host::KEEPER => host::keeper(),
        host::DISK => host::disk(),
        _ => return None,
    })
}
