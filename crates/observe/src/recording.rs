// SPDX-License-Identifier: GPL-2.0-only
//! A recording: a look that is kept, for another machine or another day.
//!
//! The file is gzip over lines of JSON, so that it can be looked at without weir (`zcat FILE | head`):
//!
//! ```text
//! {"weir_recording":1,"kernel":"6.12.117+deb12-cloud-amd64"}    version of the format
//! {"event":{"ns":81203456000,"task":412,"what":{"Pause":{...}}}}
//! {"limits":[81200000000,{"dirty":7300,...}]}                   ten times a second
//! {"pressure":[81200000000,{"io_some":912000,...}]}             ten times a second
//! {"progress":[81200000000,{"412":1048576,...}]}                ten times a second, of some tasks
//! {"state":{...}}                                               settings, cgroups, devices: at the end
//! ```
//!
//! What was written is flushed every second as a whole block. So the file of a machine that died can be
//! used up to its last second; what is known at the end only is then missing, as it is in a trace of
//! somebody else's. Readers skip lines they do not know and refuse versions they do not.

use crate::cgroup::Cgroup;
use crate::host::{Device, Host};
use crate::observation::{Flushers, LARGEST, Observation, Pressure, Progress};
use crate::tasks::Waits;
use crate::trace::Trace;
use crate::trace::event::{Event, Limits};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Of the format.
const VERSION: u32 = 1;
/// After this long what was written is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Event(Event),
    Limits((u64, Limits)),
    Pressure((u64, Pressure)),
    Progress((u64, Progress)),
    State(Box<State>),
}

#[derive(Serialize, Deserialize)]
struct Head {
    weir_recording: u32,
    kernel: String,
}

/// What is known at the end.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// Of a running kernel, not of a model of one: what flushers and devices did is known.
    #[serde(default = "yes")]
    is_live: bool,
    seconds: f64,
    names: BTreeMap<u32, String>,
    seen: BTreeSet<String>,
    lost: u64,
    blind: Vec<String>,
    host: Option<Host>,
    cgroups: Vec<Cgroup>,
    devices: Vec<Device>,
    waits: BTreeMap<String, Waits>,
    homes: BTreeMap<u32, String>,
    flushers: Flushers,
    weir: Option<String>,
    weir_is_installed: bool,
}

fn yes() -> bool {
    true
}

/// What was seen since it was last written.
#[derive(Default)]
pub struct Samples {
    /// The host's limits and pages over time.
    pub limits: Vec<(u64, Limits)>,
    /// Its pressure.
    pub pressure: Vec<(u64, Pressure)>,
    /// How far some tasks have come.
    pub progress: Vec<(u64, Progress)>,
}

/// A file being written.
pub struct Recording {
    out: GzEncoder<File>,
    flushed: Instant,
    name: String,
    events: u64,
}

