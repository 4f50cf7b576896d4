// SPDX-License-Identifier: GPL-2.0-only
//! Commands in the documents: each exists, and runs or is marked.

use super::*;
use std::os::unix::process::CommandExt;

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
            let help = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
                .arg0("weir")
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
    let recording = format!("{ROOT}/node/report/tests/traces/ten-dd.weir");
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
    let programs = tempfile::tempdir().expect("made");
    let command = programs.path().join("weir");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir-bench"), command).expect("linked");
    let before = std::env::var("PATH").unwrap_or_default();
    let script = commands(code).join("\n");
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(folder)
        .env("PATH", format!("{}:{before}", programs.path().display()))
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
