// SPDX-License-Identifier: GPL-2.0-only
//! A look that goes on for ever at what tasks lose to the throttle, fsync, the journal and reclaim:
//! an observation for each stretch in which any did, for [`crate::owed`].
//!
//! It has to cost next to nothing. While nothing stalls no event comes, and nothing is read. When
//! something does, files are read of the cgroups that stall, those above them, and those that held
//! pages before: a handful. Only if these do not explain what the host holds, all are read. Both
//! keep their distance: a stretch lasts [`DISTANCE`] times the CPU time that the last one took, and
//! all cgroups are read again after [`FAR`] times what that took. Example: reading 1,000 cgroups
//! takes 60 ms, so that is done once a minute at most; three cgroups take 1 ms, so they are read
//! every 2 s, the shortest stretch.
//!
//! A task's cgroup is asked for when it is first seen to stall, half a second late at most. One that has
//! ended by then was in its maker's, unless it was moved (`homes`).

use super::homes::Homes;
use super::tasks::now_ns;
use super::tracefs::Tracefs;
use crate::model::cgroup::{self as cgroups_of, Cgroup, parent_path, path_up};
use crate::model::event::{Event, Limits, What};
use crate::model::host::{self as devices_of, Device, PAGE};
use crate::model::observation::Observation;
use crate::model::stall;
use crate::model::trace::Trace;
use crate::read::cgroup::{self, Want};
use crate::read::host;
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The shortest stretch.
const STRETCH: Duration = Duration::from_secs(2);
/// The longest stretch.
const LONGEST: Duration = Duration::from_secs(60);
/// Between two times that events are taken.
const ROUND: Duration = Duration::from_millis(500);
/// Wall time to one of CPU time, of a stretch.
const DISTANCE: u32 = 300;
/// The same of reading all cgroups.
const FAR: u32 = 1000;
/// Bytes of the kernel's buffer for each CPU, for as long as the agent runs: some 1,500 pauses. It is
/// emptied when it is half full.
const BUFFER: u64 = 256 << 10;
/// Events kept in one stretch.
const MOST_EVENTS: usize = 200_000;
/// Part of what the host holds that is explained well enough, in percent.
const EXPLAINED: u64 = 95;
/// A cgroup that holds less than this part of what the host holds is not looked at again.
const SMALL: u64 = 500;
/// A cgroup that allocates this much in a stretch is looked at again: 1 MiB.
const GREW: u64 = 1 << 20;
/// A cgroup that has such a part of what a memory limit is used for is looked at again, too.
const FILLS: u64 = 16;

/// Files that are read of a cgroup that may hold pages.
const HOLDER: Want = Want {
    pressure: false,
    limits: false,
    ..Want::ALL
};
/// Files that are read of a cgroup that stalls, and of those above it.
const STALLED: Want = Want {
    pressure: false,
    ..Want::ALL
};

/// Looks, until it is dropped.
pub struct Losses {
    root: PathBuf,
    tracing: Tracefs,
    missed: u64,
    trace: Trace,
    limits: Vec<(u64, Limits)>,
    since_ns: u64,
    due_ns: u64,
    homes: Homes,
    /// Paths of those that held pages, or stalled, of late; with all above them.
    known: BTreeSet<String>,
    before: BTreeMap<u64, Cgroup>,
    devices: Vec<Device>,
    /// The time at which all were read last, and the CPU time that took.
    all_ns: Option<(u64, Duration)>,
    spent: Duration,
    /// Part of that which went to reading all, which has a distance of its own.
    apart: Duration,
    /// Notes on what cannot be seen, for people.
    pub blind: Option<String>,
}

/// The tasks that stall.
struct Stalling {
    tasks: BTreeSet<u32>,
    /// Any of them in reclaim.
    reclaims: bool,
}

impl Stalling {
    fn from_events(events: &[Event]) -> Stalling {
        Stalling {
            tasks: events.iter().map(|event| event.task).collect(),
            reclaims: events
                .iter()
                .any(|event| matches!(event.what, What::ReclaimBegan | What::LimitReclaimBegan)),
        }
    }
}

