// SPDX-License-Identifier: GPL-2.0-only
//! Runs the emulator that guests run in, with the arguments given: for what boots a system of its
//! own.

use std::os::unix::process::CommandExt;

fn main() -> anyhow::Result<()> {
    let cache = lab::Cache::discover()?;
    let lock = cache.lock()?;
    let mut command = lab::emulator::Emulator::get(&cache, lab::arch::Arch::HERE)?.base_command();
    drop(lock);
    Err(command.args(std::env::args_os().skip(1)).exec().into())
}
