// SPDX-License-Identifier: GPL-2.0-only
//! The thread: measures once a second, and sets ceilings as the policy says.

use super::holders;
use super::measure::Measure;
use super::queues::{Measured, Queues};
use super::settings::{Bound, Settings};
use super::status::Status;
use crate::asked::Asked;
use crate::disk_queue;
use crate::held;
use crate::journal::{Event, Journal};
use crate::limits::{self, Found, Mode, Refused};
use crate::saved_limits::SavedLimits;
use crate::tree::{Place, Tree};
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use observe::read::host;
use observe::syncs::{Sync, Syncs};
use policy::UNLIMITED;
use policy::objective::{Look, Objective};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two steps.
const STEP: Duration = Duration::from_secs(1);
/// A ceiling that would change by less than this part stays.
const CHANGE: u64 = 8;
const PAGE_KIB: u64 = 4;

/// A cgroup that may be limited, while an objective is at stake.
struct Holder {
    place: Place,
    /// Pages it holds.
    held: u64,
    /// Written for it since it was made.
    written: u64,
}

/// An objective at work.
struct Kept {
    /// Its place in the policy file.
    index: usize,
    settings: Settings,
    objective: Objective,
    /// Where there is no module: disks whose queues are narrowed before that.
    queues: Queues,
    measure: Measure,
    /// Cgroups whose pressure is measured.
    measured: Vec<Place>,
    /// Those that may be limited, by inode; looked for while the bound is broken or limits are set.
    holders: BTreeMap<u64, Holder>,
    /// There was a look at them before.
    is_known: bool,
    value: Option<u64>,
    /// What each of them may hold.
    level: u64,
}

/// A ceiling that was set.
struct Ceiling {
    place: Place,
    pages: u64,
}

/// The thread's state.
pub struct Keeper {
    tree: Tree,
    syncs: Option<Syncs>,
    kept: Vec<Kept>,
    /// All that are set, by inode.
    ceilings: BTreeMap<u64, Ceiling>,
    /// Cgroups whose ceiling is another program's.
    foreign: BTreeSet<u64>,
    saved: SavedLimits,
    /// Who sets ceilings where there is no module.
    asked: Option<Asked>,
    journal: Journal,
    status: Arc<Mutex<Status>>,
    stepped: Instant,
    said: Option<String>,
}

impl Keeper {
    /// Begins to look at fsyncs, if an objective is about them.
    ///
    /// # Errors
    /// They cannot be seen.
    pub fn new(
        tree: Tree,
        settings: &[Settings],
        saved: SavedLimits,
        asked: Option<Asked>,
        journal: Journal,
        status: Arc<Mutex<Status>>,
    ) -> Result<Keeper> {
        let used = settings.iter().enumerate();
        let used = used.filter(|(_, of)| of.mode != Mode::Off);
        let kept: Vec<Kept> = used
            .map(|(index, of)| Kept::new(index, of.clone()))
            .collect();
        let needs_syncs = kept
            .iter()
            .any(|of| matches!(of.settings.bound, Bound::Fsync { .. }));
        let syncs = needs_syncs.then(Syncs::start).transpose();
        Ok(Keeper {
            tree,
            syncs: syncs.context("fsyncs cannot be seen")?,
            kept,
            ceilings: BTreeMap::new(),
            foreign: BTreeSet::new(),
            saved,
            asked,
            journal,
            status,
            stepped: Instant::now(),
            said: None,
        })
    }

    /// Runs until the other end of `ended` is closed; then puts all ceilings back.
    pub fn run(mut self, ended: &UnixStream) {
        while self.waits(ended) {
            if let Err(why) = self.step() {
                self.complain(&format!("{why:#}"));
            }
            self.tell();
        }
        for (_, ceiling) in std::mem::take(&mut self.ceilings) {
            self.release(&ceiling);
        }
        if let Some(asked) = &self.asked {
            asked.narrow(BTreeMap::new());
        }
        self.tell();
    }