impl Recording {
    /// Begins one; a file that is there already is not touched.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, kernel: &str) -> Result<Recording> {
        let name = path.display().to_string();
        let file =
            File::create_new(path).with_context(|| format!("cannot make the recording {name}"))?;
        let mut recording = Recording {
            out: GzEncoder::new(file, Compression::fast()),
            flushed: Instant::now(),
            name,
            events: 0,
        };
        let head = Head {
            weir_recording: VERSION,
            kernel: kernel.into(),
        };
        recording.line(&head)?;
        Ok(recording)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("cannot encode a line")?;
        text.push(b'\n');
        self.out
            .write_all(&text)
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// Takes events and samples away and writes them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn round(&mut self, events: &mut Vec<Event>, samples: &mut Samples) -> Result<()> {
        self.events += events.len() as u64;
        for event in events.drain(..) {
            self.line(&Line::Event(event))?;
        }
        for sample in samples.limits.drain(..) {
            self.line(&Line::Limits(sample))?;
        }
        for sample in samples.pressure.drain(..) {
            self.line(&Line::Pressure(sample))?;
        }
        for sample in samples.progress.drain(..) {
            self.line(&Line::Progress(sample))?;
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.out
                .flush()
                .with_context(|| format!("cannot write to {}", self.name))?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Written so far.
    pub fn events(&self) -> u64 {
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
            homes: seen.homes,
            flushers: seen.flushers,
            weir: seen.weir,
            weir_is_installed: seen.weir_is_installed,
        };
        self.line(&Line::State(Box::new(state)))?;
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

/// Whether these bytes begin a recording, or something else that is compressed like one.
pub(crate) fn is_recording(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1f\x8b")
}

/// Reads what `weir record` wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<Observation> {
    // One byte more than is taken tells that there is more.
    let mut unpacked = BufReader::new(MultiGzDecoder::new(bytes).take(LARGEST + 1));
    let lines = &mut (&mut unpacked).lines();
    let head = lines
        .next()
        .context("it is empty")?
        .context("it is compressed, but no recording")?;
    let head: Head =
        serde_json::from_str(&head).context("it is compressed, but no recording of weir's")?;
    if head.weir_recording != VERSION {
        bail!(
            "it is a recording of version {}; {VERSION} is supported: use a newer weir",
            head.weir_recording
        );
    }
    let mut trace = Trace::default();
    let mut samples = Samples::default();
    let mut state: Option<Box<State>> = None;
    let mut damaged = 0;
    for line in lines {
        // A line that cannot be read is the end of a file that was cut.
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Line::Event(event)) => trace.events.push(event),
            Ok(Line::Limits(sample)) => samples.limits.push(sample),
            Ok(Line::Pressure(sample)) => samples.pressure.push(sample),
            Ok(Line::Progress(sample)) => samples.progress.push(sample),
            Ok(Line::State(end)) => state = Some(end),
            // A kind of line that a newer weir writes is JSON, too.
            Err(_) => damaged += u64::from(serde_json::from_str::<IgnoredAny>(&line).is_err()),
        }
    }
    if unpacked.get_ref().limit() == 0 {
        bail!(
            "it has more than {} GiB unpacked: record for a shorter time",
            LARGEST >> 30
        );
    }
    if damaged > 0 {
        let lines = format!("{damaged} lines of the recording are damaged and were left out");
        trace.damage.push(lines);
    }
    trace.sort();
    let Some(state) = state else {
        return Ok(cut(trace, samples));
    };
    trace.seen = state.seen;
    trace.names = state.names;
    trace.lost = state.lost;
    Ok(Observation {
        is_live: state.is_live,
        seconds: state.seconds,
        blind: trace.damage.iter().cloned().chain(state.blind).collect(),
        limits: samples.limits,
        pressure: samples.pressure,
        progress: samples.progress,
        host: state.host,
        cgroups: state.cgroups,
        devices: state.devices,
        waits: state.waits,
        homes: state.homes,
        flushers: state.flushers,
        weir: state.weir,
        weir_is_installed: state.weir_is_installed,
        ..Observation::of(trace)
    })
}

