// SPDX-License-Identifier: GPL-2.0-only
//! The command as a user meets it, as far as no guest is needed: what it accepts, what it says, how
//! it ends.

mod command;

use assert_cmd::Command;
use command::{CEILING_OF_4K, program, scenario, shipped, weir};
use predicates::prelude::*;
use predicates::str::{contains, diff};
use std::io::Write;

#[test]
fn check_accepts_what_is_valid() {
    weir()
        .args(["check", &shipped("dirty-knobs")])
        .assert()
        .code(0)
        .stdout(contains(
            "dirty-knobs.toml: valid: 2 jobs, 2 phases, 6 expectations",
        ));
}

#[test]
fn check_refuses_with_file_line_and_key() {
    let file = scenario("title = \"t\"\n[host]\nmemori = \"2G\"\ncpus = 2\n");
    let name = file.path().display();
    let wanted = format!(
        "{name}:1: nothing would run: add at least one `[[phase]]`\n\
         {name}:3: key `host.memori`: unknown key, did you mean `memory`? known: cpus, lru_gen, memory, sysctl, weir\n"
    );
    weir()
        .arg("check")
        .arg(file.path())
        .assert()
        .code(1)
        .stderr(diff(wanted));
}

#[test]
fn check_names_what_a_place_does_not_honour() {
    let shared = std::fs::read_to_string(shipped("dirty-knobs")).expect("readable");
    let text = shared.replace(
        "[cgroup.noisy]",
        "[cgroup.noisy]\ncopies = 2\n\"cpu.weight\" = 50",
    );
    let line = |text: &str, key: &str| {
        let index = text.lines().position(|line| line.contains(key));
        index.expect("there") + 1
    };
    let file = scenario(&text);
    let name = file.path().display();
    let copies = line(&text, "copies =");
    let lab = format!(
        "{name}:{copies}: key `cgroup.noisy.copies`: not on lab: the lab makes no copies of a \
         cgroup: run the scenario on the twin\n"
    );
    let host = format!("{name}:{copies}: key `cgroup.noisy.copies`: not on host: only the twin");
    let twin = format!(
        "{name}:{}: key `cgroup.noisy.\"cpu.weight\"`: not on twin: the twin does not model \
         `cpu.weight`\n",
        copies + 1
    );
    let check = |place: &str| {
        let mut command = weir();
        command.args(["check", "--on", place]).arg(file.path());
        command.assert().code(1)
    };
    check("lab").stderr(diff(lab));
    check("twin").stderr(diff(twin));
    check("host").stderr(contains(host));
    weir().arg("check").arg(file.path()).assert().code(0);
    let plain = shipped("dirty-knobs");
    weir()
        .args(["check", "--on", "lab", &plain])
        .assert()
        .code(0);
}

#[test]
fn check_tells_programs_the_same() {
    let file = scenario("title = 3\n[host]\nmemory = \"2G\"\ncpus = 2\n");
    let output = weir()
        .args(["check", "--json"])
        .arg(file.path())
        .assert()
        .code(1);
    let json: serde_json::Value =
        serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!(json["valid"], false);
    assert_eq!(json["problems"][0]["line"], 1);
    assert_eq!(json["problems"][0]["key"], "title");
    assert_eq!(
        json["problems"][0]["what"],
        "is an integer, but must be a string"
    );
}

#[test]
fn a_scenario_that_is_refused_is_not_run() {
    let file = scenario("titel = 1\n");
    weir()
        .args(["run", "--on", "lab"])
        .arg(file.path())
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("key `titel`: unknown key, did you mean `title`?"));
    weir()
        .args(["run", "nowhere.toml"])
        .assert()
        .code(2)
        .stderr("nowhere.toml: cannot read the scenario: No such file or directory (os error 2)\n");
}

#[test]
fn the_twin_runs_a_scenario_the_same_every_time() {
    let run = || {
        let mut command = weir();
        command.args(["run", "--on", "twin", "--repeat", "2", "--json"]);
        let output = command.arg(shipped("dirty-knobs")).assert().code(0);
        // The time it took differs from run to run, and is said beside.
        let output = output.stderr(contains(" events, ").and(contains("MiB of memory at most")));
        String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8")
    };
    let once = run();
    assert_eq!(once, run());
    let json: serde_json::Value = serde_json::from_str(&once).expect("JSON");
    assert_eq!(json["verdict"], "pass");
}

