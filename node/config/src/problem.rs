// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a file, in the form editors jump to: `FILE:LINE: key `KEY`: ...`.

use serde::Serialize;
use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as the user named it.
    pub file: String,
    /// Counted from 1; 0 when no line is to blame (the file cannot be read).
    pub line: usize,
    /// Dotted path of the key (`host.memory`, `job[1].fio.rate`); empty when it is the file as a
    /// whole.
    pub key: String,
    /// The error, and what would be right.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, " key `{}`:", self.key)?;
        }
        write!(f, " {}", self.what)
    }
}

/// All that is wrong with one file, in line order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// "did you mean `x`?" when one of `known` is close to `word`, then the list, for error messages.
pub fn suggest_known<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let guess = nearest_known(word, known.iter().copied())
        .map(|k| format!("did you mean `{k}`? "))
        .unwrap_or_default();
    if known.is_empty() {
        format!("{guess}there are none")
    } else {
        format!("{guess}known: {}", known.join(", "))
    }
}

/// The one of `known` closest to `word`, if close enough to be what was meant.
pub fn nearest_known<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(word, k), k))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
