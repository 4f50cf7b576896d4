// SPDX-License-Identifier: GPL-2.0-only
//! `--patches`: a kernel is built with a change of one line, and without it, and has an arm of its
//! own. An hour for the first build on a busy machine, minutes for each further one.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// The newest series that the archive has source of.
const KERNEL: &str = "debian:7.3";

/// A patch that sets the default of vm.dirty_ratio, which a guest can read.
fn ratio_patch(value: &str) -> String {
    format!(
        "Subject: [PATCH] mm: another dirty ratio\n\n---\n--- a/mm/page-writeback.c\n+++ b/mm/page-writeback.c\n\
         @@ -88,5 +88,5 @@\n /*\n  * The generator of dirty data starts writeback at this percentage\n  */\n\
         -static int vm_dirty_ratio = 20;\n+static int vm_dirty_ratio = {value};\n \n"
    )
}

/// Exit status, output and log of `weir` with these arguments.
fn run_weir(arguments: &[&str]) -> (Option<i32>, String, String) {
    let start = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(arguments)
        .output()
        .expect("runs");
    println!(
        "weir {}: {:.0} s",
        arguments.join(" "),
        start.elapsed().as_secs_f64()
    );
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The dirty ratio of a guest that boots the kernel with this patch.
fn ratio_in_guest(patch: &Path, script: &Path) -> String {
    let (patch, script) = (
        patch.to_str().expect("UTF-8"),
        script.to_str().expect("UTF-8"),
    );
    let (status, said, log) = run_weir(&[
        "exec",
        "--kernel",
        KERNEL,
        "--patches",
        patch,
        "--no-module",
        "--count-instructions",
        "--cpus",
        "1",
        "--memory",
        "1G",
        script,
    ]);
    assert_eq!(status, Some(0), "{log}");
    said.trim().to_owned()
}

#[test]
#[ignore = "an hour: builds kernels; make patched"]
fn a_change_of_one_line_is_built_and_has_an_arm() {
    let root = tempfile::tempdir().expect("a directory");
    let (patch, script) = (root.path().join("0001.patch"), root.path().join("ratio.sh"));
    std::fs::write(&script, "cat /proc/sys/vm/dirty_ratio\n").expect("written");
    for value in ["21", "22"] {
        std::fs::write(&patch, ratio_patch(value)).expect("written");
        assert_eq!(ratio_in_guest(&patch, &script), value);
    }
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/short.toml");
    let patches = patch.to_str().expect("UTF-8");
    let options = [
        "--kernel",
        KERNEL,
        "--patches",
        patches,
        "--count-instructions",
        "--json",
    ];
    let (_, said, log) =
        run_weir(&[&["run", scenario, "--on", "lab"], options.as_slice()].concat());
    let json: Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}\n{log}"));
    for arm in ["stock", "weir", "patched"] {
        let figure = &json["metrics"][format!("{arm}.alone.writer.bw_bytes")]["median"];
        assert!(
            figure.as_f64().is_some_and(|figure| figure > 0.0),
            "{arm}: {json:#}\n{log}"
        );
    }
    let kernels = json["run"]["kernels"].as_array().expect("a list");
    let named = |word: &str| {
        let names = kernels.iter().filter_map(Value::as_str);
        names.filter(|name| name.contains(word)).count()
    };
    assert_eq!(
        (named("-stock-"), named("-patched-")),
        (1, 1),
        "{kernels:?}"
    );
    // The scenario's knobs are files of the module's; this kernel has none.
    assert!(
        log.contains("this kernel has no memory.dirty_bytes: not set for writer"),
        "{log}"
    );
}

#[test]
#[ignore = "a minute: fetches a kernel's source; make patched"]
fn patches_that_cannot_be_built_say_why() {
    let root = tempfile::tempdir().expect("a directory");
    let patch = root.path().join("0001.patch");
    let script = root.path().join("true.sh");
    std::fs::write(&script, "true\n").expect("written");
    let (patches, script) = (
        patch.to_str().expect("UTF-8"),
        script.to_str().expect("UTF-8"),
    );
    let error = |text: String| {
        std::fs::write(&patch, text).expect("written");
        let (status, _, log) =
            run_weir(&["exec", "--kernel", KERNEL, "--patches", patches, script]);
        assert_eq!(status, Some(2), "{log}");
        log
    };
    let other = error(ratio_patch("21").replace("= 20", "= 19"));
    for part in [
        "`0001.patch`: mm/page-writeback.c: its hunk",
        "static int vm_dirty_ratio = 19;",
    ] {
        assert!(other.contains(part), "{part}: {other}");
    }
    let mangled = error(ratio_patch("21").replace("\n  * The", "\n   *  The"));
    assert!(
        mangled.contains("but for white space, which mail has changed"),
        "{mangled}"
    );
    let broken = error(ratio_patch("no"));
    assert!(broken.contains("the kernel does not build"), "{broken}");
    assert!(broken.contains("error: 'no' undeclared"), "{broken}");
}
