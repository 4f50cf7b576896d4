// SPDX-License-Identifier: GPL-2.0-only
//! The weir command.

mod agent;
mod completions;
#[cfg(not(feature = "bench"))]
mod elsewhere;
mod explain;
mod host;
mod output;
mod record;
mod report;
mod top;

#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "bench")]
mod check;
#[cfg(feature = "bench")]
mod compare;
#[cfg(feature = "bench")]
mod counted;
#[cfg(feature = "bench")]
mod exec;
#[cfg(feature = "bench")]
mod here;
#[cfg(feature = "bench")]
mod kernels;
#[cfg(feature = "bench")]
mod metrics;
#[cfg(feature = "bench")]
mod plan;
#[cfg(feature = "bench")]
mod progress;
#[cfg(feature = "bench")]
mod run;
#[cfg(feature = "bench")]
mod sweep;
#[cfg(feature = "bench")]
mod twin;
#[cfg(feature = "bench")]
mod twin_record;

#[cfg(feature = "bench")]
use clap::FromArgMatches;
use clap::{CommandFactory, Parser};
use config::problem::Problems;
use std::process::ExitCode;

/// Per-cgroup limits on dirty pages, on a stock Linux kernel
#[derive(Parser)]
#[command(name = "weir", version, max_term_width = 100)]
enum Cli {
    #[cfg(feature = "bench")]
    #[command(flatten)]
    Bench(bench::Command),
    Doctor(host::doctor::DoctorArgs),
    Load(host::module::LoadArgs),
    Unload(host::module::UnloadArgs),
    Status(host::status::StatusArgs),
    Tier(host::tier::TierArgs),
    Bandwidth(host::bandwidth::BandwidthArgs),
    Explain(explain::ExplainArgs),
    Top(top::TopArgs),
    Record(record::RecordArgs),
    Report(report::ReportArgs),
    Agent(Box<agent::AgentArgs>),
    Completions(completions::CompletionsArgs),
}

/// The command line as this binary has it: of `weir-bench`, what packages call a binary with the
/// bench, the bench alone is shown.
fn shown_command() -> clap::Command {
    let command = Cli::command();
    #[cfg(feature = "bench")]
    if bench::is_own_program() {
        return bench::show_alone(command);
    }
    command
}

#[cfg(feature = "bench")]
fn parse() -> Cli {
    Cli::from_arg_matches(&shown_command().get_matches()).unwrap_or_else(|error| error.exit())
}

#[cfg(not(feature = "bench"))]
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| elsewhere::exit(&error))
}

fn main() -> ExitCode {
    #[cfg(feature = "bench")]
    if let Some(status) = bench::run_as_program() {
        return status;
    }
    let done = match parse() {
        #[cfg(feature = "bench")]
        Cli::Bench(command) => bench::run(command),
        #[cfg(feature = "bench")]
        Cli::Doctor(host::doctor::DoctorArgs {
            kernel: Some(kernel),
            json,
            ..
        }) => exec::run_doctor(&kernel, json),
        Cli::Doctor(args) => host::doctor::run(&args),
        Cli::Load(args) => host::module::load(&args),
        Cli::Unload(args) => host::module::unload(&args),
        Cli::Status(args) => host::status::run(&args),
        Cli::Tier(args) => host::tier::run(&args),
        Cli::Bandwidth(args) => host::bandwidth::run(&args),
        Cli::Explain(args) => explain::run(&args),
        Cli::Top(args) => top::run(&args),
        Cli::Record(args) => record::run(&args),
        Cli::Report(args) => report::run(&args),
        Cli::Agent(args) => agent::run(*args),
        Cli::Completions(args) => completions::run(&args, shown_command()),
    };
    done.unwrap_or_else(|error| {
        if error.is::<output::ReaderGone>() {
            return ExitCode::from(output::READER_GONE);
        }
        match error.downcast_ref::<Problems>() {
            // Each says its file and line, in the form that editors jump to.
            Some(problems) => output::print_note(problems),
            None => output::print_note(format_args!("weir: {error:#}")),
        }
        ExitCode::from(2)
    })
}
