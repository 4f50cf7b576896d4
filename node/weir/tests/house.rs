// SPDX-License-Identifier: GPL-2.0-only
//! Holds the source tree to its layers: which crate may use which, which modules use each other in
//! a circle, and what is to be computed or named once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Crates that each crate may use. The programs, `weir` and `weir-bench`, may use all of their wing's.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("config", &[]),
    ("kernel-image", &[]),
    ("knobs", &["policy"]),
    ("scenario", &["config", "knobs"]),
    ("observe", &["knobs", "policy"]),
    // Options of fio have sizes and times, as files that people write.
    ("runner", &["config", "knobs", "observe", "scenario"]),
    ("guest", &["runner", "scenario"]),
    ("lab", &["guest", "kernel-image", "runner", "scenario"]),
    ("host", &["runner", "scenario"]),
    (
        "twin",
        &["config", "knobs", "observe", "policy", "scenario"],
    ),
    ("report", &["config", "observe"]),
    ("verdict", &["config", "observe", "report", "scenario"]),
    ("agent", &["config", "knobs", "observe", "policy"]),
];

/// Folders of crates: the first runs on a node, the second tries weir out.
const WINGS: [&str; 2] = ["node", "bench"];

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
    ("verdict", &[]),
    ("weir", &[]),
    ("weir-bench", &[]),
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

/// Rust sources of all crates.
fn rust_files() -> Vec<PathBuf> {
    WINGS.map(|wing| files(wing, "rs")).concat()
}

/// The folder of a crate's sources.
fn source_folder(name: &str) -> String {
    let folders = WINGS.map(|wing| format!("{wing}/{name}/src"));
    let mut there = folders
        .into_iter()
        .filter(|at| Path::new(ROOT).join(at).is_dir());
    there.next().unwrap_or_else(|| panic!("no crate {name}"))
}

/// The text of a JSON value.
fn text(value: &serde_json::Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Names of the packages in a wing.
fn packages_of(wing: &str, packages: &[serde_json::Value]) -> BTreeSet<String> {
    let of_wing = packages.iter().filter(|package| {
        text(&package["manifest_path"]).contains(&format!("/{wing}/"))
            && Path::new(ROOT)
                .join(wing)
                .join(text(&package["name"]))
                .is_dir()
    });
    of_wing.map(|package| text(&package["name"])).collect()
}

/// The text without its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// Packages of this source tree.
fn packages() -> Vec<serde_json::Value> {
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
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let packages = packages();
    let names: BTreeSet<String> = packages.iter().map(|of| text(&of["name"])).collect();
    let mut wrong = Vec::new();
    for package in packages
        .iter()
        .filter(|of| of["name"] != "weir" && of["name"] != "weir-bench")
    {
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
    let source = source_folder(name);
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

/// Code without comments and unit tests.
fn code_of(text: &str) -> String {
    let lines = without_tests(text).lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or(line));
    code.collect::<Vec<_>>().join("\n")
}

/// Names of a tree of `use`, each with `before` in front of it: `a::{b, c::d}` has two.
fn names_in(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (mut depth, mut begin) = (0, 0);
    let ends = tree.char_indices().filter(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        *c == ',' && depth == 0
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([tree.len()]).collect();
    for end in ends {
        let one = tree[begin..end].trim();
        begin = end + 1;
        let (path, below) = match one.split_once("::{") {
            Some((path, below)) => (path, below.strip_suffix('}')),
            None => (one, None),
        };
        let names = path.split("::").map(str::to_owned);
        let path: Vec<String> = before.iter().cloned().chain(names).collect();
        match below {
            Some(below) => names_in(below, &path, found),
            None => found.push(path),
        }
    }
}

/// Paths in a file's code that begin with `crate`, `super` or `self`, from the crate's root on.
fn paths_used(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let is_part_of_path = code[..at].ends_with(|c: char| is_part(c) || c == ':');
            if is_part_of_path {
                continue;
            }
            let (mut depth, rest) = (0, &code[at..]);
            let end = rest.find(|c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth < 0 || depth == 0 && !is_part(c) && !":{}".contains(c)
            });
            let mut paths = Vec::new();
            names_in(&rest[..end.unwrap_or(rest.len())], &[], &mut paths);
            for path in paths {
                let above = path.iter().take_while(|name| *name == "super").count();
                let base = match path[0].as_str() {
                    "crate" => 0,
                    _ => module.len().saturating_sub(above),
                };
                let names = path[above.max(usize::from(above == 0))..].iter();
                found.push(module[..base].iter().chain(names).cloned().collect());
            }
        }
    }
    found
}

