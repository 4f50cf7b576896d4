// SPDX-License-Identifier: GPL-2.0-only
//! Looking at tasks: who they are, and what those that sleep uninterruptibly sleep for.
//!
//! A look costs some 20,000 instructions a task, so each round looks at a bounded number of them,
//! in turn; what was found is weighted by how many tasks each look stands for. Example: 400 tasks,
//! 20 looked at every 100 ms: each is seen every 2 s, and a sleep that is seen counts 2 s. For the
//! same reason only what may have changed is read when they are listed anew.

use crate::model::cgroup::ROOT;
use crate::model::observation::{Flushers, Progress};
use crate::model::wait::{Wait, Waits, classify};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Looks in a round.
const LOOKS: usize = 20;
/// Tasks in a round whose progress is read, at the same price.
const MEASURED: usize = 10;
/// Tasks and flushers come and go; they are listed anew this often.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// A task in the root cgroup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    /// The kernel's, not bound to a CPU: its name says whose work it does, flushers' for one.
    Worker,
    Kernel,
}

impl Kind {
    fn of(task: u32) -> Kind {
        let line = fs::read_to_string(format!("/proc/{task}/cmdline"));
        if !line.is_ok_and(|line| line.is_empty()) {
            Kind::Program
        } else if name(task).is_some_and(|name| name.starts_with("kworker/u")) {
            Kind::Worker
        } else {
            Kind::Kernel
        }
    }
}

/// Who is looked at, and what was found.
pub struct Tasks {
    cgroup: PathBuf,
    only: Option<u32>,
    tasks: Vec<u32>,
    next: usize,
    measured: usize,
    born: Vec<(u64, Progress)>,
    listed: Option<Instant>,
    last: Option<Instant>,
    in_root: BTreeMap<u32, Kind>,
    workers: Vec<u32>,
    /// Cgroup path to what its tasks slept for.
    pub waits: BTreeMap<String, Waits>,
    /// Task to the cgroup it was last seen in, relative to the root's directory.
    pub homes: BTreeMap<u32, String>,
    names: BTreeMap<u32, String>,
    /// What flushers were found doing.
    pub flushers: Flushers,
}

impl Tasks {
    /// To look at the tasks at and below this cgroup's directory, or at one process of it.
    pub fn new(cgroup: &Path, only: Option<u32>) -> Tasks {
        Tasks {
            cgroup: cgroup.into(),
            only,
            tasks: Vec::new(),
            next: 0,
            measured: 0,
            born: Vec::new(),
            listed: None,
            last: None,
            in_root: BTreeMap::new(),
            workers: Vec::new(),
            waits: BTreeMap::new(),
            homes: BTreeMap::new(),
            names: BTreeMap::new(),
            flushers: Flushers::default(),
        }
    }

    /// What tasks were called when they were last listed.
    pub fn names(&self) -> BTreeMap<u32, String> {
        self.names.clone()
    }

    /// Looks once at the next tasks in turn.
    pub fn look(&mut self) {
        if self.listed.is_none_or(|at| at.elapsed() >= LIST_EVERY) {
            self.list();
            self.listed = Some(Instant::now());
        }
        let now = Instant::now();
        let passed = self.last.map_or(0.0, |last| (now - last).as_secs_f64());
        self.last = Some(now);
        let looks = self.tasks.len().min(LOOKS);
        let weight = passed * self.tasks.len() as f64 / looks.max(1) as f64;
        for _ in 0..looks {
            self.next = (self.next + 1) % self.tasks.len();
            let task = self.tasks[self.next];
            if let Some(wait) = waits_for(task) {
                let home = self.homes.get(&task).cloned().unwrap_or_default();
                *self.waits.entry(home).or_default().entry(wait).or_default() += weight;
            }
        }
        for worker in &self.workers {
            self.flushers.looks += 1;
            match state(*worker) {
                Some('R') => self.flushers.ran += 1,
                Some('D') => match waits_for(*worker) {
                    Some(Wait::Journal) => self.flushers.in_journal += 1,
                    Some(Wait::Reclaim) => self.flushers.in_reclaim += 1,
                    _ => {}
                },
                Some('I') | None => self.flushers.idle += 1,
                Some(_) => {}
            }
        }
    }