impl Losses {
    /// Begins, on the running kernel.
    ///
    /// # Errors
    /// There is no cgroup v2, or events cannot be had.
    pub fn start() -> Result<Losses> {
        let root = PathBuf::from("/");
        cgroup::mounted_directory(&root)?;
        let tracing = Tracefs::start_waits(Path::new("/sys/kernel"), BUFFER)?;
        let now = now_ns();
        let mut losses = Losses {
            blind: tracing
                .blind
                .clone()
                .or_else(|| tracing.blind_to_syncs.clone()),
            homes: Homes::new(&root),
            root,
            tracing,
            missed: 0,
            trace: Trace::default(),
            limits: Vec::new(),
            since_ns: now,
            due_ns: now,
            known: BTreeSet::new(),
            before: BTreeMap::new(),
            devices: Vec::new(),
            all_ns: None,
            spent: Duration::ZERO,
            apart: Duration::ZERO,
        };
        losses.begin_stretch(now);
        Ok(losses)
    }

    /// Waits for events, half a second or until a buffer fills up, and takes them. A stretch that
    /// has ended, if anything stalled in it.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn wait_for_stretch(&mut self) -> Result<Option<Observation>> {
        self.tracing.wait_for_data(ROUND)?;
        let began = cpu_time();
        let seen = self.take_events();
        self.spent += cpu_time().saturating_sub(began);
        let now = now_ns();
        if seen.is_err() || now < self.due_ns {
            return seen.map(|()| None);
        }
        if self.trace.events.is_empty() {
            // What they came to since then says nothing of the next stall.
            self.before.clear();
            self.begin_stretch(now);
            return Ok(None);
        }
        let began = cpu_time();
        let seen = self.end_stretch(now);
        self.spent += cpu_time().saturating_sub(began);
        self.begin_stretch(now);
        Ok(Some(seen))
    }

    /// Begins the next stretch.
    fn begin_stretch(&mut self, now: u64) {
        self.since_ns = now;
        let spent = mem::take(&mut self.spent).saturating_sub(mem::take(&mut self.apart));
        let stretch = (spent * DISTANCE).clamp(STRETCH, LONGEST);
        self.due_ns = now + u64::try_from(stretch.as_nanos()).unwrap_or(u64::MAX / 2);
    }

    fn take_events(&mut self) -> Result<()> {
        let had = self.trace.events.len();
        self.tracing.read_buffers(&mut self.trace)?;
        let mut new = self.trace.events.split_off(had);
        self.homes.absorb_origins(&mut new);
        self.trace.events.append(&mut new);
        if self.trace.events.len() == had {
            return Ok(());
        }
        let surplus = self.trace.events.len().saturating_sub(MOST_EVENTS);
        self.trace.events.truncate(MOST_EVENTS);
        self.trace.lost += surplus as u64;
        let now = now_ns();
        self.limits.push((now, host::read_limits(&self.root)));
        self.ask_homes(had, now);
        // What they come to from here on is what counts, for those of whom nothing is known yet.
        if had == 0 && self.before.is_empty() {
            self.tracing.follow_module()?;
            self.devices = host::read_devices(&self.root);
            let stalling = Stalling::from_events(&self.trace.events);
            let read = self.read(now, &stalling);
            self.keep_counters(read);
        }
        Ok(())
    }

    /// Asks for the cgroups of the tasks of which there are events since `from`.
    fn ask_homes(&mut self, from: usize, now: u64) {
        for event in &self.trace.events[from..] {
            self.homes.find_home(event.task, now);
        }
    }

    fn end_stretch(&mut self, now: u64) -> Observation {
        self.limits.push((now, host::read_limits(&self.root)));
        let stalling = Stalling::from_events(&self.trace.events);
        let trace = self.cut_trace(now);
        // Taken now: what comes meanwhile counts in the next stretch.
        let mut devices = host::read_devices(&self.root);
        let before = mem::replace(&mut self.devices, devices.clone());
        devices_of::subtract_totals(&mut devices, &before);
        let state = std::fs::read_to_string(self.root.join("sys/kernel/weir/state")).ok();
        let mut cgroups = self.read(now, &stalling);
        let before: Vec<Cgroup> = mem::take(&mut self.before).into_values().collect();
        self.keep_counters(cgroups.clone());
        cgroups_of::subtract_totals(&mut cgroups, &before);
        cgroups_of::note_growth(&mut cgroups, &before);
        forget_unknown(&mut cgroups, &before);
        let _ = self.tracing.follow_module();
        let mut seen = Observation {
            is_live: true,
            seconds: now.saturating_sub(self.since_ns) as f64 / 1e9,
            limits: mem::take(&mut self.limits),
            cgroups,
            devices,
            weir: state.map(|state| state.trim().to_string()),
            ..Observation::from_trace(trace)
        };
        let tasks: BTreeSet<u32> = seen.stalls.iter().map(|stall| stall.task).collect();
        seen.homes = tasks
            .into_iter()
            .filter_map(|task| Some((task, self.homes.known_home(task)?)))
            .collect();
        seen
    }

    /// The trace up to here; what has not ended begins the next one.
    fn cut_trace(&mut self, ns: u64) -> Trace {
        let mut trace = mem::take(&mut self.trace);
        trace.seen.extend(self.tracing.enabled.iter().cloned());
        let missed = self.tracing.missed_wakeups();
        trace.lost += missed - mem::replace(&mut self.missed, missed).min(missed);
        let (_, now) = self.limits.last().copied().unwrap_or_default();
        trace.cut_after((ns, now));
        // Where records were lost an end may be among them: nothing goes on for ever.
        if trace.lost == 0 {
            self.trace.events = stall::carried_events(&trace, ns);
            let root = &self.root;
            self.trace
                .events
                .retain(|event| root.join(format!("proc/{}", event.task)).exists());
        }
        trace
    }

    /// Reads the cgroups that matter; all, if these do not explain what the host holds.
    fn read(&mut self, now: u64, stalling: &Stalling) -> Vec<Cgroup> {
        let homes = stalling.tasks.iter();
        let homes: BTreeSet<String> = homes
            .filter_map(|task| self.homes.known_home(*task))
            .collect();
        let stalled: BTreeSet<String> = homes
            .iter()
            .flat_map(|home| path_up(home))
            .chain([""])
            .map(str::to_string)
            .collect();
        let wanted: BTreeSet<&String> = stalled.iter().chain(&self.known).collect();
        let some = wanted.into_iter().map(|path| {
            let want = if stalled.contains(path) {
                STALLED
            } else {
                HOLDER
            };
            (path.as_str(), want)
        });
        let mut found = cgroup::read_some(&self.root, some);
        let can = self
            .all_ns
            .is_none_or(|(at, cost)| u128::from(now.saturating_sub(at)) > (cost * FAR).as_nanos());
        if can && (stalling.reclaims || !self.is_explained(&found)) {
            let began = cpu_time();
            found = cgroup::read_all(&self.root, STALLED);
            let cost = cpu_time().saturating_sub(began);
            self.all_ns = Some((now, cost));
            self.apart += cost;
        }
        self.note_known(&found, stalled);
        found
    }

    /// Returns whether what is dirty, and what counts against a memory limit, is in the cgroups
    /// that were read: not in one above others that were not.
    fn is_explained(&self, found: &[Cgroup]) -> bool {
        let (_, limits) = self.limits.last().copied().unwrap_or_default();
        let all = limits.dirty + limits.writeback;
        let mut below: BTreeMap<&str, u64> = BTreeMap::new();
        for cgroup in found {
            if let Some(above) = parent_path(&cgroup.path) {
                *below.entry(above).or_default() += cgroup.current;
            }
        }
        let is_leaf = |cgroup: &&Cgroup| !below.contains_key(cgroup.path.as_str());
        let leaves = found.iter().filter(is_leaf);
        let held: u64 = leaves
            .map(|cgroup| (cgroup.dirty + cgroup.writeback) / PAGE)
            .sum();
        let limited = found
            .iter()
            .filter(|cgroup| cgroup.max.or(cgroup.high).is_some());
        let used = limited.filter_map(|cgroup| {
            let below = below.get(cgroup.path.as_str())?;
            Some(*below >= cgroup.current / 100 * EXPLAINED)
        });
        held * 100 >= all * EXPLAINED && used.into_iter().all(|is_explained| is_explained)
    }

    /// Keeps in mind who holds pages, who allocated, and who stalled.
    fn note_known(&mut self, found: &[Cgroup], stalled: BTreeSet<String>) {
        let all = self
            .limits
            .last()
            .map_or(0, |(_, limits)| limits.dirty + limits.writeback);
        let least = (all * PAGE / SMALL).max(PAGE);
        let grew = |cgroup: &Cgroup| {
            let before = self.before.get(&cgroup.inode);
            before.map_or(0, |before| {
                let had = before.current.saturating_add(before.reclaimed);
                cgroup
                    .current
                    .saturating_add(cgroup.reclaimed)
                    .saturating_sub(had)
            })
        };
        let limited: BTreeMap<&str, u64> = found
            .iter()
            .filter(|cgroup| cgroup.max.or(cgroup.high).is_some())
            .map(|cgroup| (cgroup.path.as_str(), cgroup.current))
            .collect();
        let fills = |cgroup: &Cgroup| {
            let above = parent_path(&cgroup.path).and_then(|above| limited.get(above));
            above.is_some_and(|used| cgroup.current >= used / FILLS)
        };
        let holds = |cgroup: &&Cgroup| {
            let pages = cgroup.dirty + cgroup.writeback;
            pages >= least || grew(cgroup) >= GREW || fills(cgroup)
        };
        self.known = found
            .iter()
            .filter(holds)
            .map(|cgroup| cgroup.path.clone())
            .collect();
        self.known.extend(stalled);
        let above: Vec<String> = self
            .known
            .iter()
            .flat_map(|path| path_up(path))
            .map(str::to_string)
            .collect();
        self.known.extend(above);
    }

    fn keep_counters(&mut self, read: Vec<Cgroup>) {
        self.before = read
            .into_iter()
            .map(|cgroup| (cgroup.inode, cgroup))
            .collect();
    }
}

