// SPDX-License-Identifier: GPL-2.0-only
//! The module on PREEMPT_RT: Debian's kernels of that flavour, for `make rt`.

use crate::module::{EXT4, TESTS, passes};

const RT: &str = "debian:6.12:rt";

#[test]
#[ignore = "a minute: make rt"]
fn hooks_come_and_go() {
    passes(RT, "lifecycle.sh", &["--disk", EXT4], &[]);
}

#[test]
#[ignore = "a minute: make rt"]
fn hooks_come_and_go_on_6_1() {
    passes("debian:6.1:rt", "lifecycle.sh", &["--disk", EXT4], &[]);
}

#[test]
#[ignore = "a minute: make rt"]
fn faults_leave_shared_state_alone() {
    let options = ["--make", "WEIR_FAULTS=y", "--disk", "d=1G,ext4,8M/s"];
    passes(RT, "contract.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make rt"]
fn cgroups_and_loads_may_storm() {
    passes(RT, "storm.sh", &["--disk", EXT4], &["2", "100"]);
}

#[test]
#[ignore = "two minutes: make rt"]
fn every_way_to_write_is_no_worse_than_stock() {
    let compare = format!("{TESTS}/compare.sh:/compare.sh");
    let seconds = "SECONDS_EACH=2";
    let options = ["--disk", EXT4, "--file", &compare, "--env", seconds];
    let ways = ["mmap", "io_uring", "shared", "laptop"];
    passes(RT, "behaviour.sh", &options, &ways);
}

const RT_7_3: &str = "debian:7.3:rt";

#[test]
#[ignore = "three minutes: make rt"]
fn hooks_come_and_go_on_7_3() {
    passes(RT_7_3, "lifecycle.sh", &["--disk", EXT4], &[]);
}

#[test]
#[ignore = "three minutes: make rt"]
fn faults_leave_shared_state_alone_on_7_3() {
    let options = ["--make", "WEIR_FAULTS=y", "--disk", "d=1G,ext4,8M/s"];
    passes(RT_7_3, "contract.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make rt"]
fn ceilings_bound_subtrees_on_7_3() {
    let options = ["--disk", EXT4, "--disk", "e=1G,ext4,32M/s"];
    passes(RT_7_3, "hierarchy.sh", &options, &[]);
}

#[test]
#[ignore = "two minutes: make rt"]
fn cgroups_and_loads_may_storm_on_7_3() {
    passes(RT_7_3, "storm.sh", &["--disk", EXT4], &["2", "100"]);
}

#[test]
#[ignore = "a minute: make rt"]
fn files_take_what_they_should_on_7_3() {
    passes(RT_7_3, "files.sh", &[], &[]);
}

/// Prints them: lines `section` and `irqsoff`.
#[test]
#[ignore = "a minute: make rt"]
fn sections_with_interrupts_off_are_short() {
    let options = [
        "--cpus",
        "1",
        "--count-instructions",
        "--timeout",
        "30m",
        "--make",
        "WEIR_IRQSOFF=y",
        "--disk",
        EXT4,
    ];
    passes(RT, "irqsoff.sh", &options, &["5"]);
}
