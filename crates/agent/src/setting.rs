// SPDX-License-Identifier: GPL-2.0-only
//! A value that a knob is to have, and who says so.

use knobs::Knob;
use serde::Serialize;
use std::fmt;

const PAGE: u64 = 4096;
/// No ceiling is less.
const CEILING_PAGES: u64 = 2;

/// Who says what a knob is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The rule at this line of the policy file.
    Line(usize),
    /// A systemd unit.
    Unit {
        /// Its file or drop-in.
        file: String,
        /// The key there.
        key: String,
    },
    /// This label or annotation of a container.
    Label(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(line) => write!(f, "rule at line {line}"),
            Origin::Unit { file, key } => {
                write!(f, "{} in {}", key.escape_debug(), file.escape_debug())
            }
            Origin::Label(key) => write!(f, "label {}", key.escape_debug()),
        }
    }
}

/// A value as its origin says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is written.
    pub text: String,
    /// What that stands for.
    pub value: u64,
    /// The value is percent of the cgroup's `memory.max`.
    pub is_share: bool,
    /// Who says so.
    pub origin: Origin,
}

impl Setting {
    /// What the knob takes, or for a ceiling `1%` to `100%`.
    ///
    /// # Errors
    /// It takes something else: what, for people.
    pub fn parse(knob: Knob, text: &str, origin: Origin) -> Result<Setting, String> {
        let text = text.trim();
        let share = text.strip_suffix('%').and_then(|n| n.parse().ok());
        let (value, is_share) = match (knob, share) {
            (Knob::DirtyBytes, Some(percent @ 1..=100)) => (percent, true),
            _ => (knob.parse(text).map_err(|why| why.to_string())?, false),
        };
        Ok(Setting {
            text: text.into(),
            value,
            is_share,
            origin,
        })
    }

    /// The same for a cgroup that may hold `memory_max` bytes at most; nothing if it is to be a
    /// share of what has no bound.
    pub fn of(&self, memory_max: impl FnOnce() -> Option<u64>) -> Option<Setting> {
        if !self.is_share {
            return Some(self.clone());
        }
        // Whole pages, as the module would make of it, so that it reads back as it was written.
        let pages = memory_max()? / PAGE * self.value / 100;
        let bytes = pages.max(CEILING_PAGES) * PAGE;
        Some(Setting {
            text: bytes.to_string(),
            value: bytes,
            is_share: false,
            origin: self.origin.clone(),
        })
    }
}
