// SPDX-License-Identifier: GPL-2.0-only
//! `weir report`: a recording, a trace or a run of a scenario, in words or as pictures.

use crate::output;
use anyhow::{Result, bail};
use observe::Observation;
use observe::Target;
use observe::diagnosis::diagnose;
use report::timeline::{self, Timeline};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sum up a recording: which cgroup lost how much time to what, and why
///
/// Of a run that weir run --out kept, or of two, it prints the figures, and by how much they differ.
/// With --html it draws a recording, or a run that weir run --out kept, on one page that opens from
/// disk; with --perfetto it writes a trace for the viewer at ui.perfetto.dev. Exit status: 0, 2 if a
/// file cannot be used.
#[derive(clap::Args, Debug)]
pub struct ReportArgs {
    /// A recording of weir record, a trace as for weir explain --from, or a guest's directory of
    /// weir run --out
    file: PathBuf,
    /// A second one, drawn beside the first
    other: Option<PathBuf>,
    /// Write a page with pictures here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a trace for Perfetto's viewer here
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Reads the directory of a run of a scenario.
pub type ReadRun = fn(&Path) -> Result<Timeline>;

/// Runs the subcommand.
pub fn run(args: &ReportArgs, read_run: ReadRun) -> Result<ExitCode> {
    if args.html.is_none() && args.perfetto.is_none() {
        return print_summary(args, read_run);
    }
    if args.json {
        bail!("--json sums up; --html and --perfetto write files: ask for one of them at a time");
    }
    if args.perfetto.is_some() && args.other.is_some() {
        bail!("--perfetto writes one run: name one");
    }
    refuse_overwriting(args)?;
    let files = [Some(&args.file), args.other.as_ref()];
    let runs = files
        .into_iter()
        .flatten()
        .map(|file| open_timeline(file, read_run))
        .collect::<Result<Vec<Timeline>>>()?;
    if let Some(page) = &args.html {
        let text = report::html_page(&runs.iter().collect::<Vec<_>>());
        output::write_file(page, text.as_bytes())?;
    }
    if let Some(trace) = &args.perfetto {
        output::write_file(trace, &report::perfetto_trace(&runs[0]))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write over what is read, or over what was just written.
fn refuse_overwriting(args: &ReportArgs) -> Result<()> {
    let is_same = |one: &Path, other: &Path| {
        one == other
            || one
                .canonicalize()
                .is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    };
    let read = [
        Some(&args.file),
        args.other.as_ref(),
        args.perfetto.as_ref(),
    ];
    if let Some(page) = &args.html {
        if read.into_iter().flatten().any(|file| is_same(file, page)) {
            bail!(
                "--html would overwrite {}: name another file",
                page.display()
            );
        }
    }
    if let Some(trace) = &args.perfetto {
        if is_same(&args.file, trace) {
            bail!(
                "--perfetto would overwrite {}: name another file",
                trace.display()
            );
        }
    }
    Ok(())
}

fn print_summary(args: &ReportArgs, read_run: ReadRun) -> Result<ExitCode> {
    if args.other.is_some() || args.file.is_dir() {
        if args.json {
            bail!("--json sums up one recording: figures of runs are in their report.json");
        }
        let files = [Some(&args.file), args.other.as_ref()];
        let runs = files
            .into_iter()
            .flatten()
            .map(|file| open_timeline(file, read_run));
        let runs = runs.collect::<Result<Vec<Timeline>>>()?;
        output::print(report::comparison_text(&runs.iter().collect::<Vec<_>>()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let seen = Observation::open(&args.file)?;
    let diagnosis = diagnose(&seen, &Target::Host);
    if args.json {
        output::print_json(&diagnosis)?;
    } else {
        output::print_line(report::losses_by_cgroup(&diagnosis))?;
        if let Some(sleeps) = report::reclaim_sleeps(&seen) {
            output::print_line(sleeps)?;
        }
        output::print(report::explain_diagnosis(&diagnosis))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open_timeline(path: &Path, read_run: ReadRun) -> Result<Timeline> {
    if path.is_dir() {
        return read_run(path);
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    let mut name = name.to_string_lossy().into_owned();
    let made = path.metadata().and_then(|about| about.modified());
    if let Ok(made) = made {
        name += &format!(", {}", timeline::format_date(made));
    }
    Ok(timeline::observation_timeline(
        &name,
        &Observation::open(path)?,
    ))
}
