// SPDX-License-Identifier: GPL-2.0-only
//! doctor, load, status and unload against stock kernels, in guests: `guest/host.sh` has the cases.

use std::process::Command;

/// Runs the script in a guest and holds it to its own count of tests.
fn passes_on(kernel: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/host.sh");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["exec", "--memory", "1G", "--kernel", kernel, script])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{log}", output.status);
    let passed = text.lines().filter(|l| l.starts_with("ok ")).count();
    assert!(!text.lines().any(|l| l.starts_with("not ok")), "{text}");
    assert_eq!(
        text.lines().last(),
        Some(format!("1..{passed}").as_str()),
        "{text}"
    );
}

#[test]
fn the_host_commands_work_on_the_cloud_kernel() {
    passes_on("debian:6.12");
}

#[test]
fn the_host_commands_work_on_the_oldest_kernel() {
    passes_on("debian:6.1");
}
