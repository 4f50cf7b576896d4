// SPDX-License-Identifier: GPL-2.0-only
//! The thread: finds cgroups, reads what they hold, and has settings follow.

use super::kept::{Change, Kept, Key};
use super::lift::{self, Lift};
use super::members::{self, Member};
use super::stat;
use super::status::Status;
use super::translate::{self, Host, Memory};
use crate::asked::Asked;
use crate::disk_queue;
use crate::journal::{Event, Journal};
use crate::limits::Mode;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::seconds::Seconds;
use crate::stock_file::Setting;
use crate::tree::{Place, Tree};
use crate::watch::Watch;
use anyhow::{Context, Result};
use knobs::{Knob, PAGE, PageSize};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use policy::UNLIMITED;
use policy::objective::Queue;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks while there is a ceiling: reading `memory.stat` has the kernel add up its
/// counts, by which it throttles, and which are two seconds old otherwise. What is dirtied in
/// between comes on top of a ceiling.
const STEP: Duration = Duration::from_millis(20);
/// Between two looks otherwise.
const REST: Duration = Duration::from_secs(1);
/// Between two looks while there are objectives, whose bounds on disks' queues are to count from the
/// second in which they are asked for.
const ASKED: Duration = Duration::from_millis(200);
/// A step is followed by a pause so many times as long as it computed: two hundredths of a CPU.
const PAUSE: u32 = 50;
/// All cgroups are looked for so often, besides when one appears.
const SCAN: Duration = Duration::from_secs(10);
/// A cgroup that holds less than this part of the room is none of those that share it.
const SHARER: u64 = 32;
/// A limit that would change by less than this part stays.
const CHANGE: u64 = 64;

/// The thread's state.
pub struct Keeper {
    root: PathBuf,
    tree: Tree,
    rules: Rules,
    next: Arc<Mutex<Option<Rules>>>,
    asked: Asked,
    requests: Requests,
    kept: Kept,
    journal: Journal,
    status: Arc<Mutex<Status>>,
    watch: Option<Watch>,
    members: Vec<Member>,
    seconds: Seconds,
    lift: Lift,
    scanned: Option<Instant>,
    /// Settings that were wanted in the last step.
    wanted: BTreeMap<Key, String>,
    /// Settings that observing has told of.
    told: BTreeSet<Key>,
    said: Option<String>,
}

impl Keeper {
    /// Nothing is set before it runs.
    pub fn new(
        root: &Path,
        tree: Tree,
        (rules, next): (Rules, Arc<Mutex<Option<Rules>>>),
        (asked, requests): (Asked, Requests),
        kept: Kept,
        journal: Journal,
        status: Arc<Mutex<Status>>,
    ) -> Keeper {
        Keeper {
            root: root.into(),
            tree,
            rules,
            next,
            asked,
            requests,
            kept,
            journal,
            status,
            watch: Watch::new().ok(),
            members: Vec::new(),
            seconds: Seconds::default(),
            lift: Lift::default(),
            scanned: None,
            wanted: BTreeMap::new(),
            told: BTreeSet::new(),
            said: None,
        }
    }

    /// Runs until the other end of `ended` is closed; then puts everything back.
    pub fn run(mut self, ended: &UnixStream) {
        let mut pause = Duration::ZERO;
        while self.waits(ended, pause) {
            // Not the time that it waited: a write of nr_requests waits for all that is in flight.
            let began = cpu_time();
            match self.step() {
                Ok(step) => pause = step.max(cpu_time().saturating_sub(began) * PAUSE),
                Err(why) => {
                    self.complain(&format!("{why:#}"));
                    pause = REST;
                }
            }
        }
        self.put_back();
    }

    /// Puts back what it has set, or a killed agent before it.
    pub fn put_back(mut self) {
        self.wanted.clear();
        if let Err(why) = self.bring() {
            self.complain(&format!("{why:#}"));
        }
    }

