// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups that can be limited, and what the kernel says of each.

use crate::tree::{CgroupDir, Hierarchy};
use knobs::{PAGE, PageSize};
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Fate of a cgroup's pages, or the host's: pages, which only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimCounts {
    /// Reclaimed since it was made.
    pub stolen: u64,
    /// Read back of that.
    pub refaulted: u64,
}

impl ReclaimCounts {
    /// Counts since `before`.
    pub fn counts_since(self, before: ReclaimCounts) -> ReclaimCounts {
        ReclaimCounts {
            stolen: self.stolen.saturating_sub(before.stolen),
            refaulted: self.refaulted.saturating_sub(before.refaulted),
        }
    }

    /// Sum of both counts.
    pub fn add_counts(self, other: ReclaimCounts) -> ReclaimCounts {
        ReclaimCounts {
            stolen: self.stolen + other.stolen,
            refaulted: self.refaulted + other.refaulted,
        }
    }
}

/// A cgroup's counters, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Pages that are charged to it: `memory.current`.
    pub usage: u64,
    /// Pages that were reclaimed and read back.
    pub counts: ReclaimCounts,
    /// `memory.min` or `memory.low`, the larger.
    pub protection: u64,
    /// Part of `usage` that cannot be reclaimed: neither on an LRU nor a shrinkable slab, or
    /// anonymous with no swap to go to.
    pub pinned: u64,
}

impl Reading {
    /// Pages that it allocated since `before`: what it grew by, and what was reclaimed of it.
    pub fn allocated_since(&self, before: &Reading) -> u64 {
        let stolen = self.counts.counts_since(before.counts).stolen;
        (self.usage + stolen).saturating_sub(before.usage)
    }
}

/// Cgroups without children that memory is charged to, and that hold `least` pages or more. A
/// delegated subtree counts as one.
pub fn find_candidates(tree: &Hierarchy, least: u64) -> Vec<CgroupDir> {
    let mut places: Vec<CgroupDir> = Vec::new();
    let root = tree.root().to_path_buf();
    tree.walk(&root, |place| {
        if place.is_root() {
            return true;
        }
        let Some(usage) = read_usage(&place.directory).filter(|_| !place.delegated) else {
            return false;
        };
        // What holds little has no children that hold much.
        if usage < least {
            return false;
        }
        places.push(place.clone());
        true
    });
    let is_above = |place: &CgroupDir, other: &CgroupDir| {
        let below = other.path.strip_prefix(&place.path);
        below.is_some_and(|below| below.starts_with('/'))
    };
    let has_child = |place: &CgroupDir| {
        // A child may hold too little to be in the list.
        let entries = fs::read_dir(&place.directory).into_iter().flatten();
        let mut children = entries.flatten().map(|entry| entry.path());
        children.any(|child| child.join(CURRENT).exists())
    };
    let leaves = places.iter().filter(|place| {
        let delegates = places.iter().all(|other| !is_above(place, other));
        delegates && (is_foreign(tree, place) || !has_child(place))
    });
    leaves.cloned().collect()
}

/// Returns whether the cgroup's directory belongs to a user other than root's, who may make
/// children.
fn is_foreign(tree: &Hierarchy, place: &CgroupDir) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    owner(&place.directory) != owner(tree.root())
}

const CURRENT: &str = "memory.current";

/// Pages that are charged to the cgroup in this directory.
pub fn read_usage(directory: &Path) -> Option<u64> {
    read_number::<u64>(directory, CURRENT).map(|bytes| bytes / PAGE)
}

/// Reads all counters of the cgroup in this directory, on a host with `swap` free pages of swap;
/// nothing if it is gone.
pub fn read(tree: &Hierarchy, directory: &Path, swap: u64) -> Option<Reading> {
    let usage = read_usage(directory)?;
    let stat = read_memory_stat(directory)?;
    // `max` protects all of it.
    let protection =
        |file| read_number(directory, file).map_or(u64::MAX, |bytes: u64| bytes / PAGE);
    let pages = |name| find_counter(&stat, name) / PAGE;
    let anon = pages("inactive_anon") + pages("active_anon");
    let file = pages("inactive_file") + pages("active_file") + pages("slab_reclaimable");
    let room = swap_room(tree, directory, swap.min(anon));
    Some(Reading {
        usage,
        pinned: usage.saturating_sub(file + room),
        counts: counts_in(&stat),
        protection: protection("memory.min").max(protection("memory.low")),
    })
}

/// Pages reclaimed and read back of the cgroup in this directory and of all below it.
pub fn read_counts(directory: &Path) -> Option<ReclaimCounts> {
    Some(counts_in(&read_memory_stat(directory)?))
}

fn counts_in(stat: &str) -> ReclaimCounts {
    let pages = |name| PageSize::running().units_of_pages(find_counter(stat, name));
    let refaulted = ["workingset_refault_anon", "workingset_refault_file"];
    ReclaimCounts {
        stolen: pages("pgsteal"),
        refaulted: refaulted.map(pages).iter().sum(),
    }
}

