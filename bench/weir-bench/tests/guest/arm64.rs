// SPDX-License-Identifier: GPL-2.0-only
//! The module and a scenario on arm64, for `make proof-arm64`.

use crate::host::{self, FIGURES};
use crate::module::{EXT4, TESTS, passes};
use crate::proof::{PROBES, beside};
use std::process::Command;

const ARM64: &str = "debian:6.12:cloud:arm64";
/// With pages of 16 KiB.
const LARGE: &str = "debian:6.12:16k:arm64";

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn hooks_come_and_go() {
    passes(ARM64, "lifecycle.sh", &["--disk", EXT4], &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn files_take_what_they_should() {
    passes(ARM64, "files.sh", &[], &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn faults_leave_shared_state_alone() {
    let options = ["--make", "WEIR_FAULTS=y", "--disk", "d=1G,ext4,8M/s"];
    passes(ARM64, "contract.sh", &options, &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn a_pass_left_out_stays_out_beside_bpftrace() {
    beside(ARM64, PROBES);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn a_pass_left_out_stays_out_beside_bpftrace_on_7_3() {
    beside("debian:7.3:cloud:arm64", PROBES);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn hooks_come_and_go_with_large_pages() {
    passes(LARGE, "lifecycle.sh", &["--disk", EXT4], &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn files_take_what_they_should_with_large_pages() {
    passes(LARGE, "files.sh", &[], &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn counts_are_exact_with_large_pages() {
    let disks = ["d=1G,ext4", "x=1G,xfs", "f=1G,vfat"];
    let options: Vec<_> = disks.iter().flat_map(|disk| ["--disk", disk]).collect();
    passes(LARGE, "counts.sh", &options, &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn every_way_to_write_is_no_worse_than_stock_with_large_pages() {
    let compare = format!("{TESTS}/compare.sh:/compare.sh");
    let options = ["--count-instructions", "--cpus", "1", "--disk", EXT4];
    let more = ["--file", &compare, "--env", "SECONDS_EACH=2"];
    let options = [&options[..], &more].concat();
    let ways = ["mmap", "io_uring", "shared", "laptop"];
    passes(LARGE, "behaviour.sh", &options, &ways);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn the_agents_figures_are_right_with_large_pages() {
    let options = format!("--kernel {LARGE} --cpus 1 --memory 1G");
    host::passes("agent.sh", &options, &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn figures_are_what_was_set_with_large_pages() {
    host::passes("figures.sh", &format!("{FIGURES} --kernel {LARGE}"), &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn the_agent_keeps_rules_without_the_module_with_large_pages() {
    let options = "--no-module --cpus 1 --memory 1G --disk d=1G,ext4,8M/s --timeout 60m --kernel";
    host::passes("stock.sh", &format!("{options} {LARGE}"), &[]);
}

#[test]
#[ignore = "another architecture: make proof-arm64"]
fn a_floor_protects_its_writer() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/dirty-knobs.toml"
    );
    let status = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["run", scenario, "--on", "lab", "--count-instructions"])
        .args(["--kernel", ARM64])
        .status()
        .expect("weir runs");
    assert!(status.success(), "{status}");
}
