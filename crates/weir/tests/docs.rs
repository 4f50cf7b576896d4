// SPDX-License-Identifier: GPL-2.0-only
//! Holds README.md and docs/ to the rules of the house: word budgets, line widths, links that
//! resolve, TOML that the command accepts, and commands that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Words of each page, as `wc -w` counts them.
const BUDGETS: [(&str, usize); 8] = [
    ("README.md", 500),
    ("docs/guide.md", 2_000),
    ("docs/knobs.md", 1_800),
    ("docs/explain.md", 1_200),
    ("docs/tiers.md", 1_200),
    ("docs/scenarios.md", 2_000),
    ("docs/how-it-works.md", 2_000),
    ("docs/twin.md", 1_200),
];
/// Written by `make matrix` and `make cost`.
const GENERATED: [&str; 2] = ["docs/support.md", "docs/cost.md"];
/// Words of all pages together, the notebook of experiments aside.
const ALL: usize = 13_000;
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
    [pages(), experiments(), vec!["kmod/tests/README.md".into()]].concat()
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

/// Rows of the tables that have a column *where*: their section, keys, and that column.
fn rows_with_places(page: &str) -> Vec<(String, Vec<String>, String)> {
    let (mut section, mut is_wanted, mut rows) = (String::new(), false, Vec::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.into();
        }
        let cells: Vec<&str> = line.split('|').collect();
        let [_, keys, .., places, _] = cells[..] else {
            is_wanted = false;
            continue;
        };
        if places == "where" {
            is_wanted = true;
        } else if is_wanted && !keys.starts_with('-') {
            let keys = keys.split('`').skip(1).step_by(2).map(str::to_owned);
            let places = places.strip_suffix(", arm `weir`").unwrap_or(places);
            rows.push((section.clone(), keys.collect(), places.to_owned()));
        }
    }
    rows
}

#[test]
fn scenarios_say_which_place_honours_a_key() {
    let code = scenario::place::ROWS.iter().map(|row| {
        let keys = row.keys().into_iter().map(str::to_owned);
        (row.section.to_owned(), keys.collect(), row.places())
    });
    let code: Vec<(String, Vec<String>, String)> = code.collect();
    let page = rows_with_places(&read("docs/scenarios.md"));
    assert_eq!(page, code, "docs/scenarios.md and scenario::place::ROWS");
}

/// A file with a key that no table knows in each table, so that each complaint lists those it knows.
const UNKNOWN_KEYS: &str = r#"
title = "t"
[host]
zzz = 1
[[tier]]
zzz = 1
[agent]
zzz = 1
[[disk]]
zzz = 1
[cgroup.NAME]
zzz = 1
[[job]]
zzz = 1
memory = { zzz = 1 }
[[job]]
sync = { zzz = 1 }
[[job]]
network = { zzz = 1 }
[[phase]]
zzz = 1
[[expect]]
zzz = 1
[twin]
zzz = 1
"#;

