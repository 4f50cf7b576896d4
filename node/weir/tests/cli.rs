// SPDX-License-Identifier: GPL-2.0-only
//! The command of a node as an operator meets it, as far as no module is needed.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The built command, which prints no colours.
fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env("NO_COLOR", "1");
    command
}

#[test]
fn commands_of_the_bench_are_elsewhere() {
    for command in [
        "run", "compare", "sweep", "plan", "check", "metrics", "exec", "kernels",
    ] {
        let help = weir().arg("--help").output().expect("ran");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(!help.contains(&format!("\n  {command} ")), "{help}");
        weir()
            .args([command, "x.toml"])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(format!(
                "it is `weir-bench {command}` of the package weir-bench"
            )));
    }
    let folder = tempfile::tempdir().expect("made");
    weir()
        .arg("report")
        .arg(folder.path())
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains(
            "is a directory: `weir-bench report` of the package",
        ));
}

#[test]
fn without_the_module_status_says_so() {
    // The machine that tests run on is not one weir is loaded on.
    assert!(
        !Path::new("/sys/module/weir").exists(),
        "weir is loaded here: run this on another machine"
    );
    weir()
        .arg("status")
        .assert()
        .code(1)
        .stdout("not loaded: the kernel behaves as stock; `weir load` loads the module\n");
    let output = weir().args(["status", "--json"]).assert().code(1);
    let json: serde_json::Value =
        serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!(
        (&json["loaded"], &json["state"]),
        (&false.into(), &"not loaded".into())
    );
    weir()
        .arg("unload")
        .assert()
        .code(0)
        .stdout("weir is not loaded\n");
}

#[test]
fn doctor_prints_a_line_per_requirement_and_a_conclusion() {
    let output = weir().arg("doctor").output().expect("ran");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        matches!(output.status.code(), Some(0..=2)),
        "{:?}",
        output.status
    );
    for name in [
        "root",
        "cgroup v2",
        "BTF",
        "functions",
        "kprobes",
        "ftrace",
        "signatures",
    ] {
        assert!(
            text.lines()
                .any(|l| l.get(6..).is_some_and(|l| l.starts_with(name))),
            "no {name}:\n{text}"
        );
    }
    assert!(text.trim_end().ends_with('.'), "{text}");
    let output = weir().args(["doctor", "--json"]).output().expect("ran");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        json["checks"]
            .as_array()
            .is_some_and(|checks| checks.len() > 10),
        "{json}"
    );
}

#[test]
fn load_names_a_module_that_is_not_there() {
    weir()
        .args(["load", "--module", "/no/weir.ko"])
        .assert()
        .code(2)
        .stderr(contains("cannot open the module /no/weir.ko").or(contains("takes root")));
}

#[test]
fn explain_refuses_what_is_no_trace() {
    let file = |bytes: &[u8]| {
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), bytes).expect("written");
        file
    };
    for (bytes, why) in [
        (&b""[..], "it is empty"),
        (b"PERFILE2", "make text of it"),
        (b"\x7fELF\0", "neither a trace.dat file nor text"),
        (b"hello", "no event in it"),
        (b"\x17\x08\x44tracing6\0\0\x08", "it is cut"),
    ] {
        let file = file(bytes);
        let said = format!("{} cannot be used: ", file.path().display());
        for how in [&["explain", "--from"][..], &["report"]] {
            let mut command = weir();
            command.args(how).arg(file.path());
            let said = contains(said.clone()).and(contains(why));
            command.assert().code(2).stdout("").stderr(said);
        }
    }
    let huge = file(b"");
    huge.as_file().set_len(3 << 30).expect("made");
    // Neither takes memory or time: this is told from its length.
    for begins in [&b"\x1f\x8b"[..], b"\x17\x08\x44tracing7", b"fio-1 [000] "] {
        huge.as_file().write_all_at(begins, 0).expect("written");
        for how in [&["explain", "--from"][..], &["report"]] {
            let mut command = weir();
            command.args(how).arg(huge.path());
            let said = contains("has more than 2.0 GiB: cut it first");
            command.assert().code(2).stdout("").stderr(said);
        }
    }
    for (what, why) in [
        (Path::new("/dev/zero"), "is a device, not a file"),
        (Path::new("/"), "cannot read /: Is a directory"),
    ] {
        let mut command = weir();
        command.args(["explain", "--from"]).arg(what);
        command.assert().code(2).stdout("").stderr(contains(why));
    }
    weir()
        .args(["explain", "--from", "/no/such/file"])
        .assert()
        .code(2)
        .stderr(contains("cannot read /no/such/file"));
    weir()
        .args(["explain", "--for", "1s", "--from", "x"])
        .assert()
        .code(2)
        .stderr(contains("cannot be used with"));
}

