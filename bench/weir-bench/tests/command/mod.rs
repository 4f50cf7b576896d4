// SPDX-License-Identifier: GPL-2.0-only
//! The command and the files that tests of it are run with.

use assert_cmd::Command;
use std::os::unix::process::CommandExt;

/// Message about a ceiling that the module refuses, wherever it is written.
pub const CEILING_OF_4K: &str = "memory.dirty_bytes: invalid value `4K`: \
    expected bytes with optional K, M, G or T, at least 8192, or `max`";

/// The built command, started as `./weir` of a source tree starts it.
pub fn program() -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.arg0("weir");
    command
}

/// The same for assertions, without colours.
pub fn weir() -> Command {
    let mut command = Command::from_std(program());
    command.env("NO_COLOR", "1");
    command
}

/// A scenario file with `text` in it.
pub fn scenario(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("made");
    std::fs::write(file.path(), text).expect("written");
    file
}

/// Path of a scenario that the source tree has.
pub fn shipped(name: &str) -> String {
    format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}
