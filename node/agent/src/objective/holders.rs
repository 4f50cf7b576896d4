// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups that may be limited.

use super::settings::ObjectiveSettings;
use crate::tree::{CgroupDir, Hierarchy};

/// Cgroups that `settings` may limit, none of them below another nor above one whose waits are
/// measured; and those whose waits are. What is below a directory of another user is left out: its
/// owner can write there.
pub fn find_holders(
    tree: &Hierarchy,
    settings: &ObjectiveSettings,
) -> (Vec<CgroupDir>, Vec<CgroupDir>) {
    let (mut holders, mut measured): (Vec<CgroupDir>, Vec<CgroupDir>) = (Vec::new(), Vec::new());
    tree.walk(tree.root(), |place| {
        if place.delegated {
            return false;
        }
        if settings.is_measured(&place.path) {
            measured.push(place.clone());
        } else if settings.may_limit(&place.path) {
            holders.push(place.clone());
        }
        true
    });
    let is_below = |path: &str, above: &CgroupDir| {
        let rest = path.strip_prefix(&above.path);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    holders.retain(|place| !measured.iter().any(|of| is_below(&of.path, place)));
    let all = holders.clone();
    holders.retain(|place| !all.iter().any(|above| is_below(&place.path, above)));
    (holders, measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use std::fs;

    #[test]
    fn those_are_found_that_may_be_limited() {
        let dir = tempfile::tempdir().expect("made");
        for path in ["db/x", "batch/a/inner", "batch/b", "pods/db", "pods/other"] {
            fs::create_dir_all(dir.path().join(path)).expect("made");
        }
        let text = "[[objective]]\ncgroup = [\"/db\", \"/pods/db\"]\nfsync_p99 = \"1s\"\n\
                    limit = [\"/batch/*\", \"/batch/*/*\", \"/db/*\", \"/pods\", \"/pods/*\"]\n";
        let rules = Rules::parse("a.toml", text).expect("valid");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let (holders, measured) = find_holders(&tree, &rules.objectives[0]);
        let paths = |places: &[CgroupDir]| -> Vec<String> {
            places.iter().map(|place| place.path.clone()).collect()
        };
        assert_eq!(paths(&holders), ["/batch/a", "/batch/b", "/pods/other"]);
        assert_eq!(paths(&measured), ["/db", "/pods/db"]);
    }
}