/// Forgets counters of cgroups of which nothing is known from before: what such a one did meanwhile
/// is not known, and is not all that it ever did.
fn forget_unknown(cgroups: &mut [Cgroup], before: &[Cgroup]) {
    let known: BTreeSet<u64> = before.iter().map(|cgroup| cgroup.inode).collect();
    for cgroup in cgroups
        .iter_mut()
        .filter(|cgroup| !known.contains(&cgroup.inode))
    {
        cgroup.io.clear();
        cgroup.grown = None;
        cgroup.allocated = None;
        cgroup.reclaimed = 0;
        cgroup.refaulted = 0;
    }
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("threads have a clock");
    Duration::new(
        u64::try_from(time.tv_sec()).unwrap_or(0),
        u32::try_from(time.tv_nsec()).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_from_before_is_not_counted() {
        let mut now = [
            Cgroup {
                inode: 1,
                allocated: Some(5),
                ..Cgroup::default()
            },
            Cgroup {
                inode: 2,
                allocated: Some(7),
                grown: Some(9),
                ..Cgroup::default()
            },
        ];
        let before = [Cgroup {
            inode: 1,
            ..Cgroup::default()
        }];
        forget_unknown(&mut now, &before);
        assert_eq!(
            (now[0].allocated, now[1].allocated, now[1].grown),
            (Some(5), None, None)
        );
    }

    #[test]
    fn cpu_time_only_grows() {
        let before = cpu_time();
        let spent: u64 = (0..100_000u64)
            .map(|n| n.wrapping_mul(n))
            .fold(0, u64::wrapping_add);
        assert!(cpu_time() > before || spent == 0);
    }
}