#[test]
fn what_is_compared_with_itself_is_near() {
    let run = weir()
        .args(["run", "--on", "twin", "--json"])
        .arg(shipped("dirty-knobs"))
        .assert()
        .code(0);
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&run.get_output().stdout).expect("written");
    let compare = |scenario: &str| {
        let mut command = weir();
        command.args(["compare", "--lab"]).arg(file.path());
        command.arg(shipped(scenario)).assert()
    };
    compare("dirty-knobs")
        .code(0)
        .stdout(contains("34 of 34 figures are near"));
    let refuses = |scenario: &str, more: &[&str], why: &str| {
        let mut command = weir();
        command
            .args(["compare", "--lab"])
            .arg(file.path())
            .args(more);
        let refused = command.arg(shipped(scenario)).assert().code(2);
        refused.stderr(contains(why));
    };
    refuses(
        "floor-sustained",
        &[],
        "is of the scenario `dirty-knobs`, not of",
    );
    refuses(
        "dirty-knobs",
        &["--count-instructions"],
        "is of a clock that counts time, and the twin's would count instructions",
    );
    refuses(
        "dirty-knobs",
        &["--kernel", "debian:6.1"],
        "is of Linux twin of 6.12, not of 6.1",
    );
}

#[test]
fn what_a_twin_keeps_is_drawn() {
    let dir = tempfile::tempdir().expect("made");
    for record in [false, true] {
        let out = dir.path().join(record.to_string());
        let mut run = weir();
        run.args(["run", "--on", "twin", "--out"]).arg(&out);
        run.args(record.then_some("--record"));
        run.arg(shipped("dirty-knobs")).assert().code(0);
        let recording = out.join("weir-1/contended.weir");
        assert_eq!(recording.exists(), record, "passes are kept if asked for");
        let page = dir.path().join("page.html");
        let mut report = weir();
        report.arg("report").arg(out.join("weir-1")).arg("--html");
        report.arg(&page).assert().code(0);
        let page = std::fs::read_to_string(page).expect("a page");
        assert!(
            page.contains("<svg") && page.contains("contended"),
            "{record}"
        );
    }
}

#[test]
fn figures_that_an_expectation_names_are_compared() {
    let text = std::fs::read_to_string(shipped("dirty-knobs")).expect("readable");
    let names = ["disk/slow.queue_depth", "cgroup/noisy.disk_bw_bytes"];
    let expects = names
        .map(|name| format!("\n[[expect]]\nmetric = \"weir.contended.{name}\"\nat_least = 0\n"));
    let file = scenario(&(text + &expects.concat()));
    let dir = tempfile::tempdir().expect("made");
    let mut run = weir();
    run.args(["run", "--on", "twin", "--out"]).arg(dir.path());
    run.arg(file.path()).assert().success();
    let report = dir.path().join("report.json");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("kept")).expect("JSON");
    for (key, wanted) in [
        ("place", "twin"),
        ("clock", "time"),
        ("version", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(json["run"][key], wanted);
    }
    assert_eq!(json["run"]["seed"], 1);
    assert_eq!(json["run"]["kernels"][0], "twin of 6.12");
    assert_eq!(json["run"]["date"].as_str().map(str::len), Some(10));
    let mut compare = weir();
    compare
        .args(["compare", "--lab"])
        .arg(report)
        .arg(file.path());
    let compared = compare.assert().code(0);
    names
        .iter()
        .fold(compared, |compared, name| compared.stdout(contains(*name)));
}

#[test]
fn a_sweep_has_a_line_for_each_combination() {
    let sweep = |set: &str| {
        let mut command = weir();
        command.args([
            "sweep",
            "--json",
            "--show",
            "weir.contended.victim.iops",
            "--set",
            set,
        ]);
        command.arg(shipped("dirty-knobs")).assert()
    };
    let output = sweep("cgroup.victim.\"memory.dirty_min\"=1M,16M").code(0);
    let json: serde_json::Value =
        serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let iops = |run: usize| json["runs"][run]["figures"]["weir.contended.victim.iops"].as_f64();
    assert!(iops(0) < Some(60.0) && iops(1) > Some(124.0), "{json}");
    sweep("disk[0].write_bandwidth=1").code(2).stderr(contains(
        "key `disk[0].write_bandwidth`: `1` is not a bandwidth",
    ));
    sweep("disk[1].name=x")
        .code(2)
        .stderr(contains("has no `1` on the way to it"));
}

