// SPDX-License-Identifier: GPL-2.0-only
//! Whatever the bytes: a scenario or a list of problems, never a panic. Pure noise hardly gets past
//! the TOML parser, so most cases damage a shipped scenario in one or two places instead.

use proptest::prelude::*;

const SHIPPED: &str = include_str!("../../../scenarios/dirty-knobs.toml");

/// Parses, and holds what must hold of every outcome.
fn parse(text: &str) {
    match scenario::parse("t", "t.toml", text) {
        Ok(scenario) => assert!(!scenario.phases.is_empty()),
        Err(problems) => {
            assert!(!problems.0.is_empty(), "refused without a reason");
            let last = text.lines().count() + 1;
            for p in &problems.0 {
                assert!((1..=last).contains(&p.line), "line {} of {last}", p.line);
                assert!(!p.what.is_empty());
            }
        }
    }
}

/// Pieces that mean something somewhere in the language.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{1,12} = \"?[0-9]{0,20}[KMGmsn%/]{0,3}\"?\n",
        "\\[{1,2}(host|disk|job|phase|expect|cgroup\\.[a-z./]{0,6})\\]{1,2}\n",
        "at_least = \"[a-z0-9.*+ -]{0,20}\"\n",
        ".{0,6}",
    ]
}

proptest! {
    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_scenario(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..60usize, piece()), 1..4),
    ) {
        let mut text: Vec<char> = SHIPPED.chars().collect();
        for (at, cut, insert) in edits {
            let start = at.index(text.len().max(1)).min(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, insert.chars());
        }
        parse(&text.into_iter().collect::<String>());
    }
}
