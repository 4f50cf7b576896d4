// SPDX-License-Identifier: GPL-2.0-only
//! Holds README.md and docs/ to the rules of the house: word budgets, line widths, links that
//! resolve, TOML that the command accepts, and commands that exist.

mod commands;
mod scenarios;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Words of each page, as `wc -w` counts them.
const BUDGETS: [(&str, usize); 9] = [
    ("README.md", 500),
    ("docs/guide.md", 2_000),
    ("docs/knobs.md", 1_800),
    ("docs/explain.md", 1_200),
    ("docs/tiers.md", 1_200),
    ("docs/scenarios.md", 2_000),
    ("docs/how-it-works.md", 2_000),
    ("docs/twin.md", 1_200),
    ("docs/glossary.md", 900),
];
/// Written by `make matrix` and `make cost`.
const GENERATED: [&str; 2] = ["docs/support.md", "docs/cost.md"];
/// Words of all pages together, the notebook of experiments aside.
const ALL: usize = 13_800;
/// Characters of a line of prose.
const WIDTH: usize = 100;

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Paths below the root of the files in `folder` whose names end in `.md`.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(format!("{ROOT}/{folder}")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut pages: Vec<String> = names
        .map(|name| format!("{folder}/{}", name.to_string_lossy()))
        .filter(|path| path.ends_with(".md"))
        .collect();
    pages.sort();
    pages
}

fn experiments() -> Vec<String> {
    pages_in("docs/experiments")
}

/// README.md and docs/, without the experiments.
fn pages() -> Vec<String> {
    let mut pages = pages_in("docs");
    pages.push("README.md".into());
    pages
}

fn all_pages() -> Vec<String> {
    [
        pages(),
        experiments(),
        vec!["kmod/tests/README.md".into(), "CONTRIBUTING.md".into()],
    ]
    .concat()
}

/// A part of a page with the number of its first line.
#[derive(Debug)]
enum Part {
    /// A line of text or of a table.
    Prose(usize, String),
    /// A block of code, after what its fence says of it (`toml`; nothing if it is indented).
    Code(usize, String, String),
}

/// Tables count as prose here. An indented line is code unless it continues a list.
fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut fence: Option<(usize, String, String)> = None;
    let mut in_list = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(language) = line.strip_prefix("```") {
            fence = match fence.take() {
                None => Some((number, language.trim().into(), String::new())),
                Some((begins, language, code)) => {
                    parts.push(Part::Code(begins, language, code));
                    None
                }
            };
            continue;
        }
        if let Some((_, _, code)) = &mut fence {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        in_list = line.trim_start().starts_with("- ") || (in_list && line.starts_with(' '));
        if line.starts_with("    ") && !in_list {
            let code = line[4..].to_owned() + "\n";
            match parts.last_mut() {
                Some(Part::Code(_, language, before)) if language.is_empty() => {
                    before.push_str(&code)
                }
                _ => parts.push(Part::Code(number, String::new(), code)),
            }
            continue;
        }
        parts.push(Part::Prose(number, line.into()));
    }
    assert!(fence.is_none(), "a fence is never closed");
    parts
}

#[test]
fn no_page_exceeds_its_words() {
    let words = |path: &str| read(path).split_whitespace().count();
    let over: Vec<String> = BUDGETS
        .iter()
        .filter(|(page, most)| words(page) > *most)
        .map(|(page, most)| format!("{page}: {} words, at most {most}", words(page)))
        .collect();
    assert_eq!(over, Vec::<String>::new());
    let all: usize = pages().iter().map(|page| words(page)).sum();
    assert!(all <= ALL, "{all} words in all, at most {ALL}");
}

#[test]
fn every_page_has_a_budget() {
    let known = BUDGETS.iter().map(|(page, _)| *page).chain(GENERATED);
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(pages().into_iter().collect::<BTreeSet<_>>(), known);
}

#[test]
fn lines_are_wrapped() {
    let mut wide = Vec::new();
    let maintained = pages();
    for page in all_pages() {
        // Experiments keep what was printed as it was.
        let holds_code = maintained.contains(&page);
        for part in parts(&read(&page)) {
            let (number, text) = match part {
                Part::Prose(_, line) if line.starts_with('|') => continue,
                Part::Prose(number, line) => (number, line),
                // A key's comment stands behind its value.
                Part::Code(number, language, code) if holds_code && language != "toml" => {
                    (number, code)
                }
                Part::Code(..) => continue,
            };
            if let Some(line) = text.lines().find(|line| line.chars().count() > WIDTH) {
                wide.push(format!("{page}:{number}: {line}"));
            }
        }
    }
    assert_eq!(wide, Vec::<String>::new());
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = parts(text).into_iter().filter_map(|part| match part {
        Part::Prose(_, line) if line.starts_with('#') => {
            Some(anchor(line.trim_start_matches('#').trim()))
        }
        _ => None,
    });
    headings.collect()
}

/// Targets of `[text](target)` in prose.
fn links(text: &str) -> Vec<String> {
    let prose: Vec<String> = parts(text)
        .into_iter()
        .filter_map(|part| match part {
            Part::Prose(_, line) => Some(line),
            Part::Code(..) => None,
        })
        .collect();
    let prose = prose.join(" ");
    let after = prose.split("](").skip(1);
    after
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in all_pages() {
        let folder = Path::new(ROOT).join(&page);
        let folder = folder.parent().expect("a folder");
        for link in links(&read(&page)) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target: PathBuf = match path {
                "" => Path::new(ROOT).join(&page),
                path => folder.join(path),
            };
            let known = heading.is_empty()
                || std::fs::read_to_string(&target)
                    .is_ok_and(|text| anchors(&text).contains(heading));
            if !target.exists() || !known {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// Files that name a page of docs/ in a comment, a message or a rule.
fn sources() -> Vec<String> {
    let output = Command::new("git")
        .args(["grep", "-lI", "\\.md"])
        .current_dir(ROOT)
        .output()
        .expect("git runs");
    let listed = String::from_utf8_lossy(&output.stdout);
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn every_page_that_sources_name_is_there() {
    let mut missing = Vec::new();
    for source in sources() {
        let text = read(&source);
        for rest in text.split("docs/").skip(1) {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c)));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            if name.ends_with(".md") && !Path::new(ROOT).join("docs").join(name).exists() {
                missing.push(format!("{source}: docs/{name}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Whether `weir` accepts `text` when it is called with `args` and a file that holds it.
fn accepts(args: &[&str], text: &str) -> Result<(), String> {
    let file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("made");
    std::fs::write(file.path(), text).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(args)
        .arg(file.path())
        .output()
        .expect("runs");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn every_toml_block_is_accepted() {
    let (mut checked, mut refused) = (0, Vec::new());
    for page in all_pages() {
        for part in parts(&read(&page)) {
            let Part::Code(number, language, code) = part else {
                continue;
            };
            if language != "toml" {
                continue;
            }
            checked += 1;
            let is_policy = [
                "[[rule]]",
                "[tier]\n",
                "[assist]\n",
                "[reclaim]\n",
                "[stock]\n",
                "[[objective]]",
            ]
            .iter()
            .any(|section| code.contains(section));
            let args: &[&str] = match is_policy {
                true => &["agent", "--check"],
                false => &["check"],
            };
            if let Err(why) = accepts(args, &code) {
                refused.push(format!("{page}:{number}: {why}"));
            }
        }
    }
    assert!(checked >= 3, "{checked} blocks");
    assert_eq!(refused, Vec::<String>::new());
}
