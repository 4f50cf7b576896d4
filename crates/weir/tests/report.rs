// SPDX-License-Identifier: GPL-2.0-only
//! `weir report` as it is typed: runs of the twin drawn, and what it says to those who ask for too much.

use assert_cmd::Command;
use predicates::str::contains;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// `dirty-knobs` on the twin, recorded.
fn recorded(out: &Path) {
    let scenario = format!("{ROOT}/scenarios/dirty-knobs.toml");
    weir()
        .args(["run", &scenario, "--on", "twin", "--record", "--out"])
        .arg(out)
        .assert()
        .stdout(contains("victim IOPS"));
}

#[test]
fn two_runs_of_the_twin_are_drawn() {
    let out = tempfile::tempdir().expect("made");
    recorded(out.path());
    let (page, trace) = (out.path().join("page.html"), out.path().join("trace"));
    let (stock, weirs) = (out.path().join("stock-1"), out.path().join("weir-1"));
    weir()
        .arg("report")
        .args([&stock, &weirs])
        .arg("--html")
        .arg(&page)
        .assert()
        .success();
    let text = std::fs::read_to_string(&page).expect("written");
    for wanted in [
        "twin of 6.12",
        "Dirty pages of the host",
        "Progress of the tasks",
        "Pauses, ",
        "Position ratio: /noisy on slow",
        "Shares of the cgroups",
        "Dirty pages of the cgroups",
        ">contended</text>",
        // The victim alone is never held.
        "/victim: the host is at its limit",
        "pressure over time: only a recording of a running kernel has it",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!text.contains("Pressure of the host"));
    weir()
        .arg("report")
        .arg(stock.join("contended.weir"))
        .arg("--perfetto")
        .arg(&trace)
        .assert()
        .success();
    assert!(std::fs::metadata(&trace).expect("written").len() > 10_000);
    weir()
        .arg("report")
        .arg(stock.join("contended.weir"))
        .assert()
        .success()
        .stdout(contains("/victim: the host is at its limit"));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let out = tempfile::tempdir().expect("made");
    let page = out.path().join("page.html");
    let trace = format!("{ROOT}/crates/report/tests/traces/host-limit.txt");
    let fails = |args: &[&str], why: &str| {
        weir()
            .arg("report")
            .args(args)
            .assert()
            .code(2)
            .stderr(contains(why));
        assert!(!page.exists(), "{why}");
    };
    let (dir, html) = (
        out.path().to_str().expect("text"),
        page.to_str().expect("text"),
    );
    fails(&[dir], "add --html FILE");
    fails(
        &[dir, "--html", html],
        "is a directory without results.jsonl",
    );
    fails(&[&trace, &trace], "two runs are compared as pictures only");
    fails(
        &[&trace, "--json", "--html", html],
        "ask for one of them at a time",
    );
    fails(
        &[&trace, &trace, "--perfetto", html],
        "--perfetto writes one run",
    );
    fails(
        &[&trace, "--html", "/nowhere/page.html"],
        "cannot write /nowhere/page.html",
    );
    std::fs::create_dir(out.path().join("stock-1")).expect("made");
    let results = out.path().join("stock-1/results.jsonl");
    std::fs::write(&results, "").expect("written");
    fails(&[dir, "--html", html], "give one of them, stock-1");
    let guest = results.parent().expect("in a directory");
    let guest = guest.to_str().expect("text");
    fails(
        &[guest, "--html", html],
        "no phase of this run came to its end",
    );
    let huge = std::fs::File::options().write(true).open(&results);
    huge.expect("there").set_len(3 << 30).expect("made");
    fails(&[guest, "--html", html], "has more than 2.0 GiB");
    std::fs::write(&results, "{\"event\":\"boot\"").expect("written");
    fails(
        &[guest, "--html", html],
        "results.jsonl:1: not what weir run writes",
    );
}
