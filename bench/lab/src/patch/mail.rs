// SPDX-License-Identifier: GPL-2.0-only
//! Files and mails of a series.

use anyhow::{Context, Result, bail};
use scenario::rundir::decode_part;
use std::fs;
use std::path::{Path, PathBuf};

/// A mail, or a file that is none.
pub(super) struct Letter {
    /// The file's name, with the mail's subject if the file has several.
    pub name: String,
    /// `n` of `[PATCH n/m]`.
    pub number: usize,
    /// Number of the text's first line in the file, from 1.
    pub first_line: usize,
    /// The text, decoded.
    pub text: String,
}

/// Ends of the names of files in a directory that hold patches.
const ENDS: [&str; 5] = ["patch", "diff", "mbox", "mbx", "eml"];

/// The files at `path`: itself, or those of a directory, in the order of its `series` if it has one.
pub(super) fn list_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let series = path.join("series");
    if series.is_file() {
        let text = fs::read_to_string(&series).with_context(|| format!("{}", series.display()))?;
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let names = names.filter(|name| !name.starts_with('#'));
        return Ok(names.map(|name| path.join(name)).collect());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("{}", path.display()))? {
        let file = entry?.path();
        let end = file.extension().and_then(|end| end.to_str());
        if end.is_some_and(|end| ENDS.contains(&end)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The mails of a file, answers left out.
pub(super) fn split_letters(file: &str, text: &str) -> Result<Vec<Letter>> {
    let text = text.replace("\r\n", "\n");
    let mut starts: Vec<(usize, usize)> = vec![(1, 0)];
    let (mut place, mut is_after_blank) = (0, true);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        // An mbox begins each mail like this, and its address is followed by a date.
        if is_after_blank && place > 0 && line.starts_with("From ") && line.contains(':') {
            starts.push((number + 1, place));
        }
        place += line.len();
        is_after_blank = line.trim().is_empty();
    }
    let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([text.len()]);
    let many = starts.len() > 1;
    let mut letters = Vec::new();
    for ((first_line, start), end) in starts.iter().zip(ends) {
        let whole = &text[*start..end];
        let is_mail = whole.starts_with("From ") || find_header(whole, "subject").is_some();
        let subject = find_header(whole, "subject").unwrap_or_default();
        if subject.to_lowercase().starts_with("re:") {
            continue;
        }
        let name = match many && !subject.is_empty() {
            true => format!("{file}: {subject}"),
            false => file.to_owned(),
        };
        letters.push(Letter {
            text: match is_mail {
                true => decode_body(whole).with_context(|| name.clone())?,
                false => whole.to_owned(),
            },
            name,
            number: number_in_subject(&subject),
            first_line: *first_line,
        });
    }
    Ok(letters)
}

/// A header's value, its lines joined.
fn find_header(mail: &str, wanted: &str) -> Option<String> {
    let mut found: Option<String> = None;
    for line in mail.lines().take_while(|line| !line.is_empty()) {
        match &mut found {
            Some(value) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            Some(_) => break,
            None => {
                found = line
                    .split_once(':')
                    .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
                    .map(|(_, value)| value.trim().to_owned());
            }
        }
    }
    found
}

/// `2` of `[RFC PATCH v3 2/5] mm: ...`; 0 for a subject without.
fn number_in_subject(subject: &str) -> usize {
    let tag = subject
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let words = tag.map_or("", |(tag, _)| tag).split_whitespace();
    let numbers = words.filter_map(|word| word.split_once('/')?.0.parse().ok());
    numbers.max().unwrap_or(0)
}

/// The mail as text, as long as its lines of headers are kept: numbers of lines are then right.
fn decode_body(mail: &str) -> Result<String> {
    let coded = find_header(mail, "content-transfer-encoding").unwrap_or_default();
    let (head, body) = mail.split_once("\n\n").unwrap_or((mail, ""));
    let body = match coded.to_lowercase().as_str() {
        "quoted-printable" => decode_quoted_printable(body),
        "base64" => {
            let solid: String = body.split_whitespace().collect();
            let bytes = decode_part(&solid).context("its body is not base64")?;
            String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
        }
        "" | "7bit" | "8bit" | "binary" => return Ok(mail.to_owned()),
        other => bail!("its body is coded in `{other}`, which is not known"),
    };
    Ok(format!("{head}\n\n{body}"))
}

fn decode_quoted_printable(body: &str) -> String {
    let joined = body.replace("=\n", "");
    let mut bytes = Vec::new();
    let mut rest = joined.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = after
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let value = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match value.filter(|_| *first == b'=') {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
