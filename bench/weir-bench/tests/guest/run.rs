// SPDX-License-Identifier: GPL-2.0-only
//! `weir run` from file to verdict, in guests: the module at work, the JSON, the files kept, the
//! exit status.

use assert_cmd::Command;
use serde_json::Value;

#[test]
fn a_scenario_runs_in_both_arms_and_is_judged() {
    let out = tempfile::tempdir().expect("made");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/short.toml");
    let run = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args([
            "run",
            scenario,
            "--on",
            "lab",
            "--count-instructions",
            "--record",
            "--json",
            "--out",
        ])
        .arg(out.path())
        .output()
        .expect("runs");
    let log = String::from_utf8_lossy(&run.stderr);
    let json: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}\n{log}"));

    // Two expectations are met and one cannot be: that is a fail and exit status 1.
    let verdicts: Vec<&Value> = json["expect"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| &e["verdict"])
        .collect();
    assert_eq!(verdicts, ["pass", "pass", "fail"], "{json:#}\n{log}");
    assert_eq!(
        (&json["verdict"], run.status.code()),
        (&"fail".into(), Some(1)),
        "{log}"
    );

    for arm in ["stock", "weir"] {
        for (metric, unit) in [
            ("writer.iops", "iops"),
            ("writer.clat_p99_ns", "ns"),
            ("host.dirty_max_bytes", "bytes"),
            ("host.io_full_pct", "percent"),
            ("disk/fast.bw_bytes", "bytes/s"),
            ("cgroup/writer.dirty_max_bytes", "bytes"),
        ] {
            let name = format!("{arm}.alone.{metric}");
            let summary = &json["metrics"][&name];
            assert_eq!(
                (&summary["n"], &summary["unit"]),
                (&1.into(), &unit.into()),
                "{name}: {summary}"
            );
            assert_eq!(summary["median"], summary["max"], "{name}: {summary}");
        }
        let value = |metric: &str| {
            let name = format!("{arm}.both.{metric}");
            let median = &json["metrics"][&name]["median"];
            median
                .as_f64()
                .unwrap_or_else(|| panic!("no {name}\n{log}"))
        };
        // fio's rate option bounds what the writer can do; a stall may keep it below.
        assert!(value("slow.iops") > 0.0 && value("slow.iops") < 60.0);
        assert!(value("slow.clat_p50_ns") <= value("slow.clat_p99_ns"));
        assert!(value("slow.clat_p99_ns") <= value("slow.clat_max_ns"));
        assert!(value("slow.total_ios") >= 50.0);
        assert!(value("reader.iops") > 0.0);
        assert!(value("host.dirty_max_bytes") > 0.0);
        assert!(value("cgroup/inner/slow.dirty_max_bytes") > 0.0);
        let counters = &json["metrics"][format!("{arm}.both.cgroup/inner/slow.nr_passes")];
        assert_eq!(counters.is_object(), arm == "weir", "{counters}");
        for file in [
            "console.log",
            "results.jsonl",
            "guest.json",
            "alone.csv",
            "both.csv",
            "alone.weir",
        ] {
            let path = out.path().join(format!("{arm}-1/{file}"));
            assert!(path.is_file(), "{} was not kept", path.display());
        }
    }
    let held = &json["metrics"]["weir.alone.cgroup/writer.nr_ceiling_held"]["median"];
    assert!(
        held.as_f64().is_some_and(|n| n > 0.0),
        "the ceiling never held: {held}\n{log}"
    );
    let kept = std::fs::read(out.path().join("report.json")).expect("kept");
    assert_eq!(
        kept, run.stdout,
        "the report that was kept is the one that was printed"
    );
    assert!(
        log.contains("weir: stock: alone, about"),
        "no progress on stderr:\n{log}"
    );
}

/// Figures without which the rest says nothing.
const ALWAYS_NEAR: [&str; 9] = [
    "stock.contended.host.disk_bw_bytes",
    "stock.contended.host.io_full_pct",
    "stock.contended.noisy.clat_p50_ns",
    "stock.solo.victim.iops",
    "weir.contended.host.disk_bw_bytes",
    "weir.contended.host.io_full_pct",
    "weir.contended.victim.clat_p50_ns",
    "weir.contended.victim.iops",
    "weir.solo.victim.iops",
];

/// Counting instructions leaves one thing to the machine's mood: when the disk answers. On stock
/// that decides whether the victim gets 38 or 56 writes a second, and the most that is dirty falls
/// between two samples or on one. Seventeen guests, idle and beside ten busy loops, were near in
/// 32 to 34 of 34 figures, 2 to 4 % off on average; one in CI was near in 30.
#[test]
fn the_twin_is_near_a_guest_that_counts_instructions() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/dirty-knobs.toml"
    );
    let run = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["compare", scenario, "--count-instructions", "--json"])
        .output()
        .expect("runs");
    let log = String::from_utf8_lossy(&run.stderr);
    let json: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}\n{log}"));
    let figures = json["figures"].as_object().expect("figures");
    let off = figures.iter().filter(|(_, figure)| figure["near"] != true);
    let off: Vec<String> = off
        .map(|(name, figure)| {
            format!(
                "{name}: lab {}, twin {}",
                figure["lab"]["median"], figure["twin"]
            )
        })
        .collect();
    let said = off.join("\n");
    assert_eq!(figures.len(), 34, "{said}");
    for name in ALWAYS_NEAR {
        assert!(figures[name]["near"] == true, "{name} is off:\n{said}");
    }
    assert!(off.len() <= 7, "{} of 34 are off:\n{said}", off.len());
    let error = json["mean_absolute_relative_error"].as_f64();
    assert!(error.is_some_and(|error| error < 0.1), "{error:?}\n{said}");
}
