// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep`: a scenario on the twin, over values of some of its keys.

use crate::output;
use crate::twin::{from_twin, in_parallel};
use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, Table};
use report::{Report, Verdict};
use scenario::metric::{Name, Unit};
use scenario::model::{Arm, Scenario};
use std::path::PathBuf;
use std::process::ExitCode;
use toml::Value;

/// Run a scenario on the twin with each combination of some values
///
/// Prints a line per combination: the figures that expectations are about, or those of --show, and whether all expectations are met.
/// Runs go on in parallel. Exit status: 0, or 2 if something could not be run.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A key of the file and its values, as in host.weir.drain_seconds=10,20,30; several --set are combined
    #[arg(long, value_name = "KEY=A,B,C", required = true)]
    set: Vec<String>,
    /// A figure to show, as in weir.contended.victim.iops; several
    #[arg(long, value_name = "METRIC")]
    show: Vec<String>,
    /// Where chance begins
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of a table
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// The table as Markdown
    #[arg(long)]
    markdown: bool,
    /// A scenario file
    scenario: PathBuf,
}

/// A key and what it is set to.
type Setting = (String, String);

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let shown = args.scenario.display().to_string();
    let text = std::fs::read_to_string(&args.scenario)
        .with_context(|| format!("cannot read the scenario {shown}"))?;
    // What is wrong with the file itself is told with its lines.
    if let Err(problems) = scenario::parse("sweep", &shown, &text) {
        output::note(problems);
        return Ok(ExitCode::from(2));
    }
    let mut wanted = Vec::new();
    for settings in combinations(&args.set)? {
        wanted.push((variant(&text, &settings, &shown)?, settings));
    }
    let reports = in_parallel(&wanted, |(scenario, settings)| {
        report_of(scenario, settings, args.seed)
    })?;
    let reports = reports.into_iter().collect::<Result<Vec<Report>>>()?;
    let show = shown_metrics(&args.show, &wanted[0].0)?;
    let rows: Vec<(&[Setting], &Report)> = wanted
        .iter()
        .map(|(_, s)| s.as_slice())
        .zip(&reports)
        .collect();
    if args.json {
        output::json(&json(&rows, &show))?;
    } else {
        output::line(table(&rows, &show, args.markdown))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn combinations(sets: &[String]) -> Result<Vec<Vec<Setting>>> {
    let mut all = vec![Vec::new()];
    for set in sets {
        let (key, values) = set
            .split_once('=')
            .ok_or_else(|| anyhow!("--set {set}: write KEY=A,B,C"))?;
        let longer = |before: &Vec<Setting>| {
            let values = values.split(',').map(|value| {
                let mut settings = before.clone();
                settings.push((key.trim().to_owned(), value.trim().to_owned()));
                settings
            });
            values.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    Ok(all)
}

/// The scenario with some keys set.
fn variant(text: &str, settings: &[Setting], shown: &str) -> Result<Scenario> {
    let mut root: Value = Value::Table(toml::from_str(text).context("reading the scenario anew")?);
    for (key, value) in settings {
        set(&mut root, key, value).with_context(|| format!("--set {key}={value}"))?;
    }
    let text = toml::to_string(&root).context("writing the scenario anew")?;
    let named: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let file = format!("{shown} with {}", named.join(" "));
    // Lines are of a text nobody sees; the key says where.
    scenario::parse("sweep", &file, &text).map_err(|problems| {
        let told = problems.0.into_iter().map(|mut problem| {
            problem.line = 0;
            problem.to_string()
        });
        anyhow!("{}", told.collect::<Vec<_>>().join("\n"))
    })
}

/// Sets a dotted key (`cgroup.victim."memory.dirty_min"`, `disk[0].write_bandwidth`); the table it is in must be there.
fn set(root: &mut Value, key: &str, text: &str) -> Result<()> {
    let mut parts = parts(key)?;
    let last = parts.pop().ok_or_else(|| anyhow!("no key"))?;
    let mut at = root;
    for part in parts {
        at = child(at, &part)
            .ok_or_else(|| anyhow!("the scenario has no `{part}` on the way to it"))?;
    }
    let before = child(at, &last).map(|value| value.is_str());
    let value = match (text.parse::<i64>(), before) {
        (Ok(number), Some(false) | None) => Value::Integer(number),
        _ if text == "true" || text == "false" => Value::Boolean(text == "true"),
        _ => Value::String(text.into()),
    };
    match at {
        Value::Table(table) => table.insert(last, value),
        _ => bail!("`{last}` is not a key of a table"),
    };
    Ok(())
}

fn child<'a>(value: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    match value {
        Value::Table(table) => table.get_mut(part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// A key's parts: bare, quoted, or an index in brackets.
fn parts(key: &str) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted
                .split_once('"')
                .ok_or_else(|| anyhow!("`{key}`: a quote is not closed"))?
        } else if let Some(index) = rest.strip_prefix('[') {
            index
                .split_once(']')
                .ok_or_else(|| anyhow!("`{key}`: a bracket is not closed"))?
        } else {
            rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()))
        };
        parts.push(part.to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    Ok(parts)
}

fn report_of(scenario: &Scenario, settings: &[Setting], seed: u64) -> Result<Report> {
    let run = |arm| {
        let outcome = twin::run(scenario, arm, seed).map_err(|refusals| {
            let told: Vec<String> = refusals
                .iter()
                .map(|(key, why)| format!("key `{key}`: {why}"))
                .collect();
            anyhow!("with {settings:?}: {}", told.join("\n"))
        })?;
        Ok(from_twin(arm, outcome))
    };
    let runs = Arm::ALL.into_iter().map(run).collect::<Result<Vec<_>>>()?;
    Ok(Report::new(scenario, &Arm::ALL, &runs))
}

/// Those asked for, or those expectations are about.
fn shown_metrics(asked: &[String], scenario: &Scenario) -> Result<Vec<String>> {
    for name in asked {
        let metric = Name::split(name)
            .ok_or_else(|| anyhow!("--show {name}: write ARM.PHASE.SUBJECT.METRIC"))?;
        metric
            .check(scenario)
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

fn table(rows: &[(&[Setting], &Report)], show: &[String], markdown: bool) -> Table {
    let mut table = report::plain(markdown);
    let keys = rows[0].0.iter().map(|(key, _)| key.clone());
    table.set_header(
        keys.chain(show.iter().cloned())
            .chain(["expectations".to_owned()]),
    );
    for (settings, report) in rows {
        let values = settings.iter().map(|(_, value)| value.clone());
        let figures = show.iter().map(|name| {
            report
                .metrics
                .get(name)
                .map_or_else(|| "-".into(), |s| report::value(s.median, Unit::of(name)))
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

fn json(rows: &[(&[Setting], &Report)], show: &[String]) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|(settings, report)| {
            let set: serde_json::Map<String, serde_json::Value> = settings
                .iter()
                .map(|(key, value)| (key.clone(), value.clone().into()))
                .collect();
            let figures: serde_json::Map<String, serde_json::Value> = show
                .iter()
                .map(|name| {
                    (
                        name.clone(),
                        report.metrics.get(name).map(|s| s.median).into(),
                    )
                })
                .collect();
            serde_json::json!({"set": set, "figures": figures, "verdict": report.verdict.name()})
        })
        .collect();
    serde_json::json!({ "runs": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_toml_writes_them() {
        assert_eq!(
            parts("host.weir.drain_seconds").expect("a key"),
            ["host", "weir", "drain_seconds"]
        );
        assert_eq!(
            parts("disk[0].write_bandwidth").expect("a key"),
            ["disk", "0", "write_bandwidth"]
        );
        assert_eq!(
            parts("cgroup.a.\"memory.max\"").expect("a key"),
            ["cgroup", "a", "memory.max"]
        );
        assert!(parts("cgroup.\"a").is_err());
    }

    #[test]
    fn all_combinations_in_order() {
        let all = combinations(&["a=1,2".into(), "b=x,y".into()]).expect("values");
        let told: Vec<String> = all
            .iter()
            .map(|s| format!("{}{}", s[0].1, s[1].1))
            .collect();
        assert_eq!(told, ["1x", "1y", "2x", "2y"]);
    }
}
