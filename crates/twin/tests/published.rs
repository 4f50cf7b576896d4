// SPDX-License-Identifier: GPL-2.0-only
//! The lab's known results, within bounds that a change of the model would leave.

use scenario::model::Arm;
use std::path::Path;

/// A figure of a shipped scenario.
fn figure(name: &str, arm: Arm, metric: &str) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let scenario = scenario::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
    let outcome = twin::run(&scenario, arm, 1).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    outcome.metrics[&format!("{}.{metric}", arm.name())].value
}

/// Lab: 39 (37.6..40.7) stock, 125 with the floor; longest pause 204 ms; the host at 32.4 MiB.
#[test]
fn dirty_knobs() {
    let stock = |metric| figure("dirty-knobs", Arm::Stock, metric);
    assert!((30.0..50.0).contains(&stock("contended.victim.iops")));
    assert!((180.0..220.0).contains(&stock("contended.noisy.iops")));
    assert!((200e6..212e6).contains(&stock("contended.victim.clat_p99_ns")));
    assert!((32.0..33.0).contains(&(stock("contended.host.dirty_max_bytes") / 1048576.0)));
    let weir = |metric| figure("dirty-knobs", Arm::Weir, metric);
    assert!(weir("contended.victim.iops") > 124.9);
    assert!((115.0..145.0).contains(&weir("contended.noisy.iops")));
    assert!(weir("contended.host.dirty_max_bytes") < 32.0 * 1048576.0);
}