    /// Waits for the next step; false if there is none.
    fn waits(&mut self, ended: &UnixStream, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Up to the next millisecond: rounded down it would spin through the last one.
            let timeout = match left.is_zero() {
                true => PollTimeout::ZERO,
                false => PollTimeout::try_from(left + Duration::from_millis(1))
                    .unwrap_or(PollTimeout::MAX),
            };
            let mut fds = vec![PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
            if let Some(watch) = &self.watch {
                fds.push(PollFd::new(watch.as_fd(), PollFlags::POLLIN));
            }
            // A signal ends the wait early, which the clock tells.
            let _ = poll(&mut fds, timeout);
            if fds[0].any() == Some(true) {
                return false;
            }
            if fds.get(1).is_some_and(|fd| fd.any() == Some(true)) {
                match self.watch.as_mut().map(Watch::heard) {
                    Some(Ok(heard)) if heard.made.is_empty() && !heard.lost => {}
                    Some(Ok(_)) => {
                        self.scanned = None;
                        return true;
                    }
                    // Regular scans find new cgroups, too.
                    _ => self.watch = None,
                }
            }
            if left.is_zero() {
                return true;
            }
        }
    }

    /// One look; how long until the next.
    fn step(&mut self) -> Result<Duration> {
        let next = self
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(rules) = next {
            self.rules = rules;
            self.scanned = None;
            self.told.clear();
        }
        let is_due = self.scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN);
        if self.requests.have_changed() || is_due {
            self.scan();
        }
        let host = host(&self.root)?;
        let ceilings = self.ceilings(&host);
        let mut wanted = BTreeMap::new();
        for (setting, value) in &self.rules.stock.host {
            wanted.insert((self.root.clone(), setting.clone()), value.clone());
        }
        let lifted = self.lift(&wanted)?;
        wanted.extend(lifted);
        let queues = self.queues();
        for (file, value) in queues.values().flatten() {
            wanted.insert((self.root.clone(), file.clone()), value.to_string());
        }
        for member in &self.members {
            let directory = &member.place.directory;
            if let Some(weight) = member.weight {
                wanted.insert((directory.clone(), Setting::Weight), weight.to_string());
            }
            if let Some(bytes) = member.bandwidth {
                for device in devices(directory) {
                    wanted.insert(
                        (directory.clone(), Setting::Wbps(device)),
                        bytes.to_string(),
                    );
                }
            }
        }
        for (place, ceiling, memory) in ceilings.values() {
            let Some(pages) = translate::high(&host, memory, *ceiling) else {
                continue;
            };
            let key = (place.directory.clone(), Setting::High);
            let before = self.wanted.get(&key);
            let pages = steadied(before.map(String::as_str), pages);
            wanted.insert(key, PageSize::running().limit_bytes(pages).to_string());
        }
        self.wanted = wanted;
        match self.rules.stock.mode {
            Mode::Observe => self.tell(),
            _ => self.bring()?,
        }
        let is_own = |place: &Place| self.kept.is_own(&(place.directory.clone(), Setting::High));
        let kept = ceilings.values().filter(|(place, ..)| is_own(place));
        let kept: BTreeMap<String, u64> = kept
            .map(|(place, ceiling, _)| (place.path.clone(), *ceiling))
            .collect();
        let step = match (ceilings.is_empty(), self.rules.objectives.is_empty()) {
            (false, _) => STEP,
            (true, false) => ASKED,
            (true, true) => REST,
        };
        let step = match self.rules.stock.drain {
            Some(_) => step.min(lift::BEAT),
            None => step,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Status {
            settings: self.kept.len() as u64,
            ceilings: kept,
            queues: self.in_flight(&queues),
            limit: self
                .lift
                .limit()
                .filter(|_| self.rules.stock.drain.is_some()),
            drain: self.lift.rate(),
        };
        Ok(step)
    }

    /// The host's limit by its seconds of drain, if that is to be another than `wanted` or the
    /// kernel has.
    fn lift(&mut self, wanted: &BTreeMap<Key, String>) -> Result<Option<(Key, String)>> {
        let Some(seconds) = self.rules.stock.drain else {
            return Ok(None);
        };
        let key = (self.root.clone(), Setting::Level("vm/dirty".into()));
        let own = match (wanted.get(&key), self.kept.found(&key)) {
            (Some(value), _) => value.clone(),
            (None, Some(found)) => found.to_owned(),
            (None, None) => key.1.read(&key.0).context("cannot read vm.dirty_ratio")?,
        };
        self.lift.step(&self.root, seconds, &own)?;
        let limit = self.lift.limit().map(|pages| {
            let before = self
                .wanted
                .get(&key)
                .and_then(|of| of.strip_prefix("bytes "));
            let pages = steadied(before, pages);
            let bytes = PageSize::running().limit_bytes(pages);
            (key, format!("bytes {bytes}"))
        });
        Ok(limit)
    }

