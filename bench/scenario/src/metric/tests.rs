// SPDX-License-Identifier: GPL-2.0-only
//! Units, names, and what figures come to.

use super::compute::{jain_index, spread_percent_of_processes};
use super::*;
use crate::measured::{IoStalls, Placement, Tiers};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

#[test]
fn a_name_has_one_unit_and_every_key_of_dirty_stat_is_there() {
    for row in metric_table() {
        assert_eq!(unit_of_metric(row.name), row.unit, "{}", row.name);
        assert!(!row.name.contains('.'), "{}", row.name);
    }
    for key in knobs::stat_keys() {
        assert!(
            metric_table().iter().any(|row| row.name == key.name),
            "{}",
            key.name
        );
    }
    assert_eq!(unit_of_metric("weir.p.cgroup/a.b/c.floor"), Unit::Bytes);
    assert_eq!(unit_of_metric("stock.p.host.dirty_max_bytes"), Unit::Bytes);
    assert_eq!(
        unit_of_metric("weir.p.cgroup/a.throttled_usec"),
        Unit::Microseconds
    );
}

fn disk(written: u64, queued_ns: Option<u64>) -> MeasuredDisk {
    MeasuredDisk { written, queued_ns }
}

#[test]
fn rates_and_percentages_are_of_the_phase() {
    let mut of = Measured {
        phase: "p".into(),
        elapsed_ns: 10 * SECOND,
        disks: BTreeMap::from([
            ("d".into(), disk(40, Some(5 * SECOND))),
            ("e".into(), disk(60, None)),
        ]),
        ..Measured::default()
    };
    of.host.pressure.io_some_ns = SECOND;
    of.host.held = vec![3, 1, 8, 2];
    let all = compute_metrics(Arm::Stock, &of);
    let value = |name: &str| all[&format!("stock.p.{name}")].value;
    assert_eq!(value("disk/d.bw_bytes"), 4.0);
    assert_eq!(value("disk/d.queue_depth"), 0.5);
    assert_eq!(value("host.disk_bw_bytes"), 10.0);
    assert_eq!(value("host.io_some_pct"), 10.0);
    assert_eq!(
        (
            value("host.dirty_max_bytes"),
            value("host.dirty_median_bytes")
        ),
        (8.0, 2.5)
    );
    assert!(!all.contains_key("stock.p.host.ops_per_sec"), "no tiers");
}

#[test]
fn shares_of_processes_are_compared() {
    let job = |each: &[u64]| MeasuredJob {
        each: each.to_vec(),
        ..MeasuredJob::default()
    };
    assert_eq!(spread_percent_of_processes(&job(&[4096, 4096])), Some(0.0));
    assert_eq!(jain_index(&job(&[4096, 4096])), Some(1.0));
    assert_eq!(spread_percent_of_processes(&job(&[0, 8192])), Some(200.0));
    assert_eq!(jain_index(&job(&[0, 8192])), Some(0.5));
    assert_eq!(
        (
            spread_percent_of_processes(&job(&[1])),
            jain_index(&job(&[0, 0]))
        ),
        (None, None)
    );
}

/// The last job starts at 10 s, counting begins at 20 s, the end is at 30 s; a look every 5 s.
fn tiered(held: [[u64; 2]; 7], budget: Option<u64>) -> Figures {
    let places = (0..).zip(held).map(|(look, [top, low])| Placement {
        at_ns: look * 5 * SECOND,
        top: top * MIB,
        low: low * MIB,
        budget: budget.map(|mib| mib * MIB),
    });
    let moved = [(0, 0), (20, 1000), (25, 1006), (30, 1015), (35, 9999)];
    let cgroup = MeasuredCgroup {
        places: places.collect(),
        ..MeasuredCgroup::default()
    };
    let tiers = Tiers {
        last_start_ns: 10 * SECOND,
        mark_ns: 20 * SECOND,
        end_ns: 30 * SECOND,
        migrated: moved
            .map(|(at, pages)| (at * SECOND, pages * 4096))
            .to_vec(),
    };
    let of = Measured {
        phase: "p".into(),
        cgroups: BTreeMap::from([("a".into(), cgroup)]),
        tiers: Some(tiers),
        ..Measured::default()
    };
    compute_metrics(Arm::Weir, &of)
}

fn value(all: &Figures, name: &str) -> f64 {
    all[&format!("weir.p.{name}")].value
}

#[test]
fn rest_begins_when_it_lasts() {
    let held = [
        [0, 0],
        [340, 0],
        [340, 0],
        [268, 72],
        [300, 40],
        [267, 73],
        [265, 75],
    ];
    let all = tiered(held, Some(265));
    // Near at 15 s, but it did not last.
    assert_eq!(value(&all, "cgroup/a.settle_ns"), 15e9);
    assert_eq!(value(&all, "cgroup/a.toptier_bytes"), (267 * MIB) as f64);
    assert_eq!(value(&all, "cgroup/a.lowtier_bytes"), (73 * MIB) as f64);
    // 15 pages in ten seconds.
    assert_eq!(
        value(&all, "host.migrated_bytes_per_min"),
        15.0 * 4096.0 * 6.0
    );
}

#[test]
fn a_cgroup_that_never_rests_is_not_settled_in_any_time() {
    let all = tiered([[340, 0]; 7], Some(265));
    assert_eq!(value(&all, "cgroup/a.settle_ns"), f64::INFINITY);
    assert!(value(&all, "cgroup/a.budget_error_pct") > 28.0);
}

#[test]
fn below_the_budget_only_counts_what_could_come_up() {
    let all = tiered([[200, 0]; 7], Some(265));
    assert_eq!(value(&all, "cgroup/a.budget_error_pct"), 0.0);
    assert_eq!(value(&all, "cgroup/a.settle_ns"), 0.0);
    let all = tiered([[159, 181]; 7], Some(265));
    assert_eq!(value(&all, "cgroup/a.budget_error_pct"), 40.0);
    assert_eq!(value(&all, "cgroup/a.toptier_pct"), 159.0 * 100.0 / 340.0);
}

#[test]
fn without_a_budget_there_is_no_error() {
    let all = tiered([[340, 0]; 7], None);
    assert!(!all.contains_key("weir.p.cgroup/a.settle_ns"));
    assert!(!all.contains_key("weir.p.cgroup/a.budget_error_pct"));
    assert_eq!(value(&all, "cgroup/a.toptier_pct"), 100.0);
}

#[test]
fn a_peak_is_the_worst_ten_seconds() {
    let at = |second: u64| IoStalls {
        at_ns: second * SECOND,
        some_ns: 7 * SECOND + second.clamp(5, 10) * SECOND,
        full_ns: 3 * SECOND,
    };
    let mut of = Measured {
        phase: "p".into(),
        elapsed_ns: 20 * SECOND,
        ..Measured::default()
    };
    of.host.io_stalls = (0..=20).map(at).collect();
    let all = compute_metrics(Arm::Stock, &of);
    let value = |name: &str| all[&format!("stock.p.host.{name}")].value;
    assert_eq!(
        (value("io_some_peak_pct"), value("io_full_peak_pct")),
        (50.0, 0.0)
    );
    // Of less than ten seconds it is all there is.
    of.host.io_stalls.truncate(8);
    let all = compute_metrics(Arm::Stock, &of);
    let peak = all["stock.p.host.io_some_peak_pct"].value;
    assert!((peak - 200.0 / 7.0).abs() < 1e-9, "{peak}");
}
