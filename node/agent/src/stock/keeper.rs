// SPDX-License-Identifier: GPL-2.0-only
//! The thread: finds cgroups, reads what they hold, and has settings follow.

use super::counts::{FreshCounts, LimitedCgroup, SHARER};
use super::find_value;
use super::kept::{Key, SavedSettings, SettingChange};
use super::lift::{self, Lift};
use super::members::{self, Member};
use super::status::StockStatus;
use super::translate::{self, CgroupMemory, HostLimits};
use crate::disk_queue;
use crate::drain_rates::DrainRates;
use crate::journal::{Journal, JournalEvent};
use crate::limits::Mode;
use crate::requested_limits::RequestedLimits;
use crate::requests::Requests;
use crate::rules::Rules;
use crate::stock_file::{StockSetting, format_parts, parse_parts, parts_of_limit};
use crate::tree::{CgroupDir, Hierarchy};
use crate::watch::CgroupWatch;
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

/// Between two reads of counts while there is a ceiling. What is dirtied in between comes on top.
const STEP: Duration = Duration::from_millis(20);
/// The same while a cgroup's dirty pages rise fast.
const FAST: Duration = Duration::from_millis(5);
/// Between two looks while there is a ceiling: `memory.high` follows the cgroup's other memory.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks otherwise.
const REST: Duration = Duration::from_secs(1);
/// Between two looks while there are objectives, whose bounds on disks' queues are to count from the
/// second in which they are asked for.
const ASKED: Duration = Duration::from_millis(200);
/// A read of counts is followed by a pause so many times as long as it computed, and a look by one
/// until the next look: two hundredths of a CPU together.
const STEP_PAUSE: u32 = 66;
const LOOK_PAUSE: u32 = 200;
/// The same before a look that a cgroup's growth calls for.
const EARLY_PAUSE: u32 = 50;
/// Time between scans for all cgroups, besides when one appears.
const SCAN: Duration = Duration::from_secs(10);
/// A limit that would change by less than this part stays.
const CHANGE: u64 = 64;

/// The thread's state.
pub struct StockKeeper {
    root: PathBuf,
    tree: Hierarchy,
    rules: Rules,
    next: Arc<Mutex<Option<Rules>>>,
    asked: RequestedLimits,
    requests: Requests,
    kept: SavedSettings,
    journal: Journal,
    status: Arc<Mutex<StockStatus>>,
    watch: Option<CgroupWatch>,
    members: Vec<Member>,
    counts: FreshCounts,
    /// Time of the next look, and of one that a cgroup's growth calls for.
    look_at: Instant,
    early_look_at: Instant,
    drain_rates: DrainRates,
    lift: Lift,
    scanned: Option<Instant>,
    /// Settings that were wanted in the last step.
    wanted: BTreeMap<Key, String>,
    /// Settings that observing has told of.
    told: BTreeSet<Key>,
    said: Option<String>,
}

