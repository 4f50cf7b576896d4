// SPDX-License-Identifier: GPL-2.0-only
//! `weir explain`: why did it stall?

use crate::host::System;
use crate::output;
use anyhow::{Context, Result};
use observe::Observation;
use observe::Target;
use observe::diagnosis::{Cause, Decider, Diagnosis, diagnose};
use observe::live::{self, LookOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Explain why writers stall
///
/// Watches the kernel for a while and says what stalled, which limit decided, how that limit comes
/// about, which cgroups hold the dirty pages, and what to type to change it. Needs root, but neither
/// weir's module nor BTF. Ctrl-C ends the watching early. Exit status: 0 explained, 1 nothing
/// stalled, 2 it cannot tell.
#[derive(clap::Args, Debug)]
pub struct ExplainArgs {
    /// A cgroup's path, below /sys/fs/cgroup or absolute, or a process id; without it, the five
    /// cgroups that lost most
    #[arg(value_name = "CGROUP|PID")]
    target: Option<String>,
    /// How long to watch
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = parse_watch_time)]
    time: u64,
    /// Explain a recording of weir record instead, or a trace: trace.dat, or text of ftrace,
    /// trace-cmd report or perf script
    #[arg(long, value_name = "FILE", conflicts_with = "time")]
    from: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Parses the time to look, in milliseconds: in no time nothing stalls, which would be told as a
/// verdict.
pub fn parse_watch_time(text: &str) -> Result<u64, String> {
    match config::units::parse_milliseconds(text)? {
        0 => Err("expected a duration above 0, as in 30s".into()),
        time => Ok(time),
    }
}

/// Runs the subcommand.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let (seen, target) = match &args.from {
        Some(file) => read_recording(file, args.target.as_deref())?,
        None => watch_live(args)?,
    };
    let diagnosis = diagnose(&seen, &target);
    if args.json {
        output::print_json(&diagnosis)?;
    } else {
        output::print(report::explain_diagnosis(&diagnosis))?;
    }
    Ok(ExitCode::from(exit_status(&diagnosis)))
}

/// A file, and whom of it.
fn read_recording(file: &Path, whom: Option<&str>) -> Result<(Observation, Target)> {
    let mut seen = Observation::open(file)?;
    let target = match whom {
        Some(whom) => seen
            .find_target(whom)
            .with_context(|| format!("in {}", file.display()))?,
        None => Target::Host,
    };
    seen.keep_target(&target);
    Ok((seen, target))
}

fn watch_live(args: &ExplainArgs) -> Result<(Observation, Target)> {
    let target = args
        .target
        .as_deref()
        .map_or(Ok(Target::Host), live::find_target)?;
    let stop = stop_on_signals()?;
    let mut seen = live::observe_target(
        &target,
        LookOptions::for_time(Duration::from_millis(args.time)),
        &stop,
        None,
    )?;
    seen.weir_is_installed = is_module_installed()?;
    Ok((seen, target))
}

/// Set by the signals that ask a process to end.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot take signals")?;
    }
    Ok(stop)
}

/// Returns whether weir's module is installed for the running kernel.
pub fn is_module_installed() -> Result<bool> {
    Ok(System::this_machine()?.installed_module().is_some())
}

fn exit_status(diagnosis: &Diagnosis) -> u8 {
    match diagnosis.verdicts.first().map(|verdict| verdict.cause) {
        Some(Cause::Nothing) | None => 1,
        Some(Cause::Throttle(Decider::Unknown)) => 2,
        Some(_) => 0,
    }
}
