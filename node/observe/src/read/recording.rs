// SPDX-License-Identifier: GPL-2.0-only
//! A recording: a look that is kept, for another machine or another day.
//!
//! The file is gzip over lines of JSON, so that it can be looked at without weir (`zcat FILE |
//! head`):
//!
//! ```text
//! {"weir_recording":2,"kernel":"6.12.117+deb12-cloud-amd64",...} version of the format, where it was made
//! {"throttle":{...}}                                            pauses and their ends, packed: block.rs
//! {"event":{"ns":81203456000,"task":412,"what":"SyncBegan"}}    any other event
//! {"limits":[81200000000,{"dirty":7300,...}]}                   every 0.4 s
//! {"pressure":[81200000000,{"io_some":912000,...}]}             every 0.4 s
//! {"progress":[81200000000,{"412":1048576,...}]}                every 0.4 s, of some tasks
//! {"tasks":{"412":["fio","db"],...}}                            names and cgroups of new tasks
//! {"state":{...}}                                               settings, cgroups, devices: at the end
//! ```
//!
//! What was written is flushed every second as a whole block. So the file of a machine that died
//! can be used up to its last second; what is known at the end only is then missing, as it is in a
//! trace of another program's. Readers skip lines they do not know and refuse versions they do not.
//! Version 1 had no packed events, and is read as well. Pages are of 4 KiB, whatever the kernel's are.

mod block;
mod read;

pub(crate) use read::{is_recording, read};

use crate::model::bounds::{self, Plausible};
use crate::model::cgroup::Cgroup;
use crate::model::event::{Event, Limits, What};
use crate::model::host::{Device, HostSettings, PressureTotals};
use crate::model::observation::{Flushers, Observation, Progress};
use crate::model::reclaim::Vmscan;
use crate::model::wait::Waits;
use anyhow::{Context, Result};
use block::Block;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Version of the format.
const VERSION: u32 = 2;
/// Unpacked; more is not read, because what becomes of it has to fit in memory, and so is not
/// written either.
const LARGEST: u64 = 1 << 30;
/// Bytes of that for what is known at the end.
const ROOM_FOR_THE_END: u64 = 64 << 20;
/// Events packed in a line: what is lost where a file is damaged.
const PACKED: usize = 1000;
/// After this long what was written is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Throttle(Block),
    Event(Event),
    Limits((u64, Limits)),
    Pressure((u64, PressureTotals)),
    Progress((u64, Progress)),
    Tasks(BTreeMap<u32, (String, String)>),
    State(Box<State>),
}

#[derive(Serialize, Deserialize)]
struct Head {
    weir_recording: u32,
    kernel: String,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    weir: String,
}

/// State that is known at the end.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// `true` of a running kernel, not of a model of one: what flushers and devices did is known.
    #[serde(default = "unless_said")]
    is_live: bool,
    seconds: f64,
    names: BTreeMap<u32, String>,
    seen: BTreeSet<String>,
    lost: u64,
    blind: Vec<String>,
    host: Option<HostSettings>,
    cgroups: Vec<Cgroup>,
    devices: Vec<Device>,
    waits: BTreeMap<String, Waits>,
    #[serde(default)]
    within: Option<BTreeMap<String, Waits>>,
    #[serde(default)]
    fuse_daemons: BTreeSet<u32>,
    homes: BTreeMap<u32, String>,
    flushers: Flushers,
    #[serde(default)]
    vmscan: Option<Vmscan>,
    weir: Option<String>,
    weir_is_installed: bool,
}

impl Plausible for Line {
    fn is_plausible(&self) -> bool {
        match self {
            // Packed.
            Line::Throttle(_) | Line::Tasks(_) => true,
            Line::Event(event) => event.is_plausible(),
            Line::Limits(sample) => sample.is_plausible(),
            Line::Pressure(sample) => sample.is_plausible(),
            Line::Progress(sample) => sample.is_plausible(),
            Line::State(end) => end.is_plausible(),
        }
    }
}

impl Plausible for State {
    fn is_plausible(&self) -> bool {
        bounds::plausible_seconds(self.seconds)
            && bounds::plausible_counts([self.lost])
            && self.host.iter().all(Plausible::is_plausible)
            && self.cgroups.iter().all(Plausible::is_plausible)
            && self.devices.iter().all(Plausible::is_plausible)
            && self.flushers.is_plausible()
            && self.vmscan.iter().all(Plausible::is_plausible)
            && self
                .waits
                .values()
                .chain(self.within.iter().flat_map(|within| within.values()))
                .flat_map(|waits| waits.values())
                .all(|slept| bounds::plausible_seconds(*slept))
    }
}

fn unless_said() -> bool {
    true
}