#[test]
fn parts_of_a_sweep_make_the_whole_and_it_can_be_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("a.svg");
    let sweep = |more: &[&str]| {
        let mut command = weir();
        command.args([
            "sweep",
            "--set",
            "cgroup.victim.\"memory.dirty_min\"=1M,8M,16M",
        ]);
        command.args(more).arg(shipped("dirty-knobs")).assert()
    };
    let lines = |more: &[&str]| {
        let sweep = sweep(&[&["--lines"], more].concat()).code(0);
        let text = String::from_utf8(sweep.get_output().stdout.clone()).expect("UTF-8");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (whole, even, odd) = (
        lines(&[]),
        lines(&["--part", "0/2"]),
        lines(&["--part=1/2", "--threads=1"]),
    );
    assert_eq!(
        [&even[0], &odd[0], &even[1]],
        [&whole[0], &whole[1], &whole[2]]
    );
    assert_eq!((whole.len(), even.len(), odd.len()), (3, 2, 1));
    assert!(lines(&["--part", "5/9"]).is_empty());
    sweep(&["--lines", "--part", "2/2"])
        .code(2)
        .stderr(contains("`2/2` is not a part"));

    let to = svg.to_str().expect("UTF-8");
    sweep(&["--plot", "--svg", to])
        .code(0)
        .stdout(contains("\n  16M ██████"));
    let drawn = std::fs::read_to_string(&svg).expect("written");
    assert!(drawn.starts_with("<svg ") && drawn.contains(">weir.contended.victim.iops<"));
    sweep(&["--svg", to])
        .code(2)
        .stderr(contains("File exists"));
}

#[test]
fn what_the_module_refuses_is_refused_everywhere_with_one_message() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let text = std::fs::read_to_string(shipped("dirty-knobs")).expect("read");
    let floor = "\"memory.dirty_min\" = \"";
    assert!(text.contains(floor));
    let low = file(
        "low.toml",
        &text.replace(
            floor,
            "\"memory.dirty_bytes\" = \"4K\"\n\"memory.dirty_min\" = \"100B",
        ),
    );
    let policy = "[[rule]]\ncgroup = \"/a\"\n\
        set = { \"memory.dirty_bytes\" = \"4K\", \"memory.dirty_min\" = \"100B16M\" }\n";
    let policy = file("agent.toml", policy);
    let floor_of_100_b = "memory.dirty_min: invalid value `100B16M`: \
        expected bytes with optional K, M, G or T, or `max`";
    for (args, path) in [
        (&["check"][..], &low),
        (&["run", "--on", "twin"], &low),
        (&["plan"], &low),
        (&["agent", "--check"], &policy),
    ] {
        let told = weir().args(args).arg(path).assert().failure();
        told.stderr(contains(CEILING_OF_4K).and(contains(floor_of_100_b)));
    }
}

/// The published results at their published size, and what each scenario says must come out.
#[test]
fn scenarios_show_on_the_twin_what_they_must() {
    for name in [
        "twin/io-psi",
        "twin/rate-based",
        "twin/ten-disks",
        "twin/nfs",
        "twin/containers",
        "twin/bounded-sync",
        "io-psi-scarce",
    ] {
        weir()
            .args(["run", "--on", "twin"])
            .arg(shipped(name))
            .assert()
            .code(0);
    }
}

#[test]
fn the_twin_refuses_what_it_does_not_model_with_its_line() {
    let text = std::fs::read_to_string(shipped("dirty-knobs")).expect("read");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let direct = text.replacen("fio = { ", "fio = { direct = 1, ", 1);
    file.write_all(direct.as_bytes()).expect("written");
    weir()
        .args(["run", "--on", "twin"])
        .arg(file.path())
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains(":45: key `job[0].fio.direct`: the twin models"));
}

