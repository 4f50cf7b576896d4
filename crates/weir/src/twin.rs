// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios on the twin: one thread per run, as many as there are CPUs.

use crate::output;
use crate::twin_record;
use anyhow::{Error, Result, anyhow};
use config::problem::{Problem, Problems};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use report::{Outcome, Run};
use scenario::model::{Arm, Scenario};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What stands for `uname -r`.
const KERNEL: &str = "twin of 6.12";

/// Runs `scenario` in each arm, `repeat` times. What the twin does not model is refused.
pub fn in_twin(
    path: &Path,
    scenario: &Scenario,
    arms: &[Arm],
    repeat: u32,
    seed: u64,
    record: Option<&Path>,
) -> Result<Vec<Run>> {
    let wanted: Vec<(Arm, u64)> = (0..u64::from(repeat))
        .flat_map(|round| arms.iter().map(move |arm| (*arm, seed.wrapping_add(round))))
        .collect();
    let results = in_parallel(&wanted, |(arm, seed)| {
        twin::run_and_watch(scenario, *arm, *seed, record.is_some())
    })?;
    let (mut runs, mut events) = (Vec::new(), 0);
    for (index, ((arm, _), result)) in wanted.iter().zip(results).enumerate() {
        match result {
            Ok(outcome) => {
                events += outcome.events;
                if let Some(out) = record {
                    let name = format!("{}-{}", arm.name(), index / arms.len() + 1);
                    twin_record::keep(&out.join(name), KERNEL, scenario, &outcome.watched)?;
                }
                runs.push(from_twin(*arm, outcome));
            }
            Err(refusals) => return Err(refused(path, refusals)),
        }
    }
    note_cost(events)?;
    Ok(runs)
}

/// What it took. Beside the results, which are the same every time: this is not.
fn note_cost(events: u64) -> Result<()> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let (user, system) = (used.user_time(), used.system_time());
    let ms = (user.num_milliseconds() + system.num_milliseconds()) as f64;
    let mib = used.max_rss() as f64 / 1024.0;
    output::note(format_args!(
        "weir: twin: {events} events, {:.2} s of CPU time, {mib:.0} MiB of memory at most",
        ms / 1000.0
    ));
    Ok(())
}

/// A run of a scenario that is made up, so that no line of a file is to blame if it is refused.
pub fn one_run(scenario: &Scenario, arm: Arm, seed: u64) -> Result<Run> {
    let outcome = twin::run(scenario, arm, seed).map_err(|refusals| {
        let told: Vec<String> = refusals
            .iter()
            .map(|(key, why)| format!("key `{key}`: {why}"))
            .collect();
        anyhow!("{}", told.join("\n"))
    })?;
    Ok(from_twin(arm, outcome))
}

/// The twin's result as the report takes it.
fn from_twin(arm: Arm, outcome: twin::Outcome) -> Run {
    Run {
        arm,
        kernel: KERNEL.into(),
        outcome: Outcome::Done,
        metrics: outcome.metrics,
    }
}

/// Refusals, with the lines that the keys to blame are on.
pub fn refused(path: &Path, refusals: Vec<twin::Refusal>) -> Error {
    let text = match config::text(path, "scenario") {
        Ok(text) => text,
        Err(why) => return why.into(),
    };
    let mut problems: Vec<Problem> = refusals
        .into_iter()
        .map(|(key, what)| Problem {
            file: path.display().to_string(),
            line: config::reader::line_of(&text, &key),
            key,
            what,
        })
        .collect();
    problems.sort_by_key(|problem| problem.line);
    Problems(problems).into()
}

/// `work` on each of `items`, in their order, on as many threads as there are CPUs.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    on_threads(threads, items, work)
}

/// The same on `threads` threads.
pub fn on_threads<T: Sync, R: Send>(
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
