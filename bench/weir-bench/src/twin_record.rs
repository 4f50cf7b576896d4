// SPDX-License-Identifier: GPL-2.0-only
//! A watched run of the twin, kept as the lab keeps a guest's: `results.jsonl` and a recording of
//! each phase, so that whatever reads those reads this.

use anyhow::Result;
use observe::Observation;
use observe::cgroup::Cgroup;
use observe::event::{Event, WOKE, What};
use observe::host::{Device, PAGE};
use observe::recording::{Recording, Samples};
use scenario::executor::Request;
use scenario::model::Scenario;
use scenario::rundir::{About, Event as Said, PhaseResult, RunFiles, Series};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use twin::{RunResults, Watched, cgroup_inode, task_id};

/// Keeps what was watched in `directory`, and recordings if `request` asks for them.
///
/// # Errors
/// It cannot be written.
pub fn keep_run(
    directory: &Path,
    about: About,
    kernel: &str,
    request: &Request,
    outcome: &RunResults,
) -> Result<()> {
    let mut kept = RunFiles::create(directory, about)?;
    kept.write_event(&Said::Boot {
        release: kernel.into(),
    })?;
    for phase in &outcome.watched {
        if request.record {
            let file = directory.join(format!("{}.weir", phase.phase));
            let mut recording = Recording::create(&file, kernel)?;
            recording.write_round(&mut ordered_events(phase), &mut phase_samples(phase))?;
            recording.finish(end_observation(request.scenario, phase))?;
        }
        kept.write_event(&Said::PhaseEnd(Box::new(phase_result(phase))))?;
    }
    // JSON has no number for what never came.
    let figures = outcome.metrics.iter();
    let figures = figures.filter(|(_, figure)| figure.value.is_finite());
    kept.write_event(&Said::Figures {
        figures: figures
            .map(|(name, figure)| (name.clone(), figure.value))
            .collect(),
    })
}

fn ordered_events(phase: &Watched) -> Vec<Event> {
    let mut events = phase.events.clone();
    // Who looks again after a pause wakes first and passes then, at one time.
    events.sort_by_key(|event| (event.ns, event.what != What::Woke));
    events
}

fn phase_samples(phase: &Watched) -> Samples {
    let progress = phase.progress.iter().map(|(at, processes)| {
        let bytes = processes
            .iter()
            .map(|(process, bytes)| (task_id(*process), *bytes));
        (*at, bytes.collect())
    });
    Samples {
        limits: phase.levels.clone(),
        pressure: Vec::new(),
        progress: progress.collect(),
        ..Samples::default()
    }
}

/// The observation that a recording has at its end.
fn end_observation(scenario: &Scenario, phase: &Watched) -> Observation {
    let running: Vec<&str> = scenario
        .phases
        .iter()
        .find(|other| other.name == phase.phase)
        .map(|running| {
            let jobs = scenario.jobs.iter().map(|job| job.name.as_str());
            jobs.filter(|job| running.jobs.iter().any(|other| other == job))
                .collect()
        })
        .unwrap_or_default();
    let names = phase.processes.iter().map(|(process, job, _)| {
        (
            task_id(*process),
            running.get(*job).copied().unwrap_or("?").to_string(),
        )
    });
    let homes = phase
        .processes
        .iter()
        .map(|(process, _, home)| (task_id(*process), home.clone()));
    let cgroups = phase
        .cgroups
        .iter()
        .enumerate()
        .map(|(index, (path, _))| Cgroup {
            path: path.clone(),
            inode: cgroup_inode(index),
            ..Cgroup::default()
        });
    let devices = scenario.disks.iter().map(|disk| Device {
        bdi: disk.name.clone(),
        strict: Some(false),
        ..Device::default()
    });
    Observation {
        is_live: false,
        seconds: (phase.span.1 - phase.span.0) as f64 / 1e9,
        names: names.collect(),
        homes: homes.collect(),
        cgroups: cgroups.collect(),
        devices: devices.collect(),
        seen: BTreeSet::from(
            ["balance_dirty_pages", "global_dirty_state", WOKE].map(str::to_string),
        ),
        ..Observation::default()
    }
}

fn phase_result(phase: &Watched) -> PhaseResult {
    let levels = || phase.levels.iter();
    let of = |value: fn(&observe::event::Limits) -> u64| -> Vec<u64> {
        levels().map(|(_, limits)| value(limits) * PAGE).collect()
    };
    let host = Series {
        at_ns: levels().map(|(at, _)| at - phase.span.0).collect(),
        dirty_bytes: of(|limits| limits.dirty + limits.writeback),
        writeback_bytes: of(|limits| limits.writeback),
        limit_bytes: of(|limits| limits.thresh),
        background_bytes: of(|limits| limits.background),
    };
    let mut samples = BTreeMap::from([("host".to_owned(), host)]);
    for (path, series) in &phase.cgroups {
        if path.is_empty() {
            continue;
        }
        let series = Series {
            at_ns: series.iter().map(|(at, _)| at - phase.span.0).collect(),
            dirty_bytes: series.iter().map(|(_, pages)| pages * PAGE).collect(),
            ..Series::default()
        };
        samples.insert(path.clone(), series);
    }
    PhaseResult {
        phase: phase.phase.clone(),
        elapsed_ns: phase.span.1 - phase.span.0,
        samples,
        ..PhaseResult::default()
    }
}
