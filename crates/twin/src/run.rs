// SPDX-License-Identifier: GPL-2.0-only
//! Phase after phase, and what comes out: the lab's figures, by the lab's names.

use crate::clock::{MS, Ns, SECOND};
use crate::domain::PAGE;
use crate::pages::Pages;
use crate::setup::{self, Plan, Refusal};
use crate::task::Job;
use crate::weir::Stats;
use crate::world::{File, World};
use scenario::model::{Arm, Phase, Scenario};
use std::collections::BTreeMap;

/// A process whose write has not returned this long after its time is taken for stuck, as in the lab.
const SLACK: Ns = 5 * SECOND;
/// How long writing everything back may take.
const PATIENCE: Ns = 3600 * SECOND;

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// In `unit`.
    pub value: f64,
    /// As the lab's.
    pub unit: &'static str,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By full name.
    pub metrics: BTreeMap<String, Metric>,
    /// How many events there were.
    pub events: u64,
    /// Simulated time.
    pub simulated: Ns,
}

/// Runs one arm of a scenario; the same scenario and seed always come to the same.
///
/// # Errors
/// Everything in the scenario that the twin does not model, by key.
pub fn run(scenario: &Scenario, arm: Arm, seed: u64) -> Result<Outcome, Vec<Refusal>> {
    let plan = setup::plan(scenario)?;
    let mut world = plan.world(scenario, arm, seed);
    let begin = world.now;
    lay_out(&mut world, &plan, scenario);
    let mut metrics = BTreeMap::new();
    for phase in &scenario.phases {
        if phase.clean {
            world.sync(PATIENCE);
        }
        for (path, knobs) in &phase.set {
            let index = world.cgroups.iter().position(|cgroup| cgroup.path == *path);
            if let (Some(index), Some(weir)) = (index, &mut world.weir) {
                for (file, value) in knobs {
                    let _ = setup::knob(&mut weir.groups[index], file, value);
                }
            }
        }
        world.weir_starts();
        run_phase(&mut world, &plan, scenario, phase);
        figures(&mut world, scenario, arm, phase, &mut metrics);
    }
    Ok(Outcome {
        metrics: metrics
            .into_iter()
            .map(|(name, (value, unit))| (name, Metric { value, unit }))
            .collect(),
        events: world.handled,
        simulated: world.now - begin,
    })
}

/// All files were written once before the first phase, without a throttle and job by job: what is left of that is who has
/// completed how much.
fn lay_out(world: &mut World, plan: &Plan, scenario: &Scenario) {
    for phase in &scenario.phases {
        for (index, work) in plan.works.iter().enumerate() {
            if phase.jobs.contains(&scenario.jobs[index].name) {
                for process in 0..work.processes {
                    let wb = plan.writeback(world, scenario, index, process);
                    world.completed(wb, work.ops * work.op_pages);
                }
            }
        }
    }
}

/// What is counted from a phase's beginning.
struct Before {
    at: Ns,
    written: Vec<u64>,
    pressure: (Ns, Ns),
    flushers: Ns,
    stats: Vec<Stats>,
}

/// What a phase was, besides its jobs.
pub(crate) struct Span {
    elapsed: Ns,
    written: Vec<u64>,
    pressure: (Ns, Ns),
    flushers: Ns,
    stats: Vec<Stats>,
}

impl World {
    fn mark(&mut self) -> Before {
        self.psi.average(self.now);
        Before {
            at: self.now,
            written: self.devices.iter().map(|device| device.written).collect(),
            pressure: self.psi.totals(),
            flushers: self.flushers_cpu_time(),
            stats: self
                .weir
                .iter()
                .flat_map(|weir| &weir.groups)
                .map(|group| group.stats)
                .collect(),
        }
    }

    fn since(&mut self, before: &Before) -> Span {
        let now = self.mark();
        Span {
            elapsed: (now.at - before.at).max(1),
            written: now
                .written
                .iter()
                .zip(&before.written)
                .map(|(now, then)| now - then)
                .collect(),
            pressure: (
                now.pressure.0 - before.pressure.0,
                now.pressure.1 - before.pressure.1,
            ),
            flushers: now.flushers - before.flushers,
            stats: now
                .stats
                .iter()
                .zip(&before.stats)
                .map(|(now, then)| now.since(then))
                .collect(),
        }
    }
}

impl Stats {
    fn since(&self, before: &Stats) -> Stats {
        Stats {
            passes: self.passes - before.passes,
            admitted: self.admitted - before.admitted,
            held: self.held - before.held,
            throttled: self.throttled - before.throttled,
            throttled_ns: self.throttled_ns - before.throttled_ns,
        }
    }
}

fn run_phase(world: &mut World, plan: &Plan, scenario: &Scenario, phase: &Phase) {
    let start = world.now;
    let mut nominal = 0;
    let first = world.tasks.len();
    world.jobs.clear();
    for (index, job) in scenario
        .jobs
        .iter()
        .enumerate()
        .filter(|(_, job)| phase.jobs.contains(&job.name))
    {
        let work = plan.works[index].clone();
        let begins = start + phase.delay_ms.get(&job.name).copied().unwrap_or(0) * MS;
        let ends = begins + work.ramp + work.runtime.unwrap_or(phase.duration_ms * MS);
        nominal = nominal.max(ends);
        let (pages, processes) = (work.ops * work.op_pages, work.processes);
        let here = world.jobs.len();
        world.jobs.push(Job {
            work,
            latencies: crate::latency::Latencies::default(),
            bytes: 0,
            runtime: 0,
            each: vec![0; processes as usize],
        });
        for number in 0..processes as usize {
            let wb = plan.writeback(world, scenario, index, number as u32);
            world.files.push(File {
                wb: wb as u32,
                pages: Pages::new(pages),
                in_flight: 0,
                cached: 0,
                cursor: 0,
                listed: false,
                dirtied_at: 0,
            });
            world.start_task(here, number, world.files.len() - 1, begins, ends);
        }
    }
    world.start_sampling();
    let before = world.mark();
    while world.busy > 0 && world.step(nominal + SLACK) {}
    let span = world.since(&before);
    world.span = Some(span);
    world.stop_sampling();
    for index in first..world.tasks.len() {
        world.give_up(index);
    }
    #[cfg(any(test, debug_assertions))]
    world.check(true);
}

