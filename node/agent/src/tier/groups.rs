// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups hold in each tier, and what their limits are.
//!
//! All cgroups with the memory controller are looked at, those without a limit too: what they have
//! in a slower tier may go up. An agent that looks at 400 of them every few seconds must not read
//! much, so
//!
//! - what they hold is read from the module's `memory.tier_stat`, nothing else is fed back: one
//!   line for each tier, from sums that the kernel keeps anyway, by a file that stays open. (For
//!   `memory.numa_stat` it adds up counters of all CPUs and writes fifty lines.)
//! - limits, and which cgroups there are, are read when a file was written or a cgroup made:
//!   inotify tells. Where the kernel grants no watches, all is read at each look.

use crate::tier::host::PAGE;
use crate::tree::{CgroupDir, Hierarchy};
use crate::watch::{CgroupWatch, WatchEvents};
use knobs::Knob;
use policy::UNLIMITED;
use policy::tier::{BY_CAPACITY, Group, NO_PARENT, TIERS_MAX};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Has what a cgroup holds; there in each that has the memory controller, while tiers are on.
const HELD: &str = "memory.tier_stat";

/// Files whose writing may change what a cgroup may hold, or which cgroups below it are looked at.
const WRITTEN: [&str; 5] = [
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "cgroup.subtree_control",
];

/// Files that stay open at most, a process being granted 1,024 as a rule: those of cgroups beyond
/// are opened at each look.
const OPEN: usize = 512;

/// A cgroup as it was read.
#[derive(Debug)]
pub struct Reading {
    /// The cgroup's path from the root of the hierarchy.
    pub path: Arc<str>,
    /// The cgroup's directory.
    pub directory: PathBuf,
    /// Figures that the plan gets.
    pub group: Group,
    /// `true` if none of its children is read, so that its pages are its own.
    pub leaf: bool,
    /// Has what it holds.
    pub(super) file: Option<File>,
}

/// Readings of all cgroups, as they were when they were last looked at.
pub struct Groups {
    tree: Hierarchy,
    /// The watch; none before the first look, and if the kernel grants none.
    watch: Option<CgroupWatch>,
    /// Why the kernel grants no watch.
    deaf: Option<String>,
    /// Directories below which all is to be read anew.
    changed: BTreeSet<PathBuf>,
    /// Readings of all cgroups, parents first.
    all: Vec<Reading>,
}

impl Groups {
    /// The cgroups of `tree`, none read yet.
    pub fn new(tree: Hierarchy) -> Groups {
        Groups {
            changed: BTreeSet::from([tree.root().to_path_buf()]),
            tree,
            watch: None,
            deaf: None,
            all: Vec::new(),
        }
    }

    /// Closes all files and forgets what is known.
    pub fn forget_all(&mut self) {
        if self.watch.is_some() || !self.all.is_empty() {
            *self = Groups::new(self.tree.clone());
        }
    }

    /// Why the kernel does not tell of changes, if it does not.
    pub fn watch_error(&self) -> Option<&str> {
        self.deaf.as_deref()
    }

    /// Returns whether the kernel told of a change since the last look.
    pub fn has_changed(&mut self) -> bool {
        let heard = match self.watch.as_mut().map(CgroupWatch::read_events) {
            None => WatchEvents::default(),
            Some(Ok(heard)) => heard,
            Some(Err(why)) => {
                self.stop_listening(why);
                WatchEvents::default()
            }
        };
        if heard.lost {
            self.changed.insert(self.tree.root().into());
        }
        self.changed.extend(heard.made);
        self.changed.extend(heard.gone);
        let matters = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                name == Knob::ToptierRatio.file_name() || WRITTEN.contains(&name)
            })
        };
        let written = heard.written.iter().filter(|file| matters(file));
        self.changed
            .extend(written.filter_map(|file| Some(file.parent()?.to_path_buf())));
        !self.changed.is_empty()
    }

    /// Reads what has changed.
    pub fn read_changed(&mut self) -> &[Reading] {
        if self.watch.is_none() && self.deaf.is_none() {
            match CgroupWatch::for_all_events() {
                Ok(watch) => self.watch = Some(watch),
                Err(why) => self.stop_listening(why),
            }
        }
        if self.deaf.is_some() {
            self.changed.insert(self.tree.root().into());
        }
        self.has_changed();
        let changed = std::mem::take(&mut self.changed);
        let mut done: Option<&Path> = None;
        for directory in &changed {
            // What is below comes after it.
            if !done.is_some_and(|done| directory.starts_with(done)) {
                self.visit_subtree(directory);
                done = Some(directory);
            }
        }
        let before = self.all.len();
        let lost = &mut self.changed;
        let mut buffer = vec![0; 1 << 14];
        self.all.retain_mut(|reading| {
            let held = reading.read_held(&mut buffer).and_then(parse_held);
            reading.group.held = held.unwrap_or_default();
            if held.is_none() {
                // It is gone, or it has another file of that name now: the next look finds out.
                lost.insert(reading.directory.clone());
            }
            held.is_some()
        });
        if !changed.is_empty() || self.all.len() < before {
            link_parents(&mut self.all);
        }
        &self.all
    }

    /// Reads a cgroup, if it is there, and all below it anew.
    fn visit_subtree(&mut self, directory: &Path) {
        self.all
            .retain(|reading| !reading.directory.starts_with(directory));
        let mut refused = None;
        let Groups {
            tree, watch, all, ..
        } = self;
        tree.walk(directory, |place| {
            // Where the memory controller ends it does not begin again further down.
            let has = place.is_root() || place.directory.join(HELD).exists();
            if let (true, Some(watch)) = (has, watch.as_mut()) {
                // Before it is read: what is written afterwards is heard of.
                refused = watch.add(&place.directory).err().or(refused);
            }
            if has && !place.is_root() {
                all.push(Reading::new(place, all.len() < OPEN));
            }
            has
        });
        if let Some(why) = refused {
            self.stop_listening(why);
        }
    }

    fn stop_listening(&mut self, why: nix::Error) {
        self.watch = None;
        self.deaf = Some(format!(
            "limits are read anew at each look, as the kernel grants no inotify watch for each cgroup ({why}): \
             see fs.inotify.max_user_watches and max_user_instances"
        ));
    }
}

