// SPDX-License-Identifier: GPL-2.0-only
//! Shares of fast memory, kept by the agent in guests with two tiers and three.

use crate::common;
use std::process::Command;

/// A guest with DRAM and a slower node.
const TWO_TIERS: &[&str] = &["--tier", "1G,80ns,200G/s", "--tier", "384M,250ns,50G/s"];

fn passes(options: &[&str], script: &str, arguments: &[&str]) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guest = format!("{root}/bench/weir-bench/tests/guest");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let shares = format!("{guest}/shares.sh:/shares.sh");
    let script = format!("{guest}/{script}");
    let mut args = options.to_vec();
    args.extend(["--file", &tap, "--file", &shares]);
    args.extend(["--timeout", "30m", &script]);
    args.extend_from_slice(arguments);
    common::passes(&args);
}

#[test]
#[ignore = "a minute or more: make tiers"]
fn cgroups_come_to_their_shares_and_stay() {
    passes(TWO_TIERS, "tier.sh", &[]);
}

#[test]
#[ignore = "a minute or more: make tiers"]
fn damon_brings_them_there_too() {
    passes(TWO_TIERS, "tier.sh", &["damon"]);
}

#[test]
#[ignore = "two minutes or more: make tiers"]
fn three_tiers_and_children_come_to_theirs() {
    let one = |tier| ["--tier", tier];
    let tiers = ["1G,80ns,200G/s", "256M,250ns,50G/s", "256M,700ns,10G/s"];
    for engine in ["move_pages", "damon"] {
        passes(&tiers.map(one).concat(), "tier-nodes.sh", &[engine]);
    }
}

#[test]
#[ignore = "five minutes or more: make tiers"]
fn whatever_memory_is_made_of_it_comes_or_is_told() {
    let with_disk = [TWO_TIERS, &["--disk", "cache=256M,ext4"]].concat();
    for engine in ["move_pages", "damon", "reclaim"] {
        passes(&with_disk, "tier-kinds.sh", &[engine]);
    }
}

#[test]
#[ignore = "five minutes or more: make tiers"]
fn memory_may_go_and_come() {
    let kernel = "movablecore=512M memhp_default_state=online_movable";
    let removable = [TWO_TIERS, &["--dimm", "--append", kernel]].concat();
    for engine in ["move_pages", "damon"] {
        passes(&removable, "tier-hotplug.sh", &[engine]);
    }
}

#[test]
#[ignore = "two minutes or more: make tiers"]
fn a_tier_in_the_middle_may_go() {
    let tiers = ["1G,80ns,200G/s", "256M,700ns,10G/s", "256M,250ns,50G/s"];
    let tiers = tiers.map(|tier| ["--tier", tier]).concat();
    let kernel = "movablecore=768M memhp_default_state=online_movable";
    let removable = [&tiers[..], &["--dimm", "--append", kernel]].concat();
    for engine in ["move_pages", "damon"] {
        passes(&removable, "tier-gap.sh", &[engine]);
    }
}

#[test]
#[ignore = "three minutes or more: make tiers"]
fn what_goes_wrong_is_told_and_ends() {
    passes(TWO_TIERS, "tier-edges.sh", &[]);
}

#[test]
#[ignore = "a minute or more: make tiers"]
fn kernels_that_know_no_slower_memory_say_so() {
    let old = [TWO_TIERS, &["--kernel", "debian:6.1"]].concat();
    passes(&old, "tier-one.sh", &["two"]);
    passes(&["--memory", "1G"], "tier-one.sh", &["one"]);
}

/// The scenario's expectations, in as many minutes as it takes.
#[test]
#[ignore = "eleven minutes: make tiers"]
fn whoever_has_what_he_wants_is_left_alone() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/tier-rest.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["run", scenario, "--on", "lab", "--arm", "weir"])
        .output()
        .expect("weir runs");
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{log}", output.status);
}

fn seconds(default: &str) -> String {
    std::env::var("TIER_SECONDS").unwrap_or(default.into())
}

#[test]
#[ignore = "ten minutes: make tiers"]
fn nothing_is_lost_while_pages_move_and_agents_are_killed() {
    passes(TWO_TIERS, "tier-churn.sh", &[&seconds("600")]);
}

/// A second of this guest is a billion instructions, and no other guest can slow it down.
#[test]
#[ignore = "two minutes: make tiers"]
fn at_rest_it_costs_next_to_nothing() {
    let counting = [TWO_TIERS, &["--cpus", "1", "--count-instructions"]].concat();
    passes(&counting, "tier-cost.sh", &[&seconds("60")]);
}