#[test]
fn every_key_of_a_scenario_is_in_its_section() {
    let page = read("docs/scenarios.md");
    let sections: Vec<(&str, &str)> = page
        .split("\n## ")
        .filter_map(|section| section.split_once('\n'))
        .collect();
    let refused = scenario::parse("t", "t.toml", UNKNOWN_KEYS).expect_err("refused");
    let (mut tables, mut missing) = (0, Vec::new());
    for problem in refused.0 {
        let (Some(key), Some((_, known))) = (
            problem.key.strip_suffix("zzz"),
            problem.what.split_once("known: "),
        ) else {
            continue;
        };
        tables += 1;
        let table = key.split(['.', '[']).next().unwrap_or_default();
        let heading = ["", "["].map(|twice| format!("{twice}[{table}"));
        let section = sections
            .iter()
            .find(|(title, _)| heading.iter().any(|heading| title.starts_with(heading)));
        let (title, text) = section.unwrap_or_else(|| panic!("no section of `{table}`"));
        let known = known.split(", ");
        // Other keys of a job's `sync` and `network` stand in the form of their table.
        let is_named = |key: &str| {
            text.contains(&format!("`{key}`"))
                || text.contains(&format!("{key} }}`"))
                || text.contains(&format!("{{ {key}, "))
        };
        missing.extend(
            known
                .filter(|key| !is_named(key))
                .map(|key| format!("{title}: {key}")),
        );
    }
    assert_eq!(tables, 12, "tables");
    assert_eq!(missing, Vec::<String>::new());
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
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
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

/// Words that a line begins with if it is a command.
const PROGRAMS: [&str; 20] = [
    "weir",
    "./weir",
    "make",
    "echo",
    "apt",
    "systemctl",
    "trace-cmd",
    "bpftrace",
    "mokutil",
    "ctr",
    "podman",
    "grep",
    "cat",
    "cd",
    "pip",
    "insmod",
    "helm",
    "kubectl",
    "docker",
    "ansible-playbook",
];

/// How blocks begin that show what is printed, or a form, and nothing to type.
const NO_COMMANDS: [&str; 8] = [
    "/victim: ",
    "0.99 ",
    "    weir load",
    "limit' ",
    "mine.toml:",
    "tiers are on: ",
    "weir top: ",
    "weir.dev/",
];

/// Commands of a block, lines that end in a backslash joined, prompts taken off.
fn commands(code: &str) -> Vec<String> {
    let joined = code.replace("\\\n", " ");
    let lines = joined.lines().map(|line| {
        let line = line.trim_start_matches("$ ").trim_start_matches("# ");
        line.trim_start_matches("sudo ").to_owned()
    });
    lines
        .filter(|line| PROGRAMS.contains(&line.split(' ').next().unwrap_or_default()))
        // Not the first line of what `weir top` prints.
        .filter(|line| !line.starts_with("weir top:"))
        .collect()
}

/// Blocks with commands, with the mark before each: `<!-- not run: WHY -->`.
fn command_blocks(page: &str) -> Vec<(usize, Option<String>, String)> {
    let mut mark = None;
    let mut blocks = Vec::new();
    for part in parts(&read(page)) {
        match part {
            Part::Prose(_, line) if line.is_empty() => {}
            Part::Prose(_, line) => {
                let said = line.strip_prefix("<!-- not run: ");
                mark = said.and_then(|said| Some(said.strip_suffix(" -->")?.to_owned()));
            }
            Part::Code(number, language, code) => {
                let is_command = ["", "sh"].contains(&language.as_str());
                if is_command && !commands(&code).is_empty() {
                    blocks.push((number, mark.take(), code));
                }
            }
        }
    }
    blocks
}

#[test]
fn no_command_is_overlooked() {
    let mut overlooked = Vec::new();
    for page in pages() {
        for part in parts(&read(&page)) {
            let Part::Code(number, language, code) = part else {
                continue;
            };
            let is_other = NO_COMMANDS.iter().any(|begin| code.starts_with(begin));
            if is_other || !["", "sh"].contains(&language.as_str()) {
                continue;
            }
            let known = commands(&code).len();
            // What a command prints follows it, where it has a prompt.
            let has_output = known > 0 && code.starts_with(['$', '#']);
            let joined = code.replace("\\\n", " ");
            let all = joined.lines().filter(|line| !line.trim().is_empty());
            if !has_output && all.count() > known {
                overlooked.push(format!(
                    "{page}:{number}: {known} commands known of\n{code}"
                ));
            }
        }
    }
    assert_eq!(overlooked, Vec::<String>::new());
}

#[test]
fn blocks_have_languages_that_are_checked() {
    let known = ["", "sh", "toml", "ini", "yaml"];
    for page in all_pages() {
        for part in parts(&read(&page)) {
            if let Part::Code(number, language, _) = part {
                assert!(
                    known.contains(&language.as_str()),
                    "{page}:{number}: {language}"
                );
            }
        }
    }
}

/// The options of a `weir` command in a page exist, and `make` knows its target.
fn exists(command: &str) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["weir" | "./weir", name, rest @ ..] => {
            let help = Command::new(env!("CARGO_BIN_EXE_weir"))
                .args([name, "--help"])
                .output()
                .expect("runs");
            if !help.status.success() {
                return Err(format!("no command `{name}`"));
            }
            let help = String::from_utf8_lossy(&help.stdout).into_owned();
            let options = rest.iter().take_while(|word| !["#", "|"].contains(word));
            let unknown = options
                .filter(|word| word.starts_with("--"))
                .find(|word| !help.contains(*word));
            unknown.map_or(Ok(()), |word| Err(format!("no option `{word}`")))
        }
        ["make", target, ..] => {
            let makefile = read("Makefile");
            match makefile.contains(&format!("\n{target}:")) {
                true => Ok(()),
                false => Err(format!("no target `{target}`")),
            }
        }
        _ => Ok(()),
    }
}

