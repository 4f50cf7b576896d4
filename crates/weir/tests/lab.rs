// SPDX-License-Identifier: GPL-2.0-only
//! Guests for real: stock kernels from the archive, booted in QEMU.

use lab::{Arm, Cache, Guest, Outcome, Progress, RunRequest};
use std::time::Duration;

struct Quiet;

impl Progress for Quiet {
    fn preparing(&self, what: &str) {
        eprintln!("preparing {what}");
    }
    fn stage(&self, arm: Arm, repeat: u32, what: &str, left: Duration) {
        eprintln!("{} {repeat}: {what} (about {} s left)", arm.name(), left.as_secs());
    }
    fn finished(&self, guest: &Guest) {
        eprintln!("{} {}: {:?} after {:.1} s", guest.arm.name(), guest.repeat, guest.outcome, guest.seconds);
    }
}

#[test]
fn tmp_run() {
    let path = std::path::PathBuf::from(std::env::var("SCN").unwrap());
    let scenario = scenario::load(&path).unwrap();
    let guests = lab::run(
        &RunRequest {
            scenario,
            kernel: std::env::var("KER").unwrap_or("debian:6.12".into()),
            arms: std::env::var("ARMS").unwrap_or("stock".into()).split(',').map(|a| Arm::from_name(a).unwrap()).collect(),
            repeat: 1,
            out: None,
            init: Some(env!("CARGO_BIN_EXE_weir").into()),
            cache: Cache::discover().unwrap(),
        },
        &Quiet,
    )
    .unwrap();
    for guest in guests {
        eprintln!("{:?} {} {:?} {}", guest.arm, guest.kernel_release, guest.outcome, guest.log.display());
        for (name, metric) in &guest.metrics {
            eprintln!("  {name} {} {}", metric.value, metric.unit);
        }
    }
    let _ = Outcome::Done;
}
