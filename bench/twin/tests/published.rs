// SPDX-License-Identifier: GPL-2.0-only
//! The lab's known results, within bounds that a change of the model would leave.

use scenario::model::Arm;
use std::path::Path;

/// A figure of a shipped scenario.
fn figure(name: &str, arm: Arm, metric: &str) -> f64 {
    figure_of(name, arm, metric, 1)
}

fn figure_of(name: &str, arm: Arm, metric: &str, seed: u64) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let scenario = scenario::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
    let outcome = twin::run(&scenario, arm, seed).unwrap_or_else(|refusals| panic!("{refusals:?}"));
    outcome.metrics[&format!("{}.{metric}", arm.name())].value
}

/// What reaches the disk for a cgroup is in proportion to its weight where all have something to
/// write. Of two, the four light tasks hold all that may be dirty, and the heavy one is throttled
/// for that: it gets 3.2 of 4.
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
    assert!((2.9..4.1).contains(&two), "{two}");
    let longest = figure("weight", Arm::Weir, "eight.crowd.clat_max_ns") / 1e9;
    assert!((1.0..8.0).contains(&longest), "{longest} s");
    for (cgroup, due) in [
        ("w100a", 1.0),
        ("w200a", 2.0),
        ("w200b", 2.0),
        ("w400a", 4.0),
        ("w400b", 4.0),
        ("w800a", 8.0),
        ("w800b", 8.0),
    ] {
        let ratio = cleaned("eight", cgroup) / cleaned("eight", "w100b");
        assert!(
            (0.98 * due..1.02 * due).contains(&ratio),
            "{cgroup}: {ratio}"
        );
    }
}

/// Guests: 40 (36..51) stock, 53 (42..54) where they count instructions, 125 with the floor;
/// longest pause 204 ms; the host at 32.4 MiB.
#[test]
fn dirty_knobs() {
    let stock = |metric| figure("dirty-knobs", Arm::Stock, metric);
    assert!((35.0..60.0).contains(&stock("contended.victim.iops")));
    assert!((180.0..220.0).contains(&stock("contended.noisy.iops")));
    assert!((200e6..212e6).contains(&stock("contended.victim.clat_p99_ns")));
    assert!((32.0..33.0).contains(&(stock("contended.host.dirty_max_bytes") / 1048576.0)));
    let weir = |metric| figure("dirty-knobs", Arm::Weir, metric);
    assert!(weir("contended.victim.iops") > 124.9);
    assert!((115.0..145.0).contains(&weir("contended.noisy.iops")));
    assert!(weir("contended.host.dirty_max_bytes") < 32.0 * 1048576.0);
}

#[test]
fn io_psi() {
    let full = |arm| figure("io-psi", arm, "near.cgroup/writers.io_full_pct");
    let (stock, weir) = (full(Arm::Stock), full(Arm::Weir));
    assert!((26.0..40.0).contains(&stock), "{stock}");
    assert!(weir < 1.4, "{weir}");
}

/// 50 dd and an rsync that receives over Ethernet what it writes: it writes as much as each of
/// them, by pauses that leave its buffer no time to fill.
#[test]
fn rsync_beside_fifty_dd() {
    let figure = |metric: &str| figure("twin/rsync", Arm::Stock, metric);
    for (phase, job) in [("beside", "rsync"), ("deaf", "deaf")] {
        let own = figure(&format!("{phase}.{job}.bw_bytes"));
        let each = figure(&format!("{phase}.dd.bw_bytes")) / 50.0;
        assert!(own > 0.98 * each, "{phase}: {own} beside {each}");
    }
    let p99 = figure("beside.dd.clat_p99_ns") / 1e6;
    assert!((50.0..80.0).contains(&p99), "published: 60 to 70 ms, {p99}");
}