    /// Waits for the next step; false if there is none.
    fn waits(&self, ended: &UnixStream) -> bool {
        loop {
            let left = (self.stepped + STEP).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            // Up to the next millisecond: rounded down it would spin through the last one.
            let left = PollTimeout::try_from(left + Duration::from_millis(1));
            let mut fds = [PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
            // A signal ends the wait early, which the clock tells.
            let _ = poll(&mut fds, left.unwrap_or(PollTimeout::ZERO));
            if fds[0].any() == Some(true) {
                return false;
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let elapsed = self.stepped.elapsed();
        self.stepped = Instant::now();
        let now_ns = now_ns();
        let (mut ended, mut under_way) = (Vec::new(), Vec::new());
        if let Some(syncs) = &mut self.syncs {
            ended = syncs.ended()?;
            under_way = syncs.under_way();
        }
        let mut kept = std::mem::take(&mut self.kept);
        for of in &mut kept {
            self.look(of, elapsed, now_ns, (&ended, &under_way));
        }
        self.kept = kept;
        self.apply();
        Ok(())
    }

    /// Looks at one objective and lets the policy decide.
    fn look(&mut self, of: &mut Kept, elapsed: Duration, now_ns: u64, syncs: (&[Sync], &[Sync])) {
        let settings = &of.settings;
        let its = |sync: &&Sync| settings.is_of(&sync.cgroup);
        syncs
            .0
            .iter()
            .filter(its)
            .for_each(|sync| of.measure.ended(sync));
        let under_way: Vec<Sync> = syncs.1.iter().filter(its).cloned().collect();
        let window_ms = of.objective.window_ms().min(of.queues.window_ms());
        let since_ns = now_ns.saturating_sub(window_ms * 1_000_000);
        let directories: Vec<PathBuf> = match settings.bound {
            Bound::Fsync { .. } => Vec::new(),
            Bound::Pressure { .. } => {
                if of.measured.is_empty() || !of.measured.iter().all(Place::is_there) {
                    of.measured = holders::all(&self.tree, settings).1;
                }
                of.measured
                    .iter()
                    .map(|place| place.directory.clone())
                    .collect()
            }
        };
        of.value = of
            .measure
            .value(settings, since_ns, now_ns, &under_way, &directories);
        let bound = settings.bound.value();
        let is_broken = of.value.is_some_and(|value| value > bound);
        if !is_broken && of.objective.budget == UNLIMITED && !of.queues.are_narrowed() {
            of.queues.pause();
            of.forget_holders();
            return;
        }
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (places, measured) = holders::all(&self.tree, &of.settings);
        if !self.narrow(of, ms, &places, &measured) && of.objective.budget == UNLIMITED {
            of.forget_holders();
            return;
        }
        let drained = self.measure_holders(of, places, ms);
        // At the first look there is nothing to compare with.
        if !std::mem::replace(&mut of.is_known, true) {
            return;
        }
        let held: Vec<u64> = of.holders.values().map(|holder| holder.held).collect();
        let look = Look {
            value: of.value.unwrap_or(0),
            bound,
            held: held.iter().sum(),
            drained,
            least: of.settings.floor,
            elapsed_ms: ms,
            measured: of.value.is_some().into(),
            kept: 0,
        };
        let before = of.objective.budget;
        of.objective.step(&look);
        of.level = of.objective.level(of.settings.floor, &held);
        if of.objective.budget != before {
            self.journal.say(&Event::Budget {
                objective: of.index,
                measured: of.describe(),
                each_kib: (of.level != UNLIMITED).then(|| of.level * PAGE_KIB),
                others: held.len(),
                observing: of.settings.mode == Mode::Observe,
            });
        }
    }

    /// Narrows queues of disks where there is no module; whether ceilings have to do the rest.
    fn narrow(&self, of: &mut Kept, ms: u64, places: &[Place], measured: &[Place]) -> bool {
        let bound = of.settings.bound;
        if self.asked.is_none() || !matches!(bound, Bound::Fsync { .. }) {
            return true;
        }
        let root = Path::new("/");
        let disks = disk_queue::shared(root, &host::stack(root), places, measured);
        let look = Measured {
            value: of.value,
            bound: bound.value(),
            ms,
            is_on: of.settings.mode == Mode::On,
        };
        for (disk, pages) in of.queues.look(root, &disks, &look) {
            self.journal.say(&Event::Queue {
                objective: of.index,
                measured: of.describe(),
                disk,
                to_kib: (pages != UNLIMITED).then(|| pages * PAGE_KIB),
                observing: of.settings.mode == Mode::Observe,
            });
        }
        of.queues.are_in_vain()
    }

    /// Counts what others hold; pages of it that were written in a second.
    fn measure_holders(&mut self, of: &mut Kept, places: Vec<Place>, elapsed_ms: u64) -> u64 {
        let limit = self.saved.limit();
        let mut before = std::mem::take(&mut of.holders);
        let (mut written, mut missing) = (0, 0);
        let stack = host::stack(Path::new("/"));
        for place in places {
            let ceiling = self.ceilings.get(&place.inode);
            let expected = ceiling.map(|ceiling| ceiling.pages);
            let found = match self.asked {
                Some(_) => Found::Own,
                None => limits::look(limit, &place.directory, expected),
            };
            missing += u64::from(found == Found::Gone && place.is_there());
            if found != Found::Own && ceiling.is_none() {
                continue;
            }
            let counts = ceiling.is_some() && self.asked.is_none();
            let Some(held) = held::held(&place.directory, counts) else {
                continue;
            };
            let now = held::written(&place.directory, &stack).unwrap_or(0);
            let then = before.remove(&place.inode).map(|holder| holder.written);
            written += now.saturating_sub(then.unwrap_or(now));
            let holder = Holder {
                place,
                held: held.pages(),
                written: now,
            };
            of.holders.insert(holder.place.inode, holder);
        }
        if missing > 0 && of.holders.is_empty() {
            self.complain(&format!(
                "objective {}: cgroups it may limit have no {limit}: is weir's module loaded (`weir status`)?",
                of.index
            ));
        }
        written * 1_000 / elapsed_ms.max(1)
    }

    /// Sets each cgroup's ceiling, and each disk's queue, to the least of what objectives allow.
    fn apply(&mut self) {
        if let Some(asked) = &self.asked {
            asked.narrow(self.queues());
        }
        let mut wanted: BTreeMap<u64, (Place, u64)> = BTreeMap::new();
        for of in self.kept.iter().filter(|of| of.settings.mode == Mode::On) {
            for (inode, holder) in of.holders.iter().filter(|_| of.level != UNLIMITED) {
                let entry = wanted
                    .entry(*inode)
                    .or_insert_with(|| (holder.place.clone(), of.level));
                entry.1 = entry.1.min(of.level);
            }
        }
        let unwanted: Vec<u64> = self
            .ceilings
            .keys()
            .filter(|inode| !wanted.contains_key(inode))
            .copied()
            .collect();
        for inode in unwanted {
            if let Some(ceiling) = self.ceilings.remove(&inode) {
                self.release(&ceiling);
            }
        }
        for (inode, (place, pages)) in wanted {
            self.set(inode, place, pages);
        }
    }

    /// Pages that disks may have in flight, by name.
    fn queues(&self) -> BTreeMap<String, u64> {
        let mut least: BTreeMap<String, u64> = BTreeMap::new();
        for of in self.kept.iter().filter(|of| of.settings.mode == Mode::On) {
            for (disk, pages) in of.queues.narrowed() {
                let entry = least.entry(disk.into()).or_insert(pages);
                *entry = pages.min(*entry);
            }
        }
        least
    }

    fn set(&mut self, inode: u64, place: Place, pages: u64) {
        let before = self.ceilings.get(&inode).map(|ceiling| ceiling.pages);
        if before.is_some_and(|before| before.abs_diff(pages) <= before / CHANGE) {
            return;
        }
        let (cgroup, limit) = (place.path.clone(), self.saved.limit());
        let done = match &self.asked {
            Some(asked) => {
                asked.ask(&place, Some(pages));
                Ok(())
            }
            None => limits::set(&mut self.saved, &place, before, pages),
        };
        match done {
            Ok(()) => {
                self.foreign.remove(&inode);
                self.ceilings.insert(inode, Ceiling { place, pages });
                if before.is_none() {
                    self.journal.say(&Event::Ceiling {
                        cgroup,
                        to_kib: pages * PAGE_KIB,
                    });
                }
            }
            Err(Refused::Found(Found::Foreign(value))) => {
                self.ceilings.remove(&inode);
                if self.foreign.insert(inode) {
                    self.journal.say(&Event::LimitLeft {
                        cgroup,
                        limit,
                        value,
                    });
                }
            }
            Err(Refused::Found(_)) => {
                self.ceilings.remove(&inode);
            }
            Err(Refused::Failed(why)) => self.complain(&format!("{cgroup}: {why:#}")),
        }
    }

    /// Puts a cgroup's ceiling back.
    fn release(&mut self, ceiling: &Ceiling) {
        if let Some(asked) = &self.asked {
            return asked.ask(&ceiling.place, None);
        }
        let (place, pages) = (&ceiling.place, ceiling.pages);
        if let Err(why) = limits::put_back(&mut self.saved, place, pages, &self.journal) {
            self.complain(&why);
        }
    }

    /// Says what is wrong, once.
    fn complain(&mut self, why: &str) {
        if self.said.as_deref() != Some(why) {
            self.journal.say(&Event::Objective { why: why.into() });
            self.said = Some(why.into());
        }
    }

    fn tell(&self) {
        let values = self.kept.iter().map(|of| {
            let bound = of.settings.bound;
            (
                format!("{} {}", of.index, bound.name()),
                of.value,
                bound.value(),
            )
        });
        let ceilings = self.ceilings.values();
        let status = Status {
            values: values.collect(),
            ceilings: ceilings
                .map(|ceiling| (ceiling.place.path.clone(), ceiling.pages))
                .collect(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl Kept {
    fn new(index: usize, settings: Settings) -> Kept {
        Kept {
            index,
            settings,
            objective: Objective::default(),
            queues: Queues::default(),
            measure: Measure::default(),
            measured: Vec::new(),
            holders: BTreeMap::new(),
            is_known: false,
            value: None,
            level: UNLIMITED,
        }
    }

    /// What was measured, for people.
    fn describe(&self) -> String {
        match self.value {
            Some(value) => self.settings.bound.describe(value),
            None => "nothing to measure".into(),
        }
    }

    fn forget_holders(&mut self) {
        self.holders.clear();
        self.is_known = false;
        self.level = UNLIMITED;
    }
}

/// The clock that fsyncs are measured by.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is a monotonic clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}
