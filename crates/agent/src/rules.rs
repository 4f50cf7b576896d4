// SPDX-License-Identifier: GPL-2.0-only
//! The policy file: which cgroups get which knobs. Its sections `[tier]`, `[reclaim]` and
//! `[[objective]]` have explanations of their own.
//!
//! ```toml
//! [[rule]]                                    # every container that Docker starts
//! cgroup = "/system.slice/docker-*.scope"
//! set = { "memory.dirty_bytes" = "256M" }
//!
//! [[rule]]                                    # two of them more than that
//! cgroup = ["/system.slice/docker-1f*.scope", "/system.slice/docker-9c*.scope"]
//! set = { "memory.dirty_bytes" = "1G", "memory.dirty_min" = "64M" }
//! ```
//!
//! Of the rules that match a cgroup and name a knob the last one counts, knob by knob: the general
//! first, exceptions after. In the example `docker-1f00.scope` gets a ceiling of 1G and a floor of
//! 64M, all others a ceiling of 256M.
//!
//! `"memory.dirty_bytes" = "50%"` is that much of the cgroup's `memory.max`, or the least of those
//! above it. Without one the rule does not count there.
//!
//! Who may name a cgroup may choose which rule matches it. So a rule passes over cgroups that are
//! in a directory of a user other than root (a delegated subtree), unless it says `delegated =
//! true`.

use crate::globs::{matches, patterns};
use crate::objective::settings as objective;
use crate::reclaim::settings as reclaim;
use crate::tier::settings::{self, Settings};
use config::problem::Problems;
use config::reader::{self, Table, Value};
use glob::Pattern;
use knobs::Knob;
use std::collections::BTreeMap;
use std::path::Path;

/// A policy file, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    /// How tiers are kept.
    pub tier: Settings,
    /// Whether, and how, allocators are limited.
    pub reclaim: reclaim::Settings,
    /// Bounds on waits, and who may be limited for them.
    pub objectives: Vec<objective::Settings>,
}

/// A value as a rule says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is written.
    pub text: String,
    /// What that stands for.
    pub value: u64,
    /// The value is percent of the cgroup's `memory.max`.
    pub is_share: bool,
    /// The line of the rule it comes from.
    pub line: usize,
}

impl Setting {
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
            line: self.line,
        })
    }
}

const PAGE: u64 = 4096;
/// No ceiling is less.
const CEILING_PAGES: u64 = 2;

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    cgroups: Vec<Pattern>,
    delegated: bool,
    set: BTreeMap<Knob, Setting>,
}

impl Rules {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it could not be read.
    pub fn load(path: &Path) -> Result<Rules, Problems> {
        let shown = path.display().to_string();
        let text = config::text(path, "policy")?;
        Rules::parse(&shown, &text)
    }

    /// Checks the text of the file called `file`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Rules, Problems> {
        reader::read(
            file,
            text,
            &["rule", "tier", "reclaim", "objective"],
            |root| {
                let tables = root.tables("rule", &["cgroup", "delegated", "set"]);
                let tier = root.optional("tier");
                let reclaim = root.optional("reclaim");
                let objectives = root.tables("objective", objective::KEYS);
                Rules {
                    rules: tables.iter().map(rule).collect(),
                    tier: tier
                        .and_then(|tier| tier.table(settings::KEYS))
                        .map_or_else(Settings::default, |table| Settings::read(&table)),
                    reclaim: reclaim
                        .and_then(|reclaim| reclaim.table(reclaim::KEYS))
                        .map_or_else(Default::default, |table| reclaim::Settings::read(&table)),
                    objectives: objectives
                        .iter()
                        .filter_map(objective::Settings::read)
                        .collect(),
                }
            },
        )
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What the cgroup at `path` (`/system.slice/a.service`) is to have. `delegated` says that it
    /// is in a directory that is not root's.
    pub fn wanted(&self, path: &str, delegated: bool) -> BTreeMap<Knob, &Setting> {
        let matching = self.rules.iter().filter(|rule| {
            (rule.delegated || !delegated) && rule.cgroups.iter().any(|glob| matches(glob, path))
        });
        matching
            .flat_map(|rule| &rule.set)
            .map(|(knob, setting)| (*knob, setting))
            .collect()
    }
}

fn rule(table: &Table) -> Rule {
    let cgroups = table
        .required("cgroup", "cgroup = \"/system.slice/docker-*.scope\"")
        .map(|value| patterns(&value))
        .unwrap_or_default();
    let delegated = table
        .optional("delegated")
        .and_then(|value| value.boolean());
    let set = table
        .required("set", "set = { \"memory.dirty_min\" = \"16M\" }")
        .and_then(|value| knobs(table.line(), &value))
        .unwrap_or_default();
    Rule {
        cgroups,
        delegated: delegated.unwrap_or(false),
        set,
    }
}

fn knobs(line: usize, value: &Value) -> Option<BTreeMap<Knob, Setting>> {
    let entries = value.entries("a table of knobs")?;
    if entries.is_empty() {
        value.complain("no knob in it: the rule would do nothing");
    }
    let mut set = BTreeMap::new();
    for (name, value) in entries {
        let knob = Knob::by_file(name).filter(|knob| Knob::DIRTY.contains(knob));
        let Some(knob) = knob else {
            let files = Knob::DIRTY.map(Knob::file).join(", ");
            value.complain(format!("not a file that the agent sets: it sets {files}"));
            continue;
        };
        let Some(text) = value.scalar() else {
            continue;
        };
        let share = text.trim().strip_suffix('%').and_then(|n| n.parse().ok());
        if let (Knob::DirtyBytes, Some(percent @ 1..=100)) = (knob, share) {
            let setting = Setting {
                text: text.trim().into(),
                value: percent,
                is_share: true,
                line,
            };
            set.insert(knob, setting);
            continue;
        }
        match knob.parse(&text) {
            Ok(number) => {
                let text = text.trim().to_string();
                set.insert(
                    knob,
                    Setting {
                        text,
                        value: number,
                        is_share: false,
                        line,
                    },
                );
            }
            Err(why) => value.complain(why.to_string()),
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests;
