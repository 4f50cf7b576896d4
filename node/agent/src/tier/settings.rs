// SPDX-License-Identifier: GPL-2.0-only
//! The section `[tier]` of a policy file.
//!
//! ```toml
//! [tier]
//! engine = "auto"     # or move_pages, damon, damon+move_pages, reclaim
//! lend = true         # a cgroup keeps fast memory that no other cgroup wants
//! interval = "1s"     # between steps while something is to be moved; less is no less
//! look = "2s"         # a page untouched for so long is cold, one touched in a quarter of it hot (DAMON)
//! ```

use config::reader::Table;
use config::units;
use std::time::Duration;

/// Keys of the section.
pub const KEYS: &[&str] = &["engine", "lend", "interval", "look"];

/// Engine that the policy names to move pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best there is.
    #[default]
    Auto,
    /// move_pages(2) both ways.
    MovePages,
    /// DAMON both ways.
    Damon,
    /// DAMON down, move_pages(2) up.
    DamonAndMovePages,
    /// memory.reclaim down, move_pages(2) up.
    Reclaim,
}

impl Choice {
    const ALL: [(&'static str, Choice); 5] = [
        ("auto", Choice::Auto),
        ("move_pages", Choice::MovePages),
        ("damon", Choice::Damon),
        ("damon+move_pages", Choice::DamonAndMovePages),
        ("reclaim", Choice::Reclaim),
    ];

    fn parse(text: &str) -> Result<Choice, String> {
        let found = Choice::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names = Choice::ALL.map(|(name, _)| name).join(", ");
            format!("unknown engine `{text}`: expected one of {names}")
        })
    }
}

/// The section, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSettings {
    /// Engine that moves pages.
    pub engine: Choice,
    /// `true` if a cgroup above its budget keeps what no other wants.
    pub lend: bool,
    /// Time between two steps.
    pub interval: Duration,
    /// Time that a page must be left alone to count as cold.
    pub look: Duration,
}

impl Default for TierSettings {
    fn default() -> TierSettings {
        TierSettings {
            engine: Choice::Auto,
            lend: true,
            interval: Duration::from_secs(1),
            look: Duration::from_secs(2),
        }
    }
}

impl TierSettings {
    /// Reads the section; what is wrong is noted with the table.
    pub fn read(table: &Table) -> TierSettings {
        let default = TierSettings::default();
        let time = |key: &str, default: Duration, most: u64| {
            let value = table.optional(key)?;
            let read = value.parse_with("a duration, as in `2s`", |text| {
                let milliseconds = units::parse_milliseconds(text)?;
                match milliseconds {
                    ..100 => Err("less than 100 ms".to_string()),
                    _ if milliseconds > most * 1000 => Err(format!("more than {most} s")),
                    _ => Ok(Duration::from_millis(milliseconds)),
                }
            });
            Some(read.unwrap_or(default))
        };
        TierSettings {
            engine: table
                .optional("engine")
                .and_then(|value| value.parse_with("the name of an engine", Choice::parse))
                .unwrap_or_default(),
            lend: table
                .optional("lend")
                .and_then(|value| value.as_boolean())
                .unwrap_or(default.lend),
            interval: time("interval", default.interval, 60).unwrap_or(default.interval),
            look: time("look", default.look, 60).unwrap_or(default.look),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn read(text: &str) -> Result<TierSettings, String> {
        let rules = Rules::parse("agent.toml", text);
        rules
            .map(|rules| rules.tier)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_documented() {
        assert_eq!(read(""), Ok(TierSettings::default()));
        let text = "[tier]\nengine = \"damon+move_pages\"\nlend = false\nlook = \"5s\"\n";
        let wanted = TierSettings {
            engine: Choice::DamonAndMovePages,
            lend: false,
            look: Duration::from_secs(5),
            ..TierSettings::default()
        };
        assert_eq!(read(text), Ok(wanted));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            (
                "engine = \"fast\"",
                "expected one of auto, move_pages, damon",
            ),
            ("lend = 1", "true or false"),
            ("interval = \"5m\"", "more than 60 s"),
            ("look = \"1\"", "say the unit"),
            ("engin = \"auto\"", "did you mean `engine`"),
        ] {
            let why = read(&format!("[tier]\n{line}\n")).expect_err(line);
            assert!(why.contains("agent.toml:2: key `tier."), "{why}");
            assert!(why.contains(words), "{why}");
        }
    }
}
