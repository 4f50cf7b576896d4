// SPDX-License-Identifier: GPL-2.0-only
//! `make debug-kernel`: builds the kernel that `--kernel debug` boots.

fn main() -> anyhow::Result<()> {
    let kernel = lab::debug_kernel::build(&lab::Cache::discover()?)?;
    println!("{}: boots with `--kernel debug`", kernel.release);
    Ok(())
}
