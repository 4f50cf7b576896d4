// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios on this machine: `weir run --on host`.

use crate::host::System;
use crate::output;
use crate::progress::{Lines, Spinners};
use ::host::clean::LeftOver;
use ::host::{Interrupt, Interrupted, Ran, Request};
use anyhow::{Context, Result, anyhow, bail};
use config::problem::{Problem, Problems};
use lab::{Guest, Progress};
use scenario::model::{Arm, Scenario};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Exit status of a run that was interrupted: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;
/// A run needs about this long besides its phases: mkfs, layout, putting back.
const OVERHEAD: Duration = Duration::from_secs(10);

/// What to run.
pub struct Run<'a> {
    /// The scenario's file.
    pub path: &'a Path,
    /// The scenario as parsed.
    pub scenario: &'a Scenario,
    /// Which arms are run.
    pub arms: &'a [Arm],
    /// How often each.
    pub repeat: u32,
    /// Keep a recording of each phase.
    pub record: bool,
    /// Disks by name that are directories.
    pub disks: BTreeMap<String, PathBuf>,
    /// The module, if not the installed one.
    pub module: Option<PathBuf>,
    /// Where results are kept.
    pub out: Option<&'a Path>,
    /// Do not ask.
    pub yes: bool,
}

/// Reads a disk, `NAME=DIRECTORY`.
pub fn disk(text: &str) -> Result<(String, PathBuf)> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            let directory = std::path::absolute(directory)?;
            // Mounts are known by their real paths.
            let directory = directory.canonicalize().unwrap_or(directory);
            Ok((name.to_owned(), directory))
        }
        _ => bail!("`{text}` is not a disk: write NAME=DIRECTORY, as in slow=/srv/test"),
    }
}

/// Runs `weir run --on host --clean-up`.
pub fn clean_up() -> Result<ExitCode> {
    match ::host::clean::left_over()? {
        LeftOver::PutBack => output::line("what a killed run had left is put back")?,
        LeftOver::Nothing => output::line("no run has left anything")?,
        LeftOver::GoesOn => bail!("a run goes on here, or is being put back: nothing was touched"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks, asks, runs; `None` if it was interrupted.
pub fn on_host(run: &Run) -> Result<Option<Vec<Guest>>> {
    let module = match &run.module {
        Some(path) => Some(std::path::absolute(path)?),
        None => System::here()?.installed_module(),
    };
    let module = module.as_deref();
    if nix::unistd::geteuid().is_root() && ::host::clean::left_over()? == LeftOver::PutBack {
        output::note("weir: what a killed run had left is put back");
    }
    refuse(run, module)?;
    if !run.yes && !agreed(&::host::changes(run.scenario, run.arms, &run.disks, module))? {
        bail!("nothing was changed");
    }
    let phases = phase_times(run.scenario)?;
    let progress: Box<dyn Progress> = if std::io::stderr().is_terminal() {
        Box::new(Spinners::new(run.arms, run.repeat))
    } else {
        Box::new(Lines::new(run.repeat))
    };
    let interrupt = Arc::new(Interrupt::default());
    let stop = interrupt.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("watching for ctrl-c")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop.stop();
        }
    });
    let request = Request {
        scenario: run.scenario,
        arms: run.arms,
        repeat: run.repeat,
        record: run.record,
        disks: &run.disks,
        module,
        out: run.out,
    };
    let mut tell = |arm: Arm, repeat: u32, what: &str, over: usize| {
        let one = OVERHEAD + phases.iter().sum::<Duration>();
        let before = run.arms.iter().position(|other| *other == arm).unwrap_or(0);
        let ahead =
            (run.arms.len() - before - 1) + run.arms.len() * (run.repeat - repeat - 1) as usize;
        let left = phases.iter().skip(over).sum::<Duration>() + one * ahead as u32;
        progress.stage(arm, repeat, what, left);
    };
    let mut finished = |ran: &Ran| progress.finished(&as_guest(ran));
    let ran = ::host::run(&request, &interrupt, &mut tell, &mut finished);
    if let Err(error) = &ran {
        if error.is::<Interrupted>() {
            output::note(format_args!("weir: {error}"));
            return Ok(None);
        }
    }
    Ok(Some(ran?.iter().map(as_guest).collect()))
}

/// All that this machine cannot honour, with the lines of the scenario that are to blame.
fn refuse(run: &Run, module: Option<&Path>) -> Result<()> {
    let refusals = ::host::check(run.scenario, run.arms, &run.disks, module);
    if refusals.is_empty() {
        return Ok(());
    }
    let text = config::text(run.path, "scenario")?;
    let mut problems: Vec<Problem> = refusals
        .into_iter()
        .map(|refusal| match refusal.key.is_empty() {
            true => Problem {
                file: "this machine".into(),
                line: 0,
                key: String::new(),
                what: refusal.what,
            },
            false => Problem {
                file: run.path.display().to_string(),
                line: config::reader::line_of(&text, &refusal.key),
                key: refusal.key,
                what: refusal.what,
            },
        })
        .collect();
    problems.sort_by_key(|problem| problem.line);
    Err(Problems(problems).into())
}

/// Shows what others on this machine will notice, and asks.
fn agreed(changes: &[String]) -> Result<bool> {
    let list = changes.join("\n  ");
    output::note(format_args!(
        "weir: as long as the run takes, it changes this of the whole machine, and puts it back afterwards:\n  {list}"
    ));
    if !stdin().is_terminal() {
        bail!("standard input is no terminal, so weir cannot ask: --yes agrees to these changes");
    }
    output::note("weir: go on? [y/N]");
    let mut answer = String::new();
    stdin()
        .read_line(&mut answer)
        .context("reading the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn phase_times(scenario: &Scenario) -> Result<Vec<Duration>> {
    let time = |phase: &scenario::model::Phase| {
        let jobs = scenario
            .jobs
            .iter()
            .filter(|job| phase.jobs.contains(&job.name));
        runner::jobs::nominal_ms(&jobs.collect::<Vec<_>>(), phase).map(Duration::from_millis)
    };
    let times: Result<_, String> = scenario.phases.iter().map(time).collect();
    times.map_err(|why| anyhow!(why))
}

/// A run as guests are reported.
fn as_guest(ran: &Ran) -> Guest {
    let metrics = ran
        .phases
        .iter()
        .flat_map(|phase| scenario::metric::metrics(ran.arm, &phase.measured()));
    Guest {
        arm: ran.arm,
        repeat: ran.repeat,
        kernel_release: ran.kernel.clone(),
        outcome: match &ran.outcome {
            ::host::Outcome::Done => lab::Outcome::Done,
            ::host::Outcome::Failed(why) => lab::Outcome::Failed(why.clone()),
            ::host::Outcome::Inconclusive(why) => lab::Outcome::Inconclusive(why.clone()),
        },
        metrics: metrics.collect(),
        log: PathBuf::new(),
        seconds: ran.seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_name_and_a_directory() {
        let (name, directory) = disk("slow=/tmp/..").expect("a disk");
        assert_eq!(
            (name.as_str(), directory.as_path()),
            ("slow", Path::new("/"))
        );
        for text in ["slow", "=/tmp", "slow="] {
            let error = disk(text).unwrap_err().to_string();
            assert!(error.contains("write NAME=DIRECTORY"), "{error}");
        }
    }
}
