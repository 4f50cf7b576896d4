// SPDX-License-Identifier: GPL-2.0-only
//! Holds names and comments to shares that may only fall: functions named by one word, comments
//! that open with a question, words without an actor. `words.tsv` has a row for each part.
//!
//! `cargo test -p weir --test words -- --nocapture` prints the rows as they are measured.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TABLE: &str = include_str!("words.tsv");

/// One-word names that every reader of Rust, C or Go knows.
const CONVENTIONS: &str = "new default fmt from into next len main run get set read write open \
    close drop eq cmp clone deref deref_mut hash parse try_from from_str serialize deserialize \
    as_ref borrow iter push pop insert remove clear name add index init start stop update build \
    with test setup exit reset load save flush string str print init_module";
/// Openings of a comment that keep its subject back.
const QUESTIONS: [&str; 9] = [
    "what", "who", "whose", "whom", "how", "when", "where", "whether", "which",
];
/// Words that hide the actor.
const RIDDLES: [&str; 4] = ["nobody", "whoever", "everybody", "somebody"];
/// Definitions of one name, in all parts, beyond which a search for it finds too much.
const MOST_DEFINITIONS: usize = 8;
/// Names that may be defined more often, as many times as now: one trait has an implementation for
/// each struct that is read from a file.
const OFTEN_DEFINED: &[(&str, usize)] = &[("is_plausible", 20)];
/// Points by which a share may lie below its row before the row is to follow.
const SLACK: f64 = 1.0;

#[derive(Default)]
struct Row {
    functions: usize,
    one_word: usize,
    comments: usize,
    questions: usize,
    riddles: usize,
}

impl Row {
    fn one_word_percent(&self) -> f64 {
        100.0 * self.one_word as f64 / self.functions.max(1) as f64
    }

    fn question_percent(&self) -> f64 {
        100.0 * self.questions as f64 / self.comments.max(1) as f64
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Words of a name in snake case or camel case.
fn count_words(name: &str) -> usize {
    let name = name.strip_prefix("weir_").unwrap_or(name);
    let parts = name.split('_').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let chars: Vec<char> = part.chars().collect();
            let begins = |at: &usize| {
                let follows_lower = at.checked_sub(1).is_some_and(|i| !chars[i].is_uppercase());
                let precedes_lower = chars.get(at + 1).is_some_and(|c| c.is_ascii_lowercase());
                chars[*at].is_uppercase() && *at > 0 && (follows_lower || precedes_lower)
            };
            1 + (0..chars.len()).filter(begins).count()
        })
        .sum()
}

/// The name that the first of `lines` defines as a function, if it does.
fn defined_function<'a>(lines: &[&'a str], extension: &str) -> Option<&'a str> {
    let line = *lines.first()?;
    let name_at = |rest: &'a str| {
        let end = rest.find(|c| !is_part_of_name(c)).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    };
    match extension {
        "rs" => {
            let (before, rest) = line.split_once("fn ")?;
            let known = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
            let is_known = |word: &str| known.contains(&word) || word.starts_with("pub(");
            let is_definition = before
                .split_whitespace()
                .all(|word| is_known(word) || word.ends_with(')'));
            (is_definition && !line.trim_start().starts_with("//")).then(|| name_at(rest))?
        }
        "go" => {
            let rest = line.strip_prefix("func ")?;
            let rest = match rest.strip_prefix('(') {
                Some(receiver) => receiver.split_once(") ")?.1,
                None => rest,
            };
            name_at(rest)
        }
        _ => {
            // A definition in C: it begins in the first column, and its body in the one after it.
            let begins = line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let (before, _) = line.split_once('(').filter(|_| begins)?;
            let end = lines.iter().position(|line| line.ends_with(')'))?;
            let declares = lines[..=end].iter().any(|line| line.contains([';', '{']));
            let has_body = lines.get(end + 1) == Some(&"{");
            let at = before.rfind(|c| !is_part_of_name(c))? + 1;
            (has_body && !declares && at < before.len()).then(|| &before[at..])
        }
    }
}

/// The first words of comments: of documentation in Rust, of all comments in C and Go.
fn comment_openings<'a>(lines: &[&'a str], extension: &str) -> Vec<&'a str> {
    let marks: &[&str] = match extension {
        "rs" => &["/// "],
        "go" => &["// "],
        _ => &["/* ", "/** ", "/*", "/**"],
    };
    let is_comment = |line: &str| match extension {
        "rs" => line.trim_start().starts_with("///"),
        _ => line.starts_with("//"),
    };
    let mut openings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let goes_on = matches!(extension, "rs" | "go")
            && index.checked_sub(1).is_some_and(|at| is_comment(lines[at]));
        if goes_on || (extension == "go" && trimmed.len() != line.len()) {
            continue;
        }
        let Some(text) = marks.iter().find_map(|mark| trimmed.strip_prefix(mark)) else {
            continue;
        };
        let next = || lines.get(index + 1).map_or("", |next| next.trim_start());
        let text = match text.trim() {
            "" | "*" => next().trim_start_matches("* "),
            text => text,
        };
        let opens = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '`' || c == '@');
        if opens && !text.contains("SPDX") {
            openings.push(text);
        }
    }
    openings
}

