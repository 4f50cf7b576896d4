// SPDX-License-Identifier: GPL-2.0-only
//! From figures to verdicts and printed tables.

use scenario::metric::{Figure, unit_of_metric};
use scenario::model::{Arm, Scenario};
use verdict::{Outcome, Report, Run, Verdict};

fn dirty_knobs() -> Scenario {
    let text = include_str!("one-noisy-writer.toml");
    scenario::parse("dirty-knobs", "dirty-knobs.toml", text).expect("valid")
}

/// A finished guest with these figures (names without the arm).
fn run(arm: Arm, figures: &[(&str, f64)]) -> Run {
    let metrics = figures
        .iter()
        .map(|(name, value)| {
            (
                format!("{}.{name}", arm.name()),
                Figure {
                    value: *value,
                    unit: unit_of_metric(name),
                },
            )
        })
        .collect();
    Run {
        arm,
        repeat: 0,
        kernel: "6.12.1-test".into(),
        outcome: Outcome::Done,
        metrics,
        log: None,
        seconds: 1.0,
    }
}

fn stock(contended: f64) -> Run {
    run(
        Arm::Stock,
        &[
            ("solo.victim.iops", 125.0),
            ("solo.victim.clat_p99_ns", 430e3),
            ("contended.victim.iops", contended),
            ("contended.victim.clat_p99_ns", 526e6),
            ("contended.victim.clat_max_ns", 16.2e9),
            ("contended.host.disk_bw_bytes", 258e3),
            ("contended.host.io_full_pct", 61.0),
        ],
    )
}

fn weir(contended: f64) -> Run {
    run(
        Arm::Weir,
        &[
            ("solo.victim.iops", 125.0),
            ("solo.victim.clat_p99_ns", 440e3),
            ("contended.victim.iops", contended),
            ("contended.victim.clat_p99_ns", 480e3),
            ("contended.victim.clat_max_ns", 9.4e6),
            ("contended.host.disk_bw_bytes", 259e3),
            ("contended.host.io_full_pct", 22.0),
        ],
    )
}

fn good() -> Vec<Run> {
    vec![
        stock(10.8),
        weir(125.0),
        stock(9.1),
        weir(124.0),
        stock(12.0),
        weir(125.1),
    ]
}

fn report(runs: &[Run]) -> Report {
    Report::new(&dirty_knobs(), &Arm::ALL, runs)
}

#[test]
fn medians_and_ranges_over_the_runs_of_an_arm() {
    let report = report(&good());
    let iops = &report.metrics["stock.contended.victim.iops"];
    assert_eq!(
        (iops.median, iops.min, iops.max, iops.n),
        (10.8, 9.1, 12.0, 3)
    );
    let even = self::report(&[stock(10.0), stock(20.0)]);
    assert_eq!(even.metrics["stock.contended.victim.iops"].median, 15.0);
}

#[test]
fn all_expectations_met_is_a_pass() {
    let report = report(&good());
    assert_eq!(report.verdict, Verdict::Pass, "{report:#?}");
    assert_eq!(report.verdict.exit_status(), 0);
    let victim = &report.expects[1];
    assert_eq!((victim.observed, victim.bound), (Some(125.0), Some(123.75)));
}

#[test]
fn one_expectation_not_met_is_a_fail() {
    let report = report(&[stock(10.8), weir(123.0)]);
    let verdicts: Vec<Verdict> = report.expects.iter().map(|e| e.verdict).collect();
    assert_eq!(verdicts[..2], [Verdict::Pass, Verdict::Fail]);
    assert_eq!(
        (report.verdict, report.verdict.exit_status()),
        (Verdict::Fail, 1)
    );
}

#[test]
fn a_failed_guest_fails_the_report_and_gives_no_figures() {
    let mut runs = good();
    runs[1].outcome = Outcome::Failed("the kernel warned: list_add corruption".into());
    let report = report(&runs);
    assert_eq!(report.verdict, Verdict::Fail);
    assert_eq!(report.metrics["weir.contended.victim.iops"].n, 2);
    assert_eq!(
        report.troubles,
        ["a guest of arm weir failed: the kernel warned: list_add corruption"]
    );
}

