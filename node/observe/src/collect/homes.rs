// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups of tasks, of those too that have ended before they were asked for.
//!
//! The kernel's events do not have a task's cgroup. But one that has ended was in the cgroup of the
//! task that made it, unless it was moved: both are events, which are kept for a while and are asked
//! only of tasks that stalled and are gone. Example: a shell in /ci runs `dd conv=fsync` again and
//! again, each for 50 ms; the shell is there when `dd` is gone, and is in /ci.

use super::tasks::home_of;
use crate::model::event::{Event, What};
use crate::read::cgroup;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Births and moves that are kept.
const MOST: usize = 50_000;
/// Tasks whose cgroup is kept in mind; and for how long, in nanoseconds.
const MOST_TASKS: usize = 20_000;
const KNOWN_NS: u64 = 10_000_000_000;
/// Makers that are asked for, of a task that is gone: its maker, its maker's maker and so on.
const GENERATIONS: usize = 16;

/// Origin of a task that is gone.
#[derive(Clone, Copy)]
enum From {
    /// Made by this task.
    Task(u32),
    /// Moved to the cgroup with this inode.
    Cgroup(u64),
}

/// Cgroups of tasks, as far as they are known.
pub struct Homes {
    root: PathBuf,
    origins: HashMap<u32, From>,
    order: VecDeque<u32>,
    known: HashMap<u32, (u64, Option<String>)>,
    /// Paths by inode, of cgroups that tasks were moved to.
    paths: HashMap<u64, Option<String>>,
}

impl Homes {
    /// Makes the record of tasks' cgroups on the machine with this root directory.
    pub fn new(root: &Path) -> Homes {
        Homes {
            root: root.into(),
            origins: HashMap::new(),
            order: VecDeque::new(),
            known: HashMap::new(),
            paths: HashMap::new(),
        }
    }

    /// Takes births and moves out of the events.
    pub fn absorb_origins(&mut self, events: &mut Vec<Event>) {
        events.retain(|event| {
            let (task, from) = match event.what {
                What::Forked(child) => (child, From::Task(event.task)),
                What::Moved(task, cgroup) => (task, From::Cgroup(cgroup)),
                _ => return true,
            };
            // A number that is used again is another task's.
            self.known.remove(&task);
            if self.origins.insert(task, from).is_none() {
                self.order.push_back(task);
            }
            while self.order.len() > MOST {
                let oldest = self.order.pop_front();
                oldest.and_then(|task| self.origins.remove(&task));
            }
            false
        });
    }

    /// Asks for a task's cgroup, if it is not known, or was not asked for of late; `now` in
    /// nanoseconds.
    pub fn find_home(&mut self, task: u32, now: u64) -> Option<String> {
        if let Some((at, home)) = self.known.get(&task) {
            if now.saturating_sub(*at) <= KNOWN_NS {
                return home.clone();
            }
        }
        if self.known.len() > MOST_TASKS {
            self.known.clear();
        }
        // One that has ended since is where it was.
        let before = |homes: &Homes| homes.known.get(&task).and_then(|(_, home)| home.clone());
        let home = home_of(&self.root, task)
            .or_else(|| before(self))
            .or_else(|| self.home_of_maker(task));
        self.known.insert(task, (now, home.clone()));
        home
    }

    /// The cgroup that was found when it was asked for last.
    pub fn known_home(&self, task: u32) -> Option<String> {
        self.known.get(&task)?.1.clone()
    }

    fn home_of_maker(&mut self, task: u32) -> Option<String> {
        let mut task = task;
        for _ in 0..GENERATIONS {
            match *self.origins.get(&task)? {
                From::Cgroup(inode) => return self.cgroup_path(inode),
                // The first process makes others in cgroups of their own.
                From::Task(1) => return None,
                From::Task(maker) => {
                    let known = self.known_home(maker);
                    if let Some(home) = known.or_else(|| home_of(&self.root, maker)) {
                        return Some(home);
                    }
                    task = maker;
                }
            }
        }
        None
    }

    fn cgroup_path(&mut self, inode: u64) -> Option<String> {
        if let Some(path) = self.paths.get(&inode) {
            return path.clone();
        }
        if self.paths.len() > MOST_TASKS {
            self.paths.clear();
        }
        let path = cgroup::path_of(&self.root, inode);
        self.paths.insert(inode, path.clone());
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_task_that_is_gone_was_where_its_maker_is_or_where_it_was_moved() {
        let root = tempfile::tempdir().expect("made");
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("proc/10")).expect("made");
        fs::create_dir_all(at("sys/fs/cgroup/ci/job")).expect("made");
        fs::write(at("proc/10/cgroup"), "0::/ci\n").expect("written");
        let inode = std::os::unix::fs::MetadataExt::ino(
            &fs::metadata(at("sys/fs/cgroup/ci/job")).expect("there"),
        );
        let mut homes = Homes::new(root.path());
        let event = |task, what| Event { ns: 1, task, what };
        let mut events = vec![
            event(10, What::Forked(11)),
            event(11, What::Forked(12)),
            event(10, What::Forked(13)),
            event(1, What::Moved(13, inode)),
            event(12, What::SyncBegan),
        ];
        homes.absorb_origins(&mut events);
        assert_eq!(events.len(), 1);
        let mut ask = |task| homes.find_home(task, 5);
        let at = |path: &str| Some(path.to_string());
        assert_eq!((ask(10), ask(11), ask(12)), (at("ci"), at("ci"), at("ci")));
        assert_eq!((ask(13), ask(14)), (at("ci/job"), None));
        // Its number is used again.
        homes.absorb_origins(&mut vec![event(1, What::Forked(12))]); // by the first process
        assert_eq!(homes.find_home(12, 6), None);
    }
}