/// Files of a crate as modules, and the modules below its root that each uses.
fn file_uses(name: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let source = source_folder(name);
    let root = Path::new(ROOT).join(&source);
    let is_test = |path: &Path| {
        let shown = path.to_string_lossy();
        shown.ends_with("tests.rs") || shown.contains("/tests/")
    };
    let mut sources = BTreeMap::new();
    for path in files(&source, "rs")
        .into_iter()
        .filter(|path| !is_test(path))
    {
        let inside = path.strip_prefix(&root).expect("inside").with_extension("");
        let names = inside
            .iter()
            .map(|part| part.to_string_lossy().into_owned());
        let module: Vec<String> = names
            .filter(|name| !["lib", "main", "mod"].contains(&name.as_str()))
            .collect();
        sources.insert(module, code_of(&read(&path)));
    }
    let own_module = |path: &[String]| {
        let lengths = (1..=path.len()).rev();
        let mut modules = lengths.map(|length| path[..length].to_vec());
        modules.find(|module| sources.contains_key(module))
    };
    let mut uses = BTreeMap::new();
    for (module, code) in &sources {
        let paths = paths_used(code, module);
        let used = paths.iter().filter_map(|path| own_module(path));
        let used: BTreeSet<Vec<String>> = used.filter(|used| used != module).collect();
        uses.insert(module.clone(), used);
    }
    uses
}

