// SPDX-License-Identifier: GPL-2.0-only
//! Commands that a node leaves to `weir-bench`: messages that say so.

use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use report::timeline::Timeline;
use std::path::Path;
use weir::output;

/// Commands of the bench.
const COMMANDS: [&str; 8] = [
    "run", "compare", "sweep", "plan", "check", "metrics", "exec", "kernels",
];

/// Says what is wrong with the command line, and ends.
pub fn exit_naming_program(error: &Error) -> ! {
    let known = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::InvalidSubcommand => {
            COMMANDS.iter().find(|command| *command == name)
        }
        _ => None,
    };
    let Some(command) = known else {
        error.exit();
    };
    output::print_note(format_args!(
        "weir: `weir {command}` is not in this binary, which holds what a node needs: it is `weir-bench {command}` of the package weir-bench, and ./weir {command} in weir's source tree"
    ));
    std::process::exit(2);
}

/// Refuses a directory that `weir run --out` made.
pub fn refuse_run_directory(directory: &Path) -> Result<Timeline> {
    bail!(
        "{} is a directory: `weir-bench report` of the package weir-bench, and ./weir report in weir's source tree, read what weir run --out made",
        directory.display()
    )
}
