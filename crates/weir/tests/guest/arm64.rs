// SPDX-License-Identifier: GPL-2.0-only
//! The module and a scenario on arm64, for `make proof-arm64`.

use crate::module::{EXT4, passes};
use std::process::Command;

const ARM64: &str = "debian:6.12:cloud:arm64";

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
fn a_floor_protects_its_writer() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/dirty-knobs.toml"
    );
    let status = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", scenario, "--on", "lab", "--count-instructions"])
        .args(["--kernel", ARM64])
        .status()
        .expect("weir runs");
    assert!(status.success(), "{status}");
}
