// SPDX-License-Identifier: GPL-2.0-only
//! `weir plan`: the weakest knobs with which a scenario shows what it must, on the twin.

mod candidate;
mod knob;
mod search;
mod stock;

use crate::run::locate_error;
use crate::twin::{as_refusals, run_in_parallel, run_twin_once};
use anyhow::{Result, bail};
use indicatif::ProgressBar;
use knob::Knob;
use scenario::executor;
use scenario::model::{Arm, Scenario};
use search::{KnobSearch, Point, Scale, Trial};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use verdict::{Judged, Report, Verdict};
use weir::output;

/// Find the weakest knobs with which a scenario meets its expectations, on the twin
///
/// Tries knobs one at a time and prints the commands that set the values found, or which
/// expectations cannot be met and how near they came. Exit status: 0 found, 1 not found, 2 could not
/// be tried.
#[derive(clap::Args, Debug)]
pub struct PlanArgs {
    /// A knob to search, with or without a range, as in victim/memory.dirty_min=1M..16M,
    /// drain_seconds, tier_ratio or batch/memory.high; can be repeated. Without it, the knobs that the scenario
    /// sets; if it sets none, or these do not do, those that act on what it expects: windows and
    /// ceilings of writers beside, floors
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
pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    let scenario = scenario::load(&args.scenario)?;
    if scenario.expects.is_empty() {
        bail!(
            "the scenario expects nothing: add an `[[expect]]` that says what a plan is to reach"
        );
    }
    let levels = twin::dirty_levels(&scenario).map_err(|why| {
        let refused = executor::Error::Refused(as_refusals(why));
        locate_error(refused, &args.scenario)
    })?;
    let limit = levels.limit << policy::PAGE_SHIFT;
    let search = |mode: Mode, named: &[String]| -> Result<Plan> {
        let try_knobs = |named: &[String]| {
            let knobs = parse_knobs(named, mode, &scenario, limit)?;
            Plan::search_plan(&scenario, knobs, mode, args.seed)
        };
        let own = candidate::knobs_to_search(&scenario, mode == Mode::Stock);
        let first = try_knobs(if named.is_empty() { &own } else { named })?;
        let mut more = candidate::acting_knobs(&scenario, mode == Mode::Stock);
        more.retain(|knob| !own.contains(knob) && !is_set_by_phase(knob, &scenario));
        if first.report.verdict == Verdict::Pass || !named.is_empty() || more.is_empty() {
            return Ok(first);
        }
        // What the scenario does not set comes last: a plan of its own knobs alone is nearer to it.
        let mut second = try_knobs(&[own, more].concat())?;
        second.runs += first.runs;
        Ok(if second.total_miss() < first.total_miss() {
            second
        } else {
            Plan {
                runs: second.runs,
                ..first
            }
        })
    };
    let plan = match args.stock {
        true => search(Mode::Stock, &args.knob)?,
        false => search(Mode::Module, &args.knob)?,
    };
    if args.stock {
        let module = search(Mode::Module, &[])?;
        stock::print(&module, &plan, &scenario, args.json)?;
    } else if args.json {
        output::print_json(&plan.to_json())?;
    } else {
        output::print(plan.to_text())?;
    }
    Ok(ExitCode::from(plan.report.verdict.exit_status()))
}

/// The program that keeps the knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The module keeps them.
    Module,
    /// The agent keeps them, by what a stock kernel has.
    Stock,
}

/// A phase writes it whatever the plan, so that there is nothing to search.
fn is_set_by_phase(knob: &str, scenario: &Scenario) -> bool {
    let Some((path, file)) = knob.rsplit_once('/') else {
        return false;
    };
    let mut sets = scenario
        .phases
        .iter()
        .filter_map(|phase| phase.set.get(path));
    sets.any(|knobs| knobs.contains_key(file))
}

