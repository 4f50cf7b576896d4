// SPDX-License-Identifier: GPL-2.0-only
//! Running a TAP script in a guest.

use std::process::Command;

/// `weir exec` with these arguments must end well, and its script must have passed every one of the
/// tests it says it has. A kernel that warned has failed already, by the exit status.
pub fn passes(args: &[&str]) {
    // Beside other jobs a guest may take ten times as long; nothing is judged by that.
    let patience = match args.contains(&"--timeout") {
        true => [].as_slice(),
        false => &["--timeout", "30m"],
    };
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .arg("exec")
        .args(patience)
        .args(args)
        .output()
        .expect("weir runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    // Seen only with --nocapture, which the long runs have: their figures count.
    print!("{text}");
    assert!(
        output.status.success(),
        "weir exec {args:?}: {}\n{text}\n{log}",
        output.status
    );
    assert!(
        !text.lines().any(|line| line.starts_with("not ok")),
        "{text}"
    );
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(passed > 0, "{text}");
    let plan = format!("1..{passed}");
    assert_eq!(text.lines().last(), Some(plan.as_str()), "{text}");
}
