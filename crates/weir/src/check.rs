// SPDX-License-Identifier: GPL-2.0-only
//! `weir check`: is a scenario valid?

use crate::output;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check a scenario without running it
///
/// Every problem is printed as FILE:LINE: key: what is wrong and what would be right. Exit status:
/// 0 valid, 1 refused.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// A scenario file
    scenario: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let result = scenario::load(&args.scenario);
    if args.json {
        let problems = result
            .as_ref()
            .err()
            .map_or(&[][..], |problems| &problems.0);
        output::json(&serde_json::json!({"valid": result.is_ok(), "problems": problems}))?;
        return Ok(ExitCode::from(u8::from(result.is_err())));
    }
    match result {
        Ok(s) => {
            let (jobs, phases, expects) = (s.jobs.len(), s.phases.len(), s.expects.len());
            output::line(format_args!(
                "{}: valid: {jobs} jobs, {phases} phases, {expects} expectations",
                args.scenario.display()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            output::note(problems);
            Ok(ExitCode::from(1))
        }
    }
}