fn parse_knobs(named: &[String], mode: Mode, scenario: &Scenario, limit: u64) -> Result<Vec<Knob>> {
    let stock = mode == Mode::Stock;
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

/// A plan that was found.
struct Plan {
    mode: Mode,
    knobs: Vec<Knob>,
    point: Point,
    /// The scenario with the knobs at that point.
    scenario: Scenario,
    /// The commands to type to have that.
    commands: Vec<String>,
    report: Report,
    runs: usize,
    /// Next weaker value that was tried, for each knob that is set, and what was not met with it.
    weaker: Vec<Option<(u64, Vec<Judged>)>>,
    /// Nearest that any trial came to each expectation that is not met, if one came nearer.
    nearest: Vec<(Judged, Point)>,
    /// Why no plan is found: what no value moves, and what may do.
    reasons: Vec<String>,
}

impl Plan {
    fn search_plan(scenario: &Scenario, knobs: Vec<Knob>, mode: Mode, seed: u64) -> Result<Plan> {
        let before = run_twin_once(scenario, Arm::Stock, seed)?;
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
                    Mode::Module => run_twin_once(&scenario, Arm::Weir, seed)?,
                    Mode::Stock => stock::run(&scenario, seed)?,
                };
                bar.inc(1);
                bar.set_message(format!("{} runs", bar.position()));
                let what = Report::new(&scenario, &Arm::ALL, &[before.clone(), weir]);
                let miss = what.expects.iter().map(missed_part).sum();
                Ok(Trial { miss, what })
            };
            run_in_parallel(points, trial)?.into_iter().collect()
        };
        let scales: Vec<Scale> = knobs.iter().map(|knob| knob.scale).collect();
        let hopeless = |tried: &BTreeMap<Point, Trial<Report>>| !unmoved_figures(tried).is_empty();
        let mut search = KnobSearch::new(&scales, &measure, &hopeless);
        let point = search.run()?;
        bar.finish_and_clear();
        let report = search.all_trials()[&point].what.clone();
        let weaker = (0..knobs.len()).map(|knob| {
            let (step, trial) = search.next_weaker(&point, knob)?;
            Some((step, unmet_expectations(&trial.what)))
        });
        let nearest = report
            .expects
            .iter()
            .enumerate()
            .filter_map(|(index, judged)| {
                let tried = search.all_trials().iter();
                let misses = tried.map(|(point, trial)| (&trial.what.expects[index], point));
                let (best, point) =
                    misses.min_by(|a, b| missed_part(a.0).total_cmp(&missed_part(b.0)))?;
                (missed_part(best) < missed_part(judged)).then(|| (best.clone(), point.clone()))
            });
        let found = at(&point);
        let reasons = match report.verdict {
            Verdict::Pass => Vec::new(),
            _ => find_reasons(search.all_trials(), &knobs, mode),
        };
        Ok(Plan {
            mode,
            reasons,
            commands: match mode {
                Mode::Module => knob::setting_commands(&found, scenario),
                Mode::Stock => stock::agent_policy(&found, scenario),
            },
            weaker: weaker.collect(),
            nearest: nearest.collect(),
            scenario: found,
            runs: search.all_trials().len() + 1,
            point,
            report,
            knobs,
        })
    }

    fn to_text(&self) -> String {
        let mut lines = vec![verdict::terminal_report(
            &self.report,
            &self.scenario,
            output::wants_colour(),
        )];
        if self.mode == Mode::Stock {
            lines.push("Arm weir is the agent here, without the module.".into());
        }
        if self.needs_nothing() {
            lines.push(format!(
                "Nothing is needed: stock meets what is expected, in {} runs.",
                self.runs
            ));
        } else if self.report.verdict == Verdict::Pass {
            let what = match self.mode {
                Mode::Module => "The weakest found",
                Mode::Stock => "The weakest policy of the agent",
            };
            lines.push(format!("{what}, in {} runs:\n", self.runs));
            let commands = self.commands.iter();
            lines.extend(commands.map(|c| format!("    {c}").trim_end().to_owned()));
            lines.push(String::new());
            lines.extend((0..self.knobs.len()).filter_map(|knob| self.explain_knob(knob)));
        } else {
            lines.push(format!(
                "No plan meets them all, of {} runs. The nearest is above, with:\n",
                self.runs
            ));
            lines.push(format!("    {}\n", self.knob_values(&self.point)));
            lines.extend(self.nearest.iter().map(|(judged, point)| {
                format!(
                    "Nearer alone: {}, with {}",
                    describe_judged(judged),
                    self.knob_values(point)
                )
            }));
            lines.extend(
                self.knobs
                    .iter()
                    .map(|knob| format!("Searched: {} {}", knob.name(), knob.searched_range())),
            );
            lines.extend(self.reasons.iter().cloned());
        }
        lines.join("\n") + "\n"
    }

    /// Sum of the parts by which expectations are missed.
    fn total_miss(&self) -> f64 {
        self.report.expects.iter().map(missed_part).sum()
    }

    /// Everything is met with all knobs off, and the scenario sets no others.
    fn needs_nothing(&self) -> bool {
        self.report.verdict == Verdict::Pass
            && self.point.iter().all(|step| *step == 0)
            && !knob::sets_knobs(&self.scenario)
    }

    /// Why a knob is where it is.
    fn explain_knob(&self, index: usize) -> Option<String> {
        let knob = &self.knobs[index];
        let Some((step, unmet)) = &self.weaker[index] else {
            return Some(format!("{} is not needed", knob.name()));
        };
        let unmet: Vec<String> = unmet.iter().map(describe_judged).collect();
        let weaker = if *step == 0 {
            "off".into()
        } else {
            knob.step_text(*step)
        };
        let told = format!(
            "{} {weaker} would not do: {}",
            knob.name(),
            unmet.join("; ")
        );
        (!unmet.is_empty()).then_some(told)
    }

    fn knob_values(&self, point: &Point) -> String {
        let each = self.knobs.iter().zip(point);
        let each = each.map(|(knob, step)| format!("{} {}", knob.name(), knob.step_text(*step)));
        each.collect::<Vec<_>>().join(", ")
    }

    fn to_json(&self) -> Value {
        let value = |knob: &Knob, step: u64| Value::from(knob.step_text(step));
        let knobs: Vec<Value> = self
            .knobs
            .iter()
            .enumerate()
            .map(|(index, knob)| {
                json!({
                    "knob": knob.name(),
                    "value": value(knob, self.point[index]),
                    "from": value(knob, 1),
                    "to": value(knob, knob.scale.last_step()),
                    "too_weak": self.weaker[index].as_ref().filter(|(_, unmet)| !unmet.is_empty()).map(|(step, _)| value(knob, *step)),
                })
            })
            .collect();
        let nearest: Vec<Value> = self
            .nearest
            .iter()
            .map(|(judged, point)| json!({"text": judged.text, "observed": judged.observed, "with": self.knob_values(point)}))
            .collect();
        let commands = match self.report.verdict {
            Verdict::Pass if !self.needs_nothing() => self.commands.clone(),
            _ => Vec::new(),
        };
        json!({
            "verdict": self.report.verdict.name(),
            "nothing_needed": self.needs_nothing(),
            "runs": self.runs,
            "knobs": knobs,
            "commands": commands,
            "expect": verdict::report_json(&self.report)["expect"],
            "nearest": nearest,
            "reasons": self.reasons,
        })
    }
}