/// Of a recording without its end: which events there could have been is taken from those there are.
fn cut(mut trace: Trace, samples: Samples) -> Observation {
    use crate::trace::event::{WOKE, What};
    let woke = trace.events.iter().any(|event| event.what == What::Woke);
    trace
        .seen
        .extend(["balance_dirty_pages", "global_dirty_state"].map(str::to_string));
    trace.seen.extend(woke.then(|| WOKE.to_string()));
    let seconds = samples
        .limits
        .last()
        .zip(samples.limits.first())
        .map_or(0.0, |(last, first)| {
            last.0.saturating_sub(first.0) as f64 / 1e9
        });
    Observation {
        seconds,
        limits: samples.limits,
        pressure: samples.pressure,
        progress: samples.progress,
        blind: trace
            .damage
            .iter()
            .cloned()
            .chain([
                "the recording has no end: it was cut or is damaged, or the machine died".into(),
            ])
            .collect(),
        ..Observation::of(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::{Pause, What};

    fn recorded() -> (tempfile::TempDir, Vec<u8>) {
        let dir = tempfile::tempdir().expect("made");
        let path = dir.path().join("r");
        let mut recording = Recording::create(&path, "6.12").expect("made");
        let pause = Pause {
            bdi: "8:0".into(),
            cgroup: 7,
            pause_ms: 90,
            ..Pause::default()
        };
        let event = |ns, what| Event { ns, task: 4, what };
        let mut events = vec![
            event(5_000_000, What::Pause(pause)),
            event(100_000_000, What::Woke),
        ];
        let limits = Limits {
            thresh: 9,
            ..Limits::default()
        };
        let mut samples = Samples {
            limits: vec![(1, limits)],
            pressure: vec![(1, Pressure::default())],
            progress: vec![(1, Progress::from([(4, 4096)]))],
        };
        recording.flushed = Instant::now() - FLUSH_EVERY;
        recording.round(&mut events, &mut samples).expect("written");
        assert!(events.is_empty() && samples.progress.is_empty());
        let end = Observation {
            seconds: 3.0,
            seen: BTreeSet::from(["throttle_woke".to_string()]),
            homes: BTreeMap::from([(4, "db".to_string())]),
            lost: 2,
            ..Observation::default()
        };
        let size = recording.finish(end).expect("written");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(bytes.len() as u64, size);
        assert!(
            Recording::create(&path, "6.12").is_err(),
            "what is there is kept"
        );
        (dir, bytes)
    }

    #[test]
    fn what_is_written_is_read() {
        let seen = read(&recorded().1).expect("read");
        assert_eq!(seen.stalls[0].slept_ns, Some(95_000_000));
        assert_eq!((seen.seconds, seen.lost, seen.limits.len()), (3.0, 2, 1));
        assert_eq!(seen.homes[&4], "db");
        assert_eq!((seen.pressure.len(), seen.progress[0].1[&4]), (1, 4096));
    }

    #[test]
    fn a_cut_one_is_used_up_to_its_last_block() {
        let bytes = recorded().1;
        let seen = read(&bytes[..bytes.len() - 60]).expect("read");
        assert_eq!(seen.stalls[0].slept_ns, Some(95_000_000));
        assert!(seen.blind[0].contains("has no end"), "{:?}", seen.blind);
        for end in 0..bytes.len() {
            let _ = read(&bytes[..end]);
        }
    }

    #[test]
    fn a_damaged_one_is_used_as_far_as_it_goes() {
        let bytes = recorded().1;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let _ = read(&damaged);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let head = "{\"weir_recording\":1,\"kernel\":\"x\"}";
        let newer = "{\"of_a_newer_kind\":[1]}";
        let limits = "[9,{\"dirty\":1,\"writeback\":1,\"background\":1,\"thresh\":1}]";
        let earlier = limits.replace('9', "3");
        write!(
            encoder,
            "{head}\n{newer}\n{{\"lim\n{{\"limits\":{limits}}}\n{{\"limits\":{earlier}}}\n"
        )
        .expect("packed");
        let seen = read(&encoder.finish().expect("packed")).expect("read");
        assert_eq!(
            seen.blind,
            [
                "1 lines of the recording are damaged and were left out",
                "the recording has no end: it was cut or is damaged, or the machine died"
            ]
        );
        assert_eq!((seen.limits.len(), seen.seconds), (2, 0.0));
    }

    #[test]
    fn others_are_refused() {
        let packed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).expect("packed");
            encoder.finish().expect("packed")
        };
        for (text, why) in [
            ("", "it is empty"),
            ("hello\n", "no recording of weir's"),
            (
                "{\"weir_recording\":9,\"kernel\":\"x\"}\n",
                "version 9; 1 is supported",
            ),
        ] {
            let error = format!("{:#}", read(&packed(text)).expect_err("refused"));
            assert!(error.contains(why), "{error}");
        }
    }
}
