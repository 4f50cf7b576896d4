// SPDX-License-Identifier: GPL-2.0-only
//! The command of a node.

mod elsewhere;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use weir::Program;
use weir::host::doctor::{self, DoctorArgs};

/// Per-cgroup limits on dirty pages, on a stock Linux kernel
#[derive(Parser)]
#[command(name = "weir", version, max_term_width = 100)]
enum Cli {
    Doctor(DoctorArgs),
    #[command(flatten)]
    Node(weir::Command),
}

const PROGRAM: Program = Program {
    shown_command: Cli::command,
    read_run: elsewhere::refuse_run_directory,
};

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| elsewhere::exit_naming_program(&error));
    weir::exit_status(match cli {
        Cli::Doctor(args) => doctor::run(&args),
        Cli::Node(command) => weir::run(command, &PROGRAM),
    })
}
