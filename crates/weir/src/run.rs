// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`: a scenario from file to verdict.

use crate::progress::{Lines, Spinners};
use crate::twin::in_twin;
use crate::{counted, output};
use anyhow::{Context, Result};
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
/// run or the result is inconclusive (a guest hung, a figure is missing).
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where: in QEMU guests that boot a stock distribution kernel, or on a model of one
    #[arg(long, value_enum, default_value_t = Place::Lab)]
    on: Place,
    /// Lab: debian:6.12, debian:6.1, debian:6.12:generic, debian:6.12:rt, debug, debug-kcsan, or the path of a
    /// vmlinuz
    #[arg(long, default_value = "debian:6.12")]
    kernel: String,
    /// Let guests' clocks count instructions, one nanosecond each, on one CPU, so that results do not depend on this machine;
    /// the twin has such a CPU then
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
    /// Keep a recording of each phase too, for weir report --html; recording costs a guest some time
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
    /// A scenario file
    scenario: PathBuf,
}

/// Where scenarios can run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Place {
    Lab,
    Twin,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Arms {
    Stock,
    Weir,
    Both,
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut scenario = scenario::load(&args.scenario)?;
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
            in_twin(
                &args.scenario,
                &scenario,
                &arms,
                args.repeat,
                args.seed,
                record,
            )?
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
