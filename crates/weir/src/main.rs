// SPDX-License-Identifier: GPL-2.0-only
//! The weir command.

mod exec;

use clap::Parser;
use std::process::ExitCode;

/// Holds the host's dirty pages at a level
#[derive(Parser)]
#[command(name = "weir", version)]
enum Cli {
    Exec(exec::Args),
}

fn main() -> ExitCode {
    // The same binary is process 1 of the lab's guests.
    if guest::is_guest() {
        guest::init();
    }
    let done = match Cli::parse() {
        Cli::Exec(args) => exec::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("weir: {error:#}");
        ExitCode::from(2)
    })
}
