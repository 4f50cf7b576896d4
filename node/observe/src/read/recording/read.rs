// SPDX-License-Identifier: GPL-2.0-only
//! Reading a recording, whole or not.

use super::{Head, LARGEST, Line, Samples, State, VERSION};
use crate::model::bounds::Plausible;
use crate::model::event::{WOKE, What};
use crate::model::observation::{Made, Observation};
use crate::model::text::format_size;
use crate::model::trace::Trace;
use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use std::io::{BufRead, BufReader, Read};

/// Returns whether these bytes begin a recording, or something else that is compressed like one.
pub(crate) fn is_recording(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1f\x8b")
}

/// Reads what `weir record` wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<Observation> {
    read_up_to(LARGEST, bytes)
}

pub(super) fn read_up_to(largest: u64, bytes: &[u8]) -> Result<Observation> {
    // One byte more than is taken tells that there is more.
    let mut unpacked = BufReader::new(MultiGzDecoder::new(bytes).take(largest + 1));
    let lines = &mut (&mut unpacked).lines();
    let head = lines
        .next()
        .context("it is empty")?
        .context("it is compressed, but not a recording")?;
    let head: Head =
        serde_json::from_str(&head).context("it is compressed, but not a recording of weir")?;
    if !(1..=VERSION).contains(&head.weir_recording) {
        bail!(
            "it is a recording of version {}; up to {VERSION} is supported: use a newer weir",
            head.weir_recording
        );
    }
    let mut trace = Trace::default();
    let mut samples = Samples::default();
    let mut state: Option<Box<State>> = None;
    let mut damaged = 0;
    let mut ends_well = true;
    for line in lines {
        // A line that cannot be read is the end of a file that was cut, or does not have the
        // checksum it says.
        let Ok(line) = line else {
            ends_well = false;
            break;
        };
        match serde_json::from_str(&line) {
            Ok(line) if !line.is_plausible() => damaged += 1,
            Ok(Line::Throttle(block)) => match block.unpack_events() {
                Some(events) if events.iter().all(Plausible::is_plausible) => {
                    trace.events.extend(events);
                }
                _ => damaged += 1,
            },
            Ok(Line::Event(event)) => trace.events.push(event),
            Ok(Line::Limits(sample)) => samples.limits.push(sample),
            Ok(Line::Pressure(sample)) => samples.pressure.push(sample),
            Ok(Line::Progress(sample)) => samples.progress.push(sample),
            Ok(Line::Tasks(tasks)) => samples.tasks.extend(tasks),
            Ok(Line::State(end)) => state = Some(end),
            // A newer weir may write other kinds of lines and of events.
            Err(why) => damaged += u64::from(!why.to_string().starts_with("unknown variant")),
        }
    }
    if unpacked.get_ref().limit() == 0 {
        bail!(
            "it has more than {} unpacked: record for a shorter time",
            format_size(largest)
        );
    }
    if damaged > 0 {
        let lines = format!("{damaged} lines of the recording are damaged and were left out");
        trace.damage.push(lines);
    }
    if !ends_well && state.is_some() {
        let what = "the recording is damaged: its checksum is wrong or missing, so its numbers may be, too";
        trace.damage.push(what.into());
    }
    trace.clean_events();
    let made = Made {
        kernel: head.kernel,
        machine: head.machine,
        weir: head.weir,
    };
    let Some(state) = state else {
        return Ok(Observation {
            made: Some(made),
            ..from_cut_file(trace, samples)
        });
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
        within: state.within,
        fuse_daemons: state.fuse_daemons,
        homes: state.homes,
        flushers: state.flushers,
        vmscan: state.vmscan,
        weir: state.weir,
        weir_is_installed: state.weir_is_installed,
        made: Some(made),
        ..Observation::from_trace(trace)
    })
}

/// Makes an observation of a recording without its end: which events there could have been is taken
/// from those there are.
fn from_cut_file(mut trace: Trace, samples: Samples) -> Observation {
    let woke = trace.events.iter().any(|event| event.what == What::Woke);
    trace
        .seen
        .extend(["balance_dirty_pages", "global_dirty_state"].map(str::to_string));
    trace.seen.extend(woke.then(|| WOKE.to_string()));
    let tasks = samples.tasks.into_iter();
    let (names, homes): (Vec<_>, Vec<_>) = tasks
        .map(|(task, (name, home))| ((task, name), (task, home)))
        .unzip();
    trace.names.extend(names);
    let mut seen = Observation {
        homes: homes.into_iter().collect(),
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
        ..Observation::from_trace(trace)
    };
    let (first, last) = seen.time_span();
    seen.seconds = (last - first) as f64 / 1e9;
    seen
}
