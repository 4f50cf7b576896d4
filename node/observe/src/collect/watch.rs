// SPDX-License-Identifier: GPL-2.0-only
//! A look that goes on, in slices: an observation for each, for `weir top` and the like.
//!
//! Each slice is what [`crate::live::observe_target`] makes of a stretch of time, so the same
//! diagnosis tells who stalls whom. What costs too much to be done for ever is left out: tasks are
//! not looked at, so waits without events are not seen; and tasks' cgroups are asked for only of
//! those that stalled. What cannot be had (events take root) is missing, and
//! [`IntervalWatch::blind`] says so.
//!
//! Reading `memory.stat` makes the kernel add up its counters, which it does by itself every two
//! seconds; until then the throttle goes by older sums. Slices of two seconds and more so change
//! little of what they show.

use super::homes::Homes;
use super::live::LookOptions;
use super::tasks::now_ns;
use super::tracefs::Tracefs;
use crate::model::cgroup::{self as cgroups_of, Cgroup};
use crate::model::event::Limits;
use crate::model::host::{self as devices_of, Device, HostSettings};
use crate::model::observation::Observation;
use crate::model::stall;
use crate::model::trace::Trace;
use crate::read::cgroup::{self, Want};
use crate::read::host;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Events kept in one slice; a thousand writers at their most make half as many in a second.
const MOST_EVENTS: usize = 200_000;
/// Tasks whose cgroup is asked for in one slice; the writeback domain's stands for the others.
const MOST_TASKS: usize = 2000;

/// Files that are read: those that are not shown are left out.
const WANT: Want = Want {
    pressure: false,
    ..Want::ALL
};

/// Looks at cgroups and devices again and again.
pub struct IntervalWatch {
    root: PathBuf,
    tracing: Option<Tracefs>,
    homes: Homes,
    missed: u64,
    trace: Trace,
    limits: Vec<(u64, Limits)>,
    before: (Vec<Cgroup>, Vec<Device>),
    since: Instant,
    /// Notes on what cannot be seen, and why, for people.
    pub blind: Vec<String>,
    /// Spent on the last slice.
    pub cost: Duration,
}

impl IntervalWatch {
    /// Begins, on the machine whose root directory this is; events are had of the running one only.
    ///
    /// # Errors
    /// It has no cgroup v2.
    pub fn start(root: &Path) -> Result<IntervalWatch> {
        cgroup::mounted_directory(root)?;
        let mut blind = Vec::new();
        let tracing = if root == Path::new("/") {
            Tracefs::start(&root.join("sys/kernel"), LookOptions::BUFFER)
                .map_err(|why| blind.push(format!("time throttled is not seen: {why:#}")))
                .ok()
        } else {
            None
        };
        let since = Instant::now();
        if let Some(why) = tracing.as_ref().and_then(|tracing| tracing.blind.as_ref()) {
            blind.push(format!(
                "when pauses end cannot be seen ({why}): times are the announced ones"
            ));
        }
        Ok(IntervalWatch {
            root: root.into(),
            tracing,
            homes: Homes::new(root),
            missed: 0,
            trace: Trace::default(),
            limits: vec![(now_ns(), host::read_limits(root))],
            before: (cgroup::read_all(root, WANT), host::read_devices(root)),
            since,
            blind,
            cost: Duration::ZERO,
        })
    }

