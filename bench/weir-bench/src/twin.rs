// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios on the twin: one thread per run, as many as there are CPUs.

use crate::twin_record;
use anyhow::{Result, anyhow};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use scenario::executor::{self, Executor, Outcome, Progress, Refusal, Request, Run};
use scenario::model::{Arm, Scenario};
use scenario::place::{self, Place};
use scenario::rundir::About;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use twin::WatchLevel;
use weir::output;

/// Between two reports of how far a run is.
const TELL: Duration = Duration::from_millis(500);
/// Name that stands in for `uname -r`.
const KERNEL: &str = "twin of 6.12";

/// The twin as a place where scenarios run.
pub struct Twin {
    /// Seed of the random numbers; each repeat takes the next.
    pub seed: u64,
}

impl Executor for Twin {
    fn find_refusals(&self, scenario: &Scenario) -> Vec<Refusal> {
        let mut refused = as_refusals(twin::dirty_levels(scenario).err().unwrap_or_default());
        let of_table = place::refused_keys(scenario, Place::Twin).into_iter();
        let new: Vec<Refusal> = of_table
            .filter(|one| refused.iter().all(|other| other.key != one.key))
            .collect();
        refused.extend(new);
        refused
    }

    fn run(&self, request: &Request, progress: &dyn Progress) -> Result<Vec<Run>, executor::Error> {
        let refused = self.find_refusals(request.scenario);
        if !refused.is_empty() {
            return Err(executor::Error::Refused(refused));
        }
        let wanted: Vec<(Arm, u32)> = (0..request.repeat)
            .flat_map(|repeat| request.arms.iter().map(move |arm| (*arm, repeat)))
            .collect();
        let watch = match (request.out, request.record) {
            (None, _) => WatchLevel::Nothing,
            (Some(_), false) => WatchLevel::Samples,
            (Some(_), true) => WatchLevel::Passes,
        };
        let nominal = runner::jobs::phase_times(request.scenario).unwrap_or_default();
        let nominal = nominal.iter().sum::<Duration>().as_secs_f64();
        let results = run_in_parallel(&wanted, |(arm, repeat)| {
            let seed = self.seed.wrapping_add(u64::from(*repeat));
            let began = Instant::now();
            let mut told = began;
            let mut tell = |phase: &str, done: u64| {
                if told.elapsed() < TELL {
                    return;
                }
                told = Instant::now();
                let done = done as f64 / 1e9;
                let what = format!("{phase}, {done:.0} of {nominal:.0} s");
                let rate = done / began.elapsed().as_secs_f64();
                let left = Duration::try_from_secs_f64((nominal - done).max(0.0) / rate);
                progress.report_stage(*arm, *repeat, &what, left.unwrap_or_default());
            };
            twin::run_and_watch(request.scenario, *arm, seed, watch, &mut tell)
        })?;
        let (mut runs, mut events) = (Vec::new(), 0);
        for ((arm, repeat), result) in wanted.into_iter().zip(results) {
            let outcome = result.map_err(|why| executor::Error::Refused(as_refusals(why)))?;
            events += outcome.events;
            if let Some(out) = request.out {
                let directory = out.join(format!("{}-{}", arm.name(), repeat + 1));
                let about = About::started_now(request, arm, repeat, Place::Twin);
                twin_record::keep_run(&directory, about, KERNEL, request, &outcome)?;
            }
            let run = to_run(arm, repeat, outcome);
            progress.report_finished_run(&run);
            runs.push(run);
        }
        note_cost(events)?;
        Ok(runs)
    }
}

/// Refusals of the model, as the executor has them.
pub fn as_refusals(refusals: Vec<twin::Refusal>) -> Vec<Refusal> {
    let refusals = refusals.into_iter();
    refusals.map(|(key, what)| Refusal { key, what }).collect()
}

/// Notes the cost of the runs. Beside the results, which are the same every time: this is not.
fn note_cost(events: u64) -> Result<()> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let (user, system) = (used.user_time(), used.system_time());
    let ms = (user.num_milliseconds() + system.num_milliseconds()) as f64;
    let mib = used.max_rss() as f64 / 1024.0;
    output::print_note(format_args!(
        "weir: twin: {events} events, {:.2} s of CPU time, {mib:.0} MiB of memory at most",
        ms / 1000.0
    ));
    Ok(())
}

/// A run of a scenario that is made up, so that no line of a file is to blame if it is refused.
pub fn run_twin_once(scenario: &Scenario, arm: Arm, seed: u64) -> Result<Run> {
    let outcome =
        twin::run(scenario, arm, seed).map_err(|why| executor::Error::Refused(as_refusals(why)))?;
    Ok(to_run(arm, 0, outcome))
}

/// The twin's result as the report takes it.
fn to_run(arm: Arm, repeat: u32, outcome: twin::RunResults) -> Run {
    Run {
        arm,
        repeat,
        kernel: KERNEL.into(),
        outcome: Outcome::Done,
        metrics: outcome.metrics,
        log: None,
        seconds: 0.0,
    }
}

/// `work` on each of `items`, in their order, on as many threads as there are CPUs.
pub fn run_in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    run_on_threads(threads, items, work)
}

/// The same on `threads` threads.
pub fn run_on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some((index, item)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    items.get(index).map(|item| (index, item))
                } {
                    let result = work(item);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((index, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .map_err(|_| anyhow!("a run of the twin panicked"))?;
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
