// SPDX-License-Identifier: GPL-2.0-only
//! doctor, load, status and unload against stock kernels, in guests: `guest/host.sh` has the cases.

mod common;

fn passes_on(kernel: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/host.sh");
    common::passes(&["--memory", "1G", "--kernel", kernel, script]);
}

#[test]
fn the_host_commands_work_on_the_cloud_kernel() {
    passes_on("debian:6.12");
}

#[test]
fn the_host_commands_work_on_the_oldest_kernel() {
    passes_on("debian:6.1");
}
