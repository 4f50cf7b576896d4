// SPDX-License-Identifier: GPL-2.0-only
//! All that is known of a stretch of time, from a live look or from a file. A file has the events
//! and nothing else; what it lacks stays empty, and the diagnosis has to say so.

use crate::cgroup::Cgroup;
use crate::diagnosis::size;
use crate::host::{Device, Host};
use crate::recording;
use crate::stall::{self, Stall};
use crate::tasks::Waits;
use crate::trace::Trace;
use crate::trace::event::{Event, Limits, Rate, What};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What was seen of a host, live or from a file.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// From the running kernel, not from a file.
    pub is_live: bool,
    /// Length of the observation.
    pub seconds: f64,
    /// By their beginning.
    pub stalls: Vec<Stall>,
    /// Names of tasks, by id.
    pub names: BTreeMap<u32, String>,
    /// Events there could have been; without their system.
    pub seen: BTreeSet<String>,
    /// Records the buffer had no room for.
    pub lost: u64,
    /// What could not be seen, for people.
    pub blind: Vec<String>,
    /// All events, as they came: for pictures.
    pub events: Vec<Event>,
    /// The host's limits and pages over time.
    pub limits: Vec<(u64, Limits)>,
    /// The host's pressure over time; in recordings only.
    pub pressure: Vec<(u64, Pressure)>,
    /// Bytes that tasks had dirtied since they began, over time; in recordings only.
    pub progress: Vec<(u64, Progress)>,
    /// The last of each device and cgroup.
    pub rates: Vec<Rate>,
    /// Settings of the host.
    pub host: Option<Host>,
    /// At the end, with what happened meanwhile.
    pub cgroups: Vec<Cgroup>,
    /// At the end, with what happened meanwhile.
    pub devices: Vec<Device>,
    /// Cgroup path to what its tasks slept for, from looking at them now and then.
    pub waits: BTreeMap<String, Waits>,
    /// Task to its cgroup's path.
    pub homes: BTreeMap<u32, String>,
    /// Looks at flushers.
    pub flushers: Flushers,
    /// State of weir's module, if it is loaded.
    pub weir: Option<String>,
    /// It is installed for this kernel, loaded or not.
    pub weir_is_installed: bool,
}

/// Running totals of `/proc/pressure/*`, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// `some` of `io`.
    pub io_some: u64,
    /// `full` of `io`.
    pub io_full: u64,
    /// `some` of `memory`.
    pub memory_some: u64,
    /// `full` of `memory`.
    pub memory_full: u64,
}

/// Bytes that each of some tasks has dirtied since it began.
pub type Progress = BTreeMap<u32, u64>;

/// What flushers were found doing, in numbers of looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushers {
    /// All of them.
    pub looks: u64,
    /// Looks that found a flusher running.
    pub ran: u64,
    /// Waiting for the journal.
    pub in_journal: u64,
    /// Waiting for memory.
    #[serde(default)]
    pub in_reclaim: u64,
    /// Looks that found a flusher idle.
    pub idle: u64,
}

/// A file larger than this is refused: it is not read piece by piece.
pub(crate) const LARGEST: u64 = 2 << 30;

impl Observation {
    /// From a file: a recording, `trace.dat`, or text of ftrace, trace-cmd or perf.
    ///
    /// # Errors
    /// It cannot be read, or is none of these.
    pub fn open(path: &Path) -> Result<Observation> {
        let bytes = content(path)?;
        let seen = if recording::is_recording(&bytes) {
            recording::read(&bytes)
        } else {
            Trace::read(&bytes).map(Observation::of)
        };
        seen.with_context(|| format!("{} cannot be used", path.display()))
    }

    /// What a trace alone tells.
    pub fn of(trace: Trace) -> Observation {
        let first = trace.events.first().map_or(0, |event| event.ns);
        let last = trace.events.last().map_or(0, |event| event.ns);
        let mut rates: BTreeMap<(String, u64), Rate> = BTreeMap::new();
        let mut limits = Vec::new();
        for event in &trace.events {
            match &event.what {
                What::Rate(rate) => {
                    rates.insert((rate.bdi.clone(), rate.cgroup), rate.clone());
                }
                What::Limits(now) => limits.push((event.ns, *now)),
                _ => {}
            }
        }
        Observation {
            seconds: (last - first) as f64 / 1e9,
            stalls: stall::all(&trace),
            names: trace.names,
            seen: trace.seen,
            lost: trace.lost,
            blind: trace.damage,
            events: trace.events,
            limits,
            rates: rates.into_values().collect(),
            ..Observation::default()
        }
    }

    /// The first and the last moment of which anything is known.
    pub fn span(&self) -> (u64, u64) {
        let times = || {
            let ends = [self.events.first(), self.events.last()];
            let events = ends.into_iter().flatten().map(|event| event.ns);
            events
                .chain(self.limits.iter().map(|(ns, _)| *ns))
                .chain(self.pressure.iter().map(|(ns, _)| *ns))
        };
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// A cgroup by its directory's inode.
    pub fn cgroup_of(&self, inode: u64) -> Option<&Cgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.inode == inode)
    }

    /// A cgroup by its path.
    pub fn cgroup_at(&self, path: &str) -> Option<&Cgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.path == path)
    }

    /// What a task is called.
    pub fn name_of(&self, task: u32) -> &str {
        self.names.get(&task).map_or("?", String::as_str)
    }
}

/// All of a file or a pipe.
///
/// # Errors
/// It cannot be read, or has more than is held in memory.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    up_to(LARGEST, path)
}

fn up_to(largest: u64, path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot read {name}"))?;
    let kind = metadata.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        bail!("{name} is a device, not a file");
    }
    // A pipe does not say how much there is.
    let mut bytes = Vec::new();
    if metadata.len() <= largest {
        file.take(largest + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {name}"))?;
    }
    if metadata.len().max(bytes.len() as u64) > largest {
        bail!(
            "{name} has more than {}: cut it first, with `trace-cmd split`, or with `head` if it is text",
            size(largest)
        );
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::io::Write;

    #[test]
    fn what_is_too_large_is_refused_whether_it_says_so_or_not() {
        let directory = tempfile::tempdir().expect("made");
        let (file, pipe) = (directory.path().join("file"), directory.path().join("pipe"));
        std::fs::write(&file, "twelve bytes").expect("written");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("made");
        for largest in [12, 11] {
            let path = pipe.clone();
            let writer = std::thread::spawn(move || {
                let mut pipe = File::options().write(true).open(path).expect("opened");
                pipe.write_all(b"twelve bytes").expect("written");
            });
            for path in [&file, &pipe] {
                let got = up_to(largest, path).map_err(|why| why.to_string());
                match largest {
                    12 => assert_eq!(got.as_deref(), Ok(&b"twelve bytes"[..])),
                    _ => assert!(got.expect_err("refused").contains("more than 11 B: cut it")),
                }
            }
            writer.join().expect("ended");
        }
    }
}
