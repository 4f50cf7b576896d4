// SPDX-License-Identifier: GPL-2.0-only
//! The commands of a node. The program `weir` has these alone; `weir-bench` has them too, since the
//! lab's guests call them.

mod agent;
mod completions;
mod explain;
pub mod host;
pub mod output;
mod record;
mod report;
mod top;

use anyhow::Result;
use clap::Subcommand;
use config::problem::Problems;
use std::process::ExitCode;

pub use crate::report::ReadRun;

/// Commands of a node but `doctor`, which the bench can ask about a kernel in a guest.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "a variant's comment would replace its command's help"
)]
pub enum Command {
    #[command(flatten)]
    Module(host::Command),
    Explain(explain::ExplainArgs),
    Top(top::TopArgs),
    Record(record::RecordArgs),
    Report(report::ReportArgs),
    Agent(Box<agent::AgentArgs>),
    Completions(completions::CompletionsArgs),
}

/// Differences between the programs that have these commands.
pub struct Program {
    /// The command line as this program shows it.
    pub shown_command: fn() -> clap::Command,
    /// Reads the directory that `weir run --out` leaves of a run.
    pub read_run: ReadRun,
}

/// Runs the subcommand.
///
/// # Errors
/// It could not do what was asked.
pub fn run(command: Command, program: &Program) -> Result<ExitCode> {
    match command {
        Command::Module(command) => host::run(&command),
        Command::Explain(args) => explain::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args, program.read_run),
        Command::Agent(args) => agent::run(*args),
        Command::Completions(args) => completions::run(&args, (program.shown_command)()),
    }
}

/// The exit status of a command that has ended, after a message about its error.
pub fn exit_status(done: Result<ExitCode>) -> ExitCode {
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
