// SPDX-License-Identifier: GPL-2.0-only
//! A timeline from the directory that `weir run --out` leaves of a guest, or of a run on the twin:
//! its phases one after the other. `results.jsonl` has samples of dirty pages; a phase that was run
//! with `--record` has a recording beside it, `PHASE.weir`, with everything else.

use anyhow::{Context, Result, bail};
use observe::Observation;
use observe::bounds::MOST_BYTES;
use observe::event::Limits;
use observe::host::PAGE;
use observe::read::read_content;
use report::timeline::{
    self, CgroupSeries, Figure, Levels, Timeline, format_date, observation_timeline,
};
use report::{format_bytes, format_value, significant_digits};
use scenario::metric::{self, Name, Unit, compute_metrics, metric_table, unit_of_metric};
use scenario::model::Arm;
use scenario::rundir::{Event, PhaseResult, RESULTS, Series as Sampled};
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Timeline of a run's directory, phase after phase.
///
/// # Errors
/// It is none, no phase came to its end, or a file in it cannot be read.
pub fn read_run(directory: &Path) -> Result<Timeline> {
    let (name, path) = (directory.display(), directory.join(RESULTS));
    if !path.is_file() {
        bail!("{name} {}", explain_missing_results(directory));
    }
    let text = String::from_utf8(read_content(&path)?)
        .with_context(|| format!("{} is not text", path.display()))?;
    let mut run = Timeline {
        name: name.to_string(),
        ..Timeline::default()
    };
    let (mut about, mut kernel) = (None, String::new());
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), number + 1);
        let event: Event = serde_json::from_str(line).with_context(|| {
            format!(
                "{}: not what weir run writes: if an older weir did, run it again",
                place()
            )
        })?;
        match event {
            Event::About(said) => about = Some(said),
            Event::Boot { release } => kernel = release,
            Event::PhaseEnd(result) => {
                if !is_plausible(&result) {
                    bail!("{}: a sample has an impossible size", place());
                }
                let mut phase = phase_timeline(directory, &result)?;
                let arm = about.as_ref().map_or(Arm::Stock, |about| about.arm);
                // A model's result has none but samples.
                if !result.disks.is_empty() {
                    let measured = compute_metrics(arm, &result.to_measured());
                    phase
                        .figures
                        .splice(0..0, measured.iter().filter_map(to_figure));
                }
                lengths.push(format!(
                    "{} {} s",
                    result.phase,
                    significant_digits(phase.seconds)
                ));
                run.append_phase(&result.phase, phase);
            }
            Event::Figures { figures } => {
                run.figures
                    .extend(figures.iter().filter_map(|(name, value)| {
                        let (value, unit) = (*value, unit_of_metric(name));
                        to_figure((name, &metric::Figure { value, unit }))
                    }))
            }
            _ => {}
        }
    }
    if run.phases.is_empty() {
        bail!("{name}: no phase of this run came to its end");
    }
    let mut facts = vec![("kernel".to_owned(), kernel.clone())];
    if let Some(about) = about {
        let arm = match about.repeat {
            0 => about.arm.name().to_owned(),
            repeat => format!("{} {}", about.arm.name(), repeat + 1),
        };
        let begun = format_date(UNIX_EPOCH + Duration::from_secs(about.begun));
        run.name = format!("{}, {arm}, {kernel}, {begun}", about.scenario);
        run.title = about.title;
        facts.extend([
            ("scenario".to_owned(), about.scenario),
            ("arm".to_owned(), arm),
            ("run on".to_owned(), about.place.name().to_owned()),
            ("begun".to_owned(), begun),
        ]);
        if !about.version.is_empty() {
            facts.push(("weir".to_owned(), about.version));
        }
        if let Some((memory, cpus)) = about.host {
            let cpus = format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" });
            facts.push((
                "host".to_owned(),
                format!("{}, {cpus}", format_bytes(memory)),
            ));
        }
        let disks = about.disks.iter().map(|(name, filesystem, rate)| {
            let rate = rate.map(|rate| format_value(rate as f64, Unit::Bandwidth));
            let rate = rate.unwrap_or_else(|| "as fast as it is".into());
            format!("{name}: {}, {rate}", filesystem.name())
        });
        let disks = disks.collect::<Vec<_>>().join("; ");
        if !disks.is_empty() {
            facts.push(("disks".to_owned(), disks));
        }
    }
    facts.push(("phases".into(), lengths.join(", ")));
    run.facts.splice(0..0, facts);
    run.source = format!("a run of weir run, kept in {name}");
    Ok(run)
}

/// A metric by its full name, as it is compared: arms are what is compared.
fn to_figure((name, figure): (&String, &metric::Figure)) -> Option<Figure> {
    let name = Name::parse_full_name(name)?;
    let mut rows = metric_table().iter();
    Some(Figure {
        is_of_module: rows.any(|row| row.name == name.metric && row.weir_only),
        phase: name.phase,
        name: format!("{}.{}", name.subject, name.metric),
        value: figure.value,
        unit: figure.unit,
    })
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
fn explain_missing_results(directory: &Path) -> String {
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

fn phase_timeline(directory: &Path, result: &PhaseResult) -> Result<Timeline> {
    let file = directory.join(format!("{}.weir", result.phase));
    let mut phase = if file.is_file() {
        observation_timeline("", &Observation::open(&file)?)
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
            phase.cgroups.push(CgroupSeries {
                path: format!("/{subject}"),
                held: to_series(sampled, &sampled.dirty_bytes),
            });
        } else if phase.host.held.is_empty() {
            phase.host = to_levels(sampled);
        }
    }
    Ok(phase)
}

fn to_series(sampled: &Sampled, bytes: &[u64]) -> timeline::Series {
    let bytes = bytes.iter().map(|bytes| *bytes as f64);
    let seconds = sampled.at_ns.iter().map(|ns| *ns as f64 / 1e9);
    seconds.zip(bytes).collect()
}

fn to_levels(sampled: &Sampled) -> Levels {
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
        held: to_series(sampled, &sampled.dirty_bytes),
        writeback: to_series(sampled, &sampled.writeback_bytes),
        background: to_series(sampled, &sampled.background_bytes),
        setpoint: to_series(sampled, &of(Limits::setpoint_pages)),
        freerun: to_series(sampled, &of(Limits::freerun_pages)),
        limit: to_series(sampled, &sampled.limit_bytes),
    }
}
