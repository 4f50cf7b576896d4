// SPDX-License-Identifier: GPL-2.0-only
//! The weir command.

mod agent;
mod check;
mod compare;
mod completions;
mod counted;
mod exec;
mod explain;
mod here;
mod host;
mod kernels;
mod metrics;
mod output;
mod plan;
mod progress;
mod record;
mod report;
mod run;
mod sweep;
mod top;
mod twin;
mod twin_record;

use clap::{CommandFactory, Parser};
use config::problem::Problems;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

/// Per-cgroup limits on dirty pages, on a stock Linux kernel
#[derive(Parser)]
#[command(name = "weir", version, max_term_width = 100)]
enum Cli {
    Run(run::Args),
    Compare(compare::Args),
    Sweep(sweep::Args),
    Plan(plan::Args),
    Check(check::Args),
    Metrics(metrics::Args),
    Doctor(host::doctor::Args),
    Load(host::module::LoadArgs),
    Unload(host::module::UnloadArgs),
    Status(host::status::Args),
    Tier(host::tier::Args),
    Explain(explain::Args),
    Top(top::Args),
    Record(record::RecordArgs),
    Report(report::Args),
    Agent(Box<agent::Args>),
    Exec(Box<exec::Args>),
    Kernels(kernels::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    // The same binary is process 1 of the lab's guests.
    if guest::is_guest() {
        guest::init();
    }
    // And the programs that runs of scenarios start, each under a name of its own.
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(OsStr::to_str) {
        Some(runner::memory::PROGRAM) => return runner::memory::main(),
        Some(runner::sync::PROGRAM) => return runner::sync::main(),
        Some(::host::KEEPER) => return ::host::keeper(),
        Some(::host::DISK) => return ::host::disk(),
        _ => {}
    }
    let done = match Cli::parse() {
        Cli::Run(args) => run::run(args),
        Cli::Compare(args) => compare::run(&args),
        Cli::Sweep(args) => sweep::run(&args),
        Cli::Plan(args) => plan::run(&args),
        Cli::Check(args) => check::run(&args),
        Cli::Metrics(args) => metrics::run(&args),
        Cli::Doctor(args) => host::doctor::run(&args),
        Cli::Load(args) => host::module::load(&args),
        Cli::Unload(args) => host::module::unload(&args),
        Cli::Status(args) => host::status::run(&args),
        Cli::Tier(args) => host::tier::run(&args),
        Cli::Explain(args) => explain::run(&args),
        Cli::Top(args) => top::run(&args),
        Cli::Record(args) => record::record(&args),
        Cli::Report(args) => report::run(&args),
        Cli::Agent(args) => agent::run(*args),
        Cli::Exec(args) => exec::run(*args),
        Cli::Kernels(args) => kernels::run(&args),
        Cli::Completions(args) => completions::run(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        if error.is::<output::ReaderGone>() {
            return ExitCode::from(output::READER_GONE);
        }
        match error.downcast_ref::<Problems>() {
            // Each says its file and line, in the form that editors jump to.
            Some(problems) => output::note(problems),
            None => output::note(format_args!("weir: {error:#}")),
        }
        ExitCode::from(2)
    })
}