/// The part of the tree that a file belongs to.
fn part_of(path: &str) -> String {
    let wings = ["node/", "bench/", "cluster/"];
    let depth = 1 + usize::from(wings.iter().any(|wing| path.starts_with(wing)));
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// Tests and what belongs to them are not measured.
fn is_test(path: &str) -> bool {
    let folders = ["tests", "test", "fuzz", "check", "testdata", "examples"];
    let stem = |name: &str| name.trim_end_matches(".rs").to_owned();
    path.split('/')
        .any(|part| folders.contains(&stem(part).as_str()) || part.starts_with("test_"))
        || path.ends_with("_test.go")
}

/// Rows by part, and how often each name is defined.
fn measure() -> Option<(BTreeMap<String, Row>, BTreeMap<String, usize>)> {
    let output = Command::new("git")
        .args(["ls-files", "*.rs", "*.c", "*.h", "*.go"])
        .current_dir(ROOT)
        .output()
        .ok()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let conventions: BTreeSet<&str> = CONVENTIONS.split_whitespace().collect();
    let mut rows = BTreeMap::<String, Row>::new();
    let mut names = BTreeMap::<String, usize>::new();
    for path in listed.lines().filter(|path| !is_test(path)) {
        let full = format!("{ROOT}/{path}");
        let is_link = std::fs::symlink_metadata(&full).map(|meta| meta.is_symlink());
        // A file may be gone from the work tree and not yet from the index.
        let (Ok(false), Ok(text)) = (is_link, std::fs::read_to_string(&full)) else {
            continue;
        };
        let extension = path.rsplit('.').next().unwrap_or_default();
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(&text);
        let lines: Vec<&str> = code.lines().collect();
        let row = rows.entry(part_of(path)).or_default();
        for index in 0..lines.len() {
            let Some(name) = defined_function(&lines[index..], extension) else {
                continue;
            };
            if name.len() > 1 && !conventions.contains(name) {
                row.functions += 1;
                row.one_word += usize::from(count_words(name) == 1);
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
        for opening in comment_openings(&lines, extension) {
            let mut words = opening.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
            let first = words.find(|word| !word.is_empty());
            row.comments += 1;
            row.questions += usize::from(
                first.is_some_and(|word| QUESTIONS.contains(&word.to_ascii_lowercase().as_str())),
            );
        }
        let words = code.split(|c: char| !c.is_ascii_alphabetic());
        row.riddles += words
            .filter(|word| RIDDLES.contains(&word.to_ascii_lowercase().as_str()))
            .count();
    }
    (!rows.is_empty()).then_some((rows, names))
}

#[test]
fn shares_only_fall() {
    let Some((rows, _)) = measure() else {
        return;
    };
    let mut wrong = Vec::new();
    let mut table = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let part = fields.next().expect("a part");
        let numbers: Vec<f64> = fields.map(|field| field.parse().expect(line)).collect();
        table.insert(part, numbers);
    }
    for (part, row) in &rows {
        let (words, questions) = (row.one_word_percent(), row.question_percent());
        println!("{part}\t{words:.1}\t{questions:.1}\t{}", row.riddles);
        let Some(limits) = table.remove(part.as_str()) else {
            wrong.push(format!("{part}: no row"));
            continue;
        };
        let measured = [words, questions, row.riddles as f64];
        let columns = ["one-word names", "questions", "riddles"];
        for ((measured, limit), column) in measured.iter().zip(&limits).zip(columns) {
            if *measured > limit + 0.05 {
                wrong.push(format!("{part}: {column} {measured:.1}, at most {limit}"));
            } else if *measured < limit - SLACK {
                let lower = "lower the row of words.tsv to it";
                wrong.push(format!(
                    "{part}: {column} {measured:.1}, not {limit}: {lower}"
                ));
            }
        }
    }
    wrong.extend(table.keys().map(|part| format!("{part}: no such part")));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_name_is_defined_in_few_places() {
    let Some((_, names)) = measure() else {
        return;
    };
    let found: Vec<(&str, usize)> = names
        .iter()
        .filter(|(_, count)| **count > MOST_DEFINITIONS)
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!(found, OFTEN_DEFINED);
}

#[test]
fn names_fall_into_words() {
    let words = [
        "of",
        "weir_take",
        "NewPod",
        "readAll",
        "HTTPServer",
        "wb_look",
    ]
    .map(count_words);
    assert_eq!(words, [1, 1, 2, 2, 2, 2]);
    let cases: [(&[&str], &str, Option<&str>); 6] = [
        (&["    pub(crate) fn of(a: u64) {"], "rs", Some("of")),
        (&["/// fn of(a: u64) {"], "rs", None),
        (&["func (p *plugin) take(x int) {"], "go", Some("take")),
        (&["static int take(int a)", "{"], "c", Some("take")),
        (
            &["static int take(int a,", "\t\tint b)", "{"],
            "c",
            Some("take"),
        ),
        (&["static int take(int a);", "int b(void)", "{"], "c", None),
    ];
    for (lines, extension, name) in cases {
        assert_eq!(defined_function(lines, extension), name, "{lines:?}");
    }
}
