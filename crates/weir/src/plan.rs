// SPDX-License-Identifier: GPL-2.0-only
//! `weir plan`: the weakest knobs with which a scenario shows what it must, on the twin.

mod knob;
mod search;
mod stock;

use crate::output;
use crate::run::blamed;
use crate::run::colour;
use crate::twin::{in_parallel, of_model, one_run};
use anyhow::{Result, bail};
use indicatif::ProgressBar;
use knob::Knob;
use report::{Judged, Report, Verdict};
use scenario::executor;
use scenario::model::{Arm, Scenario};
use search::{Point, Scale, Search, Trial};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Find the weakest knobs with which a scenario meets its expectations, on the twin
///
/// Tries knobs one at a time and prints the commands that set the values found, or which
/// expectations cannot be met and how near they came. Exit status: 0 found, 1 not found, 2 could not
/// be tried.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A knob to search, with or without a range, as in victim/memory.dirty_min=1M..16M or
    /// drain_seconds; can be repeated. Without it, the knobs that the scenario sets, or if it sets none
    /// and expects something of fsync or of reads, windows and then ceilings for those who write beside
    #[arg(long, value_name = "KNOB[=A..B]")]
    knob: Vec<String>,
    /// Plan for a host that allows no module: try knobs as the agent keeps them in stock mode, and
    /// tell how much of the module's gain is kept; vm.dirty_bytes is then a knob instead of
    /// drain_seconds
    #[arg(long)]
    stock: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// A scenario file
    scenario: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let scenario = scenario::load(&args.scenario)?;
    if scenario.expects.is_empty() {
        bail!(
            "the scenario expects nothing: add an `[[expect]]` that says what a plan is to reach"
        );
    }
    let levels = twin::levels(&scenario).map_err(|why| {
        let refused = executor::Error::Refused(of_model(why));
        blamed(refused, &args.scenario)
    })?;
    let limit = levels.limit << policy::PAGE_SHIFT;
    let search = |mode: Mode, named: &[String]| {
        let knobs = knobs(named, mode, &scenario, limit)?;
        Plan::search(&scenario, knobs, mode, args.seed)
    };
    let plan = match args.stock {
        true => search(Mode::Stock, &args.knob)?,
        false => search(Mode::Module, &args.knob)?,
    };
    if args.stock {
        let module = search(Mode::Module, &[])?;
        stock::print(&module, &plan, &scenario, args.json)?;
    } else if args.json {
        output::json(&plan.json())?;
    } else {
        output::print(plan.text())?;
    }
    Ok(ExitCode::from(plan.report.verdict.exit_status()))
}

/// What keeps the knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The module keeps them.
    Module,
    /// The agent keeps them, by what a stock kernel has.
    Stock,
}

fn knobs(named: &[String], mode: Mode, scenario: &Scenario, limit: u64) -> Result<Vec<Knob>> {
    let stock = mode == Mode::Stock;
    let named = if named.is_empty() {
        Knob::of(scenario, stock)
    } else {
        named.to_vec()
    };
    if named.is_empty() {
        bail!(
            "the scenario sets no knob: say which to search, as in `--knob CGROUP/memory.dirty_min` or `--knob drain_seconds`"
        );
    }
    let knobs = named.iter();
    let knobs = knobs.map(|text| Knob::parse(text, scenario, limit, stock));
    let knobs = knobs.collect::<Result<Vec<Knob>>>()?;
    for (index, knob) in knobs.iter().enumerate() {
        if knobs[..index]
            .iter()
            .any(|before| before.name() == knob.name())
        {
            bail!("--knob {} is given twice", knob.name());
        }
    }
    Ok(knobs)
}

/// What was found.
struct Plan {
    mode: Mode,
    knobs: Vec<Knob>,
    point: Point,
    /// The scenario with the knobs at that point.
    scenario: Scenario,
    /// What to type to have that.
    commands: Vec<String>,
    report: Report,
    runs: usize,
    /// For each knob that is set: the next weaker value that was tried, and what was not met with
    /// it.
    weaker: Vec<Option<(u64, Vec<Judged>)>>,
    /// For each expectation that is not met: the nearest any trial came to it, if one came nearer.
    nearest: Vec<(Judged, Point)>,
}

