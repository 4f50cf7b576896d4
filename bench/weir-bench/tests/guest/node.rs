// SPDX-License-Identifier: GPL-2.0-only
//! The static binary of `make static`, which holds what a node needs: its size, what it is linked to,
//! its help and manual, and that it works alone in a root. For `make proof-static`, which also
//! builds it.

use crate::common;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What the binary of either architecture stays below.
const MOST_BYTES: u64 = 12_000_000;
/// Commands that are left out.
const BENCH: [&str; 8] = [
    "run", "compare", "sweep", "plan", "check", "metrics", "exec", "kernels",
];

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, noted) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), said, noted)
}

/// The folder of the binary for this architecture, after building what has changed.
fn built(architecture: &str) -> PathBuf {
    let made = Command::new("make")
        .args(["--no-print-directory", "static"])
        .arg(format!("FOR={architecture}"))
        .current_dir(ROOT)
        .status();
    assert!(made.expect("make runs").success());
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or(Path::new(ROOT).join("target"), PathBuf::from);
    target.join("static").join(architecture)
}

/// The binary is small, and needs no file of its root.
fn is_small_and_whole(folder: &Path) {
    let weir = folder.join("weir");
    let bytes = weir.metadata().expect("is there").len();
    println!("{}: {bytes} bytes", weir.display());
    assert!(bytes < MOST_BYTES, "{bytes}");
    let (status, headers, _) = output(Command::new("readelf").args(["-l", "-S", "-W"]).arg(&weir));
    assert_eq!(status, Some(0));
    assert!(headers.contains("LOAD"), "{headers}");
    for of_dynamic in ["INTERP", "NEEDED", ".symtab", ".debug_info"] {
        assert!(!headers.contains(of_dynamic), "{of_dynamic}: {headers}");
    }
}

/// Commands by its help, in order.
fn commands(weir: &Path) -> Vec<String> {
    let (_, help, _) = output(Command::new(weir).arg("--help"));
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let lines = list.split("\n\n").next().into_iter().flat_map(str::lines);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// Help, manual and completions have the same commands and options.
fn is_documented(folder: &Path) {
    let weir = folder.join("weir");
    let commands = commands(&weir);
    assert_eq!(commands.len(), 12, "{commands:?}");
    assert!(!commands.iter().any(|one| BENCH.contains(&one.as_str())));
    let page = |name: String| std::fs::read_to_string(folder.join("man").join(name)).expect("page");
    let manual = page("weir.1".into());
    let sections = manual
        .lines()
        .filter_map(|line| line.strip_prefix(".SS weir "));
    assert_eq!(sections.collect::<Vec<_>>(), commands);
    for command in &commands {
        let (_, help, _) = output(Command::new(&weir).args([command, "--help"]));
        let page = page(format!("weir-{command}.1")).replace("\\-", "-");
        let words = |text: &str, begins: &[&str]| -> BTreeSet<String> {
            let lines = text.lines().filter(|line| {
                let line = line.trim_start();
                begins.iter().any(|begin| line.starts_with(begin))
            });
            let words = lines.flat_map(|line| line.split([' ', '"', ',']));
            let options = words.filter(|word| word.starts_with("--") && word.len() > 2);
            let options = options.filter(|word| *word != "--help");
            options.map(str::to_owned).collect()
        };
        assert_eq!(
            words(&page, &[".B"]),
            words(&help, &["-"]),
            "weir {command}"
        );
    }
    let pages = std::fs::read_dir(folder.join("man"))
        .expect("there")
        .count();
    assert_eq!(pages, commands.len() + 1, "and weir.1");
    for shell in ["bash", "zsh", "fish"] {
        let (_, script, _) = output(Command::new(&weir).args(["completions", shell]));
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        for absent in ["kernels", "compare", "count-instructions"] {
            assert!(!script.contains(absent), "{shell}: {absent}");
        }
    }
    for command in BENCH {
        let said = output(Command::new(&weir).args([command, "--on", "lab", "x"]));
        let words = format!(
            "weir: `weir {command}` is not in this binary, which holds what a node needs: it is `weir-bench {command}` of the package weir-bench, and ./weir {command} in weir's source tree\n"
        );
        assert_eq!(said, (Some(2), String::new(), words));
    }
    let (status, _, noted) = output(Command::new(&weir).arg("rnu"));
    assert_eq!(status, Some(2));
    assert!(noted.contains("unrecognized subcommand 'rnu'"), "{noted}");
    let (status, _, _) = output(Command::new(&weir).args(["doctor", "--kernel", "debian:6.12"]));
    assert_eq!(status, Some(2), "takes a lab");
}

/// Alone in a root of a guest, on a kernel without the module.
fn works_alone(kernel: &str, folder: &Path) {
    let tap = format!("{ROOT}/kmod/tests/tap.sh:/tap.sh");
    let node = format!("{}:/node", folder.join("weir").display());
    let script = format!("{ROOT}/bench/weir-bench/tests/guest/node.sh");
    let machine = ["--count-instructions", "--cpus", "1", "--memory", "1G"];
    let disk = ["--no-module", "--disk", "d=512M,ext4,1M/s"];
    let files = ["--file", &tap, "--file", &node];
    let given = ["--kernel", kernel];
    common::passes(&[&given[..], &machine, &disk, &files, &[&script]].concat());
}

#[test]
#[ignore = "builds a small binary: make proof-static"]
fn of_this_architecture_is_small_and_documented() {
    let folder = built("amd64");
    is_small_and_whole(&folder);
    is_documented(&folder);
}

#[test]
#[ignore = "builds a small binary: make proof-static"]
fn of_the_other_architecture_is_small() {
    is_small_and_whole(&built("arm64"));
}

#[test]
#[ignore = "builds a small binary: make proof-static"]
fn explains_alone_and_beside_busybox_on_6_1() {
    works_alone("debian:6.1", &built("amd64"));
}

#[test]
#[ignore = "builds a small binary: make proof-static"]
fn explains_alone_on_arm64() {
    works_alone("debian:6.12:cloud:arm64", &built("arm64"));
}