fn figures(
    world: &mut World,
    scenario: &Scenario,
    arm: Arm,
    phase: &Phase,
    out: &mut BTreeMap<String, (f64, &'static str)>,
) {
    let prefix = format!("{}.{}", arm.name(), phase.name);
    let mut add = |subject: &str, name: &str, value: f64, unit: &'static str| {
        out.insert(format!("{prefix}.{subject}.{name}"), (value, unit));
    };
    let Some(span) = world.span.take() else {
        return;
    };
    let running = scenario
        .jobs
        .iter()
        .filter(|job| phase.jobs.contains(&job.name));
    for (job, done) in running.zip(&world.jobs) {
        job_figures(done, &mut |name, value, unit| {
            add(&job.name, name, value, unit)
        });
    }
    let seconds = span.elapsed as f64 / SECOND as f64;
    for (disk, written) in scenario.disks.iter().zip(&span.written) {
        add(
            &format!("disk/{}", disk.name),
            "bw_bytes",
            *written as f64 / seconds,
            "bytes/s",
        );
    }
    let written: u64 = span.written.iter().sum();
    add("host", "disk_bw_bytes", written as f64 / seconds, "bytes/s");
    let percent = |time: Ns| time as f64 / span.elapsed as f64 * 100.0;
    add("host", "io_some_pct", percent(span.pressure.0), "percent");
    add("host", "io_full_pct", percent(span.pressure.1), "percent");
    add("host", "flusher_cpu_pct", percent(span.flushers), "percent");
    if let Some((most, median)) = most_and_median(&world.samples.held) {
        add("host", "dirty_max_bytes", most, "bytes");
        add("host", "dirty_median_bytes", median, "bytes");
    }
    if let Some((_, median)) = most_and_median(&world.samples.writeback) {
        add("host", "writeback_median_bytes", median, "bytes");
    }
    for (index, cgroup) in world.cgroups.iter().enumerate().skip(1) {
        // Of copies, only what they come to together.
        if !scenario.cgroups.contains_key(&cgroup.path) {
            continue;
        }
        let subject = format!("cgroup/{}", cgroup.path);
        if let Some((most, median)) = most_and_median(&world.samples.cgroups[index]) {
            add(&subject, "dirty_max_bytes", most, "bytes");
            add(&subject, "dirty_median_bytes", median, "bytes");
        }
        let known = world
            .weir
            .as_ref()
            .is_some_and(|weir| weir.groups[index].known);
        if let Some(stats) = span.stats.get(index) {
            // A cgroup that the module has no need to know of has no counts.
            let count = |number: u64| if known { number as f64 } else { 0.0 };
            for (name, number) in [
                ("nr_passes", stats.passes),
                ("nr_floor_admitted", stats.admitted),
                ("nr_ceiling_held", stats.held),
                ("nr_would_admit", 0),
                ("nr_would_hold", 0),
                ("nr_throttled", stats.throttled),
                ("throttled_usec", stats.throttled_ns / 1000),
                ("nr_missed", 0),
            ] {
                add(&subject, name, count(number), "count");
            }
        }
    }
}

fn job_figures(job: &Job, add: &mut dyn FnMut(&str, f64, &'static str)) {
    let seconds = (job.runtime.max(1)) as f64 / SECOND as f64;
    let ios = job.latencies.total();
    add("iops", ios as f64 / seconds, "iops");
    add("bw_bytes", job.bytes as f64 / seconds, "bytes/s");
    add("total_ios", ios as f64, "count");
    if let (Some(half), Some(most)) = (job.latencies.percentile(50), job.latencies.percentile(99)) {
        add("clat_p50_ns", half as f64, "ns");
        add("clat_p99_ns", most as f64, "ns");
        add("clat_max_ns", job.latencies.longest() as f64, "ns");
    }
    let all: u128 = job.each.iter().map(|bytes| u128::from(*bytes)).sum();
    if job.each.len() > 1 && all > 0 {
        let (least, most) = (job.each.iter().min(), job.each.iter().max());
        let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
        let mean = all as f64 / job.each.len() as f64;
        add("spread_pct", spread as f64 / mean * 100.0, "percent");
        let in_pages = |bytes: &u64| u128::from(bytes / PAGE);
        let squares: u128 = job.each.iter().map(|bytes| in_pages(bytes).pow(2)).sum();
        let sum: u128 = job.each.iter().map(in_pages).sum();
        add(
            "jain",
            (sum * sum) as f64 / (job.each.len() as u128 * squares) as f64,
            "count",
        );
    }
}

/// Of a series in pages, in bytes.
fn most_and_median(pages: &[u64]) -> Option<(f64, f64)> {
    let mut sorted = pages.to_vec();
    sorted.sort_unstable();
    let most = *sorted.last()?;
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle] as f64
    } else {
        (sorted[middle - 1] + sorted[middle]) as f64 / 2.0
    };
    Some(((most * PAGE) as f64, median * PAGE as f64))
}