impl Plan {
    fn search(scenario: &Scenario, knobs: Vec<Knob>, mode: Mode, seed: u64) -> Result<Plan> {
        let before = one_run(scenario, Arm::Stock, seed)?;
        let bar = ProgressBar::new_spinner();
        let at = |point: &Point| {
            let mut scenario = scenario.clone();
            for (knob, step) in knobs.iter().zip(point) {
                knob.set(&mut scenario, *step);
            }
            scenario
        };
        let measure = |points: &[Point]| {
            let trial = |point: &Point| {
                let scenario = at(point);
                let weir = match mode {
                    Mode::Module => one_run(&scenario, Arm::Weir, seed)?,
                    Mode::Stock => stock::run(&scenario, seed)?,
                };
                bar.inc(1);
                bar.set_message(format!("{} runs", bar.position()));
                let what = Report::new(&scenario, &Arm::ALL, &[before.clone(), weir]);
                let miss = what.expects.iter().map(miss).sum();
                Ok(Trial { miss, what })
            };
            in_parallel(points, trial)?.into_iter().collect()
        };
        let scales: Vec<Scale> = knobs.iter().map(|knob| knob.scale).collect();
        let mut search = Search::new(&scales, &measure);
        let point = search.run()?;
        bar.finish_and_clear();
        let report = search.tried()[&point].what.clone();
        let weaker = (0..knobs.len()).map(|knob| {
            let (step, trial) = search.weaker(&point, knob)?;
            Some((step, unmet(&trial.what)))
        });
        let nearest = report
            .expects
            .iter()
            .enumerate()
            .filter_map(|(index, judged)| {
                let tried = search.tried().iter();
                let misses = tried.map(|(point, trial)| (&trial.what.expects[index], point));
                let (best, point) = misses.min_by(|a, b| miss(a.0).total_cmp(&miss(b.0)))?;
                (miss(best) < miss(judged)).then(|| (best.clone(), point.clone()))
            });
        let found = at(&point);
        Ok(Plan {
            mode,
            commands: match mode {
                Mode::Module => knob::commands(&found),
                Mode::Stock => stock::policy(&found, scenario),
            },
            weaker: weaker.collect(),
            nearest: nearest.collect(),
            scenario: found,
            runs: search.tried().len() + 1,
            point,
            report,
            knobs,
        })
    }

    fn text(&self) -> String {
        let mut lines = vec![report::terminal(&self.report, &self.scenario, colour())];
        if self.mode == Mode::Stock {
            lines.push("Arm weir is the agent here, without the module.".into());
        }
        if self.report.verdict == Verdict::Pass {
            let what = match self.mode {
                Mode::Module => "The weakest found",
                Mode::Stock => "The weakest policy of the agent",
            };
            lines.push(format!("{what}, in {} runs:\n", self.runs));
            let commands = self.commands.iter();
            lines.extend(commands.map(|c| format!("    {c}").trim_end().to_owned()));
            lines.push(String::new());
            lines.extend((0..self.knobs.len()).filter_map(|knob| self.why(knob)));
        } else {
            lines.push(format!(
                "No plan meets them all, of {} runs. The nearest is above, with:\n",
                self.runs
            ));
            lines.push(format!("    {}\n", self.values(&self.point)));
            lines.extend(self.nearest.iter().map(|(judged, point)| {
                format!(
                    "Nearer alone: {}, with {}",
                    seen(judged),
                    self.values(point)
                )
            }));
        }
        lines.join("\n") + "\n"
    }

    /// Why a knob is where it is.
    fn why(&self, index: usize) -> Option<String> {
        let knob = &self.knobs[index];
        let Some((step, unmet)) = &self.weaker[index] else {
            return Some(format!("{} is not needed", knob.name()));
        };
        let unmet: Vec<String> = unmet.iter().map(seen).collect();
        let weaker = if *step == 0 {
            "off".into()
        } else {
            knob.text(*step)
        };
        let told = format!(
            "{} {weaker} would not do: {}",
            knob.name(),
            unmet.join("; ")
        );
        (!unmet.is_empty()).then_some(told)
    }

    fn values(&self, point: &Point) -> String {
        let each = self.knobs.iter().zip(point);
        let each = each.map(|(knob, step)| format!("{} {}", knob.name(), knob.text(*step)));
        each.collect::<Vec<_>>().join(", ")
    }

    fn json(&self) -> Value {
        let value = |knob: &Knob, step: u64| Value::from(knob.text(step));
        let knobs: Vec<Value> = self
            .knobs
            .iter()
            .enumerate()
            .map(|(index, knob)| {
                json!({
                    "knob": knob.name(),
                    "value": value(knob, self.point[index]),
                    "too_weak": self.weaker[index].as_ref().filter(|(_, unmet)| !unmet.is_empty()).map(|(step, _)| value(knob, *step)),
                })
            })
            .collect();
        let nearest: Vec<Value> = self
            .nearest
            .iter()
            .map(|(judged, point)| json!({"text": judged.text, "observed": judged.observed, "with": self.values(point)}))
            .collect();
        let commands = match self.report.verdict {
            Verdict::Pass => self.commands.clone(),
            _ => Vec::new(),
        };
        json!({
            "verdict": self.report.verdict.name(),
            "runs": self.runs,
            "knobs": knobs,
            "commands": commands,
            "expect": report::json(&self.report)["expect"],
            "nearest": nearest,
        })
    }
}

/// By which part of what is wanted an expectation is missed: 0 if met, at most 1.
fn miss(judged: &Judged) -> f64 {
    match (judged.verdict, judged.observed, judged.bound) {
        (Verdict::Pass, ..) => 0.0,
        (_, Some(observed), Some(bound)) => {
            let (less, more) = (observed.min(bound), observed.max(bound));
            let part = if less <= 0.0 { 1.0 } else { 1.0 - less / more };
            part.max(f64::EPSILON)
        }
        _ => 1.0,
    }
}

fn unmet(report: &Report) -> Vec<Judged> {
    let unmet = report
        .expects
        .iter()
        .filter(|judged| judged.verdict != Verdict::Pass);
    unmet.cloned().collect()
}

/// An expectation with what was observed.
fn seen(judged: &Judged) -> String {
    let unit = scenario::metric::Unit::of(&judged.metric);
    match judged.observed {
        Some(observed) => format!("{} is {}", judged.text, report::value(observed, unit)),
        None => format!("{}: {}", judged.text, judged.why),
    }
}