/// Puts parents first and notes who they are.
fn link_parents(all: &mut [Reading]) {
    all.sort_by(|a, b| a.directory.cmp(&b.directory));
    let mut above: Vec<usize> = Vec::new();
    for at in 0..all.len() {
        while above
            .last()
            .is_some_and(|last| !all[at].directory.starts_with(&all[*last].directory))
        {
            above.pop();
        }
        all[at].group.parent = above.last().map_or(NO_PARENT, |parent| *parent as u32);
        all[at].leaf = true;
        if let Some(parent) = above.last() {
            all[*parent].leaf = false;
        }
        above.push(at);
    }
}

impl Reading {
    /// Reads a cgroup's limits; nothing held yet.
    fn new(place: &CgroupDir, open: bool) -> Reading {
        let directory = &place.directory;
        let text = |file: &str| fs::read_to_string(directory.join(file)).ok();
        let limit = |file: &str, without: u64| {
            text(file).map_or(without, |text| parse_limit(&text, without))
        };
        let group = Group {
            min: limit("memory.min", 0),
            low: limit("memory.low", 0),
            high: limit("memory.high", UNLIMITED),
            max: limit("memory.max", UNLIMITED),
            ratio: text(Knob::ToptierRatio.file_name())
                .and_then(|text| Knob::ToptierRatio.parse(&text).ok())
                .and_then(|ratio| u32::try_from(ratio).ok())
                .unwrap_or(BY_CAPACITY),
            ..Group::default()
        };
        Reading {
            path: place.path.as_str().into(),
            directory: directory.clone(),
            group,
            leaf: true,
            file: open
                .then(|| File::open(directory.join(HELD)).ok())
                .flatten(),
        }
    }

    /// The kernel's text of what it holds; nothing if it is gone.
    fn read_held<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a str> {
        let length = match &self.file {
            Some(file) => file.read_at(buffer, 0),
            None => File::open(self.directory.join(HELD)).and_then(|file| file.read_at(buffer, 0)),
        };
        std::str::from_utf8(&buffer[..length.ok()?]).ok()
    }
}

/// A limit in pages; `max` is none.
fn parse_limit(text: &str, without: u64) -> u64 {
    match text.trim() {
        "max" => UNLIMITED,
        bytes => bytes.parse().map_or(without, |bytes: u64| bytes / PAGE),
    }
}

/// Pages of a cgroup in each tier now; nothing if it is gone.
pub fn held_pages_of(directory: &Path) -> Option<[u64; TIERS_MAX]> {
    parse_held(&fs::read_to_string(directory.join(HELD)).ok()?)
}