#[test]
fn explain_takes_one_cgroup_or_task_of_a_file() {
    let line = |task: u32, ns: &str| {
        format!(
            "fio-{task} [000] ..... {ns}: balance_dirty_pages: bdi 8:0: limit=8192 setpoint=7168 dirty=8000 \
             bdi_setpoint=7000 bdi_dirty=7900 dirty_ratelimit=40 task_ratelimit=0 dirtied=32 dirtied_pause=32 \
             paused=0 pause=200 period=200 think=0 cgroup_ino={task}\n"
        )
    };
    let file = tempfile::NamedTempFile::new().expect("made");
    let limits = "fio-70 [000] ..... 0.999999: global_dirty_state: dirty=7000 writeback=1000 bg_thresh=4096 \
                  thresh=8192 limit=8192 dirtied=1 written=1\n";
    let text = limits.to_string() + &line(70, "1.000000") + &line(71, "1.100000");
    std::fs::write(file.path(), text).expect("written");
    for (whom, wanted, not) in [
        ("71", "fio (71)", "fio (70)"),
        ("inode:70", "fio (70)", "fio (71)"),
    ] {
        let mut command = weir();
        command.args(["explain", "--from"]).arg(file.path());
        command
            .arg(whom)
            .assert()
            .code(0)
            .stdout(contains(wanted).and(contains(not).not()));
    }
    let mut command = weir();
    command
        .args(["explain", "--from"])
        .arg(file.path())
        .arg("/db");
    let said = contains("there is no cgroup /db").and(contains("it has inode:70, inode:71"));
    command.assert().code(2).stdout("").stderr(said);
}

#[test]
fn what_cannot_be_recorded_leaves_no_file() {
    let directory = tempfile::tempdir().expect("made");
    let file = directory.path().join("r");
    let mut command = weir();
    command.args(["record", "--for", "100ms"]).arg(&file);
    let output = command.output().expect("ran");
    let said = String::from_utf8_lossy(&output.stderr);
    let reasons = [
        "no cgroup2 is mounted",
        "takes root",
        "tracefs is not mounted",
    ];
    match output.status.code() {
        // Where weir may look at the kernel.
        Some(0) => assert!(file.exists()),
        Some(2) => {
            assert!(reasons.iter().any(|why| said.contains(why)), "{said}");
            assert!(!file.exists());
        }
        other => panic!("{other:?}: {said}"),
    }
    std::fs::write(&file, "kept").expect("written");
    let mut command = weir();
    command.args(["record", "--for", "100ms"]).arg(&file);
    command
        .assert()
        .code(2)
        .stderr(contains("cannot make the recording").and(contains("File exists")));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "kept");
    let mut command = weir();
    command.args(["record", "--buffer", "1K"]).arg(&file);
    command
        .assert()
        .code(2)
        .stderr(contains("`1K`: expected 4K to 1G"));
    for how in [&["record", "x"][..], &["explain"]] {
        let mut command = weir();
        command.args(how).args(["--for", "0s"]);
        let why = contains("expected a duration above 0");
        command.assert().code(2).stdout("").stderr(why);
    }
}

#[test]
fn explain_names_a_cgroup_that_is_not_there() {
    weir()
        .args(["explain", "no/such/cgroup"])
        .assert()
        .code(2)
        .stderr(
            contains("there is no cgroup no/such/cgroup").or(contains("no cgroup2 is mounted")),
        );
}
