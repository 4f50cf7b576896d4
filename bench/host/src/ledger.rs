// SPDX-License-Identifier: GPL-2.0-only
//! What was there before, written down before it is changed: one line of JSON each in a file of
//! [`RUN`].

use crate::RUN;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The way to put one thing back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerEntry {
    /// Write a value into a file of the kernel's, if that is still there.
    Write {
        /// The file to be written.
        file: PathBuf,
        /// The value that is written into it.
        value: String,
    },
    /// The same before anything else is put back: what would slow that down.
    Release {
        /// The file to be written.
        file: PathBuf,
        /// The value that is written into it.
        value: String,
    },
    /// Remove a directory with all that is in it.
    Remove {
        /// The directory to be removed.
        directory: PathBuf,
    },
    /// Unload a module, if it is loaded.
    Unload {
        /// Its name, as in /proc/modules.
        module: String,
    },
}

/// The path of the ledger.
fn ledger_file() -> PathBuf {
    Path::new(RUN).join("ledger")
}

/// Adds an entry; what it puts back may be changed then.
///
/// # Errors
/// It cannot be written: nothing may be changed.
pub fn add(entry: &LedgerEntry) -> Result<()> {
    let line = format!("{}\n", serde_json::to_string(entry)?);
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(ledger_file())
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("{}", ledger_file().display()))
}

/// Remembers what a file of the kernel's says now.
///
/// # Errors
/// The file cannot be read.
pub fn remember_value(path: &Path) -> Result<()> {
    let value = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    add(&LedgerEntry::Write {
        file: path.to_owned(),
        value: value.trim_end().to_owned(),
    })
}

/// All entries, the latest first. A line that its writer was killed at stands for no change.
pub fn latest_first() -> Vec<LedgerEntry> {
    let text = fs::read_to_string(ledger_file()).unwrap_or_default();
    let entries = text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str(line).ok());
    entries.collect()
}

/// Keeps only what could not be put back, given with the latest first.
///
/// # Errors
/// The file cannot be written.
pub fn keep_entries(entries: &[LedgerEntry]) -> Result<()> {
    fs::remove_file(ledger_file()).or_else(|why| match why.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(why),
    })?;
    entries.iter().rev().try_for_each(add)
}
