// SPDX-License-Identifier: GPL-2.0-only
//! The section `[reclaim]` of a policy file. Without it nothing is limited.
//!
//! ```toml
//! [reclaim]
//! mode = "on"                        # or observe: says what it would set; or off
//! exempt = ["/system.slice/db.service"]
//! weights = { "/batch.slice/*" = 50 }
//! ```

use crate::globs::{self, matches_path};
use crate::limits::Mode;
use config::reader::Table;
use glob::Pattern;
use policy::division::{WEIGHT_MAX, WEIGHT_MIN};
use policy::reclaim::WEIGHT;

/// Keys of the section.
pub const KEYS: &[&str] = &["mode", "exempt", "weights"];

/// The section, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReclaimSettings {
    /// Mode in which limits are set.
    pub mode: Mode,
    /// Cgroups that are never limited.
    exempt: Vec<Pattern>,
    /// Weights of cgroups; of those that match the last one counts.
    weights: Vec<(Pattern, u32)>,
}

impl ReclaimSettings {
    /// Reads the section; what is wrong is noted with the table.
    pub fn read(table: &Table) -> ReclaimSettings {
        let mode = table
            .optional("mode")
            .and_then(|value| value.parse_with("`on`, `observe` or `off`", Mode::parse));
        let exempt = table.optional("exempt");
        let weights = table
            .optional("weights")
            .and_then(|value| value.as_entries("a table, as in `{ \"/batch.slice/*\" = 50 }`"));
        let weights = weights.unwrap_or_default().into_iter();
        let weights = weights.filter_map(|(glob, value)| {
            let pattern = globs::parse_pattern(glob)
                .map_err(|why| value.complain(why))
                .ok();
            let weight = value.as_unsigned("a weight, as in `50`")?;
            let Some(weight @ WEIGHT_MIN..=WEIGHT_MAX) = u32::try_from(weight).ok() else {
                value.complain(format!("`{weight}`: expected {WEIGHT_MIN} to {WEIGHT_MAX}"));
                return None;
            };
            Some((pattern?, weight))
        });
        ReclaimSettings {
            mode: mode.unwrap_or(Mode::On),
            exempt: exempt.map_or_else(Vec::new, |value| globs::read_patterns(&value)),
            weights: weights.collect(),
        }
    }

    /// Returns whether the cgroup at `path` is never limited.
    pub fn is_exempt(&self, path: &str) -> bool {
        self.exempt.iter().any(|glob| matches_path(glob, path))
    }

    /// The weight of the cgroup at `path`.
    pub fn weight_of(&self, path: &str) -> u32 {
        let mut matching = self.weights.iter().rev();
        matching
            .find(|(glob, _)| matches_path(glob, path))
            .map_or(WEIGHT, |(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    fn read(text: &str) -> Result<ReclaimSettings, String> {
        let rules = Rules::parse("agent.toml", text);
        rules
            .map(|rules| rules.reclaim)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn it_is_off_until_the_section_is_there() {
        assert_eq!(read("").expect("valid").mode, Mode::Off);
        assert_eq!(read("[reclaim]\n").expect("valid").mode, Mode::On);
        let observe = read("[reclaim]\nmode = \"observe\"\n").expect("valid");
        assert_eq!(observe.mode, Mode::Observe);
    }

    #[test]
    fn cgroups_are_exempt_and_weighted_by_globs() {
        let text = "[reclaim]\nexempt = [\"/db\"]\nweights = { \"/a/*\" = 50, \"/a/b\" = 400 }\n";
        let settings = read(text).expect("valid");
        assert!(settings.is_exempt("/db") && !settings.is_exempt("/db/x"));
        assert_eq!(
            ["/a/x", "/a/b", "/b"].map(|path| settings.weight_of(path)),
            [50, 400, 100]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("mode = \"maybe\"", "expected `on`, `observe` or `off`"),
            ("weights = { \"/a\" = 0 }", "expected 1 to 10000"),
            ("weights = { \"a\" = 1 }", "agent.toml:2"),
            ("exempt = []", "no glob"),
            ("exmpt = [\"/a\"]", "did you mean `exempt`"),
        ] {
            let why = read(&format!("[reclaim]\n{line}\n")).expect_err(line);
            assert!(why.contains(words), "{why}");
        }
    }
}
