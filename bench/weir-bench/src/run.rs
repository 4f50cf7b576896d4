// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`: a scenario from file to verdict.

use crate::patches::PatchArgs;
use crate::twin::Twin;
use crate::{counted, here, progress};
use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lab::patched_kernel::Asked;
use lab::{Cache, Lab};
use scenario::executor::{self, Executor, Request, Run};
use scenario::model::Arm;
use scenario::place::Place;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use verdict::Report;
use weir::output;

/// Run a scenario and check its expectations
///
/// Prints a table, stock beside weir (and a kernel with patches, if there are), and each expectation with what was observed; progress goes to
/// stderr. Exit status: 0 all expectations met, 1 some not met or a guest failed, 2 the scenario
/// could not be run or the result is inconclusive (a guest hung, a figure is missing), 130
/// interrupted on a host.
///
/// On a host a run needs root and cgroup v2. It asks before it changes anything that other processes
/// notice, and puts everything back, however it ends.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Where to run: in QEMU guests that boot a stock distribution kernel, on a model of one, or on
    /// this machine
    #[arg(long, value_parser = place_parser(), default_value = "lab")]
    on: Place,
    /// Lab: debian:6.12, debian:7.3:generic, debian:6.12:arm64 (`weir kernels` lists them), debug,
    /// debug-kcsan, or the path of a vmlinuz
    #[arg(long, default_value = "debian:6.12")]
    kernel: String,
    /// Let guests' clocks count instructions, one nanosecond each, on one CPU, so that results do
    /// not depend on this machine; the twin then models such a CPU
    #[arg(long)]
    count_instructions: bool,
    /// Run without the module, with it, or both side by side, which is the default; patched: on a
    /// kernel with patches, with those of the scenario's knobs that it has. Several, as in
    /// stock,patched; all three by default with --patches or --source
    #[arg(long = "arm", value_enum, value_delimiter = ',')]
    arms: Vec<Arms>,
    /// Runs per arm; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Twin: seed of the random numbers; each repeat takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also keep a recording of each phase, for weir report --html; recording costs a guest some
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
    #[command(flatten)]
    build: PatchArgs,
    /// Host: use this directory as the scenario's disk NAME; the other disks are made in memory, as
    /// slow as the scenario says
    #[arg(long = "disk", value_name = "NAME=DIRECTORY", value_parser = here::parse_disk)]
    disks: Vec<(String, PathBuf)>,
    /// Host: load this module in arm weir instead of the installed one, and unload it afterwards
    #[arg(long, value_name = "PATH")]
    module: Option<PathBuf>,
    /// Host: do not ask before changing sysctls and the like for the whole machine; the run puts
    /// them back
    #[arg(long)]
    yes: bool,
    /// Host: put back what a killed run has left behind, and run nothing; every run does so first
    #[arg(long, conflicts_with = "scenario")]
    clean_up: bool,
    /// A scenario file
    #[arg(required_unless_present = "clean_up")]
    scenario: Option<PathBuf>,
}

