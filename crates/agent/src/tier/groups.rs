// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups hold in each tier, and what their limits are.
//!
//! All cgroups with the memory controller are looked at, those without a limit too: what they have in a slower tier may
//! go up. What they hold is read from `memory.numa_stat`, which is exact; nothing else is fed back.

use crate::tier::host::{PAGE, Tier};
use crate::tree::Tree;
use policy::UNLIMITED;
use policy::tier::{BY_CAPACITY, Group, NO_PARENT, TIERS_MAX};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lists of pages that can be moved; they add up to what is in memory and not the kernel's own.
const LISTS: [&str; 5] = [
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "unevictable",
];

/// A cgroup as it was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// From the root of the hierarchy.
    pub path: Arc<str>,
    /// Where its files are.
    pub directory: PathBuf,
    /// What the plan gets.
    pub group: Group,
    /// Whether none of its children is read, so that its pages are its own.
    pub leaf: bool,
}

/// All cgroups, parents first.
pub fn read(tree: &Tree, tiers: &[Tier]) -> Vec<Reading> {
    let mut places = Vec::new();
    tree.walk(tree.root(), |place| {
        // Where the memory controller ends it does not begin again further down.
        let has = place.is_root() || place.directory.join("memory.numa_stat").exists();
        if has && !place.is_root() {
            places.push(place.clone());
        }
        has
    });
    let mut at: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut readings: Vec<Reading> = Vec::new();
    for place in places {
        let Some(mut group) = group(&place.directory, tiers) else {
            continue;
        };
        let parent = place.directory.parent().and_then(|above| at.get(above));
        if let Some(&parent) = parent {
            group.parent = parent as u32;
            readings[parent].leaf = false;
        }
        at.insert(place.directory.clone(), readings.len());
        readings.push(Reading {
            path: place.path.as_str().into(),
            directory: place.directory,
            group,
            leaf: true,
        });
    }
    readings
}

/// One cgroup; none if it is gone.
fn group(directory: &Path, tiers: &[Tier]) -> Option<Group> {
    let text = |file: &str| fs::read_to_string(directory.join(file)).ok();
    let limit = |file: &str, without: u64| text(file).map_or(without, |text| pages(&text, without));
    Some(Group {
        held: held(&text("memory.numa_stat")?, tiers),
        hot: [0; TIERS_MAX],
        min: limit("memory.min", 0),
        low: limit("memory.low", 0),
        high: limit("memory.high", UNLIMITED),
        max: limit("memory.max", UNLIMITED),
        ratio: text("memory.toptier_ratio")
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(BY_CAPACITY),
        heat_known: 0,
        parent: NO_PARENT,
    })
}

/// A limit in pages; `max` is none.
fn pages(text: &str, without: u64) -> u64 {
    match text.trim() {
        "max" => UNLIMITED,
        bytes => bytes.parse().map_or(without, |bytes: u64| bytes / PAGE),
    }
}

/// Pages in each tier by `memory.numa_stat`: `active_anon N0=4096 N1=0`.
fn held(numa_stat: &str, tiers: &[Tier]) -> [u64; TIERS_MAX] {
    let mut held = [0; TIERS_MAX];
    for line in numa_stat.lines() {
        let mut words = line.split(' ');
        if !words.next().is_some_and(|name| LISTS.contains(&name)) {
            continue;
        }
        for word in words {
            let node = word.strip_prefix('N').and_then(|word| word.split_once('='));
            let Some((Ok(node), Ok(bytes))) =
                node.map(|(node, bytes)| (node.parse::<u32>(), bytes.parse::<u64>()))
            else {
                continue;
            };
            let tier = tiers.iter().take(TIERS_MAX).position(|tier| tier.has(node));
            if let Some(tier) = tier {
                held[tier] += bytes / PAGE;
            }
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::host::Node;

    fn tier(nodes: &[u32]) -> Tier {
        let node = |id: &u32| Node {
            id: *id,
            ..Node::default()
        };
        Tier {
            nodes: nodes.iter().map(node).collect(),
        }
    }

    #[test]
    fn pages_are_counted_by_tier() {
        let text = "\
anon N0=409600 N1=8192 N2=0
file N0=4096 N1=0 N2=0
kernel_stack N0=16384 N1=0 N2=0
inactive_anon N0=4096 N1=8192 N2=40960
active_anon N0=405504 N1=0 N2=0
inactive_file N0=4096 N1=0 N2=0
active_file N0=0 N1=0 N2=0
unevictable N0=0 N1=4096 N2=0
";
        let tiers = [tier(&[0]), tier(&[1, 2])];
        assert_eq!(held(text, &tiers)[..3], [101, 13, 0]);
        assert_eq!(held("", &tiers), [0; TIERS_MAX]);
    }

    #[test]
    fn cgroups_are_read_with_their_parents() {
        let dir = tempfile::tempdir().expect("made");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        };
        for (cgroup, bytes) in [("a", 8192), ("a/x", 4096), ("b", 4096)] {
            write(
                &format!("{cgroup}/memory.numa_stat"),
                &format!("active_anon N0={bytes}\n"),
            );
        }
        // No controller there: what is below it is charged to its parent.
        write("b/inner/cgroup.procs", "");
        write("a/memory.max", "8192\n");
        write("a/memory.high", "max\n");
        write("a/x/memory.low", "4096\n");
        write("a/x/memory.toptier_ratio", "50\n");
        write("b/memory.toptier_ratio", "default\n");
        let tree = Tree::at(dir.path()).expect("a hierarchy");
        let read = read(&tree, &[tier(&[0])]);
        let paths: Vec<&str> = read.iter().map(|reading| &*reading.path).collect();
        assert_eq!(paths, ["/a", "/a/x", "/b"]);
        let groups: Vec<Group> = read.iter().map(|reading| reading.group).collect();
        assert_eq!((groups[0].max, groups[0].high), (2, UNLIMITED));
        assert_eq!((groups[1].parent, groups[1].low), (0, 1));
        assert_eq!((groups[1].ratio, groups[2].ratio), (50, BY_CAPACITY));
        assert_eq!((groups[0].parent, groups[2].parent), (NO_PARENT, NO_PARENT));
        let leaves: Vec<bool> = read.iter().map(|reading| reading.leaf).collect();
        assert_eq!(leaves, [false, true, true]);
    }
}
