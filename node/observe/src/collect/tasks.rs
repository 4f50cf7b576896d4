// SPDX-License-Identifier: GPL-2.0-only
//! Looking at tasks: who they are, and what those that sleep uninterruptibly sleep for.
//!
//! A look costs some 20,000 instructions a task, so each round looks at a bounded number of them,
//! in turn; what was found is weighted by how many tasks each look stands for. Example: 400 tasks,
//! 20 looked at every 100 ms: each is seen every 2 s, and a sleep that is seen counts 2 s. For the
//! same reason only what may have changed is read when they are listed anew.

use crate::model::cgroup::ROOT;
use crate::model::observation::{Flushers, Progress};
use crate::model::wait::{Wait, classify_wait};
use nix::time::{ClockId, clock_gettime};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Looks in a round.
const LOOKS: usize = 20;
/// Tasks in a round whose progress is read, at the same price.
const MEASURED: usize = 10;
/// Tasks and flushers come and go; they are listed anew this often.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// A task in the root cgroup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskKind {
    Program,
    /// The kernel's, not bound to a CPU: its name says whose work it does, flushers' for one.
    Worker,
    Kernel,
}

impl TaskKind {
    fn of_task(task: u32) -> TaskKind {
        let line = fs::read_to_string(format!("/proc/{task}/cmdline"));
        if !line.is_ok_and(|line| line.is_empty()) {
            TaskKind::Program
        } else if task_name(task).is_some_and(|name| name.starts_with("kworker/u")) {
            TaskKind::Worker
        } else {
            TaskKind::Kernel
        }
    }
}

/// A task that was found asleep.
pub struct Asleep {
    /// Id of the task.
    pub task: u32,
    /// The time of the look, on the clock of events.
    pub ns: u64,
    /// The task's cgroup, by its path.
    pub home: String,
    /// The event that it waits for.
    pub wait: Wait,
    /// The time that this look stands for.
    pub seconds: f64,
}

/// Tasks that are looked at, and the looks' results.
pub struct Tasks {
    cgroup: PathBuf,
    only: Option<u32>,
    tasks: Vec<u32>,
    next: usize,
    measured: usize,
    born: Vec<(u64, Progress)>,
    listed: Option<Instant>,
    last: Option<Instant>,
    in_root: BTreeMap<u32, TaskKind>,
    workers: Vec<u32>,
    has_fuse: bool,
    /// Cgroups of which it is known whose memory their tasks use.
    domains: BTreeMap<String, String>,
    new: BTreeMap<u32, (String, String)>,
    /// Task to the cgroup it was last seen in, relative to the root's directory.
    pub homes: BTreeMap<u32, String>,
    names: BTreeMap<u32, String>,
    /// Activity of flushers, by looks.
    pub flushers: Flushers,
}