#[test]
fn an_inconclusive_guest_outweighs_the_expectations() {
    let mut runs = good();
    runs[0].outcome = Outcome::Inconclusive("no heartbeat for 60 s".into());
    assert_eq!(report(&runs).verdict, Verdict::Inconclusive);
    assert_eq!(report(&runs).verdict.exit_status(), 2);
}

#[test]
fn a_missing_figure_is_inconclusive() {
    let mut runs = vec![stock(10.8), weir(125.0)];
    runs[1].metrics.remove("weir.solo.victim.iops");
    let report = report(&runs);
    assert_eq!(report.expects[1].verdict, Verdict::Inconclusive);
    assert_eq!(
        report.expects[1].why,
        "weir.solo.victim.iops was not measured"
    );
    assert_eq!(report.verdict, Verdict::Inconclusive);
}

#[test]
fn an_arm_that_was_not_asked_for_is_skipped_and_never_passes() {
    let one = Report::new(&dirty_knobs(), &[Arm::Stock], &[stock(10.8)]);
    let verdicts: Vec<Verdict> = one.expects.iter().map(|e| e.verdict).collect();
    use Verdict::{Pass, Skipped};
    assert_eq!(verdicts, [Pass, Skipped, Skipped, Skipped, Skipped]);
    assert_eq!(one.expects[1].why, "arm weir was not run");
    assert_eq!(one.verdict, Pass);
    let mut only_weir = dirty_knobs();
    only_weir.expects.remove(0);
    let none = Report::new(&only_weir, &[Arm::Stock], &[stock(10.8)]);
    assert_eq!(none.verdict, Verdict::Inconclusive, "nothing was judged");
}

#[test]
fn an_arm_that_vanished_is_no_pass() {
    let report = report(&[stock(10.8)]);
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert_eq!(report.troubles, ["arm weir: no guest reported at all"]);
}

#[test]
fn json_has_the_documented_shape() {
    let json = verdict::report_json(&Report::new(&dirty_knobs(), &[Arm::Stock], &[stock(10.8)]));
    assert_eq!(json["verdict"], "pass");
    assert_eq!(
        json["metrics"]["stock.contended.victim.iops"],
        serde_json::json!({"median": 10.8, "min": 10.8, "max": 10.8, "n": 1, "unit": "iops"})
    );
    assert_eq!(
        json["expect"][0],
        serde_json::json!({
            "text": "stock.contended.victim.iops <= 0.20 * solo", "verdict": "pass", "observed": 10.8
        })
    );
    assert_eq!(json["expect"][1]["observed"], serde_json::Value::Null);
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["expect", "metrics", "verdict"]);
}

#[test]
fn the_terminal_table() {
    let got = verdict::terminal_report(&report(&good()), &dirty_knobs(), false);
    assert_eq!(got, TERMINAL, "\n{got}");
    let width = got.lines().map(|l| l.chars().count()).max();
    assert!(width <= Some(80), "{width:?} columns");
}

const TERMINAL: &str = r#"One noisy writer, one victim, a slow disk
Linux 6.12.1-test · median (min..max), N = 3

phase      measure                          stock                  weir    ratio
solo       victim IOPS             125 (125..125)        125 (125..125)    1.00x
           victim p99        0.43 (0.43..0.43) ms  0.44 (0.44..0.44) ms    1.02x
contended  victim IOPS          10.8 (9.10..12.0)        125 (124..125)    11.6x
           victim IOPS/solo                8.64 %                 100 %    11.6x
           victim p99           526 (526..526) ms  0.48 (0.48..0.48) ms  0.0009x
           victim worst       16.2 (16.2..16.2) s  9.40 (9.40..9.40) ms  0.0006x
           host disk         252 (252..252) KiB/s  253 (253..253) KiB/s    1.00x
           host IO full       61.0 (61.0..61.0) %   22.0 (22.0..22.0) %    0.36x

  ✓ stock.contended.victim.iops <= 0.20 * solo                10.80, bound 25.00
  ✓ weir.contended.victim.iops >= 0.99 * solo                 125.0, bound 123.8
  ✓ weir.contended.victim.clat_p99_ns <= 2ms               0.480, bound 2.000 ms
  ✓ weir.contended.victim.clat_p99_ns <= 2 * solo          0.480, bound 0.880 ms
  ✓ weir.contended.host.disk_bw_bytes >= 0.95 * stock   252.9, bound 239.4 KiB/s

pass: 5 of 5 expectations met
"#;

