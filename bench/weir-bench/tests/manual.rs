// SPDX-License-Identifier: GPL-2.0-only
//! docs/weir.1 documents exactly the commands and options there are.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn help(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .arg0("weir")
        .args(args)
        .arg("--help")
        .output()
        .expect("runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The page without its roff escapes.
fn manual() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/weir.1");
    std::fs::read_to_string(path)
        .expect("docs/weir.1 is there")
        .replace("\\-", "-")
}

/// Long options that begin a line of help or of a `.TP` tag.
fn options(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.trim_start().starts_with('-') || line.starts_with(".B"))
        .flat_map(|line| line.split([' ', '"', ',']))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_string)
        .filter(|option| option != "--help")
        .collect()
}

fn commands() -> Vec<String> {
    let help = help(&[]);
    let list = help
        .split("Commands:\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .expect("a list");
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_string)
        .collect()
}

#[test]
fn every_command_and_option_is_in_the_manual_and_no_other() {
    let manual = manual();
    let sections: Vec<&str> = manual
        .lines()
        .filter_map(|l| l.strip_prefix(".SS weir "))
        .collect();
    assert_eq!(sections, commands());
    for command in commands() {
        let section = manual
            .split(&format!(".SS weir {command}\n"))
            .nth(1)
            .expect("has a section");
        let section = section.split("\n.S").next().unwrap_or(section);
        assert_eq!(
            options(section),
            options(&help(&[&command])),
            "weir {command}"
        );
    }
}
