// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`'s side: one keeper for each arm and repeat, and what it says.

use crate::{Plan, clean, keeper};
use anyhow::{Context, Result, bail};
use runner::event::Event;
use runner::kept::Kept;
use runner::klog::HARMLESS_TAINT;
use runner::result::PhaseResult;
use scenario::model::{Arm, Scenario};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The run was ended before its time; everything is put back.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("interrupted; everything is put back")
    }
}

impl std::error::Error for Interrupted {}

/// What to run.
pub struct Request<'a> {
    /// As parsed, and checked by [`crate::check()`].
    pub scenario: &'a Scenario,
    /// Which arms are run.
    pub arms: &'a [Arm],
    /// How often each.
    pub repeat: u32,
    /// Keep a recording of each phase, as `weir record` makes.
    pub record: bool,
    /// Disks by name that lie in directories; the others are made.
    pub disks: &'a BTreeMap<String, PathBuf>,
    /// The module to load, if none is loaded.
    pub module: Option<&'a Path>,
    /// Where results, samples and recordings are kept; nowhere if `None`.
    pub out: Option<&'a Path>,
}

/// How one run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did all it was asked to, everything is put back, and the kernel has nothing to complain
    /// about.
    Done,
    /// The kernel complained while it ran. With what it said, for people.
    Failed(String),
    /// It could not be carried out, or not all of it could be put back. With why, for people.
    Inconclusive(String),
}

/// What one run came to.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Which arm it was.
    pub arm: Arm,
    /// Counted from 0.
    pub repeat: u32,
    /// What `uname -r` says.
    pub kernel: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was measured, of the phases that were completed.
    pub phases: Vec<PhaseResult>,
    /// Wall-clock seconds, putting back included.
    pub seconds: f64,
}

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

/// Runs the scenario in every arm, `repeat` times, one after the other. `progress` is told arm,
/// repeat, what is done now, and how many phases are over.
///
/// # Errors
/// What kept a run from beginning; [`Interrupted`]. What happens later is in its [`Outcome`].
pub fn run(
    request: &Request,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Arm, u32, &str, usize),
    finished: &mut dyn FnMut(&Ran),
) -> Result<Vec<Ran>> {
    let mut all = Vec::new();
    for repeat in 0..request.repeat {
        for arm in request.arms {
            let ran = one(request, *arm, repeat, interrupt, progress)?;
            if interrupt.is_stopped() {
                return match ran.outcome {
                    Outcome::Done => Err(Interrupted.into()),
                    Outcome::Failed(why) | Outcome::Inconclusive(why) => {
                        bail!("interrupted; {why}")
                    }
                };
            }
            finished(&ran);
            all.push(ran);
        }
    }
    Ok(all)
}

fn one(
    request: &Request,
    arm: Arm,
    repeat: u32,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Arm, u32, &str, usize),
) -> Result<Ran> {
    let begin = Instant::now();
    let plan = Plan {
        scenario: request.scenario.clone(),
        arm,
        record: request.record,
        disks: request.disks.clone(),
        module: request.module.map(Path::to_owned),
    };
    let mut kept = match request.out {
        Some(out) => {
            let directory = out.join(format!("{}-{}", arm.name(), repeat + 1));
            std::fs::create_dir_all(&directory)
                .with_context(|| format!("making {}", directory.display()))?;
            Some(Kept::create(&directory)?)
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
        let told = writeln!(stdin, "{}", serde_json::to_string(&plan)?);
        let mut wanted = interrupt.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted.stop {
            wanted.keeper = Some(stdin);
        }
        drop(wanted);
        told.context("telling the keeper what to run")?;
    }
    let mut said = Said::default();
    let mut failure = None;
    for line in BufReader::new(child.stdout.take().context("the keeper's words")?).lines() {
        // Half a line is a killed keeper's last.
        let Ok(event) = serde_json::from_str::<Event>(&line.unwrap_or_default()) else {
            continue;
        };
        if let Some(Err(why)) = kept.as_mut().map(|kept| kept.keep(&event)) {
            failure.get_or_insert(why);
        }
        match &event {
            Event::Stage { text } => progress(arm, repeat, text, said.phases.len()),
            Event::PhaseStart { phase } => progress(arm, repeat, phase, said.phases.len()),
            _ => {}
        }
        said.note(event);
    }
    let status = child.wait().context("waiting for the keeper")?;
    if !said.is_complete {
        said.problems
            .push(format!("the keeper of the run has ended ({status})"));
        if let Err(why) = clean::after_keeper() {
            said.problems.push(format!("{why:#}"));
        }
    }
    if let Some(why) = failure {
        return Err(why.context("keeping results"));
    }
    Ok(Ran {
        arm,
        repeat,
        kernel: said.kernel.clone(),
        outcome: said.outcome(),
        phases: said.phases,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// All that matters of what was said.
#[derive(Default)]
struct Said {
    kernel: String,
    phases: Vec<PhaseResult>,
    problems: Vec<String>,
    taint: u64,
    complaints: Vec<String>,
    is_complete: bool,
}

impl Said {
    fn note(&mut self, event: Event) {
        match event {
            Event::Boot { release } => self.kernel = release,
            Event::PhaseEnd(result) => self.phases.push(*result),
            Event::Problem { text, .. } => self.problems.push(text),
            Event::Kernel { taint, lines } => (self.taint, self.complaints) = (taint, lines),
            Event::End => self.is_complete = true,
            _ => {}
        }
    }

    fn outcome(&self) -> Outcome {
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
        let mut said = Said::default();
        events.into_iter().for_each(|event| said.note(event));
        said.outcome()
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
