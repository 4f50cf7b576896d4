// SPDX-License-Identifier: GPL-2.0-only
//! Holds comments and commits to the rules of the house: a doc comment makes sense alone, a subject
//! says which part does what.

use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Words that a doc comment has at least.
const LEAST_WORDS: usize = 3;
/// How a short doc comment begins that needs the line before to be understood.
const ELLIPSES: [&str; 3] = ["Of ", "All of ", "All there "];
/// Words up to which a doc comment is short.
const SHORT: usize = 5;
/// Words that hide the actor: readers search for the task, the cgroup, the flusher.
const NO_ACTORS: [&str; 9] = [
    "he",
    "his",
    "him",
    "himself",
    "somebody",
    "anybody",
    "everybody",
    "nobody",
    "whoever",
];

/// The commit from which on subjects follow the rules.
const RULES_SINCE: &str = "8b582ae";
/// Characters of a subject.
const SUBJECT: usize = 72;

/// What `git` prints with these arguments; nothing where there is no repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(args)
        .current_dir(ROOT)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// Doc comments of a source with the numbers of their first lines.
fn doc_comments(source: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut kind_before = None;
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let kind = ["///", "//!"].into_iter().find(|k| line.starts_with(k));
        if let Some(kind) = kind {
            let text = line[kind.len()..].trim();
            match comments.last_mut() {
                Some((_, before)) if kind_before == Some(kind) => {
                    before.push(' ');
                    before.push_str(text);
                }
                _ => comments.push((index + 1, text.into())),
            }
        }
        kind_before = kind;
    }
    comments
}

#[test]
fn doc_comments_make_sense_alone() {
    let Some(files) = git(&["ls-files", "*.rs"]) else {
        return;
    };
    let mut short = Vec::new();
    for file in files.lines() {
        // A file may be gone from the work tree and not yet from the index.
        let Ok(source) = std::fs::read_to_string(format!("{ROOT}/{file}")) else {
            continue;
        };
        for (line, comment) in doc_comments(&source) {
            let words = comment.split_whitespace().count();
            let is_ellipsis = ELLIPSES.iter().any(|begin| comment.starts_with(begin));
            if words < LEAST_WORDS || (words <= SHORT && is_ellipsis) {
                short.push(format!("{file}:{line}: {comment}"));
            }
        }
    }
    assert_eq!(short, Vec::<String>::new());
}

#[test]
fn comments_name_the_actor() {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    assert_eq!(without_actor(true, is_comment), Vec::<String>::new());
}

/// Sources other than Rust, and pages. Notebooks of experiments are as they were written.
#[test]
fn other_sources_and_pages_name_the_actor() {
    let patterns = [
        "*.c", "*.h", "*.go", "*.sh", "*.py", "*.md", "Makefile", "debian", "cluster",
    ];
    let Some(files) = git(&[&["ls-files"], &patterns[..]].concat()) else {
        return;
    };
    let is_kept = |file: &&str| {
        // A cgroup is called so in the one, and the other lists the words.
        !file.starts_with("docs/experiments/")
            && !file.ends_with("go.sum")
            && !["tools/whose-limit.py", "CONTRIBUTING.md"].contains(file)
    };
    let mut found = Vec::new();
    for file in files.lines().filter(is_kept) {
        let Ok(source) = std::fs::read_to_string(format!("{ROOT}/{file}")) else {
            continue;
        };
        for (index, line) in source.lines().enumerate() {
            // A user and a template of Helm have that name.
            let line = line.replace("weir.nobody", "").replace("nobody:x:", "");
            let words = line.split(|c: char| !c.is_ascii_alphabetic());
            let mut words = words.map(str::to_ascii_lowercase);
            if words.any(|word| NO_ACTORS.contains(&word.as_str())) {
                found.push(format!("{file}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn messages_name_the_actor() {
    // The user of that name is in /etc/passwd of guests.
    let is_text = |line: &str| line.contains('"') && !line.contains("nobody:x:");
    assert_eq!(without_actor(false, is_text), Vec::<String>::new());
}

/// Lines of the crates that `is_looked_at` chooses and that hide the actor.
fn without_actor(in_tests: bool, is_looked_at: impl Fn(&str) -> bool) -> Vec<String> {
    let Some(files) = git(&["ls-files", "node/*.rs", "bench/*.rs"]) else {
        return Vec::new();
    };
    let is_test = |file: &str| file.contains("/tests/") || file.ends_with("tests.rs");
    let mut found = Vec::new();
    for file in files.lines().filter(|file| in_tests || !is_test(file)) {
        let Ok(source) = std::fs::read_to_string(format!("{ROOT}/{file}")) else {
            continue;
        };
        let code = match in_tests {
            true => source.as_str(),
            false => source.split("\n#[cfg(test)]\nmod ").next().unwrap_or(""),
        };
        for (index, line) in code.lines().enumerate() {
            let words = line.split(|c: char| !c.is_ascii_alphabetic());
            let hides = |word: &str| NO_ACTORS.contains(&word.to_ascii_lowercase().as_str());
            if is_looked_at(line) && words.into_iter().any(hides) {
                found.push(format!("{file}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    found
}

/// Whether a subject is `subsystem: imperative` or `one, two: imperative`.
fn has_prefix(subject: &str) -> bool {
    let Some((prefix, rest)) = subject.split_once(": ") else {
        return false;
    };
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ", /._-".contains(c);
    !prefix.is_empty() && prefix.chars().all(is_name) && !rest.is_empty()
}

#[test]
fn commits_say_which_part_does_what() {
    let Some(subjects) = git(&["log", "--format=%h %s", &format!("{RULES_SINCE}..HEAD")]) else {
        return;
    };
    let bad = subjects.lines().filter(|line| {
        let subject = line.split_once(' ').map_or("", |(_, subject)| subject);
        // What `git commit --fixup` makes is folded before it is merged.
        let is_fixup = subject.starts_with("fixup! ");
        !is_fixup && (subject.chars().count() > SUBJECT || !has_prefix(subject))
    });
    assert_eq!(bad.collect::<Vec<_>>(), Vec::<&str>::new());
}