#[test]
fn each_further_arm_is_held_against_the_first() {
    let figures = [("contended.victim.iops", 54.0)];
    let report = report(&[stock(10.8), weir(124.2), run(Arm::Patched, &figures)]);
    let got = verdict::terminal_report(&report, &dirty_knobs(), false);
    let words = |start: &str| {
        let line = got.lines().find(|line| line.contains(start));
        let line = line.unwrap_or_else(|| panic!("{start}: {got}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        words("phase").ends_with("weir/stock patched/stock"),
        "{got}"
    );
    assert!(words("contended").contains("5.00x"), "{got}");
    assert!(words("contended").contains("11.5x"), "{got}");
    assert!(words("victim p99").contains(" - "), "{got}");
}

#[test]
fn colour_only_when_asked_for() {
    let coloured = verdict::terminal_report(&report(&good()), &dirty_knobs(), true);
    assert!(coloured.contains("\u{1b}[32;1m✓"), "{coloured}");
    assert!(!verdict::terminal_report(&report(&good()), &dirty_knobs(), false).contains('\u{1b}'));
}

#[test]
fn the_markdown_table() {
    let got = verdict::markdown_report(&report(&good()), &dirty_knobs());
    assert_eq!(got, MARKDOWN, "\n{got}");
}

const MARKDOWN: &str = r#"**One noisy writer, one victim, a slow disk** (Linux 6.12.1-test · median (min..max), N = 3)

| phase     | measure          |                stock |                 weir |   ratio |
|-----------|------------------|----------------------|----------------------|---------|
| solo      | victim IOPS      |       125 (125..125) |       125 (125..125) |   1.00x |
|           | victim p99       | 0.43 (0.43..0.43) ms | 0.44 (0.44..0.44) ms |   1.02x |
| contended | victim IOPS      |    10.8 (9.10..12.0) |       125 (124..125) |   11.6x |
|           | victim IOPS/solo |               8.64 % |                100 % |   11.6x |
|           | victim p99       |    526 (526..526) ms | 0.48 (0.48..0.48) ms | 0.0009x |
|           | victim worst     |  16.2 (16.2..16.2) s | 9.40 (9.40..9.40) ms | 0.0006x |
|           | host disk        | 252 (252..252) KiB/s | 253 (253..253) KiB/s |   1.00x |
|           | host IO full     |  61.0 (61.0..61.0) % |  22.0 (22.0..22.0) % |   0.36x |

- ✓ `stock.contended.victim.iops <= 0.20 * solo`: 10.80, bound 25.00
- ✓ `weir.contended.victim.iops >= 0.99 * solo`: 125.0, bound 123.8
- ✓ `weir.contended.victim.clat_p99_ns <= 2ms`: 0.480, bound 2.000 ms
- ✓ `weir.contended.victim.clat_p99_ns <= 2 * solo`: 0.480, bound 0.880 ms
- ✓ `weir.contended.host.disk_bw_bytes >= 0.95 * stock`: 252.9, bound 239.4 KiB/s

pass: 5 of 5 expectations met
"#;

#[test]
fn where_memory_lies_is_shown() {
    let text = include_str!("../../../scenarios/tier-limits.toml");
    let tiers = scenario::parse("tier-limits", "tier-limits.toml", text).expect("valid");
    let stock = run(
        Arm::Stock,
        &[
            ("all.victim.ops_per_sec", 40_000.0),
            ("all.cgroup/victim.toptier_bytes", 120e6),
        ],
    );
    let weir = run(
        Arm::Weir,
        &[
            ("all.victim.ops_per_sec", 50_000.0),
            ("all.victim.hot_low_pct", 4.0),
            ("all.cgroup/victim.toptier_bytes", 240e6),
            ("all.cgroup/victim.lowtier_bytes", 120e6),
            ("all.cgroup/victim.budget_error_pct", 0.8),
            ("all.cgroup/victim.settle_ns", 20.9e9),
            ("all.host.migrated_bytes_per_min", 2e6),
        ],
    );
    let arms = [Arm::Stock, Arm::Weir];
    let got = verdict::terminal_report(&Report::new(&tiers, &arms, &[stock, weir]), &tiers, false);
    let rows: Vec<String> = got
        .lines()
        .skip_while(|line| !line.starts_with("phase"))
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let wanted = [
        "phase measure stock weir ratio",
        "all victim reads/s 40000 50000 1.25x",
        "victim hot, low tier - 4.00 % -",
        "victim's top tier 114 MiB 229 MiB 2.00x",
        "victim's low tier - 114 MiB -",
        "victim's budget error - 0.80 % -",
        "victim's time to settle - 20.9 s -",
        "host moved/min - 1.91 MiB -",
    ];
    assert_eq!(rows, wanted, "\n{got}");
}

/// Rows of the terminal's table, with one space between cells.
fn rows(runs: &[Run], scenario: &Scenario) -> Vec<String> {
    let got = verdict::terminal_report(&Report::new(scenario, &Arm::ALL, runs), scenario, false);
    got.lines()
        .skip_while(|line| !line.starts_with("phase"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn who_waits_for_fsync_is_shown_by_that_and_shares_are_of_baselines_only() {
    let text = include_str!("one-noisy-writer.toml");
    let phases =
        "[[phase]]\nname = \"again\"\njobs = [\"noisy\", \"victim\"]\nduration = \"30s\"\n";
    let text = format!("{text}\n{phases}");
    let scenario = scenario::parse("a", "a.toml", &text).expect("valid");
    let arm = |arm| {
        run(
            arm,
            &[
                ("solo.victim.iops", 125.0),
                ("contended.victim.iops", 25.0),
                ("contended.victim.sync_p99_ns", 1.35e9),
                ("contended.victim.sync_max_ns", 2e9),
                ("contended.victim.clat_p99_ns", 1400.0),
                ("contended.noisy.iops", 5.0),
                ("contended.cgroup/noisy.oom_kills", 0.0),
                ("again.noisy.iops", 10.0),
                ("again.cgroup/noisy.oom_kills", 2.0),
            ],
        )
    };
    let got = rows(&[arm(Arm::Stock), arm(Arm::Weir)], &scenario);
    let wanted = [
        "solo victim IOPS 125 125 1.00x",
        "contended noisy IOPS 5.00 5.00 1.00x",
        "victim IOPS 25.0 25.0 1.00x",
        "victim IOPS/solo 20.0 % 20.0 % 1.00x",
        "victim fsync p99 1.35 s 1.35 s 1.00x",
        "victim fsync worst 2.00 s 2.00 s 1.00x",
        "victim write p99 1.40 us 1.40 us 1.00x",
        "again noisy IOPS 10.0 10.0 1.00x",
        "noisy's OOM kills 2.00 2.00 1.00x",
    ];
    assert_eq!(got, wanted, "{got:#?}");
}

#[test]
fn a_host_without_disks_has_no_rows_of_disks_and_never_is_not_settled() {
    let text = include_str!("../../../scenarios/tier-limits.toml");
    let tiers = scenario::parse("tier-limits", "tier-limits.toml", text).expect("valid");
    let figures = [
        ("all.cgroup/victim.settle_ns", f64::INFINITY),
        ("all.host.disk_bw_bytes", 0.0),
        ("all.host.dirty_max_bytes", 0.0),
        ("all.host.io_full_pct", 0.0),
    ];
    let got = rows(&[run(Arm::Stock, &[]), run(Arm::Weir, &figures)], &tiers);
    assert_eq!(got, ["all victim's time to settle - not settled -"]);
    let report = Report::new(&tiers, &[Arm::Weir], &[run(Arm::Weir, &figures)]);
    let json = verdict::report_json(&report);
    let settled = &json["metrics"]["weir.all.cgroup/victim.settle_ns"];
    assert_eq!(settled["median"], serde_json::Value::Null);
}

#[test]
fn nothing_finished() {
    let mut run = stock(1.0);
    run.outcome = Outcome::Failed("qemu died".into());
    let got = verdict::terminal_report(
        &Report::new(&dirty_knobs(), &[Arm::Stock], &[run]),
        &dirty_knobs(),
        false,
    );
    assert!(
        got.contains("No run got to its end: there are no figures and nothing to judge."),
        "{got}"
    );
    assert!(
        got.contains("! a guest of arm stock failed: qemu died"),
        "{got}"
    );
    assert!(got.contains("fail: a guest failed"), "{got}");
    assert!(
        !got.contains("solo"),
        "expectations that nothing was measured for are noise: {got}"
    );
}
