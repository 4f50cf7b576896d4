// SPDX-License-Identifier: GPL-2.0-only
//! `weir-sync`: the process of a job that calls sync(2) or syncfs(2) over and over, and times it.
//!
//! What it prints has the shape of fio's result, so that it is read like any other job's: its
//! operations are the calls.

use crate::system::to_nanoseconds;
use anyhow::{Context, Result};
use nix::errno::Errno;
use scenario::model::{Sync, SyncCall};
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Name of the process.
pub const PROGRAM: &str = "weir-sync";

/// `weir-sync JSON DIRECTORY MILLISECONDS`
pub fn main() -> ExitCode {
    match run() {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{PROGRAM}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Value> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().with_context(|| format!("say {what}"));
    let text = next("what to call, as in '{\"call\": \"syncfs\", \"every_ms\": 1000}'")?;
    let sync: Sync = serde_json::from_str(&text).with_context(|| format!("`{text}`"))?;
    let directory = next("a directory of the filesystem")?;
    let directory = File::open(&directory).with_context(|| directory.clone())?;
    let length = next("how long, in milliseconds")?;
    let length = Duration::from_millis(length.parse().with_context(|| format!("`{length}`"))?);
    let begin = Instant::now();
    let mut took = Vec::new();
    // One call at least, however long it takes.
    while took.is_empty() || begin.elapsed() < length {
        let called = Instant::now();
        match sync.call {
            SyncCall::Sync => nix::unistd::sync(),
            SyncCall::Syncfs => {
                // SAFETY: an open file's descriptor.
                let result = unsafe { nix::libc::syncfs(directory.as_raw_fd()) };
                Errno::result(result).context("syncfs")?;
            }
        }
        took.push(to_nanoseconds(called.elapsed()));
        let left = length.saturating_sub(begin.elapsed());
        let pause = Duration::from_millis(sync.every_ms).saturating_sub(called.elapsed());
        std::thread::sleep(pause.min(left));
    }
    Ok(fio_result(took, begin.elapsed()))
}

fn fio_result(mut took: Vec<u64>, elapsed: Duration) -> Value {
    took.sort_unstable();
    let at = |per_mille: usize| {
        let rank = (took.len() * per_mille).div_ceil(1000).max(1);
        took.get(rank - 1).copied().unwrap_or(0)
    };
    let times = json!({
        "N": took.len(),
        "max": took.last(),
        "percentile": {"50.000000": at(500), "99.000000": at(990), "99.900000": at(999)},
    });
    let iops = took.len() as f64 / elapsed.as_secs_f64().max(1e-9);
    json!({
        "write": {"iops": iops, "bw_bytes": 0, "total_ios": took.len(), "clat_ns": times},
        "sync": {"lat_ns": times},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_operations() {
        let took = (1..=200).rev().map(|ms| ms * 1_000_000).collect();
        let result = fio_result(took, Duration::from_secs(100));
        let of = |path: &str| result.pointer(path).and_then(Value::as_f64);
        assert_eq!(of("/write/iops"), Some(2.0));
        for kind in ["/write/clat_ns", "/sync/lat_ns"] {
            assert_eq!(of(&format!("{kind}/percentile/50.000000")), Some(100e6));
            assert_eq!(of(&format!("{kind}/percentile/99.000000")), Some(198e6));
            assert_eq!(of(&format!("{kind}/max")), Some(200e6));
        }
    }
}
