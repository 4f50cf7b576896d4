// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's modules: loaded where one is missing, and unloaded afterwards if it was.

use crate::ledger::{self, LedgerEntry};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, delete_module};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::process::Command;

/// Names of the modules that are loaded.
fn loaded_modules() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/modules").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

/// The modules that modprobe would load for `name`, in that order, by the names they will have.
fn dependencies_to_load(name: &str) -> Option<Vec<String>> {
    let output = Command::new("modprobe").args(["-D", name]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let names = text.lines().filter_map(|line| {
        let path = line.strip_prefix("insmod ")?.split(' ').next()?;
        let (name, _) = path.rsplit('/').next()?.split_once(".ko")?;
        Some(name.replace('-', "_"))
    });
    output.status.success().then(|| names.collect())
}

/// Can the module be loaded, if it is not there already?
pub fn is_available(name: &str) -> bool {
    let built_in = || dependencies_to_load(name).is_some();
    loaded_modules().contains(name) || built_in()
}

/// Loads a module and what it depends on, unless they are there.
///
/// # Errors
/// There is no such module, or the kernel refuses it.
pub fn load_with_dependencies(name: &str) -> Result<()> {
    let before = loaded_modules();
    let wanted = dependencies_to_load(name).unwrap_or_else(|| vec![name.to_owned()]);
    for module in wanted {
        if !before.contains(&module) {
            ledger::add(&LedgerEntry::Unload { module })?;
        }
    }
    runner::system::run(Command::new("modprobe").arg(name))
        .with_context(|| format!("loading the kernel module {name}"))
}

/// Unloads a module; true if it is not loaded any more.
///
/// # Errors
/// Why it stays, if that is not because it is in use.
pub fn try_unload(name: &str) -> Result<bool> {
    if !loaded_modules().contains(name) {
        return Ok(true);
    }
    match delete_module(&CString::new(name)?, DeleteModuleFlags::O_NONBLOCK) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::EWOULDBLOCK | Errno::EBUSY) => Ok(false),
        Err(why) => Err(why).with_context(|| format!("unloading the kernel module {name}")),
    }
}
