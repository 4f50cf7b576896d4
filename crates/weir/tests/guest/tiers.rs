// SPDX-License-Identifier: GPL-2.0-only
//! Shares of fast memory, kept by the agent in guests with two tiers.

use crate::common;

fn passes(script: &str, arguments: &[&str]) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tap = format!("{root}/kmod/tests/tap.sh:/tap.sh");
    let script = format!("{root}/crates/weir/tests/guest/{script}");
    let (fast, slow) = ("1G,80ns,200G/s", "384M,250ns,50G/s");
    let mut args = vec!["--tier", fast, "--tier", slow, "--file", &tap];
    args.extend(["--timeout", "30m", &script]);
    args.extend_from_slice(arguments);
    common::passes(&args);
}

#[test]
#[ignore = "a minute or more: make tiers"]
fn cgroups_come_to_their_shares_and_stay() {
    passes("tier.sh", &[]);
}

#[test]
#[ignore = "a minute or more: make tiers"]
fn damon_brings_them_there_too() {
    passes("tier.sh", &["damon"]);
}

fn seconds(default: &str) -> String {
    std::env::var("TIER_SECONDS").unwrap_or(default.into())
}

#[test]
#[ignore = "ten minutes: make tiers"]
fn nothing_is_lost_while_pages_move_and_agents_are_killed() {
    passes("tier-churn.sh", &[&seconds("600")]);
}

#[test]
#[ignore = "two minutes: make tiers"]
fn at_rest_it_costs_next_to_nothing() {
    passes("tier-cost.sh", &[&seconds("60")]);
}
