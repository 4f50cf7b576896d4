// SPDX-License-Identifier: GPL-2.0-only
//! doctor, load, status, unload and the agent on stock kernels, in guests: `guest/host.sh` and
//! `guest/agent.sh` have the cases.

use crate::common;

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

#[test]
fn the_agent_keeps_knobs() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/agent.sh");
    common::passes(&["--memory", "1G", "--file", &tap, &script]);
}
