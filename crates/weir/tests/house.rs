// SPDX-License-Identifier: GPL-2.0-only
//! Holds the source tree to its layers: which crate may use which, which modules use each other in
//! a circle, and what is to be computed or named once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Crates that each crate may use. `weir` may use all of them.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("config", &[]),
    ("knobs", &["policy"]),
    ("scenario", &["config", "knobs"]),
    ("observe", &["knobs", "policy"]),
    // Options of fio have sizes and times, as files that people write.
    ("runner", &["config", "knobs", "observe", "scenario"]),
    ("guest", &["runner", "scenario"]),
    ("lab", &["guest", "runner", "scenario"]),
    ("host", &["runner", "scenario"]),
    (
        "twin",
        &["config", "knobs", "observe", "policy", "scenario"],
    ),
    ("report", &["observe", "scenario"]),
    ("agent", &["config", "knobs", "observe", "policy"]),
];

/// Modules right below a crate's root, from the lowest layer up: each may use those before it.
const LAYERS: &[(&str, &[&str])] = &[
    ("observe", &["model", "diagnosis", "read", "collect"]),
    (
        "twin",
        &[
            "layer",
            "sim",
            "machine",
            "sched",
            "mm",
            "blk",
            "xlog",
            "jbd2",
            "weir",
            "trace",
            "writeback",
            "vmscan",
            "task",
            "memory",
            "probe",
            "host",
            "setup",
            "run",
        ],
    ),
];

/// Modules right below a crate's root that use each other in a circle today.
const CIRCLES: &[(&str, &[&str])] = &[
    ("agent", &[]),
    ("config", &[]),
    ("observe", &[]),
    ("report", &[]),
    ("scenario", &[]),
    ("twin", &[]),
    ("weir", &[]),
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Files below `folder` that end in `.extension`, in order.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text without its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text)
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(ROOT)
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeSet<String> = packages.iter().map(|of| text(&of["name"])).collect();
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|of| of["name"] != "weir") {
        let name = text(&package["name"]);
        let used = package["dependencies"].as_array().expect("dependencies");
        let used = used.iter().filter(|of| of["kind"].is_null());
        for used in used
            .map(|of| text(&of["name"]))
            .filter(|of| names.contains(of))
        {
            let allowed = ARROWS.iter().find(|(of, _)| *of == name);
            if !allowed.is_some_and(|(_, below)| below.contains(&used.as_str())) {
                wrong.push(format!("{name} -> {used}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "arrows that are not allowed");
}

/// Modules right below a crate's root, and which of each other they use.
fn modules(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = format!("crates/{name}/src");
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    for path in files(&source, "rs") {
        let inside = path
            .strip_prefix(Path::new(ROOT).join(&source))
            .expect("inside");
        let first = inside.components().next().expect("a file").as_os_str();
        let module = first.to_string_lossy().trim_end_matches(".rs").to_owned();
        let text = read(&path);
        let used = uses.entry(module).or_default();
        let code = without_tests(&text).lines();
        for line in code.filter(|line| !line.trim_start().starts_with("//")) {
            for rest in line.split("crate::").skip(1) {
                let list = rest.strip_prefix('{').map_or(rest, |list| list);
                let several = rest.starts_with('{');
                let names = list.split(',').take(if several { usize::MAX } else { 1 });
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                used.extend(names.map(|name| {
                    let name = name.trim_start();
                    name.chars().take_while(|c| is_part(*c)).collect::<String>()
                }));
            }
        }
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|name| known.contains(name) && name != module);
    }
    uses.remove("lib");
    uses
}

#[test]
fn no_module_joins_a_circle() {
    for (name, circle) in CIRCLES {
        let uses = modules(name);
        let reaches = |module: &String| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&String> = uses[module].iter().collect();
            while let Some(at) = next.pop() {
                if seen.insert(at) {
                    next.extend(uses.get(at).into_iter().flatten());
                }
            }
            seen.contains(module)
        };
        let found: Vec<&String> = uses.keys().filter(|module| reaches(module)).collect();
        assert_eq!(
            found, *circle,
            "modules of {name} that use each other in a circle"
        );
    }
}

#[test]
fn modules_use_only_layers_below() {
    for (name, layers) in LAYERS {
        let place = |module: &String| layers.iter().position(|layer| layer == module);
        for (module, used) in modules(name) {
            let own = place(&module).unwrap_or_else(|| panic!("{name}: {module} is no layer"));
            for used in used {
                let below = place(&used).is_some_and(|at| at < own);
                assert!(below, "{name}: {module} uses {used}");
            }
        }
    }
}

/// The twin's top struct hands out events; what happens is in the layers below it.
#[test]
fn the_twins_host_is_small() {
    let layers = [
        ("host", "Host"),
        ("sim", "Sim"),
        ("sched", "Sched"),
        ("mm", "Mm"),
        ("blk", "Blk"),
        ("xlog", "Xlog"),
        ("jbd2", "Jbd2"),
        ("weir", "Hooks"),
        ("writeback", "Writeback"),
        ("task", "Tasks"),
    ];
    for (file, name) in layers {
        let text = read(&Path::new(ROOT).join(format!("crates/twin/src/{file}.rs")));
        let head = format!("pub struct {name} {{\n");
        let (_, rest) = text
            .split_once(&head)
            .unwrap_or_else(|| panic!("no {name}"));
        let fields = rest.lines().take_while(|line| *line != "}");
        let fields = fields.filter(|line| line.ends_with(',')).count();
        assert!(fields <= 12, "{name} has {fields} fields");
    }
    let sources = files("crates/twin/src", "rs");
    let texts = sources.iter().map(|path| read(path));
    let impls: usize = texts
        .map(|text| text.matches("\nimpl Host {").count())
        .sum();
    assert_eq!(impls, 1, "of Host");
}

/// `freerun` is (background + limit) / 2, `setpoint` half way from there to the limit.
#[test]
fn freerun_and_setpoint_are_computed_in_policy_alone() {
    let words = ["thresh", "background", "bg_", "limit", "freerun"];
    let mut found = Vec::new();
    let rust = files("crates", "rs").into_iter().filter(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.contains("/target/")
    });
    let c = files("kmod", "c").into_iter().chain(files("policy", "c"));
    for path in rust
        .chain(c)
        .filter(|path| !path.ends_with("policy/arith.c"))
    {
        for (index, line) in read(&path).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line).trim_start();
            let is_half = code.split_once(") / 2").is_some_and(|(sum, rest)| {
                sum.contains(" + ") && !rest.starts_with(|c: char| c.is_ascii_digit())
            });
            let is_text = code.starts_with('*') || code.starts_with("/*") || code.contains('"');
            if is_half && !is_text && words.iter().any(|word| code.contains(word)) {
                found.push(format!("{}:{}: {code}", path.display(), index + 1));
            }
        }
    }
    assert_eq!(
        found,
        Vec::<String>::new(),
        "call weir_freerun(), weir_setpoint()"
    );
}

