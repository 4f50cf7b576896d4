// SPDX-License-Identifier: GPL-2.0-only
//! `weir check`: is a scenario valid?

use crate::here;
use crate::run::place_parser;
use crate::twin::Twin;
use agent::rules::Rules;
use anyhow::Result;
use config::problem::Problems;
use scenario::executor::{self, Executor};
use scenario::model::Scenario;
use scenario::place::Place;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::output;

/// Check a scenario without running it
///
/// Prints every problem as FILE:LINE: key: what is wrong and what would be right. With --on it also
/// refuses every key that this place cannot honour; for a host, as this machine is. Exit status: 0
/// valid, 1 refused. Knobs that do nothing on a job's filesystem are noted; the scenario is valid.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Also refuse keys that this place cannot honour
    #[arg(long, value_parser = place_parser())]
    on: Option<Place>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// A scenario file
    scenario: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let loaded = scenario::load(&args.scenario).and_then(check_policy_of);
    let result = match args.on {
        Some(place) => loaded.and_then(|scenario| check_honoured(args, place, scenario)),
        None => loaded,
    };
    if args.json {
        let problems = result
            .as_ref()
            .err()
            .map_or(&[][..], |problems| &problems.0);
        let notes = match &result {
            Ok(scenario) => locate_idle_keys(args, scenario)?.0,
            Err(_) => Vec::new(),
        };
        output::print_json(&serde_json::json!({
            "valid": result.is_ok(), "problems": problems, "notes": notes
        }))?;
        return Ok(ExitCode::from(u8::from(result.is_err())));
    }
    match result {
        Ok(s) => {
            let (jobs, phases, expects) = (s.jobs.len(), s.phases.len(), s.expects.len());
            output::print_line(format_args!(
                "{}: valid: {jobs} jobs, {phases} phases, {expects} expectations",
                args.scenario.display()
            ))?;
            for note in locate_idle_keys(args, &s)?.0 {
                output::print_note(format_args!("{note}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            output::print_note(problems);
            Ok(ExitCode::from(1))
        }
    }
}

/// Keys that do nothing, with their lines.
fn locate_idle_keys(args: &CheckArgs, scenario: &Scenario) -> Result<Problems, Problems> {
    executor::locate_refusals(
        &args.scenario,
        scenario::effect::keys_without_effect(scenario),
    )
}

/// The scenario, if its agent would take its policy.
fn check_policy_of(scenario: Scenario) -> Result<Scenario, Problems> {
    let policy = scenario.agent.as_ref().map_or("", |agent| &agent.policy);
    Rules::parse("agent.policy", policy).map(|_| scenario)
}

/// The scenario, if `place` honours all of its keys.
fn check_honoured(
    args: &CheckArgs,
    place: Place,
    scenario: Scenario,
) -> Result<Scenario, Problems> {
    let refused = match place {
        Place::Lab => lab::list_refusals(&scenario, false),
        Place::Twin => Twin { seed: 1 }.find_refusals(&scenario),
        Place::Host => here::find_refusals(&scenario),
    };
    if refused.is_empty() {
        return Ok(scenario);
    }
    let mut problems = executor::locate_refusals(&args.scenario, refused)?;
    for problem in &mut problems.0 {
        problem.what = format!("not on {}: {}", place.name(), problem.what);
    }
    Err(problems)
}