#[test]
fn only_what_exists_is_accepted() {
    let run = |extra: &[&str]| {
        let mut command = weir();
        command.arg("run").args(extra).arg(shipped("dirty-knobs"));
        command.assert().code(2)
    };
    run(&["--on", "moon"])
        .stderr(contains("invalid value 'moon'").and(contains("possible values: lab")));
    run(&["--arm", "left"]).stderr(contains("[possible values: stock, weir, patched, both]"));
    run(&["--on", "twin", "--patches", "."]).stderr(contains("use --on lab"));
    run(&["--arm", "stock,patched"]).stderr(contains("add --patches or --source"));
    run(&["--config", "lines"]).stderr(contains("add --patches or --source"));
    run(&["--build-each"]).stderr(contains("--patches <PATH>"));
    run(&["--patches", "/no/such/series"]).stderr(contains("/no/such/series"));
    run(&["--repeat", "0"]).stderr(contains("0 is not in 1..=1000"));
    run(&["--json", "--markdown"]).stderr(contains("cannot be used with"));
    weir()
        .arg("fly")
        .assert()
        .code(2)
        .stderr(contains("unrecognized subcommand 'fly'"));
}

#[test]
fn a_kernel_nobody_has_could_not_be_run() {
    let cache = tempfile::tempdir().expect("made");
    weir()
        .env("WEIR_CACHE", cache.path())
        .args(["run", "--kernel", "/no/such/vmlinuz"])
        .arg(shipped("dirty-knobs"))
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("/no/such/vmlinuz"));
}

#[test]
fn who_stops_reading_early_is_no_error() {
    // A pipe that `head -c 0` has left.
    let (reader, writer) = nix::unistd::pipe().expect("made");
    drop(reader);
    let scenario = shipped("dirty-knobs");
    for args in [
        &["check", &scenario][..],
        &["doctor"],
        &["status", "--json"],
        &["run", "--on", "twin", &scenario],
    ] {
        let output = program()
            .args(args)
            .stdout(writer.try_clone().expect("cloned"))
            .stderr(std::process::Stdio::piped())
            .output()
            .expect("ran");
        let said = String::from_utf8_lossy(&output.stderr);
        // The time of a run was said before.
        let complaints = said
            .lines()
            .filter(|line| !line.starts_with("weir: twin: "));
        assert_eq!(output.status.code(), Some(141), "{args:?}");
        assert_eq!(complaints.count(), 0, "{args:?}: {said}");
    }
}

#[test]
fn options_of_a_host_are_for_a_host() {
    for option in ["--yes", "--module=x.ko", "--disk=slow=/tmp"] {
        let name = option.split('=').next().unwrap_or_default();
        weir()
            .args(["run", option, &shipped("dirty-knobs")])
            .assert()
            .code(2)
            .stderr(contains(format!(
                "{name} is for runs on this machine: add --on host"
            )));
    }
    weir()
        .args(["run", "--on", "host", "--count-instructions"])
        .arg(shipped("dirty-knobs"))
        .assert()
        .code(2)
        .stderr(contains("leave it out with --on host"));
}

#[test]
fn what_a_host_cannot_honour_is_refused_at_once_before_anybody_is_asked() {
    let file = shipped("tier-hot-cold");
    weir()
        .args(["run", "--on", "host", "--arm", "weir"])
        .args(["--module", "/no/such.ko", "--disk", "none=/tmp", &file])
        .assert()
        .code(2)
        .stderr(contains(
            "this machine: /no/such.ko: there is no such module",
        ))
        .stderr(contains(
            "this machine: --disk none: the scenario has no such disk",
        ))
        .stderr(contains(
            "key `tier`: weir does not change a machine's memory",
        ))
        .stderr(contains("key `agent`: weir starts no agent on a host"));
}

/// The package's command, away from a source tree: told before anything is fetched.
#[test]
fn a_run_in_guests_outside_a_source_tree_fails_at_once() {
    let place = tempfile::tempdir().expect("made");
    let binary = place.path().join("weir");
    // By another process: what tests beside this one start would inherit the file open for
    // writing, and a file that is open for writing cannot be run.
    let copied = std::process::Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_weir-bench"))
        .arg(&binary)
        .status()
        .expect("cp");
    assert!(copied.success());
    let cache = place.path().join("cache");
    Command::new(binary)
        .args(["run", &shipped("dirty-knobs")])
        .env("WEIR_CACHE", &cache)
        .current_dir(place.path())
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains(
            "weir's source tree is needed to build weir.ko for the guest: run from inside it",
        ));
    let fetched = std::fs::read_dir(&cache).map_or(0, Iterator::count);
    assert_eq!(fetched, 0, "nothing was fetched");
}
