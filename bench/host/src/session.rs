// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`'s side: one keeper for each arm and repeat, and what it says.

use crate::{LocalHost, RunConfig, clean, keeper};
use anyhow::{Context, Result, anyhow};
use runner::klog::HARMLESS_TAINT;
use scenario::executor::{Error, Outcome, Progress, Request, Run};
use scenario::metric::{Figures, compute_metrics};
use scenario::model::Arm;
use scenario::place::Place;
use scenario::rundir::{About, Event, RunFiles};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A run needs about this long besides its phases: mkfs, layout, putting back.
const OVERHEAD: Duration = Duration::from_secs(10);

/// Ends a run before its time, from another thread.
#[derive(Default)]
pub struct Interrupt(Mutex<Wanted>);

#[derive(Default)]
struct Wanted {
    stop: bool,
    /// Its end tells the keeper.
    keeper: Option<ChildStdin>,
}

impl Interrupt {
    /// Ends the run that goes on, and lets no other begin. [`run`] returns when everything is put
    /// back.
    pub fn stop(&self) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.stop = true;
        wanted.keeper = None;
    }

    /// Was the run ended?
    pub fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stop
    }
}

/// Runs the scenario in every arm, as often as asked, one after the other.
///
/// # Errors
/// What kept a run from beginning. What happens later is in its [`Outcome`].
pub fn run(
    host: &LocalHost,
    request: &Request,
    progress: &dyn Progress,
) -> Result<Vec<Run>, Error> {
    let phases = runner::jobs::phase_times(request.scenario)?;
    let each = OVERHEAD + phases.iter().sum::<Duration>();
    let arms = (0..request.repeat).flat_map(|repeat| {
        let arms = request.arms.iter();
        arms.map(move |arm| (*arm, repeat))
    });
    let mut ahead = request.repeat * request.arms.len() as u32;
    let mut runs = Vec::new();
    for (arm, repeat) in arms {
        ahead -= 1;
        let mut tell = |what: &str, over: usize| {
            let left = phases.iter().skip(over).sum::<Duration>() + each * ahead;
            progress.report_stage(arm, repeat, what, left);
        };
        let run = run_once(host, request, arm, repeat, &mut tell)?;
        if host.interrupt.is_stopped() {
            return Err(match run.outcome {
                Outcome::Done => Error::Interrupted,
                Outcome::Failed(why) | Outcome::Inconclusive(why) => {
                    anyhow!("interrupted; {why}").into()
                }
            });
        }
        progress.report_finished_run(&run);
        runs.push(run);
    }
    Ok(runs)
}

