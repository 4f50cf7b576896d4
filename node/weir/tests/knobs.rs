// SPDX-License-Identifier: GPL-2.0-only
//! docs/knobs.md names every error that a write to the module's files can return, and every file
//! of /sys/kernel/weir; each place that must know a knob knows it.

use knobs::Knob;
use std::collections::BTreeSet;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Sources that run only while the module is loaded, before there is a file to write to.
const AT_LOAD: [&str; 6] = [
    "btf.c",
    "layout.c",
    "main.c",
    "status.c",
    "symbols.c",
    "faults.c",
];

/// Returned by the others at load, or to a writer of data.
const NOT_BY_A_WRITE: [&str; 2] = ["EEXIST", "ENOENT"];

/// Returned by the kernel's functions that a write calls: no name in the module's sources.
const BY_THE_KERNEL: [&str; 1] = ["EAGAIN"];

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Names after `-` in C, such as `ENOMEM` in `return -ENOMEM;`.
fn errors(source: &str) -> BTreeSet<String> {
    let after = source.split("-E").skip(1);
    let names = after.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_uppercase());
        format!("E{}", &rest[..end.unwrap_or(rest.len())])
    });
    names.filter(|name| name.len() > 3).collect()
}

fn returned() -> BTreeSet<String> {
    let folder = std::fs::read_dir(format!("{ROOT}/kmod")).expect("the module's sources");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut found: BTreeSet<String> = names
        .map(|name| name.expect("UTF-8"))
        .filter(|name| name.ends_with(".c") && !AT_LOAD.contains(&name.as_str()))
        .flat_map(|name| errors(&read(&format!("kmod/{name}"))))
        .filter(|name| !NOT_BY_A_WRITE.contains(&name.as_str()))
        .collect();
    found.extend(BY_THE_KERNEL.map(str::to_owned));
    found
}

/// First cells of the table that begins with `|error|`.
fn documented() -> BTreeSet<String> {
    let page = read("docs/knobs.md");
    let table = page.split("|error|").nth(1).expect("a table of errors");
    table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("|`")?.split('`').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_error_of_a_write_is_in_the_table_and_no_other() {
    assert_eq!(returned(), documented());
}

#[test]
fn every_file_in_sysfs_is_named() {
    let page = read("docs/knobs.md");
    let source = read("kmod/status.c");
    let files: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix('&')?.strip_suffix("_attr.attr,"))
        .collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        assert!(
            page.contains(&format!("`{file}`")),
            "/sys/kernel/weir/{file}"
        );
    }
}

/// The spelling of a knob in a place.
type Spelling = fn(Knob) -> String;

/// Places of which the compiler does not say that they lack a knob, and how each names it.
const PLACES: [(&str, Spelling); 12] = [
    ("docs/glossary.md", short_name),
    ("docs/how-it-works.md", short_name),
    ("docs/knobs.md", file_name),
    ("docs/scenarios.md", short_name),
    ("docs/weir.1", file_name),
    ("kmod/files.c", c_case),
    ("kmod/files.c", file_name),
    ("cluster/nri/knob/knob.go", in_go),
    ("cluster/nri/knob/knob_test.go", short_name),
    ("node/observe/src/read/cgroup.rs", variant),
    ("bench/scenario/src/effect.rs", variant),
    ("bench/twin/src/setup.rs", variant),
];

fn short_name(knob: Knob) -> String {
    knob.name().to_owned()
}

fn file_name(knob: Knob) -> String {
    knob.file_name().to_owned()
}

fn variant(knob: Knob) -> String {
    format!("Knob::{knob:?}")
}

fn in_go(knob: Knob) -> String {
    format!("{knob:?}")
}

fn c_case(knob: Knob) -> String {
    format!("case WEIR_KNOB_{}:", knob.name().to_uppercase())
}

#[test]
fn every_place_knows_every_knob() {
    let missing: Vec<String> = PLACES
        .into_iter()
        .flat_map(|(path, name)| {
            let text = read(path);
            let unknown = Knob::DIRTY
                .into_iter()
                .filter(move |&knob| !text.contains(&name(knob)));
            unknown.map(move |knob| format!("{path} does not have `{}`", name(knob)))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