    fn scan(&mut self) {
        let watch = &mut self.watch;
        let mut refused = false;
        let mut inodes = BTreeSet::new();
        self.members = members::all(&self.tree, &self.rules, &self.requests, |place| {
            inodes.insert(place.inode);
            if let Some(watch) = watch {
                refused |= watch.add(&place.directory).is_err();
            }
        });
        self.requests.retain(|inode| inodes.contains(&inode));
        self.seconds.retain(|inode| inodes.contains(&inode));
        if refused {
            self.watch = None;
        }
        self.scanned = Some(Instant::now());
        let has_floor = self.members.iter().any(|of| of.floor > 0);
        if has_floor && !self.members.iter().any(|of| of.leaves_room) {
            self.complain("a floor takes room from others: name them in `limit` of [stock]");
        }
    }

    /// The ceiling of each cgroup that has one, with what it holds, by inode.
    fn ceilings(&mut self, host: &Host) -> BTreeMap<u64, (Place, u64, Memory)> {
        let mut all = BTreeMap::new();
        let floors = members::floors(&self.members);
        let takes_room = |of: &Member| of.leaves_room && floors > 0;
        let mut sharers = 0;
        let mut refused = None;
        let room = host.room(floors, 1);
        for member in &self.members {
            let mut ceiling = member.ceiling;
            if let Some(setting) = &member.seconds {
                match self
                    .seconds
                    .of(&member.place, Knob::DirtyBytes, setting, false)
                {
                    Ok(setting) => ceiling = setting.value / PAGE,
                    Err(why) if why.kind() == ErrorKind::NotFound => {}
                    Err(why) => refused = Some(format!("{}: {why}", member.place.path)),
                }
            }
            if let Some(bytes) = member.bandwidth {
                ceiling = ceiling.min(translate::beside_bandwidth(bytes));
            }
            if member.ratio > 0 {
                let memory = self.tree.memory_max(&member.place.directory);
                let memory = memory.map_or(host.dirtyable, |bytes| bytes / PAGE);
                ceiling = ceiling.min(memory.min(host.dirtyable) * member.ratio / 100);
            }
            if ceiling == UNLIMITED && !takes_room(member) {
                continue;
            }
            let Some(memory) = memory(&member.place.directory) else {
                continue;
            };
            sharers += u64::from(takes_room(member) && memory.held >= room / SHARER);
            all.insert(member.place.inode, (member.place.clone(), ceiling, memory));
        }
        if let Some(why) = refused {
            self.complain(&why);
        }
        let each = host.room(floors, sharers);
        for member in self.members.iter().filter(|of| takes_room(of)) {
            if let Some((_, ceiling, _)) = all.get_mut(&member.place.inode) {
                *ceiling = (*ceiling).min(each);
            }
        }
        for (inode, (place, pages)) in self.asked.ceilings() {
            match all.get_mut(&inode) {
                Some((_, ceiling, _)) => *ceiling = (*ceiling).min(pages),
                None => {
                    let of = memory(&place.directory).map(|memory| (place, pages, memory));
                    all.extend(of.map(|of| (inode, of)));
                }
            }
        }
        all
    }

    /// Values for each disk's queue that objectives bound, by the disk's name: the two files and
    /// their values.
    fn queues(&self) -> BTreeMap<String, [(Setting, u64); 2]> {
        let asked = self.asked.queues().into_iter();
        let queues = asked.filter_map(|(disk, pages)| {
            let setting = |name: &str| Setting::File(disk_queue::file(&disk, name));
            let files = [setting("nr_requests"), setting("max_sectors_kb")];
            let found = |file: &Setting| {
                let key = (self.root.clone(), file.clone());
                let own = self.kept.found(&key).map(String::from);
                own.or_else(|| file.read(&self.root).ok())?.parse().ok()
            };
            let own = Queue {
                requests: found(&files[0])?,
                kib: found(&files[1])?,
            };
            let narrow = own.narrowed(pages)?;
            let [requests, kib] = files;
            Some((disk, [(requests, narrow.requests), (kib, narrow.kib)]))
        });
        queues.collect()
    }