impl Tasks {
    /// To look at the tasks at and below this cgroup's directory, or at one process of it.
    pub fn new(cgroup: &Path, only: Option<u32>, has_fuse: bool) -> Tasks {
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
            has_fuse,
            domains: BTreeMap::new(),
            new: BTreeMap::new(),
            homes: BTreeMap::new(),
            names: BTreeMap::new(),
            flushers: Flushers::default(),
        }
    }

    /// Names of tasks as of when they were last listed.
    pub fn task_names(&self) -> BTreeMap<u32, String> {
        self.names.clone()
    }

    /// Names and cgroups of tasks that are new since this was last asked.
    pub fn newly_found(&mut self) -> BTreeMap<u32, (String, String)> {
        std::mem::take(&mut self.new)
    }

    /// Looks once at the next tasks in turn; what those that sleep wait for.
    pub fn look_at_next(&mut self) -> Vec<Asleep> {
        let mut found = Vec::new();
        if self.listed.is_none_or(|at| at.elapsed() >= LIST_EVERY) {
            self.list_tasks();
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
            if let Some(wait) = waits_for(task, self.has_fuse) {
                found.push(Asleep {
                    task,
                    ns: now_ns(),
                    home: self.homes.get(&task).cloned().unwrap_or_default(),
                    wait,
                    seconds: weight,
                });
            }
        }
        self.flushers.rounds += 1;
        let mut running = BTreeSet::new();
        for worker in &self.workers {
            self.flushers.looks += 1;
            match state_letter(*worker) {
                Some('R') => {
                    self.flushers.ran += 1;
                    running.extend(task_name(*worker).as_deref().and_then(flushed));
                }
                Some('D') => match waits_for(*worker, false) {
                    Some(Wait::Journal) => self.flushers.in_journal += 1,
                    Some(Wait::Reclaim) => self.flushers.in_reclaim += 1,
                    _ => {}
                },
                Some('I') | None => self.flushers.idle += 1,
                Some(_) => {}
            }
        }
        for bdi in running {
            *self.flushers.ran_for.entry(bdi).or_default() += 1;
        }
        found
    }

    /// Takes the times at which tasks began that are new since this was last asked, and that they
    /// had dirtied nothing then.
    pub fn take_born(&mut self) -> Vec<(u64, Progress)> {
        std::mem::take(&mut self.born)
    }

    /// Bytes that some of the tasks have dirtied, the next ones in turn.
    pub fn next_progress(&mut self) -> Progress {
        let mut found = Progress::new();
        for _ in 0..self.tasks.len().min(MEASURED) {
            self.measured = (self.measured + 1) % self.tasks.len();
            let task = self.tasks[self.measured];
            found.extend(bytes_dirtied(task).map(|bytes| (task, bytes)));
        }
        found
    }

    fn list_tasks(&mut self) {
        // All of the kernel's threads are there. Who they are does not change.
        let in_root = list_threads(Path::new(ROOT)).into_iter().map(|task| {
            let kind = self.in_root.get(&task).copied();
            (task, kind.unwrap_or_else(|| TaskKind::of_task(task)))
        });
        self.in_root = in_root.collect();
        self.tasks.clear();
        match self.only {
            Some(process) => {
                let home = home_of(Path::new("/"), process).unwrap_or_default();
                for task in numbered_entries(&PathBuf::from(format!("/proc/{process}/task"))) {
                    self.note_task(task, &home);
                }
            }
            None => self.list_below(&self.cgroup.clone()),
        }
        let workers = self.in_root.iter().filter(|(task, kind)| {
            **kind == TaskKind::Worker
                && task_name(**task).is_some_and(|name| name.contains("flush-"))
        });
        self.workers = workers.map(|(task, _)| *task).collect();
    }

    fn list_below(&mut self, directory: &Path) {
        let path = path_below_root(directory);
        for task in list_threads(directory) {
            // Kernel threads have no owner.
            let kind = self.in_root.get(&task).filter(|_| path.is_empty());
            if kind.is_none_or(|kind| *kind == TaskKind::Program) {
                let domains = &mut self.domains;
                let domain = domains
                    .entry(path.clone())
                    .or_insert_with(|| domain_of(Path::new("/"), path.clone()));
                let domain = domain.clone();
                self.note_task(task, &domain);
            }
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.list_below(&entry.path());
            }
        }
    }

    fn note_task(&mut self, task: u32, home: &str) {
        self.tasks.push(task);
        if self.homes.get(&task).is_none_or(|known| known != home) {
            self.homes.insert(task, home.into());
        }
        if let Entry::Vacant(unknown) = self.names.entry(task) {
            let name = task_name(task).unwrap_or_default();
            self.new.insert(task, (name.clone(), home.into()));
            unknown.insert(name);
            let begin = start_time(task).map(|ns| (ns, Progress::from([(task, 0)])));
            self.born.extend(begin);
        }
    }
}