    /// Takes what the kernel's buffers have; several times a second.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_events(&mut self) -> Result<()> {
        self.limits.push((now_ns(), host::read_limits(&self.root)));
        if let Some(tracing) = &mut self.tracing {
            let had = self.trace.events.len();
            tracing.read_buffers(&mut self.trace)?;
            let mut new = self.trace.events.split_off(had);
            self.homes.absorb_origins(&mut new);
            let tasks: BTreeSet<u32> = new.iter().map(|event| event.task).collect();
            for task in tasks.into_iter().take(MOST_TASKS) {
                self.homes.find_home(task, now_ns());
            }
            self.trace.events.append(&mut new);
            let surplus = self.trace.events.len().saturating_sub(MOST_EVENTS);
            self.trace.events.truncate(MOST_EVENTS);
            self.trace.lost += surplus as u64;
        }
        Ok(())
    }

    /// Ends a slice and begins the next.
    ///
    /// # Errors
    /// As for [`IntervalWatch::take_events`].
    pub fn end_slice(&mut self) -> Result<Observation> {
        let began = Instant::now();
        self.take_events()?;
        let ns = now_ns();
        let seconds = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        let trace = self.cut_trace(ns);
        let (cgroups, devices) = (
            cgroup::read_all(&self.root, WANT),
            host::read_devices(&self.root),
        );
        let before = mem::replace(&mut self.before, (cgroups.clone(), devices.clone()));
        let (mut cgroups, mut devices) = (cgroups, devices);
        cgroups_of::subtract_totals(&mut cgroups, &before.0);
        cgroups_of::note_growth(&mut cgroups, &before.0);
        devices_of::subtract_totals(&mut devices, &before.1);
        let state = std::fs::read_to_string(self.root.join("sys/kernel/weir/state")).ok();
        let mut seen = Observation {
            is_live: true,
            seconds,
            limits: mem::replace(&mut self.limits, vec![(ns, host::read_limits(&self.root))]),
            host: Some(HostSettings::read(&self.root)),
            cgroups,
            devices,
            weir: state.map(|state| state.trim().to_string()),
            drain_seconds: host::drain_seconds(&self.root),
            blind: self.blind.clone(),
            ..Observation::from_trace(trace)
        };
        seen.homes = self.find_homes(&seen);
        self.cost = began.elapsed();
        Ok(seen)
    }

    /// The trace up to here; what has not ended begins the next one.
    fn cut_trace(&mut self, ns: u64) -> Trace {
        let mut trace = mem::take(&mut self.trace);
        if let Some(tracing) = &self.tracing {
            trace.seen.extend(tracing.enabled.iter().cloned());
            let missed = tracing.missed_wakeups();
            trace.lost += missed - mem::replace(&mut self.missed, missed).min(missed);
        }
        let (_, now) = self.limits.last().copied().unwrap_or_default();
        trace.cut_after((ns, now));
        self.trace.events = stall::carried_events(&trace, ns);
        trace
    }

    fn find_homes(&mut self, seen: &Observation) -> BTreeMap<u32, String> {
        let tasks: BTreeSet<u32> = seen.stalls.iter().map(|stall| stall.task).collect();
        let homes = &mut self.homes;
        let home = |task: u32| Some((task, homes.find_home(task, now_ns())?));
        tasks
            .into_iter()
            .take(MOST_TASKS)
            .filter_map(home)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Event, Pause, WOKE, What};
    use crate::model::stall::Stall;
    use std::fs;

    #[test]
    fn a_pause_over_two_slices_counts_in_both_for_its_tasks_cgroup() {
        let root = tempfile::tempdir().expect("made");
        let cgroups = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(cgroups.join("db")).expect("made");
        fs::create_dir_all(root.path().join("proc/7")).expect("made");
        fs::write(cgroups.join("cgroup.controllers"), "memory io\n").expect("written");
        fs::write(root.path().join("proc/7/cgroup"), "0::/db\n").expect("written");
        let mut watch = IntervalWatch::start(root.path()).expect("begun");
        let begun = now_ns();
        let pause = Pause {
            bdi: "8:0".into(),
            cgroup: 1,
            pause_ms: 60_000,
            ..Pause::default()
        };
        let event = |ns, what| Event { ns, task: 7, what };
        watch.trace.events.push(event(begun, What::Pause(pause)));
        watch.trace.seen.insert(WOKE.into());
        let first = watch.end_slice().expect("seen");
        watch.trace.seen.insert(WOKE.into());
        let end = now_ns();
        watch.trace.events.push(event(end, What::Woke));
        let second = watch.end_slice().expect("seen");
        assert_eq!(first.homes[&7], "db");
        let slept = |seen: &Observation| seen.stalls.iter().map(Stall::length_ns).sum::<u64>();
        assert!(slept(&first) > 0 && slept(&second) > 0);
        assert_eq!(slept(&first) + slept(&second), end - begun);
        assert!(watch.end_slice().expect("seen").stalls.is_empty());
    }

    #[test]
    fn without_cgroup2_there_is_nothing_to_watch() {
        let root = tempfile::tempdir().expect("made");
        let error = IntervalWatch::start(root.path())
            .err()
            .expect("refused")
            .to_string();
        assert!(
            error.contains("no cgroup2 is mounted at /sys/fs/cgroup"),
            "{error}"
        );
    }
}
