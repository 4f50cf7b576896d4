// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`: a scenario from file to verdict.

use crate::progress::{Lines, Spinners};
use crate::twin::in_twin;
use crate::{counted, here, output};
use anyhow::{Context, Result, bail};
use lab::{Cache, Progress, RunRequest};
use report::{Outcome, Report, Run};
use scenario::model::{Arm, Scenario};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a scenario and check its expectations
///
/// Prints a table, stock beside weir, and each expectation with what was observed; progress goes to
/// stderr. Exit status: 0 all expectations met, 1 some not met or a guest failed, 2 it could not be
/// run or the result is inconclusive (a guest hung, a figure is missing), 130 interrupted on a host.
///
/// On a host a run takes root and cgroup v2. It asks before it changes anything that other processes
/// notice, and puts everything back, however it ends.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where: in QEMU guests that boot a stock distribution kernel, on a model of one, or on this machine
    #[arg(long, value_enum, default_value_t = Place::Lab)]
    on: Place,
    /// Lab: debian:6.12, debian:7.3:generic, debian:6.12:rt (`weir kernels` lists them), debug,
    /// debug-kcsan, or the path of a vmlinuz
    #[arg(long, default_value = "debian:6.12")]
    kernel: String,
    /// Let guests' clocks count instructions, one nanosecond each, on one CPU, so that results do
    /// not depend on this machine; the twin has such a CPU then
    #[arg(long)]
    count_instructions: bool,
    /// Without the module, with it, or both side by side
    #[arg(long, value_enum, default_value_t = Arms::Both)]
    arm: Arms,
    /// Runs per arm; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Twin: seed of the random numbers; each repeat takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep a recording of each phase too, for weir report --html; recording costs a guest some
    /// time
    #[arg(long, requires = "out")]
    record: bool,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// The table as Markdown
    #[arg(long)]
    markdown: bool,
    /// Keep logs, results, samples and the report here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Host: a disk of the scenario is this directory; the others are made in memory, as slow as the scenario says
    #[arg(long = "disk", value_name = "NAME=DIRECTORY", value_parser = here::disk)]
    disks: Vec<(String, PathBuf)>,
    /// Host: load this module in arm weir, not the installed one; it is unloaded afterwards
    #[arg(long, value_name = "PATH")]
    module: Option<PathBuf>,
    /// Host: do not ask before the machine's sysctls and the like are changed; all is put back afterwards
    #[arg(long)]
    yes: bool,
    /// Host: put back what a killed run has left, and run nothing; every run does so first
    #[arg(long, conflicts_with = "scenario")]
    clean_up: bool,
    /// A scenario file
    #[arg(required_unless_present = "clean_up")]
    scenario: Option<PathBuf>,
}

/// Where scenarios can run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Place {
    Lab,
    Twin,
    Host,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Arms {
    Stock,
    Weir,
    Both,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode> {
    misplaced(&args)?;
    let Some(path) = &args.scenario else {
        return here::clean_up();
    };
    let mut scenario = scenario::load(path)?;
    if args.count_instructions {
        counted::machine(&mut scenario);
    }
    let arms = match args.arm {
        Arms::Stock => vec![Arm::Stock],
        Arms::Weir => vec![Arm::Weir],
        Arms::Both => Arm::ALL.to_vec(),
    };
    let runs = match args.on {
        Place::Lab => in_lab(
            &scenario,
            &args.kernel,
            &arms,
            args.repeat,
            args.count_instructions,
            args.record,
            args.out.clone(),
        )?,
        Place::Twin => {
            let record = args.out.as_deref().filter(|_| args.record);
            in_twin(path, &scenario, &arms, args.repeat, args.seed, record)?
        }
        Place::Host => {
            let run = here::Run {
                path,
                scenario: &scenario,
                arms: &arms,
                repeat: args.repeat,
                record: args.record,
                disks: args.disks.iter().cloned().collect(),
                module: args.module.clone(),
                out: args.out.as_deref(),
                yes: args.yes,
            };
            match here::on_host(&run)? {
                Some(runs) => runs.into_iter().map(from_guest).collect(),
                None => return Ok(ExitCode::from(here::INTERRUPTED)),
            }
        }
    };
    let report = Report::new(&scenario, &arms, &runs);
    let json = format!("{:#}\n", report::json(&report));
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        keep(&out.join("report.json"), &json)?;
    }
    if args.json {
        output::print(json)?;
        report
            .troubles
            .iter()
            .for_each(|trouble| output::note(format_args!("weir: {trouble}")));
    } else if args.markdown {
        output::print(report::markdown(&report, &scenario))?;
    } else {
        output::print(report::terminal(&report, &scenario, colour()))?;
    }
    Ok(ExitCode::from(report.verdict.exit_status()))
}

/// Options that only a host has, anywhere else; and those that it has not.
fn misplaced(args: &Args) -> Result<()> {
    let host = matches!(args.on, Place::Host);
    for (option, is_given) in [
        ("--disk", !args.disks.is_empty()),
        ("--module", args.module.is_some()),
        ("--yes", args.yes),
        ("--clean-up", args.clean_up),
    ] {
        if is_given && !host {
            bail!("{option} is for runs on this machine: add --on host");
        }
    }
    if args.count_instructions && host {
        bail!("--count-instructions is for guests and the twin: a host's clock is what it is");
    }
    Ok(())
}

/// Runs `scenario` in guests, `repeat` times in each arm.
pub fn in_lab(
    scenario: &Scenario,
    kernel: &str,
    arms: &[Arm],
    repeat: u32,
    count_instructions: bool,
    record: bool,
    out: Option<PathBuf>,
) -> Result<Vec<Run>> {
    let request = RunRequest {
        scenario: scenario.clone(),
        kernel: kernel.to_owned(),
        arms: arms.to_vec(),
        repeat,
        count_instructions,
        record,
        out,
        init: None,
        cache: Cache::discover()?,
    };
    let progress: Box<dyn Progress> = if std::io::stderr().is_terminal() {
        Box::new(Spinners::new(arms, repeat))
    } else {
        Box::new(Lines::new(repeat))
    };
    let guests = lab::run(&request, progress.as_ref())?;
    Ok(guests.into_iter().map(from_guest).collect())
}

/// The lab's result as the report takes it.
fn from_guest(guest: lab::Guest) -> Run {
    let outcome = match guest.outcome {
        lab::Outcome::Done => Outcome::Done,
        lab::Outcome::Failed(why) => Outcome::Failed(why),
        lab::Outcome::Inconclusive(why) => Outcome::Inconclusive(why),
    };
    Run {
        arm: guest.arm,
        kernel: guest.kernel_release,
        outcome,
        metrics: guest.metrics,
    }
}

fn keep(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the report {}", path.display()))
}

/// On a terminal, unless NO_COLOR says otherwise (https://no-color.org).
pub fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
