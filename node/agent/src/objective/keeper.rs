// SPDX-License-Identifier: GPL-2.0-only
//! The thread: measures once a second, and sets windows and ceilings as the policies say.

use super::applied::AppliedLimits;
use super::holders;
use super::measure::Measure;
use super::queues::{QueueFigures, Queues};
use super::settings::{Bound, Calls, ObjectiveSettings};
use super::status::{ObjectiveStatus, ObjectiveValue};
use super::windows::{self, Windows};
use crate::dirty_pages::{DirtyPages, read_written_pages};
use crate::disk_queue;
use crate::journal::{Journal, JournalEvent};
use crate::limits::{FoundLimit, Mode};
use crate::requested_limits::RequestedLimits;
use crate::saved_limits::SavedLimits;
use crate::tree::{CgroupDir, Hierarchy};
use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use observe::read::host;
use observe::reads::Reads;
use observe::syncs::{Syncs, Timed};
use policy::UNLIMITED;
use policy::objective::{Look, Objective};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two steps.
const STEP: Duration = Duration::from_secs(1);
const PAGE_KIB: u64 = 4;

/// A cgroup that may be limited, while an objective is at stake.
struct CeilingHolder {
    place: CgroupDir,
    /// Pages it holds.
    held: u64,
    /// Written for it since it was made.
    written: u64,
}

/// An objective at work.
struct KeptObjective {
    /// Index of the objective in the policy file.
    index: usize,
    settings: ObjectiveSettings,
    objective: Objective,
    /// Disks' queues, narrowed before there are ceilings where there is no module.
    queues: Queues,
    /// Windows where there is one.
    windows: Windows,
    measure: Measure,
    /// Cgroups whose pressure is measured.
    measured: Vec<CgroupDir>,
    /// Cgroups that may be limited, by inode; looked for while the bound is broken or limits are
    /// set.
    holders: BTreeMap<u64, CeilingHolder>,
    /// There was a look at them before.
    is_known: bool,
    value: Option<u64>,
    /// Pages that each of them may hold.
    level: u64,
}

/// Calls that have ended, and those under way.
type Seen = (Vec<Timed>, Vec<Timed>);

/// The thread's state.
pub struct ObjectiveKeeper {
    tree: Hierarchy,
    syncs: Option<Syncs>,
    reads: Option<Reads>,
    kept: Vec<KeptObjective>,
    ceilings: AppliedLimits,
    windows: AppliedLimits,
    /// Receives ceilings where there is no module.
    asked: Option<RequestedLimits>,
    journal: Journal,
    status: Arc<Mutex<ObjectiveStatus>>,
    stepped: Instant,
    said: Option<String>,
}

impl ObjectiveKeeper {
    /// Begins to look at fsyncs and reads, if an objective is about them. One about what cannot be seen
    /// is left out, which the journal says.
    pub fn new(
        tree: Hierarchy,
        settings: &[ObjectiveSettings],
        (ceilings, windows): (SavedLimits, SavedLimits),
        asked: Option<RequestedLimits>,
        journal: Journal,
        status: Arc<Mutex<ObjectiveStatus>>,
    ) -> ObjectiveKeeper {
        let used = settings.iter().enumerate();
        let used = used.filter(|(_, of)| of.mode != Mode::Off);
        let mut kept: Vec<KeptObjective> = used
            .map(|(index, of)| KeptObjective::new(index, of.clone()))
            .collect();
        let syncs = start_timing(Calls::Fsync, &mut kept, Syncs::start, &journal);
        let reads = start_timing(Calls::Read, &mut kept, Reads::start, &journal);
        ObjectiveKeeper {
            tree,
            syncs,
            reads,
            kept,
            ceilings: AppliedLimits::new(ceilings, asked.clone(), journal.clone()),
            windows: AppliedLimits::new(windows, None, journal.clone()),
            asked,
            journal,
            status,
            stepped: Instant::now(),
            said: None,
        }
    }

    /// Runs until the other end of `ended` is closed; then puts all ceilings back.
    pub fn run(mut self, ended: &UnixStream) {
        while self.wait_for_step(ended) {
            if let Err(why) = self.run_step() {
                self.report_once(&format!("{why:#}"));
            }
            self.publish_status();
        }
        self.set(BTreeMap::new(), BTreeMap::new());
        if let Some(asked) = &self.asked {
            asked.request_queues(BTreeMap::new());
        }
        self.publish_status();
    }

