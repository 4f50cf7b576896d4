// SPDX-License-Identifier: GPL-2.0-only
//! A watched run of the twin, kept as the lab keeps a guest's: `results.jsonl` and a recording of
//! each phase, so that whatever reads those reads this.

use anyhow::Result;
use observe::Observation;
use observe::cgroup::Cgroup;
use observe::event::{Event, Limits, Pause, WOKE, What};
use observe::host::{Device, PAGE};
use observe::recording::{Recording, Samples};
use scenario::model::Scenario;
use scenario::rundir::{About, Event as Said, Kept, PhaseResult, Series};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use twin::{BalanceDirtyPages, Outcome, Watched};

/// KiB of a page, in which the kernel's events have rates.
const PAGE_KIB: u64 = PAGE >> 10;

/// Keeps what was watched in `directory`.
///
/// # Errors
/// It cannot be written.
pub fn keep(
    directory: &Path,
    about: About,
    kernel: &str,
    scenario: &Scenario,
    outcome: &Outcome,
) -> Result<()> {
    let mut kept = Kept::create(directory, about)?;
    kept.keep(&Said::Boot {
        release: kernel.into(),
    })?;
    for phase in &outcome.watched {
        let file = directory.join(format!("{}.weir", phase.phase));
        let mut recording = Recording::create(&file, kernel)?;
        recording.round(&mut events(scenario, phase), &mut samples(phase))?;
        recording.finish(end(scenario, phase))?;
        kept.keep(&Said::PhaseEnd(Box::new(result(phase))))?;
    }
    let figures = outcome.metrics.iter();
    kept.keep(&Said::Figures {
        figures: figures
            .map(|(name, figure)| (name.clone(), figure.value))
            .collect(),
    })
}

/// The root's directory has inode 1.
fn inode(cgroup: usize) -> u64 {
    cgroup as u64 + 1
}

/// Linux counts processes from 1.
fn id(process: u32) -> u32 {
    process + 1
}

fn events(scenario: &Scenario, phase: &Watched) -> Vec<Event> {
    let passes = phase.passes.iter().flat_map(|seen| {
        let by = if seen.by_cgroup { "cgroup" } else { "host" };
        [
            What::Pause(pause(scenario, seen)),
            What::DecidedBy(by.into()),
        ]
        .map(|what| Event {
            ns: seen.at,
            task: id(seen.process),
            what,
        })
    });
    let wakes = phase.wakes.iter().map(|(at, process)| Event {
        ns: *at,
        task: id(*process),
        what: What::Woke,
    });
    // Who looks again after a pause wakes first and passes then, at one time.
    let mut events: Vec<Event> = wakes.chain(passes).collect();
    events.sort_by_key(|event| event.ns);
    events
}

fn pause(scenario: &Scenario, seen: &BalanceDirtyPages) -> Pause {
    Pause {
        bdi: scenario.disks[seen.device].name.clone(),
        cgroup: inode(seen.cgroup),
        limit: seen.limit,
        setpoint: seen.setpoint,
        dirty: seen.dirty,
        bdi_setpoint: seen.bdi_setpoint,
        bdi_dirty: seen.bdi_dirty,
        dirty_ratelimit: seen.dirty_ratelimit * PAGE_KIB,
        task_ratelimit: seen.task_ratelimit * PAGE_KIB,
        dirtied: seen.dirtied,
        pause_ms: seen.pause_ms,
        period_ms: seen.period_ms,
    }
}

fn samples(phase: &Watched) -> Samples {
    let limits = phase.levels.iter().map(|(at, levels)| {
        let limits = Limits {
            dirty: levels.dirty,
            writeback: levels.writeback,
            background: levels.background,
            thresh: levels.thresh,
        };
        (*at, limits)
    });
    let progress = phase.progress.iter().map(|(at, processes)| {
        let bytes = processes
            .iter()
            .map(|(process, bytes)| (id(*process), *bytes));
        (*at, bytes.collect())
    });
    Samples {
        limits: limits.collect(),
        pressure: Vec::new(),
        progress: progress.collect(),
    }
}

/// What a recording says at its end.
fn end(scenario: &Scenario, phase: &Watched) -> Observation {
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
            id(*process),
            running.get(*job).copied().unwrap_or("?").to_string(),
        )
    });
    let homes = phase
        .processes
        .iter()
        .map(|(process, _, home)| (id(*process), home.clone()));
    let cgroups = phase
        .cgroups
        .iter()
        .enumerate()
        .map(|(index, (path, _))| Cgroup {
            path: path.clone(),
            inode: inode(index),
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

fn result(phase: &Watched) -> PhaseResult {
    let mut samples = BTreeMap::new();
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
