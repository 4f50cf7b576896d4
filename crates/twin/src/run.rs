// SPDX-License-Identifier: GPL-2.0-only
//! Phase after phase, and what comes out.

mod measure;

use crate::clock::{MS, Ns, SECOND};
use crate::pages::Pages;
use crate::psi::Pressure;
use crate::ram::Reclaimed;
use crate::setup::{self, Plan, Refusal};
use crate::task::Job;
use crate::watch::Watched;
use crate::weir::Stats;
use crate::world::{File, World};
use scenario::metric::{Figures, metrics};
use scenario::model::{Arm, Phase, Scenario};
use std::collections::BTreeMap;

/// A process whose write has not returned this long after its time is taken for stuck, as in the
/// lab.
const SLACK: Ns = 5 * SECOND;
/// How long writing everything back may take.
const PATIENCE: Ns = 3600 * SECOND;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By full name.
    pub metrics: Figures,
    /// How many events there were.
    pub events: u64,
    /// How much time was simulated.
    pub simulated: Ns,
    /// What was seen of each phase, if it was watched.
    pub watched: Vec<Watched>,
}

/// Runs one arm of a scenario; the same scenario and seed always come to the same.
///
/// # Errors
/// Everything in the scenario that the twin does not model, by key.
pub fn run(scenario: &Scenario, arm: Arm, seed: u64) -> Result<Outcome, Vec<Refusal>> {
    run_and_watch(scenario, arm, seed, false)
}

/// Runs one arm of a scenario, watched or not: it comes to the same.
///
/// # Errors
/// As for [`run`].
pub fn run_and_watch(
    scenario: &Scenario,
    arm: Arm,
    seed: u64,
    watch: bool,
) -> Result<Outcome, Vec<Refusal>> {
    let plan = setup::plan(scenario)?;
    let mut world = plan.world(scenario, arm, seed);
    world.watched = watch.then(Vec::new);
    let begin = world.now;
    lay_out(&mut world, &plan, scenario);
    let (mut figures, mut files) = (Figures::new(), BTreeMap::new());
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
        world.watch_phase(&phase.name);
        run_phase(&mut world, &plan, scenario, phase, &mut files);
        figures.extend(metrics(arm, &measure::phase(&mut world, scenario, phase)));
    }
    Ok(Outcome {
        metrics: figures,
        events: world.handled,
        simulated: world.now - begin,
        watched: world.watched.unwrap_or_default(),
    })
}

/// All files were written once before the first phase, job by job, file after file, before a disk's
/// bandwidth was bounded. What is left of that is who has completed how much, and, if the scenario
/// says how fast that went, what the kernel learnt: its pace, and from a file that did not fit
/// below freerun also what one writer may have.
fn lay_out(world: &mut World, plan: &Plan, scenario: &Scenario) {
    let (limit, background) = world.sysctl.levels(world.dirtyable(), None);
    for phase in &scenario.phases {
        for (index, work) in plan.works.iter().enumerate() {
            let Some(work) = work else { continue };
            if work.holds == 0 && phase.jobs.contains(&scenario.jobs[index].name) {
                let pages = work.ops * work.op_pages;
                for process in 0..work.processes {
                    let wb = plan.writeback(world, scenario, index, process);
                    world.completed(wb, pages);
                    if let Some(pace) = plan.laid_out_at {
                        let throttled = pages > policy::arith::freerun(limit, background);
                        world.wbs[wb].rates.learn(pace, pages, throttled);
                    }
                }
            }
        }
    }
}

/// What is counted from a phase's beginning.
struct Before {
    at: Ns,
    written: Vec<u64>,
    pressure: Vec<Pressure>,
    reclaimed: Reclaimed,
    flushers: Ns,
    cleaned: Vec<u64>,
    stats: Vec<Stats>,
}

/// What a phase was, besides its jobs.
pub(crate) struct Span {
    elapsed: Ns,
    written: Vec<u64>,
    /// By group of tasks, the host first.
    pressure: Vec<Pressure>,
    reclaimed: Reclaimed,
    flushers: Ns,
    /// By cgroup: pages written for it and those below.
    cleaned: Vec<u64>,
    stats: Vec<Stats>,
}

impl World {
    fn mark(&mut self) -> Before {
        self.psi.average(self.now);
        Before {
            at: self.now,
            written: self.devices.iter().map(|device| device.written).collect(),
            pressure: self.psi.totals(),
            reclaimed: self.ram.reclaimed,
            flushers: self.flushers_cpu_time(),
            cleaned: self
                .cgroups
                .iter()
                .map(|cgroup| cgroup.subtree.written)
                .collect(),
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
            pressure: now
                .pressure
                .iter()
                .zip(&before.pressure)
                .map(|(now, then)| now.since(then))
                .collect(),
            reclaimed: now.reclaimed.since(&before.reclaimed),
            flushers: now.flushers - before.flushers,
            cleaned: now
                .cleaned
                .iter()
                .zip(&before.cleaned)
                .map(|(now, then)| now - then)
                .collect(),
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
            weight_held: self.weight_held - before.weight_held,
            weight_held_ns: self.weight_held_ns - before.weight_held_ns,
        }
    }
}

/// Runs a phase; `files` are those that each job's processes had last.
fn run_phase(
    world: &mut World,
    plan: &Plan,
    scenario: &Scenario,
    phase: &Phase,
    files: &mut BTreeMap<(usize, usize), usize>,
) {
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
        let Some(work) = plan.works[index].clone() else {
            continue;
        };
        let begins = start + phase.delay_ms.get(&job.name).copied().unwrap_or(0) * MS;
        let ends = begins + work.ramp + work.runtime.unwrap_or(phase.duration_ms * MS);
        nominal = nominal.max(ends);
        let (begins, ends) = (begins + world.machine.start, ends + world.machine.start);
        let pages = if work.holds > 0 {
            0
        } else {
            work.ops * work.op_pages
        };
        let processes = work.processes;
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
            let home = setup::home(world, scenario, job, number as u32);
            let block = world.journals[world.wbs[wb].device].new_inode();
            world.files.push(File {
                block,
                transaction: 0,
                carried: false,
                failed: false,
                wb: wb as u32,
                pages: Pages::new(pages),
                in_flight: 0,
                unended: 0,
                cache: Pages::new(pages),
                cached: 0,
                life: 0,
                run: 0,
                cursor: 0,
                listed: false,
                dirtied_at: 0,
                synced_by: None,
            });
            let file = world.files.len() - 1;
            if let Some(before) = files.insert((index, number), file) {
                world.invalidates(before);
            }
            world.start_task((here, number), (file, home), (begins, ends));
        }
    }
    let holders = setup::holders(scenario, phase, start, |path| world.cgroup(path));
    nominal = holders
        .iter()
        .map(|holder| holder.ends)
        .fold(nominal, Ns::max);
    world.memory_starts(holders);
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
