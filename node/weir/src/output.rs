// SPDX-License-Identifier: GPL-2.0-only
//! Output of the command, in one place, because its reader may stop early: `weir report FILE |
//! head`.
//!
//! Rust programs ignore SIGPIPE, and weir must: a write to a QEMU that is gone shall fail, not end
//! weir. So a write to standard output fails too, and `println!` would panic. Here it becomes an
//! error like any other: all callers clean up on the way out, nothing is said, and the status is
//! the one a shell shows for a program that the signal ended.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Status of a program that SIGPIPE ended: 128 + 13.
pub const READER_GONE: u8 = 141;

/// The reader of standard output is gone.
#[derive(Debug)]
pub struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("the reader of the output is gone")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints text as it is.
///
/// # Errors
/// It cannot be written; [`ReaderGone`] if its reader is gone.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Prints a line.
///
/// # Errors
/// As for [`print()`].
pub fn print_line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints a value for programs.
///
/// # Errors
/// As for [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print_line(serde_json::to_string_pretty(value)?)
}

/// Says something beside the output. If that cannot be written, no reader is left to tell.
pub fn print_note(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}

/// Writes a file, whole or not at all: until it is whole, what was there before stays. What is no
/// file, a pipe for one, takes it as it comes, and so does a link that leads to no name: `/dev/stdout`
/// where the output's file was removed.
///
/// # Errors
/// It cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let why = || format!("cannot write {}", path.display());
    // Behind a link the file is replaced, not the link.
    let named = path.canonicalize();
    let leads_nowhere = named.is_err() && path.is_symlink();
    if leads_nowhere || fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, bytes).with_context(why);
    }
    let place = named.unwrap_or_else(|_| path.into());
    let directory = place.parent().unwrap_or(Path::new("/"));
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    // As readable as any new file, not for its owner alone.
    let mut aside = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .with_context(why)?;
    aside.as_file_mut().write_all(bytes).with_context(why)?;
    aside.persist(&place).with_context(why)?;
    Ok(())
}

/// On a terminal, unless NO_COLOR says otherwise (<https://no-color.org>).
pub fn wants_colour() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
