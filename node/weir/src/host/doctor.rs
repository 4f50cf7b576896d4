// SPDX-License-Identifier: GPL-2.0-only
//! `weir doctor`: can this kernel run weir, and if not, exactly why.

use super::oracle;
use super::requirements::{Check, CheckVerdict, examine_system};
use super::system::System;
use crate::output;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check whether this kernel can run weir, and say why not
///
/// Exit status: 0 it can, 1 it cannot, 2 not known (run it as root).
#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Ask a kernel in files without booting it: a vmlinux, a vmlinuz, or a package of a kernel,
    /// Debian's or RPM; or another host's /sys/kernel/btf/vmlinux, with its config-RELEASE and
    /// System.map beside it for what types leave untold
    #[arg(long, value_name = "FILE", num_args = 1..)]
    btf: Vec<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let (release, checks) = if args.btf.is_empty() {
        let system = System::this_machine()?;
        let checks = examine_system(&system);
        (system.release, checks)
    } else {
        oracle::examine_files(&args.btf)?
    };
    let verdict = worst_verdict(&checks);
    if args.json {
        let report = serde_json::json!({"kernel": release, "verdict": verdict, "checks": checks});
        output::print_json(&report)?;
    } else {
        output::print(report_text(&release, &checks))?;
    }
    Ok(ExitCode::from(match verdict {
        CheckVerdict::Ok => 0,
        CheckVerdict::Fail => 1,
        CheckVerdict::Unknown => 2,
    }))
}

/// Sums up the checks: one that fails decides, then one that cannot be seen.
pub fn worst_verdict(checks: &[Check]) -> CheckVerdict {
    let any = |verdict| checks.iter().any(|c| c.verdict == verdict);
    match (any(CheckVerdict::Fail), any(CheckVerdict::Unknown)) {
        (true, _) => CheckVerdict::Fail,
        (false, true) => CheckVerdict::Unknown,
        (false, false) => CheckVerdict::Ok,
    }
}

/// A line per requirement, what to do below those that need it, and a conclusion.
pub(super) fn report_text(release: &str, checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let sign = match check.verdict {
            CheckVerdict::Ok => "ok  ",
            CheckVerdict::Fail => "FAIL",
            CheckVerdict::Unknown => "?   ",
        };
        lines.push(format!("{sign}  {:<16}{}", check.name, check.seen));
        if !check.remedy.is_empty() {
            lines.push(format!("{:22}-> {}", "", check.remedy));
        }
    }
    let failed = checks
        .iter()
        .filter(|c| c.verdict == CheckVerdict::Fail)
        .count();
    lines.push(String::new());
    lines.push(match worst_verdict(checks) {
        CheckVerdict::Ok => format!("Linux {release} can run weir."),
        CheckVerdict::Fail => format!(
            "Linux {release} cannot run weir as things are: {failed} of {} requirements fail.\n\
             `weir doctor --btf` judges another kernel's package before it is installed.",
            checks.len()
        ),
        CheckVerdict::Unknown => format!("weir cannot tell whether Linux {release} can run it."),
    });
    lines.join("\n") + "\n"
}