/// A file can be read once those that it uses are known: none of a crate use each other in a circle.
#[test]
fn no_file_of_a_crate_joins_a_circle() {
    let uses = file_uses("observe");
    let file = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    for (from, to) in [
        // By `use super::{...}`, `use crate::...` and within a function.
        ("diagnosis/remedy", "diagnosis/command"),
        ("collect/live", "model/cgroup"),
        ("diagnosis/unchanged", "diagnosis/command"),
    ] {
        assert!(uses[&file(from)].contains(&file(to)), "{from} -> {to}");
    }
    let mut arrows = Vec::new();
    for package in packages() {
        let name = text(&package["name"]);
        let uses = file_uses(&name);
        for (from, used) in &uses {
            for to in used {
                let (mut seen, mut next) = (BTreeSet::new(), vec![to]);
                while let Some(at) = next.pop() {
                    if seen.insert(at) {
                        next.extend(uses.get(at).into_iter().flatten());
                    }
                }
                if seen.contains(from) {
                    arrows.push(format!("{name}: {} -> {}", from.join("/"), to.join("/")));
                }
            }
        }
    }
    assert_eq!(
        arrows,
        Vec::<String>::new(),
        "files that use each other in a circle"
    );
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

/// A node carries no laboratory: neither a crate nor a test of the node uses a crate of the bench,
/// nor is a file of the bench built into one.
#[test]
fn a_node_uses_nothing_of_the_bench() {
    let packages = packages();
    let [node, bench] = WINGS.map(|wing| packages_of(wing, &packages));
    for name in ["weir", "agent", "observe"] {
        assert!(node.contains(name), "{name}: {node:?}");
    }
    for name in ["weir-bench", "lab", "twin", "scenario"] {
        assert!(bench.contains(name), "{name}: {bench:?}");
    }
    let mut wrong = Vec::new();
    for package in &packages {
        let name = text(&package["name"]);
        let used = package["dependencies"].as_array().expect("dependencies");
        let used = used.iter().map(|of| text(&of["name"]));
        if node.contains(&name) {
            let used = used.filter(|used| bench.contains(used));
            wrong.extend(used.map(|used| format!("{name} -> {used}")));
        }
    }
    for path in files("node", "rs") {
        let shown = path.display().to_string();
        if shown.contains("/tests/") || shown.contains("/target/") {
            continue;
        }
        let source = read(&path);
        // Modules of the node may have the name of a crate of the bench.
        let names = bench
            .iter()
            .filter(|name| !source.contains(&format!("mod {name};")));
        let names = names.map(|name| match name.as_str() {
            "host" => "::host::".to_owned(),
            name => format!("{}::", name.replace('-', "_")),
        });
        let starts: Vec<String> = names.chain(["bench/".to_owned()]).collect();
        for line in source.lines() {
            let code = line.split("//").next().unwrap_or(line);
            let is_word = |start: &String| {
                code.match_indices(start.as_str())
                    .any(|(at, _)| !code[..at].ends_with(|c: char| is_part(c) || c == ':'))
            };
            if starts.iter().any(is_word) {
                wrong.push(format!("{shown}: {}", line.trim()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "arrows from node to bench");
}

/// The twin's top struct hands out events; what happens is in the layers below it.
#[test]
fn the_twins_host_is_small() {
    let layers = [
        ("host", "SimHost"),
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
        let text = read(&Path::new(ROOT).join(format!("bench/twin/src/{file}.rs")));
        let head = format!("pub struct {name} {{\n");
        let (_, rest) = text
            .split_once(&head)
            .unwrap_or_else(|| panic!("no {name}"));
        let fields = rest.lines().take_while(|line| *line != "}");
        let fields = fields.filter(|line| line.ends_with(',')).count();
        assert!(fields <= 12, "{name} has {fields} fields");
    }
    let sources = files("bench/twin/src", "rs");
    let texts = sources.iter().map(|path| read(path));
    let impls: usize = texts
        .map(|text| text.matches("\nimpl SimHost {").count())
        .sum();
    assert_eq!(impls, 1, "of SimHost");
}

/// `freerun` is (background + limit) / 2, `setpoint` half way from there to the limit.
#[test]
fn freerun_and_setpoint_are_computed_in_policy_alone() {
    let words = ["thresh", "background", "bg_", "limit", "freerun"];
    let mut found = Vec::new();
    let rust = rust_files().into_iter().filter(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.contains("/target/")
    });
    let folders = ["kmod", "policy"].into_iter();
    let c = folders.flat_map(|folder| [files(folder, "c"), files(folder, "h")].concat());
    for path in rust
        .chain(c)
        .filter(|path| !path.ends_with("policy/arith.h"))
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
        "call weir_freerun_level(), weir_setpoint_level()"
    );
}

/// The unit that counts are in is `knobs::PAGE`; how large a kernel's pages are, `knobs::PageSize` knows.
#[test]
fn sizes_of_pages_have_one_home() {
    let mut found = Vec::new();
    for path in rust_files() {
        let text = read(&path);
        let is_source = path.to_string_lossy().contains("/src/");
        for line in without_tests(&text).lines().filter(|_| is_source) {
            let code = line.split("//").next().unwrap_or(line);
            let is_size = ["4096", "4_096", "<< 12"]
                .iter()
                .any(|size| code.contains(size));
            if is_size && code.contains("const ") && code.contains("PAGE") {
                found.push(format!("{}: {}", path.display(), code.trim()));
            }
        }
    }
    assert_eq!(
        found,
        Vec::<String>::new(),
        "use knobs::PAGE or knobs::PageSize"
    );
}

/// C without comments and what is in quotes.
fn bare(text: &str) -> String {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        bare.push_str(before);
        let quote = &from[..1];
        rest = if from.starts_with("/*") {
            from.split_once("*/").map_or("", |(_, rest)| rest)
        } else if from.starts_with("//") {
            &from[from.find('\n').unwrap_or(from.len())..]
        } else if quote == "/" {
            bare.push('/');
            &from[1..]
        } else {
            let mut is_escaped = false;
            let end = from[1..].find(|c: char| {
                let ends = !is_escaped && quote.starts_with(c);
                is_escaped = !is_escaped && c == '\\';
                ends
            });
            bare.push('0');
            &from[end.expect("a second quote") + 2..]
        };
    }
    bare + rest
}

/// What stands at the top level of bare C, with `{}` for all that is in braces.
fn statements(bare: &str) -> Vec<String> {
    let (mut found, mut one, mut depth) = (Vec::new(), String::new(), 0);
    let mut goes_on = false;
    let code = bare.lines().filter(|line| {
        let is_directive = goes_on || line.starts_with('#');
        goes_on = is_directive && line.ends_with('\\');
        !is_directive
    });
    for c in code.flat_map(|line| line.chars().chain([' '])) {
        depth -= usize::from(c == '}');
        if depth == 0 {
            one.push(c);
        }
        if c == '{' {
            depth += 1;
        }
        let ends_function = c == '}' && one.replace(' ', "").ends_with("){}");
        if depth == 0 && (c == ';' || ends_function) {
            found.push(std::mem::take(&mut one).trim().trim_end_matches(';').into());
        }
    }
    found
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Names that a statement at the top level defines, and whether they are static.
fn defined(statement: &str) -> (bool, Vec<String>) {
    let (is_static, text) = match statement.strip_prefix("static ") {
        Some(text) => (true, text),
        None => (false, statement),
    };
    if text.starts_with("extern ") || text.starts_with("typedef ") {
        return (is_static, Vec::new());
    }
    let head = text.split('=').next().unwrap_or(text).trim();
    let Some((before, inside)) = head.split_once('(') else {
        let of_type = head.rsplit_once('}');
        let declared = of_type.map_or(head, |(_, declared)| declared);
        let words = declared.split_whitespace().count();
        if of_type.is_none() && declared.starts_with("struct ") && words == 2 {
            return (is_static, Vec::new());
        }
        let names = declared.split(',').filter_map(|one| {
            let one = one.split('[').next().unwrap_or(one);
            let mut words = one.split(|c| !is_part(c)).filter(|word| !word.is_empty());
            words.rfind(|word| !word.starts_with("__"))
        });
        return (is_static, names.map(str::to_owned).collect());
    };
    let before = before.trim();
    let name = before.rsplit(|c| !is_part(c)).next().unwrap_or(before);
    let arguments: Vec<&str> = inside.split([',', ')']).map(str::trim).collect();
    let name = if name == before {
        // Not of this file, or no definition: module_param(), DECLARE_STATIC_CALL().
        let defines = ["DEFINE_", "LIST_HEAD", "DECLARE_DELAYED_WORK"];
        let at = usize::from(name.starts_with("DEFINE_PER_CPU"));
        let defines = defines.iter().any(|start| name.starts_with(start));
        defines.then(|| arguments[at])
    } else {
        head.ends_with("{}").then_some(name)
    };
    (is_static, name.into_iter().map(str::to_owned).collect())
}

/// The module's own files with this extension: name and bare C.
fn module_files(extension: &str) -> Vec<(String, String)> {
    let folder = Path::new(ROOT).join("kmod");
    let own = files("kmod", extension).into_iter();
    own.filter(|path| path.parent() == Some(&folder))
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy();
            (name.into_owned(), bare(&read(&path)))
        })
        .collect()
}

/// ftrace and kallsyms print the bare name of what is static.
#[test]
fn static_names_of_the_module_are_of_one_file_each() {
    let mut places = BTreeMap::<String, BTreeSet<String>>::new();
    for (file, text) in module_files("c") {
        let all = statements(&text).into_iter().map(|one| defined(&one));
        for name in all.filter(|(is_static, _)| *is_static).flat_map(|of| of.1) {
            places.entry(name).or_default().insert(file.clone());
        }
    }
    // One of each kind: the test sees them.
    for name in ["set_seconds", "lookup_table", "last", "exits", "hooks"] {
        assert!(places.contains_key(name), "{name}");
    }
    places.retain(|_, places| places.len() > 1);
    assert_eq!(places, BTreeMap::new());
}

/// Names of weir's in bare C, types not.
fn names_of_weir(text: &str) -> BTreeSet<String> {
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    let mut before = "";
    let names = words.filter(|word| {
        let is_type = ["struct", "enum", "union"].contains(&before);
        before = word;
        word.starts_with("weir_") && !is_type
    });
    names.map(str::to_owned).collect()
}

/// Which file of the module uses which others, and what of them.
fn module_uses() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let sources = module_files("c");
    let mut defined_in = BTreeMap::new();
    for (file, text) in &sources {
        let all = statements(text).into_iter().map(|one| defined(&one));
        for name in all.filter(|(is_static, _)| !is_static).flat_map(|of| of.1) {
            defined_in.insert(name, file.clone());
        }
    }
    // What a function in a header uses, its caller uses.
    let mut inlined = BTreeMap::new();
    for (_, text) in module_files("h") {
        for rest in text.split("\nstatic inline ").skip(1) {
            let mut depth = 0;
            let end = rest.find(|c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == '}' && depth == 0
            });
            let body = &rest[..end.expect("its last brace")];
            let head = body.split('(').next().unwrap_or(body);
            if let Some(name) = head.rsplit(|c| !is_part(c)).next() {
                let used: &mut BTreeSet<String> = inlined.entry(name.to_owned()).or_default();
                used.extend(names_of_weir(body));
            }
        }
    }
    let mut uses = BTreeMap::<String, BTreeMap<String, BTreeSet<String>>>::new();
    for (file, text) in &sources {
        let used = uses.entry(file.clone()).or_default();
        let (mut seen, mut next) = (BTreeSet::new(), names_of_weir(text));
        while let Some(name) = next.pop_first() {
            if !seen.insert(name.clone()) {
                continue;
            }
            next.extend(inlined.get(&name).into_iter().flatten().cloned());
            if let Some(other) = defined_in.get(&name).filter(|other| *other != file) {
                used.entry(other.clone()).or_default().insert(name);
            }
        }
    }
    uses
}

/// Files of the module that use each other in a circle: none. What is above is given to what is
/// below at load, as the wrappers to `hook.c` and the work to `arm.c`.
#[test]
fn no_file_of_the_module_joins_a_circle() {
    let uses = module_uses();
    for (file, other) in [
        ("flusher.c", "division.c"),
        // By weir_acting() in the header.
        ("sync.c", "state.c"),
    ] {
        assert!(uses[file].contains_key(other), "{file} uses {other}");
    }
    let reached = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> = uses[from].keys().collect();
        while let Some(at) = next.pop() {
            if seen.insert(at) {
                next.extend(uses[at].keys());
            }
        }
        seen
    };
    let mut arrows = Vec::new();
    for (file, used) in &uses {
        for (other, names) in used {
            if reached(other).contains(file) {
                arrows.push(format!("{file} uses {names:?} of {other}"));
            }
        }
    }
    assert_eq!(arrows, Vec::<String>::new());
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
    for path in files("kmod", "c").into_iter().chain(rust_files()) {
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
        "take them from node/knobs or policy/names.h"
    );
}
