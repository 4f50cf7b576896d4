// SPDX-License-Identifier: GPL-2.0-only
//! `make debug-kernel KIND=kasan`: builds the kernel that `--kernel debug` or `--kernel
//! debug-kcsan` boots.

use lab::debug_kernel::{Kind, build};

fn main() -> anyhow::Result<()> {
    let kind = std::env::args().nth(1);
    let kind: Kind = kind.as_deref().unwrap_or("kasan").parse()?;
    let kernel = build(&lab::Cache::discover()?, kind)?;
    println!(
        "{}: boots with `--kernel {}`",
        kernel.release,
        kind.kernel_name()
    );
    Ok(())
}