/// Samples since they were last written.
#[derive(Default)]
pub struct Samples {
    /// The host's limits and pages over time.
    pub limits: Vec<(u64, Limits)>,
    /// The host's pressure over time.
    pub pressure: Vec<(u64, PressureTotals)>,
    /// Bytes that some tasks have dirtied.
    pub progress: Vec<(u64, Progress)>,
    /// Names and cgroups of tasks that are new.
    pub tasks: BTreeMap<u32, (String, String)>,
}

/// A file being written.
pub struct Recording {
    out: GzEncoder<File>,
    flushed: Instant,
    name: String,
    events: u64,
    unpacked: u64,
    is_of_use: bool,
}

impl Recording {
    /// Begins one; a file that is there already is not touched.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, kernel: &str) -> Result<Recording> {
        Recording::create_on(path, kernel, "")
    }

    /// The same on the host of this name.
    ///
    /// # Errors
    /// The file is there, or cannot be made.
    pub fn create_on(path: &Path, kernel: &str, machine: &str) -> Result<Recording> {
        let name = path.display().to_string();
        let file =
            File::create_new(path).with_context(|| format!("cannot make the recording {name}"))?;
        let mut recording = Recording {
            out: GzEncoder::new(file, Compression::fast()),
            flushed: Instant::now(),
            name,
            events: 0,
            unpacked: 0,
            is_of_use: false,
        };
        let head = Head {
            weir_recording: VERSION,
            kernel: kernel.into(),
            machine: machine.into(),
            weir: env!("CARGO_PKG_VERSION").into(),
        };
        if let Err(why) = recording.write_line(&head) {
            // A file that has not even begun is of no use.
            let _ = std::fs::remove_file(path);
            return Err(why);
        }
        Ok(recording)
    }

    fn write_line(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("cannot encode a line")?;
        text.push(b'\n');
        self.unpacked += text.len() as u64;
        self.out
            .write_all(&text)
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// Takes events and samples away and writes them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_round(&mut self, events: &mut Vec<Event>, samples: &mut Samples) -> Result<()> {
        // Limits mark the end of a look: they are no event of the kernel's here.
        let is_of_kernel = |event: &&Event| !matches!(event.what, What::Limits(_));
        self.events += events.iter().filter(is_of_kernel).count() as u64;
        for part in events.chunks(PACKED) {
            let mut block = Block::default();
            for event in part {
                if !block.take_event(event) {
                    self.write_line(&Line::Event(event.clone()))?;
                }
            }
            if !block.is_empty() {
                self.write_line(&Line::Throttle(block.close()))?;
            }
        }
        events.clear();
        for sample in samples.limits.drain(..) {
            self.write_line(&Line::Limits(sample))?;
        }
        for sample in samples.pressure.drain(..) {
            self.write_line(&Line::Pressure(sample))?;
        }
        for sample in samples.progress.drain(..) {
            self.write_line(&Line::Progress(sample))?;
        }
        if !samples.tasks.is_empty() {
            self.write_line(&Line::Tasks(std::mem::take(&mut samples.tasks)))?;
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.out
                .flush()
                .with_context(|| format!("cannot write to {}", self.name))?;
            self.flushed = Instant::now();
            self.is_of_use = true;
        }
        Ok(())
    }

    /// Returns whether more could not be read any more.
    pub fn is_full(&self) -> bool {
        self.unpacked > LARGEST - ROOM_FOR_THE_END
    }

    /// Part of it is in the file for good, and can be read, whatever becomes of the rest.
    pub fn is_of_use(&self) -> bool {
        self.is_of_use
    }

    /// Written so far.
    pub fn event_count(&self) -> u64 {
        self.events
    }

    /// Writes the rest; returns the file's size.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, seen: Observation) -> Result<u64> {
        let state = State {
            is_live: seen.is_live,
            seconds: seen.seconds,
            names: seen.names,
            seen: seen.seen,
            lost: seen.lost,
            blind: seen.blind,
            host: seen.host,
            cgroups: seen.cgroups,
            devices: seen.devices,
            waits: seen.waits,
            within: seen.within,
            fuse_daemons: seen.fuse_daemons,
            homes: seen.homes,
            flushers: seen.flushers.clone(),
            vmscan: seen.vmscan,
            weir: seen.weir,
            weir_is_installed: seen.weir_is_installed,
        };
        self.write_line(&Line::State(Box::new(state)))?;
        let file = self
            .out
            .finish()
            .with_context(|| format!("cannot write to {}", self.name))?;
        Ok(file
            .metadata()
            .with_context(|| format!("cannot look at {}", self.name))?
            .len())
    }
}

#[cfg(test)]
mod tests;
