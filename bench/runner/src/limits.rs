// SPDX-License-Identifier: GPL-2.0-only
//! Letting writers go when a phase is over.
//!
//! A writer that sleeps in the kernel's dirty throttling when its time is up sleeps on until the
//! disk has drained, which on a slow one takes a minute, and fio cannot report before. By then
//! everything is measured, so the host's limits are lifted for as long as the jobs need to end, and
//! put back. A write that was asleep at the end counts with the time it had slept until then.

use anyhow::{Context, Result};
use std::fs;

const DIRECTORY: &str = "/proc/sys/vm";
/// Of each pair the kernel uses the one that was written last and shows the other as 0.
const PAIRS: [[&str; 2]; 2] = [
    ["dirty_bytes", "dirty_ratio"],
    ["dirty_background_bytes", "dirty_background_ratio"],
];

/// The host's dirty limits as they were before they were lifted.
pub struct Lifted(Vec<(&'static str, String)>);

impl Lifted {
    /// Lifts them as far as the kernel allows.
    pub fn lift_limits() -> Result<Lifted> {
        let mut before = Vec::new();
        for name in PAIRS.iter().flatten() {
            let file = format!("{DIRECTORY}/{name}");
            let value = fs::read_to_string(&file).context(file)?.trim().to_owned();
            if value != "0" {
                before.push((*name, value));
            }
        }
        write("dirty_ratio", "100")?;
        Ok(Lifted(before))
    }

    /// Puts them back.
    pub fn restore_limits(self) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|(name, value)| write(name, value))
    }
}

fn write(name: &str, value: &str) -> Result<()> {
    let file = format!("{DIRECTORY}/{name}");
    fs::write(&file, value).with_context(|| format!("writing {value} to {file}"))
}
