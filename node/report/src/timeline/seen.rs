// SPDX-License-Identifier: GPL-2.0-only
//! A timeline from what was observed: a recording, or another program's trace.

use super::{
    Domain, Figure, LOSS_NAMES, Loss, Series, Task, Timeline, progress, value_at_percentile,
};
use crate::format::significant_digits;
use config::Unit;
use observe::Observation;
use observe::Target;
use observe::diagnosis::{diagnose, domain};
use observe::event::{Limits, Pause, Rate, What};
use observe::host::PAGE;
use observe::host::PressureTotals;
use observe::owed::Limit;
use observe::stall::{Stall, StallKind};
use std::collections::{BTreeMap, BTreeSet};

/// Pressure is what was lost in so many nanoseconds or more: less is too coarse.
const PRESSURE_OVER: u64 = 500_000_000;
/// Cgroups with figures of their own, those that lost most to something.
const CGROUPS: usize = 3;
/// The root's directory has this inode.
const ROOT: u64 = 1;

/// Timeline of an observation.
pub fn observation_timeline(name: &str, seen: &Observation) -> Timeline {
    let (begin, end) = seen.time_span();
    let seconds = |ns: u64| ns.saturating_sub(begin) as f64 / 1e9;
    let (progress, progress_is) = progress::task_progress(seen, seconds);
    let mut run = Timeline {
        name: name.into(),
        source: describe_source(seen),
        seconds: seconds(end),
        facts: list_facts(seen),
        missing: list_missing(seen),
        verdict: crate::explain_diagnosis(&diagnose(seen, &Target::Host)),
        domains: throttle_domains(seen, seconds),
        tasks: task_list(seen, progress),
        progress_is,
        pressure: pressure_series(&seen.pressure, seconds),
        ..Timeline::default()
    };
    for (ns, limits) in &seen.limits {
        run.host.add(seconds(*ns), limits);
    }
    let index: BTreeMap<u32, usize> = run.tasks.iter().map(|task| task.id).zip(0..).collect();
    for stall in &seen.stalls {
        run.losses.push(Loss {
            at: seconds(stall.ns),
            seconds: stall.length_ns() as f64 / 1e9,
            is_announced: stall.slept_ns.is_none(),
            task: index[&stall.task],
            limit: limit_of_loss(seen, stall),
        });
    }
    // A pause that was announced and not slept took nothing.
    run.losses.retain(|loss| loss.seconds > 0.0);
    run.figures = lost_time_figures(&run);
    run
}

/// Figures of what tasks lost, by cause.
fn lost_time_figures(run: &Timeline) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name: String, value, unit| {
        figures.push(Figure {
            phase: String::new(),
            name,
            value,
            unit,
            is_of_module: false,
        });
    };
    for name in LOSS_NAMES {
        let losses = || run.losses.iter().filter(|loss| loss.name() == name);
        if losses().next().is_none() {
            continue;
        }
        let mut lengths: Vec<f64> = losses().map(|loss| loss.seconds).collect();
        add(format!("{name}, count"), lengths.len() as f64, Unit::Count);
        for (part, seconds) in [
            ("all", Some(lengths.iter().sum())),
            ("p50", value_at_percentile(&mut lengths, 0.5)),
            ("p99", value_at_percentile(&mut lengths, 0.99)),
            ("longest", value_at_percentile(&mut lengths, 1.0)),
        ] {
            let ns = seconds.unwrap_or(0.0) * 1e9;
            add(format!("{name}, {part}"), ns, Unit::Nanoseconds);
        }
        // Whose they are, where they are of several.
        let mut by_cgroup: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for loss in losses() {
            if let Some(cgroup) = run.tasks[loss.task].cgroup.as_deref() {
                by_cgroup.entry(cgroup).or_default().push(loss.seconds);
            }
        }
        let mut order: Vec<(f64, &str, Vec<f64>)> = by_cgroup
            .into_iter()
            .map(|(cgroup, lengths)| (lengths.iter().sum(), cgroup, lengths))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let is_of_several = order.len() > 1;
        for (all, cgroup, mut lengths) in order.into_iter().take(CGROUPS).filter(|_| is_of_several)
        {
            let p99 = value_at_percentile(&mut lengths, 0.99).unwrap_or(0.0);
            add(
                format!("{cgroup}: {name}, all"),
                all * 1e9,
                Unit::Nanoseconds,
            );
            add(
                format!("{cgroup}: {name}, p99"),
                p99 * 1e9,
                Unit::Nanoseconds,
            );
        }
    }
    figures
}

