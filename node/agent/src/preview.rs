// SPDX-License-Identifier: GPL-2.0-only
//! What a policy would do on this host, for `weir agent --check`: which cgroups its rules match, what
//! would be written, and what is valid and yet does nothing.

use crate::globs::matches_path;
use crate::rules::Rules;
use crate::setting::{Setting, SettingUnit};
use crate::tree::{CgroupDir, Hierarchy};
use glob::Pattern;
use knobs::{Knob, PageSize};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// Number of cgroups that a rule or an objective means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// `rule at line 3` or `objective 1, fsync_p99`.
    pub by: String,
    /// Globs of the rule or objective, as the policy file has them.
    pub globs: String,
    /// Cgroups that they match.
    pub cgroups: usize,
    /// Cgroups of these that a rule passes over, as they are in a directory that is not root's.
    pub delegated: usize,
    /// Cgroups that may be limited for an objective.
    pub limited: Option<usize>,
}

/// A knob that is not what the policy wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    /// The cgroup's path.
    pub cgroup: String,
    /// Name of the cgroup's file.
    pub file: &'static str,
    /// The value that would be written.
    pub to: String,
    /// The file's value now; none if it is not there.
    pub is: Option<String>,
}

/// Effects of a policy on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Rules, then objectives.
    pub matched: Vec<Matched>,
    /// Values that would be written, by cgroup.
    pub writes: Vec<Write>,
    /// Effects that are hardly meant.
    pub warnings: Vec<String>,
}

/// Previews a policy on the host with this hierarchy; without one only what the policy itself
/// shows.
pub fn preview_policy(rules: &Rules, tree: Option<&Hierarchy>) -> Preview {
    let mut places = Vec::new();
    if let Some(tree) = tree {
        tree.walk(tree.root(), |place| {
            places.push(place.clone());
            true
        });
        places.retain(|place| !place.is_root());
    }
    let mut preview = Preview::default();
    preview.preview_rules(rules, &places);
    preview.preview_objectives(rules, &places);
    match tree {
        // Stock mode's files follow what cgroups hold: observing it says what they would be.
        Some(_) if rules.stock.is_stock() => {}
        Some(tree) => preview.preview_writes(rules, tree, &places),
        None => preview.matched.clear(),
    }
    preview
}

impl Preview {
    fn preview_rules(&mut self, rules: &Rules, places: &[CgroupDir]) {
        for rule in rules.all_rules() {
            let globs = join_globs(&rule.cgroups);
            let is_of = |place: &&CgroupDir| {
                rule.cgroups
                    .iter()
                    .any(|glob| matches_path(glob, &place.path))
            };
            let found: Vec<&CgroupDir> = places.iter().filter(is_of).collect();
            let delegated = match rule.delegated {
                true => 0,
                false => found.iter().filter(|place| place.delegated).count(),
            };
            let by = format!("rule at line {}", rule.line);
            if delegated > 0 && delegated == found.len() {
                self.warnings.push(format!(
                    "{by}: all {delegated} cgroups that {globs} matches are in directories that root does not own: \
                     add `delegated = true`"
                ));
            }
            self.warn_of_floor_above_ceiling(&by, &rule.set);
            self.matched.push(Matched {
                by,
                globs,
                cgroups: found.len(),
                delegated,
                limited: None,
            });
        }
    }

    fn preview_objectives(&mut self, rules: &Rules, places: &[CgroupDir]) {
        for (index, objective) in (1..).zip(&rules.objectives) {
            let by = format!("objective {index}, {}", objective.bound.name());
            for glob in objective.limit_globs() {
                // A glob on exactly these cgroups matches itself.
                if objective.is_within_measured(glob.as_str()) {
                    self.warnings.push(format!(
                        "{by}: `limit` has {}, which is its own cgroup, or in it: it is never limited",
                        glob.as_str().escape_debug()
                    ));
                }
            }
            let count = |is_one: &dyn Fn(&str) -> bool| {
                places.iter().filter(|place| is_one(&place.path)).count()
            };
            self.matched.push(Matched {
                by,
                globs: objective.measured_globs(),
                cgroups: count(&|path| objective.is_measured(path)),
                delegated: 0,
                limited: Some(count(&|path| objective.may_limit(path))),
            });
        }
    }

    /// Warns of floors above the same cgroup's ceiling: the kernel makes the ceiling of them.
    fn warn_of_floor_above_ceiling(&mut self, of: &str, set: &BTreeMap<Knob, Setting>) {
        let bytes = |knob| {
            let setting: &Setting = set.get(&knob)?;
            (setting.unit == SettingUnit::Knob).then_some(setting.value)
        };
        if let (Some(floor), Some(ceiling)) = (bytes(Knob::DirtyMin), bytes(Knob::DirtyBytes)) {
            if floor > ceiling {
                self.warnings.push(format!(
                    "{of}: memory.dirty_min of {floor} is above memory.dirty_bytes of {ceiling}: the floor is {ceiling}"
                ));
            }
        }
    }