/// ftrace and kallsyms print the bare name of a static function.
#[test]
fn static_functions_of_the_module_have_names_of_their_own() {
    let mut places = BTreeMap::<String, BTreeSet<PathBuf>>::new();
    let folder = Path::new(ROOT).join("kmod");
    for path in files("kmod", "c")
        .into_iter()
        .filter(|path| path.parent() == Some(&folder))
    {
        for line in read(&path)
            .lines()
            .filter(|line| line.starts_with("static "))
        {
            let name = line.split('(').next().unwrap_or(line);
            let is_function = line.contains('(') && !name.contains('=');
            if let Some(name) = name.rsplit([' ', '*']).next().filter(|_| is_function) {
                places.entry(name.into()).or_default().insert(path.clone());
            }
        }
    }
    places.retain(|name, places| places.len() > 1 && name.contains(char::is_lowercase));
    assert_eq!(places, BTreeMap::new());
}

/// Names of knobs and keys are listed in policy/names.h; code takes them from there.
#[test]
fn names_of_files_are_listed_once() {
    // Those of the host are called vm.dirty_bytes, vm.dirty_ratio.
    let names = |is_rust: bool| {
        let prefix = if is_rust { "memory." } else { "" };
        let knobs = knobs::Knob::ALL.map(|knob| format!("\"{prefix}{}\"", knob.name()));
        knobs
            .into_iter()
            .chain([format!("\"{}\"", knobs::stat_file())])
    };
    let mut found = Vec::new();
    for path in files("kmod", "c").into_iter().chain(files("crates", "rs")) {
        let shown = path.display().to_string();
        let is_test = ["/tests", "_tests.rs", "/fuzz/", "/faults.c", "/target/"];
        if is_test.iter().any(|part| shown.contains(part)) || shown.contains("/knobs/src/") {
            continue;
        }
        let names: Vec<String> = names(shown.ends_with(".rs")).collect();
        for (index, line) in without_tests(&read(&path)).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            if names.iter().any(|name| code.contains(name)) {
                found.push(format!("{shown}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_eq!(
        found,
        Vec::<String>::new(),
        "take them from crates/knobs or policy/names.h"
    );
}