/// Pages in each tier by `memory.tier_stat`: `tier0 nodes=0 capacity=1073741824 bytes=4096
/// budget=max`.
fn parse_held(tier_stat: &str) -> Option<[u64; TIERS_MAX]> {
    let mut held = [0; TIERS_MAX];
    for line in tier_stat.lines() {
        let Some(line) = line.strip_prefix("tier") else {
            continue;
        };
        let (tier, keys) = line.split_once(' ')?;
        let mut keys = keys.split(' ');
        let bytes: u64 = keys
            .find_map(|key| key.strip_prefix("bytes="))?
            .parse()
            .ok()?;
        *held.get_mut(tier.parse::<usize>().ok()?)? = bytes / PAGE;
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "\
tier0 nodes=0 capacity=3221225472 bytes=409600 budget=188743680
tier1 nodes=1-2 capacity=1073741824 bytes=8192 budget=max
swap bytes=12288
";

    #[test]
    fn pages_are_counted_by_tier() {
        assert_eq!(parse_held(STAT).expect("a statistic")[..3], [100, 2, 0]);
        assert_eq!(parse_held("tier0 nodes=0\n"), None);
        assert_eq!(
            parse_held("tier8 bytes=0\n"),
            None,
            "there are eight at most"
        );
    }

    /// A hierarchy of files.
    struct Files(tempfile::TempDir);

    impl Files {
        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        }

        fn groups(&self) -> Groups {
            Groups::new(Hierarchy::open(self.0.path()).expect("a hierarchy"))
        }
    }

    fn paths(readings: &[Reading]) -> Vec<&str> {
        readings.iter().map(|reading| &*reading.path).collect()
    }

    #[test]
    fn cgroups_are_read_with_their_parents() {
        let files = Files(tempfile::tempdir().expect("made"));
        for cgroup in ["a", "a/x", "a-z", "b"] {
            files.write(&format!("{cgroup}/{HELD}"), STAT);
        }
        // No controller there: what is below it is charged to its parent.
        files.write("b/inner/cgroup.procs", "");
        files.write("a/memory.max", "8192\n");
        files.write("a/memory.high", "max\n");
        files.write("a/x/memory.low", "4096\n");
        files.write("a/x/memory.toptier_ratio", "50\n");
        files.write("b/memory.toptier_ratio", "default\n");
        let mut groups = files.groups();
        let read = groups.read_changed();
        assert_eq!(paths(read), ["/a", "/a/x", "/a-z", "/b"]);
        let groups: Vec<Group> = read.iter().map(|reading| reading.group).collect();
        assert_eq!((groups[0].max, groups[0].high), (2, UNLIMITED));
        assert_eq!((groups[1].parent, groups[1].low), (0, 1));
        assert_eq!((groups[1].ratio, groups[3].ratio), (50, BY_CAPACITY));
        assert_eq!((groups[0].parent, groups[2].parent), (NO_PARENT, NO_PARENT));
        assert_eq!(groups[3].held[..3], [100, 2, 0]);
        let leaves: Vec<bool> = read.iter().map(|reading| reading.leaf).collect();
        assert_eq!(leaves, [false, true, true, true]);
    }

    #[test]
    fn what_changes_is_heard_of() {
        let files = Files(tempfile::tempdir().expect("made"));
        files.write(&format!("a/{HELD}"), STAT);
        files.write("a/memory.max", "8192\n");
        let mut groups = files.groups();
        assert_eq!(groups.read_changed()[0].group.max, 2);
        assert!(!groups.has_changed());
        files.write("a/cgroup.procs", "1");
        assert!(!groups.has_changed(), "no limit");
        files.write("a/memory.max", "4096\n");
        assert!(groups.has_changed());
        assert_eq!(groups.read_changed()[0].group.max, 1);
        assert!(!groups.has_changed());
        // As the kernel does it: no file in a directory of this test is there as soon as it is.
        files.write(&format!("new/{HELD}"), STAT);
        assert!(groups.has_changed());
        assert_eq!(paths(groups.read_changed()), ["/a", "/new"]);
        fs::remove_dir_all(files.0.path().join("a")).expect("removed");
        assert!(groups.has_changed());
        assert_eq!(paths(groups.read_changed()), ["/new"]);
        assert!(!groups.has_changed());
    }

    #[test]
    fn what_cannot_be_read_any_more_is_looked_for_again() {
        let files = Files(tempfile::tempdir().expect("made"));
        for cgroup in ["a", "a/x", "b"] {
            files.write(&format!("{cgroup}/{HELD}"), STAT);
        }
        let mut groups = files.groups();
        assert_eq!(groups.read_changed().len(), 3);
        files.write(&format!("a/{HELD}"), "tier0\n");
        let read = groups.read_changed();
        assert_eq!(paths(read), ["/a/x", "/b"]);
        assert_eq!(read[0].group.parent, NO_PARENT);
        files.write(&format!("a/{HELD}"), STAT);
        assert!(groups.has_changed());
        let read = groups.read_changed();
        assert_eq!(paths(read), ["/a", "/a/x", "/b"]);
        assert_eq!(read[1].group.parent, 0);
    }

    #[test]
    fn without_watches_all_is_read_each_time() {
        let files = Files(tempfile::tempdir().expect("made"));
        files.write(&format!("a/{HELD}"), STAT);
        let mut groups = files.groups();
        groups.stop_listening(nix::Error::EMFILE);
        assert_eq!(groups.read_changed().len(), 1);
        files.write("a/memory.max", "4096\n");
        assert!(!groups.has_changed());
        assert_eq!(groups.read_changed()[0].group.max, 1);
        assert!(
            groups
                .watch_error()
                .is_some_and(|why| why.contains("max_user_watches"))
        );
    }
}