    fn preview_writes(&mut self, rules: &Rules, tree: &Hierarchy, places: &[CgroupDir]) {
        for place in places {
            let memory_max = || tree.memory_max(&place.directory);
            let wanted = rules.settings_for(&place.path, place.delegated);
            let wanted: BTreeMap<Knob, Setting> = wanted
                .into_iter()
                .filter_map(|(knob, setting)| Some((knob, setting.resolve_percent(memory_max)?)))
                .collect();
            let lines: BTreeMap<String, ()> = wanted
                .values()
                .map(|setting| (setting.origin.to_string(), ()))
                .collect();
            // Within one rule it was said already.
            if lines.len() > 1 {
                self.warn_of_floor_above_ceiling(&place.path, &wanted);
            }
            for (knob, setting) in wanted {
                let text = fs::read_to_string(place.directory.join(knob.file_name()));
                let is = text.ok().map(|text| text.trim().to_owned());
                let now = is
                    .as_deref()
                    .and_then(|text| knob.parse_on(PageSize::running(), text).ok());
                if setting.is_in_time() || now != Some(setting.value) {
                    let in_time = if setting.is_in_time() {
                        " of what disks write"
                    } else {
                        ""
                    };
                    self.writes.push(Write {
                        cgroup: place.path.clone(),
                        file: knob.file_name(),
                        to: format!("{}{in_time}", setting.text),
                        is,
                    });
                }
            }
        }
    }
}

fn join_globs(globs: &[Pattern]) -> String {
    let globs: Vec<&str> = globs.iter().map(Pattern::as_str).collect();
    globs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("has one")).expect("made");
        fs::write(file, text).expect("written");
    }

    fn of(text: &str, tree: Option<&Hierarchy>) -> Preview {
        preview_policy(&Rules::parse("agent.toml", text).expect("valid"), tree)
    }

    #[test]
    fn what_rules_match_and_would_write_is_told() {
        let dir = tempfile::tempdir().expect("made");
        for (file, text) in [
            ("db/memory.dirty_min", "0\n"),
            ("db/memory.dirty_bytes", "67108864\n"),
            ("web/memory.dirty_bytes", "max\n"),
            ("web/memory.max", "8388608\n"),
            ("web/memory.stat", ""),
        ] {
            write(dir.path(), file, text);
        }
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let text = "[[rule]]\ncgroup = [\"/db\", \"/none\"]\n\
                    set = { \"memory.dirty_min\" = \"16M\", \"memory.dirty_bytes\" = \"64M\" }\n\
                    [[rule]]\ncgroup = \"/web\"\n\
                    set = { \"memory.dirty_bytes\" = \"50%\", \"memory.writeback_bytes\" = \"10ms\" }\n\
                    [[objective]]\ncgroup = \"/db\"\nfsync_p99 = \"30ms\"\nlimit = [\"/web\", \"/x\"]\n";
        let seen = of(text, Some(&tree));
        let counts: Vec<(&str, usize, Option<usize>)> = seen
            .matched
            .iter()
            .map(|of| (of.by.as_str(), of.cgroups, of.limited))
            .collect();
        let expected = [
            ("rule at line 1", 1, None),
            ("rule at line 4", 1, None),
            ("objective 1, fsync_p99", 1, Some(1)),
        ];
        assert_eq!(counts, expected);
        let writes: Vec<String> = seen
            .writes
            .iter()
            .map(|of| format!("{} {} {} {:?}", of.cgroup, of.file, of.to, of.is))
            .collect();
        assert_eq!(
            writes,
            [
                "/db memory.dirty_min 16M Some(\"0\")",
                "/web memory.dirty_bytes 4194304 Some(\"max\")",
                "/web memory.writeback_bytes 10ms of what disks write None",
            ]
        );
        assert!(seen.warnings.is_empty(), "{:?}", seen.warnings);
    }

    #[test]
    fn what_is_valid_and_does_nothing_is_told() {
        let text = "[[rule]]\ncgroup = \"/db\"\n\
                    set = { \"memory.dirty_min\" = \"64M\", \"memory.dirty_bytes\" = \"16M\" }\n\
                    [[objective]]\ncgroup = \"/db\"\nfsync_p99 = \"30ms\"\n\
                    limit = [\"/db\", \"/db/x\", \"/web-*\"]\n";
        let seen = of(text, None);
        assert!(seen.matched.is_empty(), "no host");
        let [floor, own, inside] = &seen.warnings[..] else {
            panic!("{:?}", seen.warnings)
        };
        assert!(
            floor.contains("rule at line 1: memory.dirty_min of 67108864 is above"),
            "{floor}"
        );
        assert!(
            own.contains("objective 1, fsync_p99: `limit` has /db,"),
            "{own}"
        );
        assert!(inside.contains("has /db/x,"), "{inside}");
    }

    #[test]
    fn two_rules_together_may_put_a_floor_above_a_ceiling() {
        let dir = tempfile::tempdir().expect("made");
        write(dir.path(), "db/memory.stat", "");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let text = "[[rule]]\ncgroup = \"/*\"\nset = { \"memory.dirty_bytes\" = \"16M\" }\n\
                    [[rule]]\ncgroup = \"/db\"\nset = { \"memory.dirty_min\" = \"64M\" }\n";
        let seen = of(text, Some(&tree));
        assert_eq!(seen.warnings.len(), 1, "{:?}", seen.warnings);
        assert!(seen.warnings[0].starts_with("/db: memory.dirty_min of 67108864"));
    }
}
