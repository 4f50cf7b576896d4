// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep`: a scenario on the twin, over values of some of its keys.

mod plot;
mod set;

use crate::twin::{run_in_parallel, run_on_threads, run_twin_once};
use anyhow::{Context, Result, anyhow};
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use plot::Panel;
use scenario::metric::{Name, unit_of_metric};
use scenario::model::{Arm, Scenario};
use serde_json::{Map, Value};
use set::Setting;
use std::path::PathBuf;
use std::process::ExitCode;
use verdict::{Report, Verdict};
use weir::output;

/// Run a scenario on the twin with each combination of some values
///
/// Prints a line per combination: the figures that expectations are about, or those of --show, and
/// whether all expectations are met. Combinations run in parallel. Exit status: 0, or 2 if something
/// could not be run.
#[derive(clap::Args, Debug)]
pub struct SweepArgs {
    /// A key of the file and its values, as in host.weir.drain_seconds=10,20,30; with several --set,
    /// every combination is run
    #[arg(long, value_name = "KEY=A,B,C", required = true)]
    set: Vec<String>,
    /// A figure to show, as in weir.contended.victim.iops; can be repeated
    #[arg(long, value_name = "METRIC")]
    show: Vec<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw bars below the table
    #[arg(long, conflicts_with_all = ["json", "lines"])]
    plot: bool,
    /// Draw curves into a new SVG file: the first --set along the axis, a line for each combination
    /// of the others
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Run only every N-th combination, from the I-th on (0 is the first): a part of a sweep over
    /// several machines
    #[arg(long, value_name = "I/N", value_parser = parse_part, requires = "lines")]
    part: Option<(usize, usize)>,
    /// Runs at a time [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with_all = ["markdown", "lines"])]
    json: bool,
    /// A JSON object for each combination, on a line of its own
    #[arg(long, conflicts_with = "markdown")]
    lines: bool,
    /// The table as Markdown
    #[arg(long)]
    markdown: bool,
    /// A scenario file
    scenario: PathBuf,
}

fn parse_part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text
        .split_once('/')
        .and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    numbers
        .filter(|(index, of)| index < of)
        .ok_or_else(|| format!("`{text}` is not a part, as in `0/4` to `3/4`"))
}

/// Runs the subcommand.
pub fn run(args: &SweepArgs) -> Result<ExitCode> {
    let shown = args.scenario.display().to_string();
    let text = config::read_text(&args.scenario, "scenario")?;
    // What is wrong with the file itself is told with its lines.
    let scenario = scenario::parse("sweep", &shown, &text)?;
    let show = shown_metrics(&args.show, &scenario)?;
    let (index, of) = args.part.unwrap_or((0, 1));
    let mut wanted = Vec::new();
    for settings in set::all_combinations(&args.set)?
        .into_iter()
        .skip(index)
        .step_by(of)
    {
        wanted.push((
            set::parse_with_settings(&text, &settings, &shown)?,
            settings,
        ));
    }
    let bar = progress_bar(wanted.len() as u64);
    let work = |(scenario, settings): &(Scenario, Vec<Setting>)| {
        let report = run_both_arms(scenario, settings, args.seed);
        bar.inc(1);
        report
    };
    let reports = match args.threads {
        None => run_in_parallel(&wanted, work)?,
        Some(threads) => run_on_threads(threads as usize, &wanted, work)?,
    };
    bar.finish_and_clear();
    let reports = reports.into_iter().collect::<Result<Vec<Report>>>()?;
    let rows: Vec<(&[Setting], &Report)> = wanted
        .iter()
        .map(|(_, s)| s.as_slice())
        .zip(&reports)
        .collect();
    if let Some(path) = &args.svg {
        let title = &scenario.title;
        plot::write(path, &plot::draw_svg(title, &figure_panels(&rows, &show)))?;
    }
    if args.json {
        let runs: Vec<Value> = rows
            .iter()
            .map(|row| combination_as_json(row, &show))
            .collect();
        output::print_json(&serde_json::json!({ "runs": runs }))?;
    } else if args.lines {
        for row in &rows {
            output::print_line(combination_as_json(row, &show))?;
        }
    } else {
        output::print_line(sweep_table(&rows, &show, args.markdown))?;
        if args.plot {
            output::print(plot::draw_bars(&figure_panels(&rows, &show)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar for the runs that are done, on a terminal.
fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos} of {len} {wide_bar} {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The figures as they are drawn: one panel each.
fn figure_panels(rows: &[(&[Setting], &Report)], show: &[String]) -> Vec<Panel> {
    let panel = |name: &String| Panel {
        name: name.clone(),
        unit: unit_of_metric(name),
        points: rows
            .iter()
            .map(|(settings, report)| {
                let figure = report.metrics.get(name).map(|summary| summary.median);
                (settings.to_vec(), figure.filter(|value| value.is_finite()))
            })
            .collect(),
    };
    show.iter().map(panel).collect()
}

fn run_both_arms(scenario: &Scenario, settings: &[Setting], seed: u64) -> Result<Report> {
    let run =
        |arm| run_twin_once(scenario, arm, seed).with_context(|| format!("with {settings:?}"));
    let runs = Arm::ALL.into_iter().map(run).collect::<Result<Vec<_>>>()?;
    Ok(Report::new(scenario, &Arm::ALL, &runs))
}

/// The metrics asked for, or those expectations are about.
fn shown_metrics(asked: &[String], scenario: &Scenario) -> Result<Vec<String>> {
    for name in asked {
        let metric = Name::parse_full_name(name)
            .ok_or_else(|| anyhow!("--show {name}: write ARM.PHASE.SUBJECT.METRIC"))?;
        metric
            .check_measurable(scenario)
            .map_err(|why| anyhow!("--show {name}: {why}"))?;
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let mut names: Vec<String> = Vec::new();
    for expect in &scenario.expects {
        if !names.contains(&expect.metric) {
            names.push(expect.metric.clone());
        }
    }
    Ok(names)
}

fn sweep_table(rows: &[(&[Setting], &Report)], show: &[String], markdown: bool) -> Table {
    let mut table = report::plain_table(markdown);
    let keys = rows[0].0.iter().map(|(key, _)| key.clone());
    table.set_header(
        keys.chain(show.iter().cloned())
            .chain(["expectations".to_owned()]),
    );
    for (settings, report) in rows {
        let values = settings.iter().map(|(_, value)| value.clone());
        let figures = show.iter().map(|name| {
            report.metrics.get(name).map_or_else(
                || "-".into(),
                |s| report::format_value(s.median, unit_of_metric(name)),
            )
        });
        let met = report
            .expects
            .iter()
            .filter(|judged| judged.verdict == Verdict::Pass)
            .count();
        let verdict = format!("{met} of {} met", report.expects.len());
        table.add_row(values.chain(figures).chain([verdict]));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A combination as JSON.
fn combination_as_json((settings, report): &(&[Setting], &Report), show: &[String]) -> Value {
    let set: Map<String, Value> = settings
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let figures: Map<String, Value> = show
        .iter()
        .map(|name| {
            (
                name.clone(),
                report.metrics.get(name).map(|s| s.median).into(),
            )
        })
        .collect();
    serde_json::json!({"set": set, "figures": figures, "verdict": report.verdict.name()})
}
