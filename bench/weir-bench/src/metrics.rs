// SPDX-License-Identifier: GPL-2.0-only
//! `weir metrics`: what runs measure.

use anyhow::Result;
use scenario::metric::{Metric, Places, metric_table};
use std::process::ExitCode;
use weir::output;

/// List the metrics that expectations can name
///
/// Each is of a job, of the host, of a disk or of a cgroup. In an expectation or a report its full
/// name is ARM.PHASE.SUBJECT.METRIC, as in weir.contended.victim.iops.
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// One JSON array instead of a table
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// The table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// Runs the subcommand.
pub fn run(args: &MetricsArgs) -> Result<ExitCode> {
    if args.json {
        output::print_json(
            &metric_table()
                .iter()
                .map(metric_as_json)
                .collect::<Vec<_>>(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = report::plain_table(args.markdown);
    text.set_header(["metric", "of", "unit", "only", "what it is"]);
    for row in metric_table() {
        let only = measured_only(row).join(", ");
        text.add_row([
            row.name,
            row.subject_kind(),
            row.unit.name(),
            &only,
            row.about,
        ]);
    }
    output::print_line(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Hosts, arms and executors that alone measure the metric.
fn measured_only(row: &Metric) -> Vec<&'static str> {
    [
        (row.tiered, "hosts with tiers"),
        (row.weir_only, "arm weir"),
        (row.places == Places::Twin, "twin"),
        (row.places == Places::Kernels, "lab, host"),
    ]
    .into_iter()
    .filter_map(|(is, only)| is.then_some(only))
    .collect()
}

fn metric_as_json(row: &Metric) -> serde_json::Value {
    serde_json::json!({
        "metric": row.name,
        "of": row.subject_kind(),
        "unit": row.unit,
        "only": measured_only(row),
        "about": row.about,
    })
}