/// One run; `tell` is told what is done now, and how many phases are over.
fn run_once(
    host: &LocalHost,
    request: &Request,
    arm: Arm,
    repeat: u32,
    tell: &mut dyn FnMut(&str, usize),
) -> Result<Run> {
    let begin = Instant::now();
    let config = RunConfig {
        scenario: request.scenario.clone(),
        arm,
        record: request.record,
        disks: host.disks.clone(),
        module: host.module.clone(),
    };
    let mut kept = match request.out {
        Some(out) => {
            let directory = out.join(format!("{}-{}", arm.name(), repeat + 1));
            let about = About::started_now(request, arm, repeat, Place::Host);
            Some(RunFiles::create(&directory, about)?)
        }
        None => None,
    };
    let mut child = Command::new("/proc/self/exe")
        .arg0(keeper::PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process that keeps a run")?;
    if let Some(mut stdin) = child.stdin.take() {
        let told = writeln!(stdin, "{}", serde_json::to_string(&config)?);
        let mut wanted = host
            .interrupt
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !wanted.stop {
            wanted.keeper = Some(stdin);
        }
        drop(wanted);
        told.context("telling the keeper what to run")?;
    }
    let mut said = Said::for_arm(arm);
    let mut failure = None;
    for line in BufReader::new(child.stdout.take().context("the keeper's words")?).lines() {
        // Half a line is a killed keeper's last.
        let Ok(event) = serde_json::from_str::<Event>(&line.unwrap_or_default()) else {
            continue;
        };
        if let Some(Err(why)) = kept.as_mut().map(|kept| kept.write_event(&event)) {
            failure.get_or_insert(why);
        }
        match &event {
            Event::Stage { text } => tell(text, said.phases),
            Event::PhaseStart { phase } => tell(phase, said.phases),
            _ => {}
        }
        said.take_event(event);
    }
    let status = child.wait().context("waiting for the keeper")?;
    if !said.is_complete {
        said.problems
            .push(format!("the keeper of the run has ended ({status})"));
        if let Err(why) = clean::clean_after_keeper() {
            said.problems.push(format!("{why:#}"));
        }
    }
    if let Some(why) = failure {
        return Err(why.context("keeping results"));
    }
    Ok(Run {
        arm,
        repeat,
        kernel: said.kernel.clone(),
        outcome: said.to_outcome(),
        metrics: said.metrics,
        log: None,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// All that matters of what was said.
struct Said {
    arm: Arm,
    kernel: String,
    /// Number of phases that are over.
    phases: usize,
    metrics: Figures,
    problems: Vec<String>,
    taint: u64,
    complaints: Vec<String>,
    is_complete: bool,
}

impl Said {
    fn for_arm(arm: Arm) -> Said {
        Said {
            arm,
            kernel: String::new(),
            phases: 0,
            metrics: Figures::new(),
            problems: Vec::new(),
            taint: 0,
            complaints: Vec::new(),
            is_complete: false,
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Boot { release } => self.kernel = release,
            Event::PhaseEnd(result) => {
                self.phases += 1;
                self.metrics
                    .extend(compute_metrics(self.arm, &result.to_measured()));
            }
            Event::Problem { text, .. } => self.problems.push(text),
            Event::Kernel { taint, lines } => (self.taint, self.complaints) = (taint, lines),
            Event::End => self.is_complete = true,
            _ => {}
        }
    }

    fn to_outcome(&self) -> Outcome {
        let taint = self.taint & !HARMLESS_TAINT;
        if let Some(line) = self.complaints.first() {
            let more = match self.complaints.len() {
                1 => String::new(),
                lines => format!(" (and {} more such lines)", lines - 1),
            };
            Outcome::Failed(format!(
                "the kernel complained: {}{more}; see dmesg",
                line.trim()
            ))
        } else if taint != 0 {
            Outcome::Failed(format!(
                "the run tainted the kernel ({taint}, see /proc/sys/kernel/tainted in proc(5)); see dmesg"
            ))
        } else if !self.problems.is_empty() {
            Outcome::Inconclusive(self.problems.join("; "))
        } else {
            Outcome::Done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(events: Vec<Event>) -> Outcome {
        let mut said = Said::for_arm(Arm::Weir);
        events.into_iter().for_each(|event| said.take_event(event));
        said.to_outcome()
    }

    #[test]
    fn a_kernel_that_complains_has_failed() {
        let kernel = |taint, lines: &[&str]| Event::Kernel {
            taint,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let problem = Event::Problem {
            text: "fio failed".into(),
            failed: false,
        };
        assert_eq!(
            outcome(vec![kernel(HARMLESS_TAINT, &[]), Event::End]),
            Outcome::Done
        );
        assert_eq!(
            outcome(vec![problem.clone(), kernel(0, &["WARNING: x", "BUG: y"])]),
            Outcome::Failed(
                "the kernel complained: WARNING: x (and 1 more such lines); see dmesg".into()
            )
        );
        assert!(
            matches!(outcome(vec![kernel(512, &[])]), Outcome::Failed(text) if text.contains("512"))
        );
        assert_eq!(
            outcome(vec![problem, kernel(0, &[]), Event::End]),
            Outcome::Inconclusive("fio failed".into())
        );
    }
}
