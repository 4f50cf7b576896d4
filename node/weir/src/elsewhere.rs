// SPDX-License-Identifier: GPL-2.0-only
//! The commands that a binary for nodes leaves out (`make static`): it says where they are.

use crate::output;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Commands of the feature `bench`.
const COMMANDS: [&str; 8] = [
    "run", "compare", "sweep", "plan", "check", "metrics", "exec", "kernels",
];

/// Says what is wrong with the command line, and ends.
pub fn exit(error: &Error) -> ! {
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