    /// When the tasks began that are new since this was last asked, and that they had dirtied
    /// nothing then.
    pub fn born(&mut self) -> Vec<(u64, Progress)> {
        std::mem::take(&mut self.born)
    }

    /// How far some of the tasks have come, the next ones in turn.
    pub fn progress(&mut self) -> Progress {
        let mut found = Progress::new();
        for _ in 0..self.tasks.len().min(MEASURED) {
            self.measured = (self.measured + 1) % self.tasks.len();
            let task = self.tasks[self.measured];
            found.extend(dirtied(task).map(|bytes| (task, bytes)));
        }
        found
    }

    fn list(&mut self) {
        // All of the kernel's threads are there. Who they are does not change.
        let in_root = threads(Path::new(ROOT)).into_iter().map(|task| {
            let kind = self.in_root.get(&task).copied();
            (task, kind.unwrap_or_else(|| Kind::of(task)))
        });
        self.in_root = in_root.collect();
        self.tasks.clear();
        match self.only {
            Some(process) => {
                let home = home_of(Path::new("/"), process).unwrap_or_default();
                for task in ids(&PathBuf::from(format!("/proc/{process}/task"))) {
                    self.found(task, &home);
                }
            }
            None => self.list_below(&self.cgroup.clone()),
        }
        let workers = self.in_root.iter().filter(|(task, kind)| {
            **kind == Kind::Worker && name(**task).is_some_and(|name| name.contains("flush-"))
        });
        self.workers = workers.map(|(task, _)| *task).collect();
    }

    fn list_below(&mut self, directory: &Path) {
        let path = relative(directory);
        for task in threads(directory) {
            // Kernel threads have no owner.
            let kind = self.in_root.get(&task).filter(|_| path.is_empty());
            if kind.is_none_or(|kind| *kind == Kind::Program) {
                self.found(task, &path);
            }
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.list_below(&entry.path());
            }
        }
    }

    fn found(&mut self, task: u32, home: &str) {
        self.tasks.push(task);
        if self.homes.get(&task).is_none_or(|known| known != home) {
            self.homes.insert(task, home.into());
        }
        if let Entry::Vacant(unknown) = self.names.entry(task) {
            unknown.insert(name(task).unwrap_or_default());
            let begin = began(task).map(|ns| (ns, Progress::from([(task, 0)])));
            self.born.extend(begin);
        }
    }
}

/// Those in a cgroup, not below it.
fn threads(directory: &Path) -> Vec<u32> {
    let text = fs::read_to_string(directory.join("cgroup.threads")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn name(task: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{task}/comm")).ok()?;
    Some(name.trim().to_string())
}

/// A cgroup directory's path below the root's.
pub fn relative(directory: &Path) -> String {
    let path = directory.strip_prefix(ROOT).unwrap_or(directory);
    path.to_string_lossy().into_owned()
}

/// The cgroup of a task, below where they are mounted on the machine with this root directory.
pub fn home_of(root: &Path, task: u32) -> Option<String> {
    let text = fs::read_to_string(root.join(format!("proc/{task}/cgroup"))).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(path.to_string())
}

fn ids(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A file of a task (a thread): those directly below `/proc/TASK` are its process's, and the kernel
/// goes through all threads to sum them up, through a thousand for each of a thousand.
fn own(task: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{task}/task/{task}/{file}")).ok()
}

/// Bytes of page cache that a task (a thread, not its process) has dirtied so far.
fn dirtied(task: u32) -> Option<u64> {
    let text = own(task, "io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// When a task began, by the monotonic clock, in nanoseconds, to the hundredth of a second.
fn began(task: u32) -> Option<u64> {
    let stat = own(task, "stat")?;
    // proc(5): field 22, in ticks of 1/100 s; the name before the parenthesis is the second.
    let ticks: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// The state letter of a task.
fn state(task: u32) -> Option<char> {
    let stat = own(task, "stat")?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn waits_for(task: u32) -> Option<Wait> {
    if state(task)? != 'D' {
        return None;
    }
    // A task that is gone or awake by now waits for nothing.
    let wchan = own(task, "wchan").filter(|wchan| wchan != "0")?;
    Some(classify(&wchan, &own(task, "syscall").unwrap_or_default()))
}
