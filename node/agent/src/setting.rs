// SPDX-License-Identifier: GPL-2.0-only
//! A value that a knob is to have, and who says so.

use knobs::{Knob, PAGE, PageSize, Refused};
use policy::drain::SECONDS_MAX;
use serde::Serialize;
use std::fmt;

/// The rule, unit or label that asks for a knob's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The rule at this line of the policy file.
    Line(usize),
    /// A systemd unit.
    Unit {
        /// The unit's file or drop-in.
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

/// The longest time that a window may be of, in milliseconds.
const WINDOW_MS_MAX: u64 = 1_000;

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingUnit {
    /// The knob's own: what its file takes.
    Knob,
    /// Percent of the cgroup's `memory.max`.
    Percent,
    /// Seconds of what disks write for the cgroup.
    Seconds,
    /// Milliseconds of the same.
    Milliseconds,
}

/// A value as its origin says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The text as it is written.
    pub text: String,
    /// The number that the text stands for.
    pub value: u64,
    /// The unit of that number.
    pub unit: SettingUnit,
    /// The rule, unit or label that it comes from.
    pub origin: Origin,
}

impl Setting {
    /// Parses what the knob takes, or for a ceiling `1%` to `100%`, or `1s` to `3600s`, or for a
    /// window `1ms` to `1000ms`.
    ///
    /// # Errors
    /// It takes something else: what, for people.
    pub fn parse(knob: Knob, text: &str, origin: Origin) -> Result<Setting, String> {
        let text = text.trim();
        let parse = || knob.parse_on(PageSize::running(), text);
        let number = |suffix: &str| text.strip_suffix(suffix).and_then(|n| n.parse().ok());
        let besides = match knob {
            Knob::DirtyBytes => match (number("%"), number("s")) {
                (Some(percent @ 1..=100), _) => Some((percent, SettingUnit::Percent)),
                (_, Some(seconds @ 1..=SECONDS_MAX)) => Some((seconds, SettingUnit::Seconds)),
                _ => None,
            },
            Knob::WritebackBytes => match number("ms") {
                Some(ms @ 1..=WINDOW_MS_MAX) => Some((ms, SettingUnit::Milliseconds)),
                _ => None,
            },
            _ => None,
        };
        let (value, unit) = match besides {
            Some(besides) => besides,
            None => (parse().map_err(explain_refusal)?, SettingUnit::Knob),
        };
        Ok(Setting {
            text: text.into(),
            value,
            unit,
            origin,
        })
    }

    /// The same for a cgroup that may hold `memory_max` bytes at most; nothing if it is to be a
    /// share of what has no bound.
    pub fn resolve_percent(&self, memory_max: impl FnOnce() -> Option<u64>) -> Option<Setting> {
        if self.unit != SettingUnit::Percent {
            return Some(self.clone());
        }
        let pages = memory_max()? / PAGE * self.value / 100;
        Some(self.in_pages(pages))
    }

    /// Returns whether it changes with what disks write for the cgroup.
    pub fn is_in_time(&self) -> bool {
        matches!(self.unit, SettingUnit::Seconds | SettingUnit::Milliseconds)
    }

    /// The same as whole pages of this kernel in so many of 4 KiB, as the kernel would make of it, so
    /// that it reads back as it was written. No ceiling is less than two of them.
    pub fn in_pages(&self, pages: u64) -> Setting {
        self.in_bytes(PageSize::running().ceiling_bytes_of_units(pages))
    }

    /// The same as so many bytes.
    pub fn in_bytes(&self, bytes: u64) -> Setting {
        Setting {
            text: bytes.to_string(),
            value: bytes,
            unit: SettingUnit::Knob,
            origin: self.origin.clone(),
        }
    }
}

/// Explains a refusal, with what the agent takes besides.
fn explain_refusal(why: Refused) -> String {
    let besides = match why.knob {
        Knob::DirtyBytes => {
            format!(", or `1%` to `100%` of memory.max, or `1s` to `{SECONDS_MAX}s`")
        }
        Knob::WritebackBytes => format!(", or `1ms` to `{WINDOW_MS_MAX}ms`"),
        _ => return why.to_string(),
    };
    format!("{why}{besides} of what disks write for the cgroup")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_be_a_time() {
        let parse = |text| Setting::parse(Knob::WritebackBytes, text, Origin::Line(1));
        let of = |text| parse(text).map(|setting| (setting.value, setting.unit));
        assert_eq!(of("10ms"), Ok((10, SettingUnit::Milliseconds)));
        assert_eq!(of("1000ms"), Ok((1_000, SettingUnit::Milliseconds)));
        assert_eq!(of("256K"), Ok((256 << 10, SettingUnit::Knob)));
        for text in ["0ms", "1001ms", "1s", "10 ms", "-1ms", "50%", "4K"] {
            let why = parse(text).expect_err(text);
            assert!(
                why.ends_with("or `max`, or `1ms` to `1000ms` of what disks write for the cgroup"),
                "{why}"
            );
        }
        let ceiling = Setting::parse(Knob::DirtyBytes, "10ms", Origin::Line(1));
        assert!(ceiling.is_err_and(|why| why.contains("`1s` to `3600s`")));
    }

    /// weir-nri's own test reads the same table.
    #[test]
    fn times_are_those_of_weir_nri() {
        let table = include_str!("../../../cluster/nri/knob/testdata/times.txt");
        let lines = table.lines().filter(|line| !line.starts_with('#'));
        let mut seen = 0;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [file, text, wanted] = words[..] else {
                panic!("{line}")
            };
            let knob = Knob::by_file(file).expect(file);
            let setting = Setting::parse(knob, text, Origin::Line(1));
            assert_eq!(setting.is_ok(), wanted == "ok", "{line}");
            assert!(setting.is_ok_and(|setting| setting.is_in_time()) == (wanted == "ok"));
            seen += 1;
        }
        assert!(seen >= 10, "{seen} lines");
    }
}