impl super::Levels {
    /// Adds a sample in pages.
    pub(super) fn add(&mut self, at: f64, limits: &Limits) {
        let bytes = |pages: u64| (at, (pages * PAGE) as f64);
        self.held.push(bytes(limits.dirty + limits.writeback));
        self.writeback.push(bytes(limits.writeback));
        self.background.push(bytes(limits.background));
        self.freerun.push(bytes(limits.freerun_pages()));
        self.setpoint.push(bytes(limits.setpoint_pages()));
        self.limit.push(bytes(limits.thresh));
    }
}

fn describe_source(seen: &Observation) -> String {
    let what = match seen.host {
        Some(_) => "a recording of weir record",
        None => "a trace of the kernel's events",
    };
    format!(
        "{what}: {} s, {} events",
        significant_digits(seen.seconds),
        seen.events.len()
    )
}

fn list_facts(seen: &Observation) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            facts.push((name.to_string(), text));
        }
    };
    if let Some(made) = &seen.made {
        add("host", made.machine.clone());
        add("kernel", made.kernel.clone());
        add("weir", made.weir.clone());
    }
    let disks = seen.devices.iter().filter_map(|device| {
        let disk = device.disk.as_ref()?;
        let mounted = device.mounted_at.as_ref();
        let on = mounted.map_or(String::new(), |at| format!(" on {at}"));
        let filesystem = device.filesystem.as_deref().unwrap_or("no filesystem");
        let written = crate::format::format_bytes(device.written);
        Some(format!(
            "{disk} ({}): {filesystem}{on}, wrote {written}",
            device.bdi
        ))
    });
    add("disks", disks.collect::<Vec<_>>().join("; "));
    if let Some(host) = &seen.host {
        let level = |bytes: u64, percent: u64| match bytes {
            0 => format!("{percent} % of what can be dirty"),
            bytes => crate::format::format_bytes(bytes),
        };
        add("memory", crate::format::format_bytes(host.memory));
        add("limit", level(host.dirty_bytes, host.dirty_ratio));
        add(
            "background",
            level(host.background_bytes, host.background_ratio),
        );
    }
    let weir = match &seen.weir {
        Some(state) => state.clone(),
        None if seen.host.is_some() => "not loaded".into(),
        None => "not known".into(),
    };
    add("weir's module", weir);
    add("events lost", seen.lost.to_string());
    facts
}

fn list_missing(seen: &Observation) -> Vec<String> {
    let mut missing = seen.blind.clone();
    if seen.lost > 0 {
        missing.push(format!(
            "{} events were lost: pauses, rates and progress have gaps",
            seen.lost
        ));
    }
    if seen.pressure.is_empty() {
        missing.push("pressure over time: only a recording of a running kernel has it".into());
    }
    if seen.homes.is_empty() {
        missing.push(
            "the tasks' cgroups: `weir record` keeps them at its end, a trace does not".into(),
        );
    }
    if seen.limits.is_empty() {
        missing.push(
            "the host's dirty pages and limits: record writeback:global_dirty_state too".into(),
        );
    }
    if seen.stalls.iter().any(|stall| stall.slept_ns.is_none()) {
        missing.push(
            "when pauses ended: their announced lengths are drawn (record sched:sched_switch too)"
                .into(),
        );
    }
    missing
}

fn throttle_domains(seen: &Observation, seconds: impl Fn(u64) -> f64) -> Vec<Domain> {
    let mut all: BTreeMap<(u64, &str), Domain> = BTreeMap::new();
    for event in &seen.events {
        let at = seconds(event.ns);
        match &event.what {
            What::Pause(pause) => all
                .entry((pause.cgroup, &pause.bdi))
                .or_default()
                .add_pass(at, pause),
            What::Rate(rate) => all
                .entry((rate.cgroup, &rate.bdi))
                .or_default()
                .add_rate(at, rate),
            _ => {}
        }
    }
    let mut domains: Vec<Domain> = all
        .into_iter()
        .map(|((cgroup, bdi), domain)| Domain {
            name: domain_name(seen, cgroup, bdi),
            ..domain
        })
        .collect();
    domains.sort_by_key(|domain| std::cmp::Reverse(domain.dirty.len()));
    domains
}

