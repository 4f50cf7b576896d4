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

/// What reaches the disk for a cgroup is in proportion to its weight. Lab: 0.85 to 1.4 of what is due.
#[test]
fn weights() {
    let cleaned = |phase: &str, cgroup: &str| {
        figure(
            "weight",
            Arm::Weir,
            &format!("{phase}.cgroup/{cgroup}.disk_bw_bytes"),
        )
    };
    let two = cleaned("two", "w400a") / cleaned("two", "w100a");
    assert!((3.6..4.4).contains(&two), "{two}");
    for (heavy, due) in [
        ("w200b", 2.0),
        ("w400b", 4.0),
        ("w800a", 8.0),
        ("w800b", 8.0),
    ] {
        let ratio = cleaned("eight", heavy) / cleaned("eight", "w100b");
        assert!((0.9 * due..1.1 * due).contains(&ratio), "{heavy}: {ratio}");
    }
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
