// SPDX-License-Identifier: GPL-2.0-only
//! `weir report` as it is typed: runs of the twin drawn, and what it says to those who ask for too
//! much.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir-bench"))
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
        "<h1>One noisy writer, one victim",
        "<h2>dirty-knobs, stock, twin of 6.12, 20",
        "<h2>dirty-knobs, weir, twin of 6.12, 20",
        "<th scope=\"row\">victim.iops</th><td>",
        "difference</th>",
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
    assert!(!text.contains("overflow-x"), "all that is wide is wrapped");
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
fn runs_are_compared_in_words() {
    let out = tempfile::tempdir().expect("made");
    let scenario = format!("{ROOT}/scenarios/dirty-knobs.toml");
    let mut run = weir();
    run.args(["run", "--on", "twin", &scenario, "--out"]);
    run.arg(out.path()).assert().success();
    let directory = |arm: &str| out.path().join(arm);
    let mut both = weir();
    both.arg("report").arg(directory("stock-1"));
    let both = both.arg(directory("weir-1")).assert().success();
    let text = String::from_utf8_lossy(&both.get_output().stdout).into_owned();
    for wanted in [
        "  host: 2.00 GiB, 2 CPUs\n",
        "  disks: slow: ext4, 256 KiB/s\n",
        concat!("  weir: ", env!("CARGO_PKG_VERSION"), "\n"),
        "difference\n",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let row = text
        .lines()
        .find(|line| line.contains("victim.iops"))
        .expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert!(
        cells.len() >= 5 && cells.last().is_some_and(|by| by.ends_with("x)")),
        "{row}"
    );
    let mut one = weir();
    one.arg("report").arg(directory("weir-1"));
    one.assert()
        .success()
        .stdout(contains("cgroup/victim.dirty_max_bytes"));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let out = tempfile::tempdir().expect("made");
    let page = out.path().join("page.html");
    let trace = format!("{ROOT}/node/report/tests/traces/host-limit.txt");
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
    fails(&[dir], "is a directory without results.jsonl");
    fails(&[&trace, &trace, "--json"], "--json sums up one recording");
    fails(
        &[dir, "--html", html],
        "is a directory without results.jsonl",
    );
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
    fails(
        &[&trace, "--html", html, "--perfetto", html],
        "--html would overwrite",
    );
    let copy = out.path().join("copy.txt");
    std::fs::copy(&trace, &copy).expect("copied");
    let copy = copy.to_str().expect("text");
    let again = format!("{dir}/./copy.txt");
    for (how, why) in [
        ("--html", "would overwrite"),
        ("--perfetto", "would overwrite"),
    ] {
        fails(&[copy, how, &again], why);
    }
    assert!(std::fs::read(&trace).expect("read") == std::fs::read(copy).expect("read"));
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

#[test]
fn a_page_is_whole_or_as_it_was() {
    let out = tempfile::tempdir().expect("made");
    let trace = format!("{ROOT}/node/report/tests/traces/host-limit.txt");
    let (page, link) = (out.path().join("page.html"), out.path().join("link.html"));
    std::fs::write(&page, "before").expect("written");
    std::os::unix::fs::symlink("page.html", &link).expect("made");
    // Room for a part of it.
    let few = "ulimit -f 4; trap '' XFSZ; exec \"$0\" report \"$1\" --html \"$2\"";
    Command::new("bash")
        .args(["-c", few, env!("CARGO_BIN_EXE_weir-bench"), &trace])
        .arg(&link)
        .assert()
        .code(2)
        .stderr(contains("cannot write ").and(contains("File too large")));
    assert_eq!(std::fs::read_to_string(&page).expect("read"), "before");
    let names = || std::fs::read_dir(out.path()).expect("listed").count();
    assert_eq!(names(), 2, "nothing beside it");
    let written = |to: &Path| {
        let mut command = weir();
        command.args(["report", &trace, "--html"]).arg(to);
        command.assert().success().get_output().stdout.clone()
    };
    written(&link);
    assert!(link.is_symlink(), "the file is written, not the link");
    let text = std::fs::read(&page).expect("read");
    assert!(text.ends_with(b"</html>\n"));
    // A device takes it as it comes, and so does a file without a name.
    assert!(written(Path::new("/dev/stdout")) == text);
    assert_eq!(names(), 2);
    let (removed, output) = (out.path().join("removed"), out.path().join("output"));
    std::os::unix::fs::symlink("/proc/self/fd/1", &output).expect("made");
    let mut file = std::fs::File::options();
    let file = file.read(true).write(true).create_new(true).open(&removed);
    let mut file = file.expect("made");
    std::fs::remove_file(&removed).expect("removed");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["report", &trace, "--html"]).arg(&output);
    let done = command.stdout(file.try_clone().expect("cloned")).status();
    assert!(done.expect("runs").success());
    assert!(output.is_symlink(), "it is still a link");
    let mut after = Vec::new();
    std::io::Seek::rewind(&mut file).expect("rewound");
    std::io::Read::read_to_end(&mut file, &mut after).expect("read");
    assert!(after == text);
}
