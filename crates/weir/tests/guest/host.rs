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

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_limits_who_allocates_most() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/reclaim.sh");
    // Its clock counts instructions: on a busy machine a hog would not fill memory in time.
    let words = "--count-instructions --memory 640M --disk swap=768M,swap,64M/s --timeout 60m";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--file", &tap, &script]);
    common::passes(&args);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_rules_without_the_module() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/stock.sh");
    let words =
        "--no-module --count-instructions --cpus 1 --memory 1G --disk d=1G,ext4,8M/s --timeout 60m";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--file", &tap, &script]);
    common::passes(&args);
}

/// Its cost while no task reclaims, among 1,000 cgroups.
#[test]
#[ignore = "minutes: make proof"]
fn reclaim_at_rest_costs_a_thousandth_of_a_cpu_at_most() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/reclaim-rest.sh");
    let words = "--no-module --count-instructions --cpus 1 --memory 640M --timeout 60m";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--file", &tap, &script]);
    common::passes(&args);
}

fn the_agent_keeps_an_objective_on(kernel: &str) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/objective.sh");
    let words = "--count-instructions --cpus 1 --memory 768M --disk d=512M,ext4,4M/s --timeout 60m";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--kernel", kernel, "--file", &tap, &script]);
    common::passes(&args);
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_an_objective() {
    the_agent_keeps_an_objective_on("debian:6.12");
}

#[test]
#[ignore = "minutes: make proof"]
fn the_agent_keeps_an_objective_on_the_oldest_kernel() {
    the_agent_keeps_an_objective_on("debian:6.1");
}

/// A real database beside a copy. Counting instructions skips the seconds that the disk takes.
#[test]
#[ignore = "minutes: make proof"]
fn an_objective_keeps_a_databases_transactions() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/postgres.sh");
    let words = "--count-instructions --cpus 1 --memory 1G --disk d=1G,ext4,16M/s --timeout 60m \
         --package postgresql-15 --package postgresql-client-15 --package tzdata --package util-linux";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--kernel", "debian:6.12", "--file", &tap, &script]);
    common::passes(&args);
}

/// Killed for writing on stock Linux, alive under the agent's rule. Counting instructions skips the
/// seconds that the disk takes.
fn a_rule_keeps_writers_alive_on(arguments: &[&str]) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/killed.sh");
    let words = "--count-instructions --cpus 1 --memory 1500M --timeout 60m --driver brd \
         --driver dm_delay --package dmsetup";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--file", &tap, &script]);
    args.extend(arguments);
    common::passes(&args);
}

#[test]
#[ignore = "a minute: make proof"]
fn a_rule_keeps_writers_alive() {
    a_rule_keeps_writers_alive_on(&["3", "32", "3", "ext4 xfs"]);
}

/// A scenario on the guest as on a host: judged, refused, killed again and again. Its clock counts
/// instructions, so that it waits for nothing.
fn runs_on_the_host_and_leaves_nothing(kernel: &str, kills: &str) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let guest = format!("{root}/crates/weir/tests/guest");
    let scenario = format!("{guest}/host-run.toml:/host-run.toml");
    let script = format!("{guest}/host-run.sh");
    let words = "--cpus 1 --memory 1500M --count-instructions --timeout 60m --disk d=512M,ext4 \
         --package dmsetup --driver nbd --driver dm_crypt --driver xts";
    let mut args: Vec<&str> = words.split_whitespace().collect();
    args.extend(["--kernel", kernel, "--file", &tap, "--file", &scenario]);
    args.extend([&script, kills]);
    common::passes(&args);
}

#[test]
fn a_scenario_on_a_host_leaves_nothing() {
    runs_on_the_host_and_leaves_nothing("debian:6.12", "2");
}

#[test]
#[ignore = "minutes: make proof"]
fn a_scenario_killed_on_a_host_20_times_leaves_nothing() {
    runs_on_the_host_and_leaves_nothing("debian:6.12", "20");
    runs_on_the_host_and_leaves_nothing("debian:6.1", "20");
}