impl StockKeeper {
    /// Makes a keeper that sets nothing before it runs.
    pub fn new(
        root: &Path,
        tree: Hierarchy,
        (rules, next): (Rules, Arc<Mutex<Option<Rules>>>),
        (asked, requests): (RequestedLimits, Requests),
        kept: SavedSettings,
        journal: Journal,
        status: Arc<Mutex<StockStatus>>,
    ) -> StockKeeper {
        StockKeeper {
            root: root.into(),
            tree,
            rules,
            next,
            asked,
            requests,
            kept,
            journal,
            status,
            watch: CgroupWatch::new().ok(),
            members: Vec::new(),
            counts: FreshCounts::default(),
            look_at: Instant::now(),
            early_look_at: Instant::now(),
            drain_rates: DrainRates::default(),
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
        let mut step = STEP;
        while self.wait_for_step(ended, pause) {
            // Not the time that it waited: a write of nr_requests waits for all that is in flight.
            let began = cpu_time();
            if self.has_new_rules() {
                self.look_at = self.look_at.min(self.early_look_at);
            }
            let is_look = self.scanned.is_none() || Instant::now() >= self.look_at;
            pause = step;
            if is_look {
                let until_look = self.run_step().unwrap_or_else(|why| {
                    self.report_once(&format!("{why:#}"));
                    REST
                });
                let computed = cpu_time().saturating_sub(began);
                let now = Instant::now();
                self.look_at = now + until_look.max(computed * LOOK_PAUSE);
                self.early_look_at = now + computed * EARLY_PAUSE;
            } else {
                let round = self.counts.refresh_counts();
                if round.has_grown {
                    self.look_at = self.look_at.min(self.early_look_at);
                }
                step = if round.is_rising { FAST } else { STEP };
                pause = step.max(cpu_time().saturating_sub(began) * STEP_PAUSE);
            }
            let left = self.look_at.saturating_duration_since(Instant::now());
            pause = if self.counts.is_empty() {
                left
            } else {
                pause.min(left)
            };
        }
        self.put_back();
    }

    fn has_new_rules(&self) -> bool {
        self.next
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Puts back what it has set, or a killed agent before it.
    pub fn put_back(mut self) {
        self.wanted.clear();
        if let Err(why) = self.apply_wanted() {
            self.report_once(&format!("{why:#}"));
        }
    }

    /// Waits for the next step; false if there is none.
    fn wait_for_step(&mut self, ended: &UnixStream, pause: Duration) -> bool {
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
                match self.watch.as_mut().map(CgroupWatch::read_events) {
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

    /// Looks once; returns the time until the next look.
    fn run_step(&mut self) -> Result<Duration> {
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
            self.scan_cgroups();
        }
        let host = read_host_limits(&self.root)?;
        let ceilings = self.compute_ceilings(&host);
        let mut wanted = BTreeMap::new();
        for (setting, value) in &self.rules.stock.host {
            wanted.insert((self.root.clone(), setting.clone()), value.clone());
        }
        let lifted = self.lift_limit(&wanted)?;
        wanted.extend(lifted);
        wanted.extend(self.device_parts(host.limit * PAGE));
        self.report_missing_files();
        let queues = self.queue_settings();
        for (file, value) in queues.values().flatten() {
            wanted.insert((self.root.clone(), file.clone()), value.to_string());
        }
        for member in &self.members {
            let directory = &member.place.directory;
            if let Some(weight) = member.weight {
                wanted.insert(
                    (directory.clone(), StockSetting::Weight),
                    weight.to_string(),
                );
            }
            if let Some(bytes) = member.bandwidth {
                for device in used_devices(directory) {
                    wanted.insert(
                        (directory.clone(), StockSetting::Wbps(device)),
                        bytes.to_string(),
                    );
                }
            }
        }
        let mut limited = Vec::new();
        for (place, ceiling, memory) in ceilings.values() {
            let Some(pages) = translate::memory_high(&host, memory, *ceiling) else {
                continue;
            };
            let key = (place.directory.clone(), StockSetting::High);
            let before = self.wanted.get(&key);
            let pages = keep_if_close(before.map(String::as_str), pages);
            limited.push(LimitedCgroup {
                place,
                ceiling: *ceiling,
                high: pages,
                memory: *memory,
            });
            wanted.insert(
                key,
                PageSize::running()
                    .ceiling_bytes_of_units(pages)
                    .to_string(),
            );
        }
        self.wanted = wanted;
        match self.rules.stock.mode {
            Mode::Observe => {
                self.counts = FreshCounts::default();
                self.tell_wanted();
            }
            _ => {
                self.counts.follow_cgroups(&limited);
                self.apply_wanted()?;
            }
        }
        let is_own = |place: &CgroupDir| {
            self.kept
                .is_own(&(place.directory.clone(), StockSetting::High))
        };
        let kept = ceilings.values().filter(|(place, ..)| is_own(place));
        let kept: BTreeMap<String, u64> = kept
            .map(|(place, ceiling, _)| (place.path.clone(), *ceiling))
            .collect();
        let step = match (ceilings.is_empty(), self.rules.objectives.is_empty()) {
            (false, _) => LOOK,
            (true, false) => ASKED,
            (true, true) => REST,
        };
        let step = match self.rules.stock.drain {
            Some(_) => step.min(lift::BEAT),
            None => step,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = StockStatus {
            settings: self.kept.len() as u64,
            ceilings: kept,
            queues: self.in_flight(&queues),
            limit: self
                .lift
                .limit_pages()
                .filter(|_| self.rules.stock.drain.is_some()),
            drain: self.lift.pages_per_second(),
        };
        Ok(step)
    }

    /// The host's limit by its seconds of drain, if that is to be another than `wanted` or the
    /// kernel has.
    fn lift_limit(&mut self, wanted: &BTreeMap<Key, String>) -> Result<Option<(Key, String)>> {
        let Some(seconds) = self.rules.stock.drain else {
            return Ok(None);
        };
        let key = (self.root.clone(), StockSetting::Level("vm/dirty".into()));
        let own = match (wanted.get(&key), self.kept.found_value(&key)) {
            (Some(value), _) => value.clone(),
            (None, Some(found)) => found.to_owned(),
            (None, None) => key.1.read(&key.0).context("cannot read vm.dirty_ratio")?,
        };
        self.lift.step_if_due(&self.root, seconds, &own)?;
        let limit = self.lift.limit_pages().map(|pages| {
            let before = self
                .wanted
                .get(&key)
                .and_then(|of| of.strip_prefix("bytes "));
            let pages = keep_if_close(before, pages);
            let bytes = PageSize::running().ceiling_bytes_of_units(pages);
            (key, format!("bytes {bytes}"))
        });
        Ok(limit)
    }

    /// The parts of the host's limit that devices have by bytes, which follow it.
    fn device_parts(&self, limit: u64) -> Vec<(Key, String)> {
        let parts = self.rules.stock.parts.iter().filter_map(|(file, bytes)| {
            if !self.root.join(file.fine_file()?).exists() {
                return None;
            }
            let key = (self.root.clone(), file.clone());
            let before = self.wanted.get(&key).and_then(|text| parse_parts(text));
            let parts = match (before, parts_of_limit(*bytes, limit)) {
                (Some(before), parts) if before.abs_diff(parts) <= before / CHANGE => before,
                (_, parts) => parts,
            };
            Some((key, format_parts(parts)))
        });
        parts.collect()
    }

    /// Says once what the kernel lacks of a device; one that is not there may come.
    fn report_missing_files(&mut self) {
        let stock = &self.rules.stock;
        let numbers = stock.host.keys().filter_map(StockSetting::device_file);
        let parts = stock.parts.keys().filter_map(StockSetting::fine_file);
        let mut files = numbers.chain(parts).map(|name| self.root.join(name));
        let missing = files.find(|file| {
            let is_there = file.parent().is_some_and(Path::exists);
            is_there && !file.exists()
        });
        if let Some(file) = missing {
            let file = file.display();
            self.report_once(&format!("there is no {file}, which Linux has from 6.2 on"));
        }
    }

    fn scan_cgroups(&mut self) {
        let watch = &mut self.watch;
        let mut refused = false;
        let mut inodes = BTreeSet::new();
        self.members = members::find_members(&self.tree, &self.rules, &self.requests, |place| {
            inodes.insert(place.inode);
            if let Some(watch) = watch {
                refused |= watch.add(&place.directory).is_err();
            }
        });
        self.requests
            .retain_cgroups(|inode| inodes.contains(&inode));
        self.drain_rates
            .retain_cgroups(|inode| inodes.contains(&inode));
        if refused {
            self.watch = None;
        }
        self.scanned = Some(Instant::now());
        let has_floor = self.members.iter().any(|of| of.floor > 0);
        if has_floor && !self.members.iter().any(|of| of.leaves_room) {
            self.report_once("a floor takes room from others: name them in `limit` of [stock]");
        }
    }

    /// The ceiling of each cgroup that has one, with what it holds, by inode.
    fn compute_ceilings(
        &mut self,
        host: &HostLimits,
    ) -> BTreeMap<u64, (CgroupDir, u64, CgroupMemory)> {
        let mut all = BTreeMap::new();
        let floors = members::sum_floors(&self.members);
        let takes_room = |of: &Member| of.leaves_room && floors > 0;
        let mut sharers = 0;
        let mut refused = None;
        let room = host.room_per_sharer(floors, 1);
        for member in &self.members {
            let mut ceiling = member.ceiling;
            if let Some(setting) = &member.seconds {
                match self
                    .drain_rates
                    .resolve_time(&member.place, Knob::DirtyBytes, setting, false)
                {
                    Ok(setting) => ceiling = setting.value / PAGE,
                    Err(why) if why.kind() == ErrorKind::NotFound => {}
                    Err(why) => refused = Some(format!("{}: {why}", member.place.path)),
                }
            }
            if let Some(bytes) = member.bandwidth {
                ceiling = ceiling.min(translate::ceiling_beside_bandwidth(bytes));
            }
            if member.ratio > 0 {
                let memory = self.tree.memory_max(&member.place.directory);
                let memory = memory.map_or(host.dirtyable, |bytes| bytes / PAGE);
                ceiling = ceiling.min(memory.min(host.dirtyable) * member.ratio / 100);
            }
            if ceiling == UNLIMITED && !takes_room(member) {
                continue;
            }
            let Some(memory) = read_cgroup_memory(&member.place.directory) else {
                continue;
            };
            sharers += u64::from(takes_room(member) && memory.held >= room / SHARER);
            all.insert(member.place.inode, (member.place.clone(), ceiling, memory));
        }
        if let Some(why) = refused {
            self.report_once(&why);
        }
        let each = host.room_per_sharer(floors, sharers);
        for member in self.members.iter().filter(|of| takes_room(of)) {
            if let Some((_, ceiling, _)) = all.get_mut(&member.place.inode) {
                *ceiling = (*ceiling).min(each);
            }
        }
        for (inode, (place, pages)) in self.asked.ceiling_pages() {
            match all.get_mut(&inode) {
                Some((_, ceiling, _)) => *ceiling = (*ceiling).min(pages),
                None => {
                    let of =
                        read_cgroup_memory(&place.directory).map(|memory| (place, pages, memory));
                    all.extend(of.map(|of| (inode, of)));
                }
            }
        }
        all
    }

    /// Values for each disk's queue that objectives bound, by the disk's name: the two files and
    /// their values.
    fn queue_settings(&self) -> BTreeMap<String, [(StockSetting, u64); 2]> {
        let asked = self.asked.queue_pages().into_iter();
        let queues = asked.filter_map(|(disk, pages)| {
            let setting = |name: &str| StockSetting::File(disk_queue::queue_file(&disk, name));
            let files = [setting("nr_requests"), setting("max_sectors_kb")];
            let found = |file: &StockSetting| {
                let key = (self.root.clone(), file.clone());
                let own = self.kept.found_value(&key).map(String::from);
                own.or_else(|| file.read(&self.root).ok())?.parse().ok()
            };
            let own = Queue {
                requests: found(&files[0])?,
                kib: found(&files[1])?,
            };
            let narrow = own.narrow_to(pages)?;
            let [requests, kib] = files;
            Some((disk, [(requests, narrow.requests), (kib, narrow.kib)]))
        });
        queues.collect()
    }

    /// KiB that disks may have in flight by what was set.
    fn in_flight(
        &self,
        queues: &BTreeMap<String, [(StockSetting, u64); 2]>,
    ) -> BTreeMap<String, u64> {
        let is_own = |file: &StockSetting| self.kept.is_own(&(self.root.clone(), file.clone()));
        let set = queues
            .iter()
            .filter(|(_, files)| files.iter().all(|(file, _)| is_own(file)));
        set.map(|(disk, [(_, requests), (_, kib)])| (disk.clone(), requests * kib))
            .collect()
    }

    /// Has all settings follow, and says what changed.
    fn apply_wanted(&mut self) -> Result<()> {
        for (key, change) in self.kept.apply_settings(&self.wanted)? {
            let (at, setting) = (self.display_path(&key.0), key.1.to_string());
            let is_limit = matches!(
                (&key.1, &change),
                (
                    StockSetting::Wbps(_),
                    SettingChange::Set(..) | SettingChange::Below(..)
                )
            );
            if is_limit && self.rules.objectives.is_empty() {
                self.journal
                    .log_event(&JournalEvent::StockInBursts { at: at.clone() });
            }
            self.journal.log_event(&match change {
                SettingChange::Set(from, to) => JournalEvent::StockSet {
                    at,
                    setting,
                    from,
                    to,
                },
                SettingChange::Again(to) => JournalEvent::StockSetAgain { at, setting, to },
                SettingChange::Below(found, to) => JournalEvent::StockSetBelow {
                    at,
                    setting,
                    found,
                    to,
                },
                SettingChange::PutBack(to) => JournalEvent::StockPutBack { at, setting, to },
                SettingChange::Left(value) => JournalEvent::StockLeft { at, setting, value },
                SettingChange::Failed(why) => JournalEvent::Stock {
                    why: format!("{at}: {setting}: {why}"),
                },
            });
        }
        Ok(())
    }

    /// Says once of each setting what it would be.
    fn tell_wanted(&mut self) {
        for (key, to) in &self.wanted {
            let is_new = self.told.insert(key.clone());
            let Some(from) = is_new.then(|| key.1.read(&key.0).ok()).flatten() else {
                continue;
            };
            self.journal.log_event(&JournalEvent::StockWouldSet {
                at: self.display_path(&key.0),
                setting: key.1.to_string(),
                from,
                to: to.clone(),
            });
        }
    }

    /// A directory, as the journal has it: a cgroup's path, or `host`.
    fn display_path(&self, directory: &Path) -> String {
        match directory.strip_prefix(self.tree.root()) {
            Ok(below) => format!("/{}", below.display()),
            Err(_) => "host".into(),
        }
    }

    /// Says what is wrong, once.
    fn report_once(&mut self, why: &str) {
        if self.said.as_deref() != Some(why) {
            self.journal
                .log_event(&JournalEvent::Stock { why: why.into() });
            self.said = Some(why.into());
        }
    }
}

/// A limit in pages, or what it was in bytes if that is hardly another.
fn keep_if_close(before: Option<&str>, pages: u64) -> u64 {
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
fn read_host_limits(root: &Path) -> Result<HostLimits> {
    let path = root.join("proc/vmstat");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let pages = |key| {
        let pages =
            find_value(&text, key).with_context(|| format!("{} has no {key}", path.display()))?;
        Ok::<u64, anyhow::Error>(PageSize::running().units_of_pages(pages))
    };
    Ok(HostLimits {
        limit: pages("nr_dirty_threshold")?,
        background: pages("nr_dirty_background_threshold")?,
        dirtyable: pages("nr_free_pages")? + pages("nr_active_file")? + pages("nr_inactive_file")?,
    })
}

/// Reads the memory of a cgroup and those below it; nothing if it is gone.
fn read_cgroup_memory(directory: &Path) -> Option<CgroupMemory> {
    let text = fs::read_to_string(directory.join("memory.stat")).ok()?;
    let usage = fs::read_to_string(directory.join("memory.current")).ok()?;
    let pages = |key| find_value(&text, key).unwrap_or(0) / PAGE;
    Some(CgroupMemory {
        usage: usage.trim().parse::<u64>().ok()? / PAGE,
        file: pages("active_file") + pages("inactive_file"),
        active_file: pages("active_file"),
        held: pages("file_dirty") + pages("file_writeback"),
    })
}

/// Devices that a cgroup has used.
fn used_devices(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("io.stat")).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| name.contains(':'))
        .map(String::from)
        .collect()
}
