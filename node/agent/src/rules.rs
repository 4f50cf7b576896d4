// SPDX-License-Identifier: GPL-2.0-only
//! The policy file: which cgroups get which knobs. Its sections `[requests]`, `[tier]`, `[reclaim]`,
//! `[assist]`, `[stock]` and `[[objective]]` have explanations of their own.
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
//! above it. Without one the rule does not count there. `"5s"` is what disks write for the cgroup in
//! five seconds, as that changes ([`crate::drain_rates`]).
//!
//! Who may name a cgroup may choose which rule matches it. So a rule passes over cgroups that are
//! in a directory of a user other than root (a delegated subtree), unless it says `delegated =
//! true`.

use crate::assist::settings as assist;
use crate::globs::{matches_path, read_patterns};
use crate::objective::settings as objective;
use crate::reclaim::settings as reclaim;
use crate::requests::settings as requests;
use crate::setting::{Origin, Setting};
use crate::stock_section as stock;
use crate::tier::settings::{self, TierSettings};
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
    /// Requests that are granted.
    pub requests: requests::RequestSettings,
    /// Settings by which tiers are kept.
    pub tier: TierSettings,
    /// Settings by which allocators are limited, if they are.
    pub reclaim: reclaim::ReclaimSettings,
    /// Settings of the threads that start writeback beside flushers, if there are any.
    pub assist: assist::AssistSettings,
    /// Settings by which rules are kept without the module, if they are.
    pub stock: stock::StockSettings,
    /// Bounds on waits, and who may be limited for them.
    pub objectives: Vec<objective::ObjectiveSettings>,
}

/// Knobs that some cgroups are to have.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The rule's line in the policy file.
    pub line: usize,
    /// Cgroups that it is for.
    pub cgroups: Vec<Pattern>,
    /// `true` if it is for delegated ones, too.
    pub delegated: bool,
    /// Values that they get.
    pub set: BTreeMap<Knob, Setting>,
}

impl Rules {
    /// Reads and checks the file, and rules for pods, if there are some.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it could not be read.
    pub fn load(path: &Path, pods: Option<&Path>) -> Result<Rules, Problems> {
        let shown = path.display().to_string();
        let text = config::read_text(path, "policy")?;
        let mut rules = Rules::parse(&shown, &text)?;
        if let Some(pods) = pods.filter(|pods| pods.exists()) {
            let (shown, text) = (
                pods.display().to_string(),
                config::read_text(pods, "policy")?,
            );
            let more = reader::read(&shown, &text, &["rule"], rules_of)?;
            rules.rules.extend(more);
        }
        Ok(rules)
    }

    /// Checks the text of the file called `file`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Rules, Problems> {
        reader::read(
            file,
            text,
            &[
                "rule",
                "requests",
                "tier",
                "reclaim",
                "assist",
                "stock",
                "objective",
            ],
            |root| {
                let requests = root.optional("requests");
                let tier = root.optional("tier");
                let reclaim = root.optional("reclaim");
                let assist = root.optional("assist");
                let stock = root.optional("stock");
                let objectives = root.array_of_tables("objective", objective::KEYS);
                Rules {
                    rules: rules_of(root),
                    requests: requests
                        .and_then(|requests| requests.as_table(requests::KEYS))
                        .map_or_else(requests::RequestSettings::without_section, |table| {
                            requests::RequestSettings::read(&table)
                        }),
                    tier: tier
                        .and_then(|tier| tier.as_table(settings::KEYS))
                        .map_or_else(TierSettings::default, |table| TierSettings::read(&table)),
                    reclaim: reclaim
                        .and_then(|reclaim| reclaim.as_table(reclaim::KEYS))
                        .map_or_else(Default::default, |table| {
                            reclaim::ReclaimSettings::read(&table)
                        }),
                    assist: assist
                        .and_then(|assist| assist.as_table(assist::KEYS))
                        .map_or_else(Default::default, |table| {
                            assist::AssistSettings::read(&table)
                        }),
                    stock: stock
                        .and_then(|stock| stock.as_table(stock::KEYS))
                        .map_or_else(Default::default, |table| stock::StockSettings::read(&table)),
                    objectives: objectives
                        .iter()
                        .filter_map(objective::ObjectiveSettings::read)
                        .collect(),
                }
            },
        )
    }

    /// The rules, as the file has them.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Settings that the cgroup at `path` (`/system.slice/a.service`) is to have. `delegated` says
    /// that it is in a directory that is not root's.
    pub fn settings_for(&self, path: &str, delegated: bool) -> BTreeMap<Knob, &Setting> {
        let matching = self.rules.iter().filter(|rule| {
            (rule.delegated || !delegated)
                && rule.cgroups.iter().any(|glob| matches_path(glob, path))
        });
        matching
            .flat_map(|rule| &rule.set)
            .map(|(knob, setting)| (*knob, setting))
            .collect()
    }
}

fn rules_of(root: &Table) -> Vec<Rule> {
    let tables = root.array_of_tables("rule", &["cgroup", "delegated", "set"]);
    tables.iter().map(read_rule).collect()
}

fn read_rule(table: &Table) -> Rule {
    let cgroups = table
        .required("cgroup", "cgroup = \"/system.slice/docker-*.scope\"")
        .map(|value| read_patterns(&value))
        .unwrap_or_default();
    let delegated = table
        .optional("delegated")
        .and_then(|value| value.as_boolean());
    let set = table
        .required("set", "set = { \"memory.dirty_min\" = \"16M\" }")
        .and_then(|value| read_knobs(table.first_line(), &value))
        .unwrap_or_default();
    Rule {
        line: table.first_line(),
        cgroups,
        delegated: delegated.unwrap_or(false),
        set,
    }
}

fn read_knobs(line: usize, value: &Value) -> Option<BTreeMap<Knob, Setting>> {
    let entries = value.as_entries("a table of knobs")?;
    if entries.is_empty() {
        value.complain("no knob in it: the rule would do nothing");
    }
    let mut set = BTreeMap::new();
    for (name, value) in entries {
        let knob = Knob::by_file(name).filter(|knob| Knob::DIRTY.contains(knob));
        let Some(knob) = knob else {
            let files = Knob::DIRTY.map(Knob::file_name).join(", ");
            value.complain(format!("not a file that the agent sets: it sets {files}"));
            continue;
        };
        let Some(text) = value.as_scalar() else {
            continue;
        };
        match Setting::parse(knob, &text, Origin::Line(line)) {
            Ok(setting) => {
                set.insert(knob, setting);
            }
            Err(why) => value.complain(why),
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests;