impl Domain {
    fn add_pass(&mut self, at: f64, pause: &Pause) {
        let bytes = |pages: u64| (at, (pages * PAGE) as f64);
        let rate = |kib: u64| (at, (kib << 10) as f64);
        self.dirty.push(bytes(pause.dirty));
        self.freerun.push(bytes(pause.freerun_pages()));
        self.setpoint.push(bytes(pause.setpoint));
        self.device_dirty.push(bytes(pause.bdi_dirty));
        self.device_setpoint.push(bytes(pause.bdi_setpoint));
        self.base_rate.push(rate(pause.dirty_ratelimit));
        self.task_rate.push(rate(pause.task_ratelimit));
        if pause.dirty_ratelimit > 0 {
            let ratio = pause.task_ratelimit as f64 / pause.dirty_ratelimit as f64;
            self.pos_ratio.push((at, ratio));
        }
    }

    fn add_rate(&mut self, at: f64, rate: &Rate) {
        self.written.push((at, (rate.written << 10) as f64));
        self.dirtied.push((at, (rate.dirtied << 10) as f64));
    }
}

fn domain_name(seen: &Observation, cgroup: u64, bdi: &str) -> String {
    let cgroup = match seen.cgroup_of(cgroup) {
        Some(cgroup) => format!("/{}", cgroup.path),
        None if cgroup == ROOT => "/".into(),
        None => format!("cgroup of inode {cgroup}"),
    };
    let mounted = seen.devices.iter().find(|device| device.bdi == bdi);
    match mounted.and_then(|device| device.mounted_at.as_ref()) {
        Some(directory) => format!("{cgroup} on {directory}"),
        None => format!("{cgroup} on {bdi}"),
    }
}

fn task_list(seen: &Observation, mut progress: BTreeMap<u32, Series>) -> Vec<Task> {
    let lost = seen.stalls.iter().map(|stall| stall.task);
    let ids: BTreeSet<u32> = progress.keys().copied().chain(lost).collect();
    ids.into_iter()
        .map(|id| Task {
            id,
            name: seen.name_of(id).into(),
            cgroup: seen.homes.get(&id).map(|path| format!("/{path}")),
            progress: progress.remove(&id).unwrap_or_default(),
        })
        .collect()
}

fn limit_of_loss(seen: &Observation, stall: &Stall) -> Limit {
    match &stall.kind {
        StallKind::Reclaim(_) | StallKind::Kswapd(_) => Limit::Memory,
        StallKind::Sync => Limit::Fsync,
        StallKind::Throttle(throttled) => {
            Limit::Throttle(domain::deciding_domain(seen, stall, throttled))
        }
    }
}

fn pressure_series(
    samples: &[(u64, PressureTotals)],
    seconds: impl Fn(u64) -> f64,
) -> Vec<(&'static str, Series)> {
    type Kind = (&'static str, fn(&PressureTotals) -> u64);
    let kinds: [Kind; 4] = [
        ("io some", |pressure| pressure.io_some),
        ("io full", |pressure| pressure.io_full),
        ("memory some", |pressure| pressure.memory_some),
        ("memory full", |pressure| pressure.memory_full),
    ];
    let Some(first) = samples.first() else {
        return Vec::new();
    };
    let mut all = kinds.map(|(name, _)| (name, Series::new()));
    let mut last = first;
    for now in samples {
        let passed = now.0.saturating_sub(last.0);
        if passed < PRESSURE_OVER {
            continue;
        }
        for ((_, series), (_, of)) in all.iter_mut().zip(&kinds) {
            let lost = of(&now.1).saturating_sub(of(&last.1)) * 1000;
            let percent = (lost as f64 / passed as f64 * 100.0).min(100.0);
            series.push((seconds(now.0), percent));
        }
        last = now;
    }
    all.into()
}