    /// KiB that disks may have in flight by what was set.
    fn in_flight(&self, queues: &BTreeMap<String, [(Setting, u64); 2]>) -> BTreeMap<String, u64> {
        let is_own = |file: &Setting| self.kept.is_own(&(self.root.clone(), file.clone()));
        let set = queues
            .iter()
            .filter(|(_, files)| files.iter().all(|(file, _)| is_own(file)));
        set.map(|(disk, [(_, requests), (_, kib)])| (disk.clone(), requests * kib))
            .collect()
    }

    /// Has all settings follow, and says what changed.
    fn bring(&mut self) -> Result<()> {
        for (key, change) in self.kept.bring(&self.wanted)? {
            let (at, setting) = (self.shown(&key.0), key.1.to_string());
            let is_limit = matches!((&key.1, &change), (Setting::Wbps(_), Change::Set(..)));
            if is_limit && self.rules.objectives.is_empty() {
                self.journal.say(&Event::StockInBursts { at: at.clone() });
            }
            self.journal.say(&match change {
                Change::Set(from, to) => Event::StockSet {
                    at,
                    setting,
                    from,
                    to,
                },
                Change::Again(to) => Event::StockSetAgain { at, setting, to },
                Change::PutBack(to) => Event::StockPutBack { at, setting, to },
                Change::Left(value) => Event::StockLeft { at, setting, value },
                Change::Failed(why) => Event::Stock {
                    why: format!("{at}: {setting}: {why}"),
                },
            });
        }
        Ok(())
    }

    /// Says once of each setting what it would be.
    fn tell(&mut self) {
        for (key, to) in &self.wanted {
            let is_new = self.told.insert(key.clone());
            let Some(from) = is_new.then(|| key.1.read(&key.0).ok()).flatten() else {
                continue;
            };
            self.journal.say(&Event::StockWouldSet {
                at: self.shown(&key.0),
                setting: key.1.to_string(),
                from,
                to: to.clone(),
            });
        }
    }

    /// A directory, as the journal has it: a cgroup's path, or `host`.
    fn shown(&self, directory: &Path) -> String {
        match directory.strip_prefix(self.tree.root()) {
            Ok(below) => format!("/{}", below.display()),
            Err(_) => "host".into(),
        }
    }

    /// Says what is wrong, once.
    fn complain(&mut self, why: &str) {
        if self.said.as_deref() != Some(why) {
            self.journal.say(&Event::Stock { why: why.into() });
            self.said = Some(why.into());
        }
    }
}

/// A limit in pages, or what it was in bytes if that is hardly another.
fn steadied(before: Option<&str>, pages: u64) -> u64 {
    let before = before.and_then(|bytes| bytes.parse::<u64>().ok());
    match before.map(|bytes| bytes / PAGE) {
        Some(before) if before.abs_diff(pages) <= before / CHANGE => before,
        _ => pages,
    }
}

/// CPU time that this thread has used so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map(Duration::from).unwrap_or_default()
}

/// Limits and memory of the host below `root`.
fn host(root: &Path) -> Result<Host> {
    let path = root.join("proc/vmstat");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let pages = |key| {
        let pages = stat(&text, key).with_context(|| format!("{} has no {key}", path.display()))?;
        Ok::<u64, anyhow::Error>(PageSize::running().units(pages))
    };
    Ok(Host {
        limit: pages("nr_dirty_threshold")?,
        background: pages("nr_dirty_background_threshold")?,
        dirtyable: pages("nr_free_pages")? + pages("nr_active_file")? + pages("nr_inactive_file")?,
    })
}

/// Reads the memory of a cgroup and those below it; nothing if it is gone.
fn memory(directory: &Path) -> Option<Memory> {
    let text = fs::read_to_string(directory.join("memory.stat")).ok()?;
    let usage = fs::read_to_string(directory.join("memory.current")).ok()?;
    let pages = |key| stat(&text, key).unwrap_or(0) / PAGE;
    Some(Memory {
        usage: usage.trim().parse::<u64>().ok()? / PAGE,
        file: pages("active_file") + pages("inactive_file"),
        active_file: pages("active_file"),
        held: pages("file_dirty") + pages("file_writeback"),
    })
}

/// Devices that a cgroup has used.
fn devices(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("io.stat")).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| name.contains(':'))
        .map(String::from)
        .collect()
}