    /// Waits for the next step, and takes reads meanwhile, before buffers are full; false if there is
    /// none.
    fn wait_for_step(&mut self, ended: &UnixStream) -> bool {
        loop {
            let left = (self.stepped + STEP).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            // Up to the next millisecond: rounded down it would spin through the last one.
            let left = PollTimeout::try_from(left + Duration::from_millis(1));
            let pipes = self.reads.iter().flat_map(Reads::trace_pipes);
            let fds = [ended.as_fd()].into_iter().chain(pipes);
            let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            // A signal ends the wait early, which the clock tells.
            let _ = poll(&mut fds, left.unwrap_or(PollTimeout::ZERO));
            if fds[0].any() == Some(true) {
                return false;
            }
            let is_filling = fds.iter().any(|fd| fd.any() == Some(true));
            drop(fds);
            if let Some(Err(why)) = self
                .reads
                .as_mut()
                .filter(|_| is_filling)
                .map(Reads::take_events)
            {
                self.report_once(&format!("{why:#}"));
                return true;
            }
        }
    }

    fn run_step(&mut self) -> Result<()> {
        let elapsed = self.stepped.elapsed();
        self.stepped = Instant::now();
        let now_ns = now_ns();
        let (mut syncs, mut reads) = (Seen::default(), Seen::default());
        if let Some(of) = &mut self.syncs {
            syncs = (of.take_ended()?, of.under_way());
        }
        if let Some(of) = &mut self.reads {
            reads = (of.take_ended()?, of.under_way());
        }
        let mut kept = std::mem::take(&mut self.kept);
        for of in &mut kept {
            let calls = match of.settings.bound {
                Bound::Calls {
                    of: Calls::Fsync, ..
                } => &syncs,
                Bound::Calls {
                    of: Calls::Read, ..
                } => &reads,
                Bound::Pressure { .. } => &Seen::default(),
            };
            self.evaluate_objective(of, elapsed, now_ns, calls);
        }
        self.kept = kept;
        self.apply_least();
        Ok(())
    }

