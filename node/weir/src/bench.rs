// SPDX-License-Identifier: GPL-2.0-only
//! The commands that try weir out: scenarios in guests, on the twin and on this machine. Built with
//! the feature `bench`; a node needs none of them (`make static`).

use crate::{check, compare, exec, kernels, metrics, plan, run, sweep};
use anyhow::Result;
use clap::Subcommand;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Name under which packages install a binary with the bench. `weir` is there without it: nodes
/// need no lab, no simulator and no process 1 of a guest that root may start.
const PROGRAM: &str = "weir-bench";

/// Commands of the bench.
#[derive(Subcommand)]
pub enum Command {
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Sweep(sweep::SweepArgs),
    Plan(plan::PlanArgs),
    Check(check::CheckArgs),
    Metrics(metrics::MetricsArgs),
    Exec(Box<exec::ExecArgs>),
    Kernels(kernels::KernelsArgs),
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

/// File name that this process was started by.
fn program_name() -> Option<OsString> {
    let path = std::env::args_os().next()?;
    Path::new(&path).file_name().map(OsString::from)
}

/// Reports whether this was started as `weir-bench`.
pub fn is_own_program() -> bool {
    program_name().is_some_and(|name| name == PROGRAM)
}

/// The command line with the name and the commands of the bench alone. Those of the node are
/// understood still, as guests of the lab call them, but not shown.
pub fn show_alone(command: clap::Command) -> clap::Command {
    let own = Command::augment_subcommands(clap::Command::new(PROGRAM));
    // `doctor --kernel` boots a guest.
    let is_own = |name: &str| {
        own.find_subcommand(name).is_some() || ["completions", "doctor"].contains(&name)
    };
    command
        .name(PROGRAM)
        .bin_name(PROGRAM)
        .about("Try weir out: scenarios in guests, on simulated hosts and on this machine")
        .mut_subcommands(|one| {
            let hidden = !is_own(one.get_name());
            one.hide(hidden)
        })
}

/// Runs what the binary is besides the command: process 1 of the lab's guests, and the programs
/// that runs of scenarios start under a name of their own.
pub fn run_as_program() -> Option<ExitCode> {
    if guest::is_guest() {
        guest::init();
    }
    Some(match program_name()?.to_str()? {
        runner::memory::PROGRAM => runner::memory::main(),
        runner::sync::PROGRAM => runner::sync::main(),
        host::KEEPER => host::keeper(),
        host::DISK => host::disk(),
        _ => return None,
    })
}