/// A figure that all values move by less than this part of what is missing yet is given up.
const MOVED: f64 = 0.1;

/// Expectations that no trial met, and whose figures no trial moved towards it: the least and the
/// most of each.
fn unmoved_figures(tried: &BTreeMap<Point, Trial<Report>>) -> Vec<(Judged, f64, f64)> {
    let Some(first) = tried.values().next() else {
        return Vec::new();
    };
    let range = |(index, judged): (usize, &Judged)| {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut missing = f64::INFINITY;
        for trial in tried.values() {
            let other = &trial.what.expects[index];
            let observed = other.observed.filter(|_| other.verdict != Verdict::Pass)?;
            (least, most) = (least.min(observed), most.max(observed));
            missing = missing.min((observed - other.bound?).abs());
        }
        (most - least <= MOVED * missing).then(|| (judged.clone(), least, most))
    };
    let expects = first.what.expects.iter().enumerate();
    expects.filter_map(range).collect()
}

fn is_of_stock(judged: &Judged) -> bool {
    scenario::metric::Name::parse_full_name(&judged.metric)
        .is_some_and(|name| name.arm == Arm::Stock)
}

/// Why there is no plan, as far as the trials tell.
fn find_reasons(tried: &BTreeMap<Point, Trial<Report>>, knobs: &[Knob], mode: Mode) -> Vec<String> {
    let names: Vec<String> = knobs.iter().map(Knob::name).collect();
    let names = names.join(", ");
    let unmoved = unmoved_figures(tried);
    let reason = |(judged, least, most): &(Judged, f64, f64)| {
        let metric = &judged.metric;
        if is_of_stock(judged) {
            return format!("{metric} is of arm stock, which no plan changes");
        }
        let unit = scenario::metric::unit_of_metric(metric);
        let (least, most) = (
            report::format_value(*least, unit),
            report::format_value(*most, unit),
        );
        let figure = match least == most {
            true => least,
            false => format!("{least} to {most}"),
        };
        format!("{metric} is {figure} with all values tried of {names}: given up")
    };
    let mut lines: Vec<String> = unmoved.iter().map(reason).collect();
    let syncs = |judged: &Judged| {
        let metric = judged.metric.rsplit('.').next().unwrap_or_default();
        judged.verdict != Verdict::Pass && !is_of_stock(judged) && metric.starts_with("sync_")
    };
    let missed = tried
        .values()
        .all(|trial| trial.what.expects.iter().any(syncs));
    if missed && !knobs.iter().any(Knob::is_window) {
        let window =
            "What fsync waits for in the disk's queue no dirty limit changes; a window does: ";
        lines.push(match mode {
            Mode::Module => format!("{window}`--knob CGROUP/memory.writeback_bytes`"),
            Mode::Stock => format!("{window}memory.writeback_bytes, with the module"),
        });
    }
    lines
}

/// Part of what is wanted by which an expectation is missed: 0 if met, at most 1.
fn missed_part(judged: &Judged) -> f64 {
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

fn unmet_expectations(report: &Report) -> Vec<Judged> {
    let unmet = report
        .expects
        .iter()
        .filter(|judged| judged.verdict != Verdict::Pass);
    unmet.cloned().collect()
}

/// An expectation with what was observed.
fn describe_judged(judged: &Judged) -> String {
    let unit = scenario::metric::unit_of_metric(&judged.metric);
    match judged.observed {
        Some(observed) => format!(
            "{} is {}",
            judged.text,
            report::format_value(observed, unit)
        ),
        None => format!("{}: {}", judged.text, judged.why),
    }
}