/// Exit status of a run that was interrupted: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// A place, by its name.
pub fn place_parser() -> impl TypedValueParser<Value = Place> {
    PossibleValuesParser::new(Place::ALL.map(Place::name))
        .try_map(|name| Place::from_name(&name).ok_or("expected lab, twin or host"))
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Arms {
    Stock,
    Weir,
    Patched,
    Both,
}

impl Arms {
    /// The arms that were asked for, each once; `is_built` if a kernel is built.
    fn choose_arms(asked: &[Arms], is_built: bool) -> Vec<Arm> {
        let mut arms: Vec<Arm> = Vec::new();
        for one in asked {
            match one {
                Arms::Stock => arms.push(Arm::Stock),
                Arms::Weir => arms.push(Arm::Weir),
                Arms::Patched => arms.push(Arm::Patched),
                Arms::Both => arms.extend(Arm::ALL),
            }
        }
        if arms.is_empty() {
            arms.extend(Arm::ALL);
            arms.extend(is_built.then_some(Arm::Patched));
        }
        arms.sort_unstable();
        arms.dedup();
        arms
    }
}

/// Runs the subcommand.
pub fn run(args: RunArgs) -> Result<ExitCode> {
    refuse_misplaced_options(&args)?;
    let Some(path) = &args.scenario else {
        return here::clean_up();
    };
    let mut scenario = scenario::load(path)?;
    if args.count_instructions {
        counted::set_counted_machine(&mut scenario);
    }
    let build = args.build.to_build_request()?;
    let arms = Arms::choose_arms(&args.arms, build.is_some());
    refuse_patched(&arms, &args)?;
    let request = Request {
        scenario: &scenario,
        arms: &arms,
        repeat: args.repeat,
        record: args.record,
        out: args.out.as_deref(),
    };
    let ran = match args.on {
        Place::Lab => run_in_lab(&args.kernel, build, args.count_instructions, &request),
        Place::Twin => Twin { seed: args.seed }.run(&request, &*progress::show_twin_runs(&request)),
        Place::Host => here::run_on_host(&args.disks, args.module.as_deref(), args.yes, &request),
    };
    let runs = match ran {
        Err(error @ executor::Error::Interrupted) => {
            output::print_note(format_args!("weir: {error}"));
            return Ok(ExitCode::from(INTERRUPTED));
        }
        ran => ran.map_err(|error| locate_error(error, path))?,
    };
    let report = Report::new(&scenario, &arms, &runs);
    let json = || {
        let mut json = verdict::report_json(&report);
        json["run"] = serde_json::json!({
            "scenario": scenario.name,
            "place": args.on.name(),
            "kernels": report.kernels,
            "clock": clock_name(args.count_instructions),
            "seed": (args.on == Place::Twin).then_some(args.seed),
            "version": env!("CARGO_PKG_VERSION"),
            "date": verdict::today_utc(),
        });
        format!("{json:#}\n")
    };
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        write_report(&out.join("report.json"), &json())?;
    }
    if args.json {
        output::print(json())?;
        report
            .troubles
            .iter()
            .for_each(|trouble| output::print_note(format_args!("weir: {trouble}")));
    } else if args.markdown {
        output::print(verdict::markdown_report(&report, &scenario))?;
    } else {
        output::print(verdict::terminal_report(
            &report,
            &scenario,
            output::wants_colour(),
        ))?;
    }
    Ok(ExitCode::from(report.verdict.exit_status()))
}

/// The clock of a run, as reports name it.
pub fn clock_name(count_instructions: bool) -> &'static str {
    match count_instructions {
        true => "instructions",
        false => "time",
    }
}

/// Options that only a host has, anywhere else; and those that it has not.
fn refuse_misplaced_options(args: &RunArgs) -> Result<()> {
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
        bail!("--count-instructions is for guests and the twin: leave it out with --on host");
    }
    Ok(())
}

/// A patched kernel anywhere but in guests, and one that nothing says how to get.
fn refuse_patched(arms: &[Arm], args: &RunArgs) -> Result<()> {
    if !arms.contains(&Arm::Patched) && args.build.to_build_request()?.is_none() {
        return Ok(());
    }
    if args.on != Place::Lab {
        bail!("a patched kernel is booted in a guest: use --on lab");
    }
    let is_own = args.kernel.contains('/') || Path::new(&args.kernel).exists();
    if args.build.to_build_request()?.is_none() && !is_own {
        bail!(
            "arm patched needs a kernel that is: add --patches or --source to build one, or give --kernel the path of one"
        );
    }
    Ok(())
}

/// Runs what is asked for in guests.
pub fn run_in_lab(
    kernel: &str,
    build: Option<Asked>,
    count_instructions: bool,
    request: &Request,
) -> Result<Vec<Run>, executor::Error> {
    let lab = Lab {
        kernel: kernel.to_owned(),
        build,
        count_instructions,
        init: None,
        cache: Cache::discover()?,
    };
    lab.run(request, &*progress::show_runs(request))
}

/// Adds the lines of the scenario at `path` that are to blame.
pub fn locate_error(error: executor::Error, path: &Path) -> anyhow::Error {
    match error {
        executor::Error::Refused(refusals) => match executor::locate_refusals(path, refusals) {
            Ok(problems) | Err(problems) => problems.into(),
        },
        executor::Error::Other(error) => error,
        interrupted => interrupted.into(),
    }
}

fn write_report(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the report {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_taken_once_and_in_their_order() {
        assert_eq!(Arms::choose_arms(&[], false), [Arm::Stock, Arm::Weir]);
        assert_eq!(
            Arms::choose_arms(&[], true),
            [Arm::Stock, Arm::Weir, Arm::Patched]
        );
        assert_eq!(
            Arms::choose_arms(&[Arms::Both], true),
            [Arm::Stock, Arm::Weir]
        );
        let asked = [Arms::Patched, Arms::Stock, Arms::Both];
        assert_eq!(
            Arms::choose_arms(&asked, true),
            [Arm::Stock, Arm::Weir, Arm::Patched]
        );
    }
}