fn read_memory_stat(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join("memory.stat")).ok()
}

/// A number of `memory.stat`, bytes or, of what happened, pages of the kernel; 0 if this kernel lacks it.
fn find_counter(stat: &str, name: &str) -> u64 {
    let value = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    stat.lines().find_map(value).unwrap_or(0)
}

/// Pages that may go to swap by `memory.swap.max` of the cgroup and of all above, `most` at most.
fn swap_room(tree: &Hierarchy, directory: &Path, most: u64) -> u64 {
    let above = directory.ancestors();
    let above = above.take_while(|at| at.starts_with(tree.root()) && *at != tree.root());
    let rooms = above.filter_map(|at| {
        // `max` is no number, and no limit.
        let limit: u64 = read_number(at, "memory.swap.max")?;
        let used: u64 = read_number(at, "memory.swap.current")?;
        Some(limit.saturating_sub(used) / PAGE)
    });
    rooms.fold(most, u64::min)
}

fn read_number<T: FromStr>(directory: &Path, file: &str) -> Option<T> {
    let text = fs::read_to_string(directory.join(file)).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(root: &Path, path: &str, bytes: u64) {
        let directory = root.join(path);
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(CURRENT), format!("{bytes}\n")).expect("written");
    }

    #[test]
    fn leaves_that_hold_enough_are_found() {
        let dir = tempfile::tempdir().expect("made");
        for (path, mib) in [
            ("a", 300),
            ("a/x", 200),
            ("a/y", 1),
            ("b", 1),
            ("c", 9),
            ("c/z", 1),
        ] {
            cgroup(dir.path(), path, mib << 20);
        }
        // No memory controller below: its memory is its parent's.
        cgroup(dir.path(), "d", 50 << 20);
        fs::create_dir(dir.path().join("d/sub")).expect("made");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let found: Vec<String> = find_candidates(&tree, 1024)
            .into_iter()
            .map(|place| place.path)
            .collect();
        assert_eq!(found, ["/a/x", "/d"]);
    }

    #[test]
    fn a_reading_has_what_was_stolen_and_protected() {
        let dir = tempfile::tempdir().expect("made");
        cgroup(dir.path(), "", 40_960);
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).expect(file);
        write(
            "memory.stat",
            "pgsteal 7\npgsteal_direct 5\nworkingset_refault_anon 2\nworkingset_refault_file 1\n",
        );
        write("memory.min", "0\n");
        write("memory.low", "8192\n");
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let read = || read(&tree, dir.path(), 100).expect("read");
        let now = read();
        let wanted = Reading {
            usage: 10,
            counts: ReclaimCounts {
                stolen: 7,
                refaulted: 3,
            },
            protection: 2,
            pinned: 10,
        };
        assert_eq!(now, wanted);
        write("memory.low", "max\n");
        assert_eq!(read().protection, u64::MAX);
        let before = Reading {
            usage: 12,
            counts: ReclaimCounts {
                stolen: 1,
                ..now.counts
            },
            ..now
        };
        let since = now.counts.counts_since(before.counts);
        assert_eq!((since.stolen, since.refaulted), (6, 0));
        assert_eq!(read_counts(dir.path()), Some(now.counts));
        assert_eq!(now.allocated_since(&before), 4);
        assert_eq!(
            before.allocated_since(&now),
            2,
            "what it freed is no allocation"
        );
    }

    #[test]
    fn what_has_no_swap_to_go_to_is_pinned() {
        let dir = tempfile::tempdir().expect("made");
        cgroup(dir.path(), "a", 100 * PAGE);
        cgroup(dir.path(), "a/b", 100 * PAGE);
        let write = |file: &str, text: &str| {
            fs::write(dir.path().join(file), text).expect(file);
        };
        let (anon, file) = (80 * PAGE, 10 * PAGE);
        let stat = format!("inactive_anon {anon}\nactive_file {file}\nunevictable 4096\n");
        write("a/b/memory.stat", &stat);
        let tree = Hierarchy::open(dir.path()).expect("a hierarchy");
        let pinned = |swap| {
            let reading = read(&tree, &dir.path().join("a/b"), swap);
            reading.expect("read").pinned
        };
        assert_eq!([1000, 80, 30, 0].map(pinned), [10, 10, 60, 90]);
        // Of what is above as well; `max` is none.
        write("a/memory.swap.max", "40960\n");
        write("a/memory.swap.current", "8192\n");
        write("a/b/memory.swap.max", "max\n");
        assert_eq!(pinned(1000), 82);
        write("a/b/memory.swap.max", "0\n");
        write("a/b/memory.swap.current", "0\n");
        assert_eq!(pinned(1000), 90);
    }
}