    /// Looks at one objective and lets the policy decide.
    fn evaluate_objective(
        &mut self,
        of: &mut KeptObjective,
        elapsed: Duration,
        now_ns: u64,
        calls: &Seen,
    ) {
        let settings = &of.settings;
        let its = |call: &&Timed| settings.is_within_measured(&call.cgroup);
        calls
            .0
            .iter()
            .filter(its)
            .for_each(|call| of.measure.add_call(call));
        let under_way: Vec<Timed> = calls.1.iter().filter(its).cloned().collect();
        let narrowed_ms = of.queues.window_ms().min(of.windows.since_ms());
        let since_ms = of.objective.window_ms().min(narrowed_ms);
        let since_ns = now_ns.saturating_sub(since_ms * 1_000_000);
        let directories: Vec<PathBuf> = match settings.bound {
            Bound::Calls { .. } => Vec::new(),
            Bound::Pressure { .. } => {
                if of.measured.is_empty() || !of.measured.iter().all(CgroupDir::is_there) {
                    of.measured = holders::find_holders(&self.tree, settings).1;
                }
                of.measured
                    .iter()
                    .map(|place| place.directory.clone())
                    .collect()
            }
        };
        of.value = of
            .measure
            .measured_value(settings, since_ns, now_ns, &under_way, &directories);
        let bound = settings.bound.numeric_value();
        let is_broken = of.value.is_some_and(|value| value > bound);
        let is_narrowed = of.queues.are_narrowed() || of.windows.are_set();
        if !is_broken && of.objective.budget == UNLIMITED && !is_narrowed {
            of.queues.forget_counters();
            of.windows.forget_holders();
            of.forget_holders();
            return;
        }
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (places, measured) = holders::find_holders(&self.tree, &of.settings);
        if !self.narrow_queues_or_windows(of, ms, &places, &measured)
            && of.objective.budget == UNLIMITED
        {
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
        of.objective.adapt_by_look(&look);
        of.level = of.objective.level_pages(of.settings.floor, &held);
        if of.objective.budget != before {
            self.journal.log_event(&JournalEvent::Budget {
                objective: of.index,
                measured: of.describe_value(),
                each_kib: (of.level != UNLIMITED).then(|| of.level * PAGE_KIB),
                others: held.len(),
                observing: of.settings.mode == Mode::Observe,
            });
        }
    }

    /// Narrows queues of disks, or windows where there is the module. Returns whether ceilings have
    /// to do the rest.
    fn narrow_queues_or_windows(
        &self,
        of: &mut KeptObjective,
        ms: u64,
        places: &[CgroupDir],
        measured: &[CgroupDir],
    ) -> bool {
        match self.asked {
            Some(_) => self.narrow_queues(of, ms, places, measured),
            None => self.narrow_windows(of, ms, places),
        }
    }

    /// Narrows queues of disks. Returns whether ceilings have to do the rest.
    fn narrow_queues(
        &self,
        of: &mut KeptObjective,
        ms: u64,
        places: &[CgroupDir],
        measured: &[CgroupDir],
    ) -> bool {
        let bound = of.settings.bound;
        if !matches!(bound, Bound::Calls { .. }) {
            return true;
        }
        let root = Path::new("/");
        let disks = disk_queue::shared_disks(root, &host::read_stack(root), places, measured);
        let look = QueueFigures {
            value: of.value,
            bound: bound.numeric_value(),
            ms,
            is_on: of.settings.mode == Mode::On,
        };
        for (disk, pages) in of.queues.update_queues(root, &disks, &look) {
            self.journal.log_event(&JournalEvent::Queue {
                objective: of.index,
                measured: of.describe_value(),
                disk,
                to_kib: (pages != UNLIMITED).then(|| pages * PAGE_KIB),
                observing: of.settings.mode == Mode::Observe,
            });
        }
        of.queues.none_can_help()
    }

    /// Narrows what others have under writeback, if that may help; whether ceilings have to do the
    /// rest.
    fn narrow_windows(&self, of: &mut KeptObjective, ms: u64, places: &[CgroupDir]) -> bool {
        let bound = of.settings.bound;
        let Some(wait_us) = bound.wait_us() else {
            return true;
        };
        let is_on = of.settings.mode == Mode::On;
        let measured = windows::WindowFigures {
            value: of.value,
            bound: bound.numeric_value(),
            wait_us,
            ms,
            frozen: of.objective.budget != UNLIMITED,
            is_on,
        };
        let stack = host::read_stack(Path::new("/"));
        if of
            .windows
            .update_windows(places, &self.windows, &stack, &measured)
        {
            self.journal.log_event(&JournalEvent::Window {
                objective: of.index,
                measured: of.describe_value(),
                each_kib: of.windows.window_pages().map(|pages| pages * PAGE_KIB),
                others: of.windows.len(),
                observing: !is_on,
            });
        }
        of.windows.are_spent()
    }

    /// Counts what others hold; pages of it that were written in a second.
    fn measure_holders(
        &mut self,
        of: &mut KeptObjective,
        places: Vec<CgroupDir>,
        elapsed_ms: u64,
    ) -> u64 {
        let limit = self.ceilings.limit_file();
        let mut before = std::mem::take(&mut of.holders);
        let (mut written, mut missing) = (0, 0);
        let stack = host::read_stack(Path::new("/"));
        for place in places {
            let has_ceiling = self.ceilings.has_limit(&place);
            let found = self.ceilings.compare_file(&place);
            missing += u64::from(found == FoundLimit::Gone && place.is_there());
            if found != FoundLimit::Own && !has_ceiling {
                continue;
            }
            let counts = has_ceiling && self.asked.is_none();
            let Some(held) = DirtyPages::read(&place.directory, counts) else {
                continue;
            };
            let now = read_written_pages(&place.directory, &stack).unwrap_or(0);
            let then = before.remove(&place.inode).map(|holder| holder.written);
            written += now.saturating_sub(then.unwrap_or(now));
            let holder = CeilingHolder {
                place,
                held: held.total_pages(),
                written: now,
            };
            of.holders.insert(holder.place.inode, holder);
        }
        if missing > 0 && of.holders.is_empty() {
            self.report_once(&format!(
                "objective {}: cgroups it may limit have no {limit}: is weir's module loaded (`weir status`)?",
                of.index
            ));
        }
        written * 1_000 / elapsed_ms.max(1)
    }

    /// Pages that disks may have in flight, by name.
    fn least_queue_pages(&self) -> BTreeMap<String, u64> {
        let mut least: BTreeMap<String, u64> = BTreeMap::new();
        for of in self.kept.iter().filter(|of| of.settings.mode == Mode::On) {
            for (disk, pages) in of.queues.narrowed_queues() {
                let entry = least.entry(disk.into()).or_insert(pages);
                *entry = pages.min(*entry);
            }
        }
        least
    }

    /// Sets each cgroup's ceiling and window, and each disk's queue, to the least of what objectives
    /// allow.
    fn apply_least(&mut self) {
        if let Some(asked) = &self.asked {
            asked.request_queues(self.least_queue_pages());
        }
        let mut ceilings = BTreeMap::new();
        let mut windows = BTreeMap::new();
        let lower =
            |wanted: &mut BTreeMap<u64, (CgroupDir, u64)>, place: &CgroupDir, pages: u64| {
                let entry = wanted.entry(place.inode);
                let entry = entry.or_insert_with(|| (place.clone(), pages));
                entry.1 = entry.1.min(pages);
            };
        for of in self.kept.iter().filter(|of| of.settings.mode == Mode::On) {
            for holder in of.holders.values().filter(|_| of.level != UNLIMITED) {
                lower(&mut ceilings, &holder.place, of.level);
            }
            for (place, pages) in of.windows.wanted_windows() {
                lower(&mut windows, place, pages);
            }
        }
        self.set(ceilings, windows);
    }

    /// Sets these and no others.
    fn set(
        &mut self,
        ceilings: BTreeMap<u64, (CgroupDir, u64)>,
        windows: BTreeMap<u64, (CgroupDir, u64)>,
    ) {
        let mut failed = self.windows.apply_limits(windows);
        failed.extend(self.ceilings.apply_limits(ceilings));
        for why in failed {
            self.report_once(&why);
        }
    }

    /// Says what is wrong, once.
    fn report_once(&mut self, why: &str) {
        if self.said.as_deref() != Some(why) {
            self.journal
                .log_event(&JournalEvent::Objective { why: why.into() });
            self.said = Some(why.into());
        }
    }

    fn publish_status(&self) {
        let values = self.kept.iter().map(|of| {
            let bound = of.settings.bound;
            ObjectiveValue {
                objective: format!("{} {}", of.index, bound.name()),
                cgroups: of.settings.measured_globs(),
                measured: of.value,
                bound: bound.numeric_value(),
            }
        });
        let status = ObjectiveStatus {
            values: values.collect(),
            ceilings: self.ceilings.pages_by_path(),
            windows: self.windows.pages_by_path(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl KeptObjective {
    fn new(index: usize, settings: ObjectiveSettings) -> KeptObjective {
        KeptObjective {
            index,
            settings,
            objective: Objective::default(),
            queues: Queues::default(),
            windows: Windows::default(),
            measure: Measure::default(),
            measured: Vec::new(),
            holders: BTreeMap::new(),
            is_known: false,
            value: None,
            level: UNLIMITED,
        }
    }

    /// The measured value, for people.
    fn describe_value(&self) -> String {
        match self.value {
            Some(value) => self.settings.bound.describe_measured(value),
            None => "nothing to measure".into(),
        }
    }

    fn forget_holders(&mut self) {
        self.holders.clear();
        self.is_known = false;
        self.level = UNLIMITED;
    }
}

/// Begins to look at calls if an objective is about them; without that it is none any more.
fn start_timing<T>(
    calls: Calls,
    kept: &mut Vec<KeptObjective>,
    start: impl Fn() -> Result<T>,
    journal: &Journal,
) -> Option<T> {
    let is_about =
        |of: &KeptObjective| matches!(of.settings.bound, Bound::Calls { of, .. } if of == calls);
    let first = kept.iter().find(|of| is_about(of))?;
    match start() {
        Ok(looking) => Some(looking),
        Err(why) => {
            let what = match calls {
                Calls::Fsync => "fsyncs",
                Calls::Read => "reads",
            };
            let index = first.index;
            let why = format!("{why:#}");
            journal.log_event(&JournalEvent::Objective {
                why: format!("{what} cannot be seen, so objective {index} is not kept: {why}"),
            });
            kept.retain(|of| !is_about(of));
            None
        }
    }
}

/// The clock that calls are measured by.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is a monotonic clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use anyhow::bail;

    #[test]
    fn an_objective_on_what_cannot_be_seen_is_left_out_and_others_stay() {
        let of =
            |bound: &str| format!("[[objective]]\ncgroup = \"/db\"\nlimit = \"/batch\"\n{bound}\n");
        let text =
            of("fsync_p99 = \"1s\"") + &of("read_p99 = \"1s\"") + &of("io_pressure = \"5%\"");
        let rules = Rules::parse("a.toml", &text).expect("valid");
        let all = rules.objectives.iter().enumerate();
        let mut kept: Vec<KeptObjective> = all
            .map(|(at, of)| KeptObjective::new(at, of.clone()))
            .collect();
        let journal = Journal::new(std::io::sink(), false);
        let refused = || -> Result<()> { bail!("it takes root") };
        assert!(start_timing(Calls::Read, &mut kept, refused, &journal).is_none());
        let names: Vec<_> = kept.iter().map(|of| of.settings.bound.name()).collect();
        assert_eq!(names, ["fsync_p99", "io_pressure"]);
        assert!(start_timing(Calls::Fsync, &mut kept, || Ok(()), &journal).is_some());
        assert_eq!(kept.len(), 2);
        let none = || -> Result<()> { panic!("no objective is about reads") };
        assert!(start_timing(Calls::Read, &mut kept, none, &journal).is_none());
    }
}
