// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups that may be limited: what they hold, and what disks write of it.

use super::settings::Settings;
use crate::tree::{Place, Tree};
use observe::read::cgroup;
use observe::stack::Stack;
use std::fs;
use std::path::Path;

const PAGE: u64 = 4096;

/// Cgroups that `settings` may limit, none of them below another nor above one whose waits are
/// measured; and those whose waits are. What is below a directory of another user is left out: its
/// owner can write there.
pub fn all(tree: &Tree, settings: &Settings) -> (Vec<Place>, Vec<Place>) {
    let (mut holders, mut measured): (Vec<Place>, Vec<Place>) = (Vec::new(), Vec::new());
    tree.walk(tree.root(), |place| {
        if place.delegated {
            return false;
        }
        if settings.is_its(&place.path) {
            measured.push(place.clone());
        } else if settings.may_limit(&place.path) {
            holders.push(place.clone());
        }
        true
    });
    let is_below = |path: &str, above: &Place| {
        let rest = path.strip_prefix(&above.path);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    holders.retain(|place| !measured.iter().any(|of| is_below(&of.path, place)));
    let all = holders.clone();
    holders.retain(|place| !all.iter().any(|above| is_below(&place.path, above)));
    (holders, measured)
}

/// Pages dirty and in writeback of a cgroup and those below it. The module counts them exactly for
/// a cgroup that has a ceiling; of others `memory.stat` has what the kernel adds up when it is
/// read.
pub fn held(directory: &Path, has_ceiling: bool) -> Option<u64> {
    let (file, keys) = match has_ceiling {
        true => (knobs::stat_file(), ["subtree_dirty", "subtree_writeback"]),
        false => ("memory.stat", ["file_dirty", "file_writeback"]),
    };
    let text = fs::read_to_string(directory.join(file)).ok()?;
    let value = |key| flat(&text, key).unwrap_or(0);
    Some(keys.into_iter().map(value).sum::<u64>() / PAGE)
}

fn flat(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value?.trim().parse().ok()
}

/// Pages that disks have written for a cgroup and those below it, since it was made.
pub fn written(directory: &Path, stack: &Stack) -> u64 {
    let text = fs::read_to_string(directory.join("io.stat")).unwrap_or_default();
    cgroup::written(&text, stack) / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    #[test]
    fn those_are_found_that_may_be_limited() {
        let dir = tempfile::tempdir().expect("made");
        for path in ["db/x", "batch/a/inner", "batch/b", "pods/db", "pods/other"] {
            fs::create_dir_all(dir.path().join(path)).expect("made");
        }
        let text = "[[objective]]\ncgroup = [\"/db\", \"/pods/db\"]\nfsync_p99 = \"1s\"\n\
                    limit = [\"/batch/*\", \"/batch/*/*\", \"/db/*\", \"/pods\", \"/pods/*\"]\n";
        let rules = Rules::parse("a.toml", text).expect("valid");
        let tree = Tree::at(dir.path()).expect("a hierarchy");
        let (holders, measured) = all(&tree, &rules.objectives[0]);
        let paths = |places: &[Place]| -> Vec<String> {
            places.iter().map(|place| place.path.clone()).collect()
        };
        assert_eq!(paths(&holders), ["/batch/a", "/batch/b", "/pods/other"]);
        assert_eq!(paths(&measured), ["/db", "/pods/db"]);
    }

    #[test]
    fn what_is_held_comes_from_the_file_that_has_it() {
        let dir = tempfile::tempdir().expect("made");
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).expect(file);
        assert_eq!(held(dir.path(), false), None);
        write("memory.stat", "file_dirty 40960\nfile_writeback 4096\n");
        write(
            knobs::stat_file(),
            "dirty 0\nsubtree_dirty 8192\nsubtree_writeback 4096\n",
        );
        write(
            "io.stat",
            "254:0 rbytes=1 wbytes=8192 rios=1\n254:16 wbytes=4096\n",
        );
        assert_eq!(held(dir.path(), false), Some(11));
        assert_eq!(
            (
                held(dir.path(), true),
                written(dir.path(), &Stack::default())
            ),
            (Some(3), 3)
        );
    }
}
