// SPDX-License-Identifier: GPL-2.0-only
//! The commands that try weir out, in guests, on the twin and on this machine; beside them those of
//! a node, for guests of the lab and for `./weir` of a source tree.

mod check;
mod compare;
mod counted;
mod exec;
mod here;
mod kernels;
mod metrics;
mod patches;
mod plan;
mod progress;
mod run;
mod sweep;
mod twin;
mod twin_record;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Name under which packages install this program: only then the bench's commands are shown alone.
const PROGRAM: &str = "weir-bench";

/// Per-cgroup limits on dirty pages, on a stock Linux kernel
#[derive(Parser)]
#[command(name = "weir", version, max_term_width = 100)]
enum Cli {
    #[command(flatten)]
    Bench(Command),
    Doctor(exec::DoctorArgs),
    #[command(flatten)]
    Node(weir::Command),
}

/// Commands of the bench.
#[derive(Subcommand)]
enum Command {
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
fn run_bench(command: Command) -> Result<ExitCode> {
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

/// The command line as this was started: of `weir-bench` the bench alone is shown.
fn shown_command() -> clap::Command {
    let command = Cli::command();
    if program_name().is_some_and(|name| name == PROGRAM) {
        return hide_node_commands(command);
    }
    command
}

/// The command line with the name and the commands of the bench alone. Those of the node are
/// understood still, as guests of the lab call them, but not shown.
fn hide_node_commands(command: clap::Command) -> clap::Command {
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
fn run_as_helper_program() -> Option<ExitCode> {
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

fn main() -> ExitCode {
    if let Some(status) = run_as_helper_program() {
        return status;
    }
    let program = weir::Program {
        shown_command,
        read_run: verdict::read_run,
    };
    let matches = shown_command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    weir::exit_status(match cli {
        Cli::Bench(command) => run_bench(command),
        Cli::Doctor(args) => exec::run_doctor(&args),
        Cli::Node(command) => weir::run(command, &program),
    })
}
