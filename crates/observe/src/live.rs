// SPDX-License-Identifier: GPL-2.0-only
//! A look at the running kernel for some time.

use crate::cgroup::Want;
use crate::observation::Observation;
use crate::recording::{Recording, Samples};
use crate::tasks::{self, Tasks};
use crate::trace::Trace;
use crate::tracefs::Tracefs;
use crate::{cgroup, host};
use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two rounds: taking events, looking at tasks and at the host's counters.
const ROUND: Duration = Duration::from_millis(100);
/// More events than these are not kept in memory: the look ends early then.
const MOST_EVENTS: usize = 4_000_000;

/// Whom to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everybody.
    Host,
    /// A cgroup and what is below it; its path below the root's directory.
    Cgroup(String),
    /// A process, and the cgroup it is in.
    Process(u32, String),
}

impl Target {
    /// From a cgroup's path, absolute or below the root, or a process's id.
    ///
    /// # Errors
    /// There is no such cgroup or process.
    pub fn find(text: &str) -> Result<Target> {
        cgroup::mounted(Path::new("/"))?;
        if let Ok(process) = text.parse() {
            let home = tasks::home_of(Path::new("/"), process)
                .with_context(|| format!("there is no process {process}"))?;
            return Ok(Target::Process(process, home));
        }
        let below = text
            .strip_prefix(cgroup::ROOT)
            .unwrap_or(text)
            .trim_matches('/');
        let directory = Path::new(cgroup::ROOT).join(below);
        if below.split('/').any(|part| part == "..") || !directory.join("cgroup.procs").is_file() {
            bail!("there is no cgroup {below} below {}", cgroup::ROOT);
        }
        Ok(Target::Cgroup(below.into()))
    }

    fn directory(&self) -> PathBuf {
        let below = match self {
            Target::Host => "",
            Target::Cgroup(path) | Target::Process(_, path) => path,
        };
        Path::new(cgroup::ROOT).join(below)
    }
}

/// Looks until `time` is over or `stop` is set. With a recording, events and samples go there and not
/// into memory, and what it returns has only the rest.
///
/// # Errors
/// Events cannot be had, or the recording cannot be written.
pub fn look(
    target: &Target,
    time: Duration,
    stop: &AtomicBool,
    mut recording: Option<&mut Recording>,
) -> Result<Observation> {
    let mut tracing = Tracefs::start()?;
    let mut trace = Trace::default();
    let mut blind = tracing
        .blind
        .iter()
        .map(|why| format!("when pauses end cannot be seen ({why}): times are the announced ones"))
        .collect::<Vec<_>>();
    let process = match target {
        Target::Process(process, _) => Some(*process),
        Target::Host | Target::Cgroup(_) => None,
    };
    let mut watched = Tasks::new(&target.directory(), process);
    let here = Path::new("/");
    let before = (cgroup::all(here, Want::TOTALS), host::devices(here));
    let mut samples = Samples::default();
    let start = Instant::now();
    let begin = now_ns();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        watched.look();
        samples.limits.push((now_ns(), host::limits(here)));
        tracing.poll(&mut trace)?;
        if let Some(recording) = recording.as_deref_mut() {
            samples.pressure.push((now_ns(), host::pressure(here)));
            let born = watched.born().into_iter();
            samples.progress.extend(born.filter(|(ns, _)| *ns > begin));
            samples.progress.push((now_ns(), watched.progress()));
            recording.round(&mut trace.events, &mut samples)?;
        } else if trace.events.len() > MOST_EVENTS {
            blind.push(format!("ended after {MOST_EVENTS} events"));
            break;
        }
        std::thread::sleep(ROUND.min(time.saturating_sub(start.elapsed())));
    }
    let seconds = start.elapsed().as_secs_f64();
    tracing.finish(&mut trace)?;
    if let Some(recording) = recording {
        recording.round(&mut trace.events, &mut samples)?;
    }
    trace.sort();
    let (mut cgroups, mut devices) = (cgroup::all(here, Want::ALL), host::devices(here));
    cgroup::subtract(&mut cgroups, &before.0);
    host::subtract(&mut devices, &before.1);
    let state = std::fs::read_to_string("/sys/kernel/weir/state").ok();
    trace.names = watched.names();
    Ok(Observation {
        is_live: true,
        seconds,
        limits: samples.limits,
        host: Some(host::Host::read(here)),
        cgroups,
        devices,
        waits: watched.waits,
        homes: watched.homes,
        flushers: watched.flushers,
        weir: state.map(|state| state.trim().to_string()),
        blind,
        ..Observation::of(trace)
    })
}

/// The clock that events carry.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is a monotonic clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(now.tv_nsec()).unwrap_or(0)
}
