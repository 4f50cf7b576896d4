// SPDX-License-Identifier: GPL-2.0-only
//! A file below /run of what the agent has set, for the next agent if this one is killed. It ends
//! with the boot, as cgroups do.

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::Path;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Document<T> {
    version: u32,
    entries: Vec<T>,
}

/// Reads the entries of the file; none if it is not there. `lost` completes "FILE does not say ..."
/// for one that is not understood: what is not known then, and what to do.
///
/// # Errors
/// It is there and cannot be understood.
pub fn read<T: DeserializeOwned>(file: &Path, lost: &str) -> Result<Vec<T>> {
    match fs::read_to_string(file) {
        Ok(text) => {
            parsed(&text).with_context(|| format!("{} does not say {lost}", file.display()))
        }
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<Vec<T>> {
    let document: Document<T> = serde_json::from_str(text)?;
    let version = document.version;
    ensure!(version == VERSION, "version {version}: expected {VERSION}");
    Ok(document.entries)
}

/// Puts `entries` in place of what the file says, all of it at once; makes its directory.
///
/// # Errors
/// It cannot be written; the old one is still there.
pub fn write<'a, T: Serialize + 'a>(
    file: &Path,
    entries: impl Iterator<Item = &'a T>,
) -> Result<()> {
    let document = Document {
        version: VERSION,
        entries: entries.collect(),
    };
    let text = serde_json::to_string(&document)?;
    replace(file, &text).with_context(|| format!("cannot write {}", file.display()))
}

fn replace(file: &Path, text: &str) -> Result<()> {
    let directory = file.parent().context("the path has no directory")?;
    fs::create_dir_all(directory)?;
    let mut name = file
        .file_name()
        .context("the path has no file name")?
        .to_owned();
    name.push(".new");
    let new = directory.join(name);
    fs::File::create(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, file)?;
    Ok(())
}
