// SPDX-License-Identifier: GPL-2.0-only
//! `weir completions`: what a shell completes after `weir`.

use crate::output;
use anyhow::Result;
use clap::Command;
use clap_complete::{Shell, generate};
use std::process::ExitCode;

/// Print what a shell completes: bash, zsh or fish
///
/// The package installs files that load it. Without the package: `source <(weir completions bash)`,
/// or `weir completions fish | source`. Exit status: 0.
#[derive(clap::Args, Debug)]
pub struct CompletionsArgs {
    /// Shell that the completions are for
    shell: Shell,
}

/// Runs the subcommand; `command` is all that this program shows.
pub fn run(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    generate(args.shell, &mut command, name, &mut script);
    output::print(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