#[test]
fn every_command_exists() {
    let mut unknown = Vec::new();
    for page in pages() {
        for (number, _, code) in command_blocks(&page) {
            for command in commands(&code) {
                if let Err(why) = exists(&command) {
                    unknown.push(format!("{page}:{number}: {command}: {why}"));
                }
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
}

/// Commands that sentences name between backticks, on one line or broken over two.
fn inline_commands(page: &str) -> Vec<String> {
    let prose = parts(page).into_iter().filter_map(|part| match part {
        Part::Prose(_, line) => Some(line),
        Part::Code(..) => None,
    });
    let prose = prose.collect::<Vec<_>>().join(" ");
    let quoted = prose.split('`').skip(1).step_by(2);
    let named = quoted.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let plain = named.map(|text| text.trim_start_matches("sudo ").to_owned());
    let is_command = |text: &String| text.starts_with("weir ") || text.starts_with("make ");
    plain.filter(is_command).collect()
}

#[test]
fn every_command_in_a_sentence_exists() {
    let (mut named, mut unknown) = (0, Vec::new());
    for page in pages() {
        for command in inline_commands(&read(&page)) {
            named += 1;
            // `weir --version`, and options of commands that the sentence leaves out.
            if command.starts_with("weir --") {
                continue;
            }
            if let Err(why) = exists(&command) {
                unknown.push(format!("{page}: {command}: {why}"));
            }
        }
    }
    assert!(named >= 30, "{named} commands");
    assert_eq!(unknown, Vec::<String>::new());
}

/// Whether a command only reads files, or runs the twin: nothing else is run on this machine.
fn is_harmless(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    match words.as_slice() {
        ["weir", "run", ..] => command.contains("--on twin"),
        ["weir", "explain", ..] => has("--from"),
        ["weir", "agent", ..] => has("--check"),
        ["weir", "check" | "sweep" | "plan" | "report", ..] => true,
        _ => false,
    }
}

/// A folder with what the commands of the pages name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("made");
    let path = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(format!("{ROOT}/scenarios"), path("scenarios")).expect("linked");
    let example = parts(&read("docs/scenarios.md"))
        .into_iter()
        .find_map(|part| match part {
            Part::Code(_, language, code) if language == "toml" => Some(code),
            _ => None,
        });
    std::fs::write(path("FILE"), example.expect("an example")).expect("written");
    let recording = format!("{ROOT}/crates/report/tests/traces/ten-dd.weir");
    for name in ["db.weir", "before.weir", "after.weir"] {
        std::fs::copy(&recording, path(name)).expect("copied");
    }
    folder
}

/// Runs the block in a shell that stops at the first command that fails, and checks that it prints
/// the lines that follow a `$ weir`.
fn runs(code: &str, folder: &Path) -> Result<(), String> {
    if let Some(other) = commands(code).iter().find(|c| !is_harmless(c)) {
        return Err(format!("`{other}` needs a mark `<!-- not run: WHY -->`"));
    }
    let command = Path::new(env!("CARGO_BIN_EXE_weir"));
    let before = std::env::var("PATH").unwrap_or_default();
    let script = commands(code).join("\n");
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(folder)
        .env(
            "PATH",
            format!("{}:{before}", command.parent().expect("a folder").display()),
        )
        .env("NO_COLOR", "1")
        .output()
        .expect("runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let shown = code.split_once("$ weir").map_or("", |(_, rest)| rest);
    let missing = shown.lines().skip(1).find(|line| !printed.contains(*line));
    missing.map_or(Ok(()), |line| Err(format!("does not print: {line}")))
}

#[test]
fn every_command_without_a_mark_runs() {
    let (mut run, mut failed) = (0, Vec::new());
    for page in pages() {
        for (number, mark, code) in command_blocks(&page) {
            if mark.is_some() {
                continue;
            }
            run += 1;
            if let Err(why) = runs(&code, folder().path()) {
                failed.push(format!("{page}:{number}: {why}"));
            }
        }
    }
    assert!(run >= 5, "{run} blocks");
    assert_eq!(failed, Vec::<String>::new());
}

/// The table between the marks in docs/scenarios.md, from what `weir metrics` lists.
fn metrics() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["metrics", "--json"])
        .output()
        .expect("runs");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().expect(key).to_owned();
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in &rows {
        let only = row["only"].as_array().expect("a list").iter();
        let only: Vec<&str> = only.filter_map(|only| only.as_str()).collect();
        let head = [text(row, "of"), text(row, "unit"), only.join(", ")].join("|");
        let name = format!("`{}`", text(row, "metric"));
        match groups.iter_mut().find(|(of, _)| *of == head) {
            Some((_, names)) => names.push(name),
            None => groups.push((head, vec![name])),
        }
    }
    let mut table = String::from("|subject|unit|only|metrics|\n|---|---|---|---|\n");
    for (head, names) in groups {
        table += &format!("|{head}|{}|\n", names.join(", "));
    }
    table
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test docs` writes the table.
#[test]
fn the_scenario_page_lists_every_metric() {
    const MARKS: [&str; 2] = ["<!-- metrics -->\n", "<!-- /metrics -->\n"];
    let page = read("docs/scenarios.md");
    let (before, rest) = page.split_once(MARKS[0]).expect("a mark");
    let (table, after) = rest.split_once(MARKS[1]).expect("a mark");
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        let page = [before, MARKS[0], &metrics(), MARKS[1], after].concat();
        std::fs::write(format!("{ROOT}/docs/scenarios.md"), page).expect("written");
        return;
    }
    assert_eq!(table, metrics(), "run this test with WEIR_WRITE_DOCS=1");
}
