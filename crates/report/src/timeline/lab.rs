// SPDX-License-Identifier: GPL-2.0-only
//! A timeline from the directory that `weir run --out` leaves of a guest, or of a run on the twin:
//! its phases one after the other. `results.jsonl` has samples of dirty pages; a phase that was run
//! with `--record` has a recording beside it, `PHASE.weir`, with everything else.

use super::{Cgroup, Levels, Timeline, recorded};
use crate::format::digits;
use anyhow::{Context, Result, bail};
use observe::Observation;
use observe::host::PAGE;
use observe::observation::content;
use observe::plausible::MOST_BYTES;
use observe::trace::event::Limits;
use scenario::rundir::{Event, PhaseResult, RESULTS, Series as Sampled};
use std::fs;
use std::path::Path;

/// What is drawn of a guest's directory.
///
/// # Errors
/// It is none, no phase came to its end, or a file in it cannot be read.
pub fn phases(name: &str, directory: &Path) -> Result<Timeline> {
    let path = directory.join(RESULTS);
    if !path.is_file() {
        bail!("{name} {}", what_it_is(directory));
    }
    let text = String::from_utf8(content(&path)?)
        .with_context(|| format!("{} is no text", path.display()))?;
    let mut run = Timeline {
        name: name.into(),
        ..Timeline::default()
    };
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let event: Event = serde_json::from_str(line).with_context(|| {
            format!(
                "{}:{}: not what weir run writes",
                path.display(),
                number + 1
            )
        })?;
        match event {
            Event::Boot { release } => run.source = format!("a run of weir run: {release}"),
            Event::PhaseEnd(result) => {
                if !is_plausible(&result) {
                    bail!(
                        "{}:{}: a sample has an impossible size",
                        path.display(),
                        number + 1
                    );
                }
                let phase = phase(directory, &result)?;
                lengths.push(format!("{} {} s", result.phase, digits(phase.seconds)));
                run.then(&result.phase, phase);
            }
            _ => {}
        }
    }
    if run.phases.is_empty() {
        bail!("{name}: no phase of this run came to its end");
    }
    run.facts.push(("phases".into(), lengths.join(", ")));
    Ok(run)
}

/// The samples are of sizes that a machine can have.
fn is_plausible(result: &PhaseResult) -> bool {
    let mut sizes = result.samples.values().flat_map(|sampled| {
        let Sampled {
            dirty_bytes,
            writeback_bytes,
            background_bytes,
            limit_bytes,
            ..
        } = sampled;
        [dirty_bytes, writeback_bytes, background_bytes, limit_bytes].map(|bytes| bytes.iter())
    });
    sizes.all(|mut bytes| bytes.all(|bytes| *bytes <= MOST_BYTES))
}

/// Why a directory is not one guest's.
fn what_it_is(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut guests: Vec<String> = entries
        .filter(|entry| entry.path().join(RESULTS).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    guests.sort();
    if guests.is_empty() {
        "is a directory without results.jsonl: give one of a guest that `weir run --out` made"
            .into()
    } else {
        format!(
            "holds several runs: give one of them, {}",
            guests.join(" or ")
        )
    }
}

fn phase(directory: &Path, result: &PhaseResult) -> Result<Timeline> {
    let file = directory.join(format!("{}.weir", result.phase));
    let mut phase = if file.is_file() {
        recorded("", &Observation::open(&file)?)
    } else {
        Timeline {
            missing: vec![
                "pauses, tasks, rates and pressure over time: `weir run --record` keeps them"
                    .into(),
            ],
            ..Timeline::default()
        }
    };
    if phase.host.limit.is_empty()
        && result
            .samples
            .get("host")
            .is_some_and(|host| host.limit_bytes.is_empty())
    {
        phase
            .missing
            .push("the host's limits: an older weir ran this".into());
    }
    phase.seconds = phase.seconds.max(result.elapsed_ns as f64 / 1e9);
    for (subject, sampled) in &result.samples {
        if subject != "host" {
            phase.cgroups.push(Cgroup {
                path: format!("/{subject}"),
                held: series(sampled, &sampled.dirty_bytes),
            });
        } else if phase.host.held.is_empty() {
            phase.host = levels(sampled);
        }
    }
    Ok(phase)
}

fn series(sampled: &Sampled, bytes: &[u64]) -> super::Series {
    let bytes = bytes.iter().map(|bytes| *bytes as f64);
    let seconds = sampled.at_ns.iter().map(|ns| *ns as f64 / 1e9);
    seconds.zip(bytes).collect()
}

fn levels(sampled: &Sampled) -> Levels {
    let levels = sampled.background_bytes.iter().zip(&sampled.limit_bytes);
    let of = |level: fn(&Limits) -> u64| -> Vec<u64> {
        let limits = levels.clone().map(|(background, limit)| Limits {
            background: background / PAGE,
            thresh: limit / PAGE,
            ..Limits::default()
        });
        limits.map(|limits| level(&limits) * PAGE).collect()
    };
    Levels {
        held: series(sampled, &sampled.dirty_bytes),
        writeback: series(sampled, &sampled.writeback_bytes),
        background: series(sampled, &sampled.background_bytes),
        setpoint: series(sampled, &of(Limits::setpoint)),
        freerun: series(sampled, &of(Limits::freerun)),
        limit: series(sampled, &sampled.limit_bytes),
    }
}