/// Threads in a cgroup, not below it.
fn list_threads(directory: &Path) -> Vec<u32> {
    let text = fs::read_to_string(directory.join("cgroup.threads")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The name of a task.
pub fn task_name(task: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{task}/comm")).ok()?;
    Some(name.trim().to_string())
}

/// The device that a worker flushes, by its name: `kworker/u16:1+flush-252:0`; `-flush` is what it did
/// last.
fn flushed(name: &str) -> Option<String> {
    let (_, bdi) = name.split_once("+flush-")?;
    Some(bdi.to_owned())
}

/// A cgroup directory's path below the root's.
pub fn path_below_root(directory: &Path) -> String {
    let path = directory.strip_prefix(ROOT).unwrap_or(directory);
    path.to_string_lossy().into_owned()
}

/// The cgroup of a task, below where they are mounted on the machine with this root directory; none
/// of one that is outside of what is mounted there.
pub fn home_of(root: &Path, task: u32) -> Option<String> {
    let text = fs::read_to_string(root.join(format!("proc/{task}/cgroup"))).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    static NAMESPACE: OnceLock<String> = OnceLock::new();
    let namespace = match root == Path::new("/") {
        true => NAMESPACE.get_or_init(namespace_root),
        false => "",
    };
    Some(domain_of(root, resolve_in_namespace(namespace, path)?))
}

/// The cgroup that has the memory of a threaded one: the first above that is not threaded. Events and
/// files have the pages of its tasks there.
pub fn domain_of(root: &Path, path: String) -> String {
    let top = root.join(ROOT.trim_start_matches('/'));
    let mut domain = path;
    loop {
        let kind = fs::read_to_string(top.join(&domain).join("cgroup.type"));
        if !kind.is_ok_and(|kind| kind.trim() == "threaded") {
            return domain;
        }
        domain = crate::model::cgroup::parent_path(&domain)
            .unwrap_or("")
            .into();
    }
}

/// A path as a cgroup namespace with this root shows it, from the root of all: `../db` in
/// `machine/x` is `machine/db`.
fn resolve_in_namespace(namespace: &str, path: &str) -> Option<String> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let mut parts: Vec<&str> = namespace
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The root of this process's cgroup namespace, below where cgroups are mounted: not the empty path
/// if the machine's are mounted in a namespace. It shows in where this process is.
fn namespace_root() -> String {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let shown = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let Some(shown) = shown.filter(|shown| !shown.starts_with("..")) else {
        return String::new();
    };
    let is_in = |path: &str| {
        let file = Path::new(ROOT).join(path).join("cgroup.procs");
        let own = std::process::id().to_string();
        fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == own))
    };
    // The usual case takes one file.
    if is_in(shown) {
        return String::new();
    }
    let mut left = vec![PathBuf::from(ROOT)];
    while let Some(directory) = left.pop() {
        let path = path_below_root(&directory);
        if is_in(&path) {
            let above = path.strip_suffix(shown).unwrap_or("");
            return above.trim_end_matches('/').into();
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    String::new()
}

fn numbered_entries(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A file of a task (a thread): those directly below `/proc/TASK` are its process's, and the kernel
/// goes through all threads to sum them up, through a thousand for each of a thousand.
fn read_thread_file(task: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{task}/task/{task}/{file}")).ok()
}

/// Bytes of page cache that a task (a thread, not its process) has dirtied so far.
fn bytes_dirtied(task: u32) -> Option<u64> {
    let text = read_thread_file(task, "io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// The time at which a task began, by the monotonic clock, in nanoseconds, to the hundredth of a
/// second.
fn start_time(task: u32) -> Option<u64> {
    let stat = read_thread_file(task, "stat")?;
    // proc(5): field 22, in ticks of 1/100 s; the name before the parenthesis is the second.
    let ticks: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// The state letter of a task.
fn state_letter(task: u32) -> Option<char> {
    let stat = read_thread_file(task, "stat")?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The wait of a task that sleeps uninterruptibly, or that waits for a FUSE filesystem's daemon.
fn waits_for(task: u32, has_fuse: bool) -> Option<Wait> {
    let state = state_letter(task)?;
    if state != 'D' && !(has_fuse && state == 'S') {
        return None;
    }
    // A task that is gone or awake by now waits for nothing.
    let wchan = read_thread_file(task, "wchan").filter(|wchan| wchan != "0")?;
    if state == 'S' {
        return Some(classify_wait(&wchan, "")).filter(|wait| *wait == Wait::Fuse);
    }
    Some(classify_wait(
        &wchan,
        &read_thread_file(task, "syscall").unwrap_or_default(),
    ))
}

/// Returns whether a task serves a FUSE filesystem: it has the kernel's end of one open.
pub fn serves_fuse(task: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{task}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| link == Path::new("/dev/fuse"))
}

/// The clock that events carry.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is a monotonic clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_of_the_cgroup_that_has_their_memory() {
        let root = tempfile::tempdir().expect("made");
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("sys/fs/cgroup/t/th/deep")).expect("made");
        fs::create_dir_all(at("proc/7")).expect("made");
        for (cgroup, kind) in [
            ("t", "domain threaded"),
            ("t/th", "threaded"),
            ("t/th/deep", "threaded"),
        ] {
            let file = at("sys/fs/cgroup").join(cgroup).join("cgroup.type");
            fs::write(file, format!("{kind}\n")).expect("written");
        }
        fs::write(at("proc/7/cgroup"), "0::/t/th/deep\n").expect("written");
        assert_eq!(home_of(root.path(), 7).as_deref(), Some("t"));
    }

    #[test]
    fn paths_of_a_cgroup_namespace_are_resolved() {
        for (namespace, path, wanted) in [
            ("", "a/b", Some("a/b")),
            ("", "", Some("")),
            ("a/b", "", Some("a/b")),
            ("a/c", "../b", Some("a/b")),
            ("c", "../a/b", Some("a/b")),
            ("", "../a/b", None),
            ("", "a/z (deleted)", Some("a/z")),
        ] {
            assert_eq!(
                resolve_in_namespace(namespace, path).as_deref(),
                wanted,
                "{path} in {namespace}"
            );
        }
    }
}
