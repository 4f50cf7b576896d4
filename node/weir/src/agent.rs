// SPDX-License-Identifier: GPL-2.0-only
//! `weir agent`: keep knobs as a policy file says, and show metrics.

use crate::output;
use agent::globs;
use agent::journal::Journal;
use agent::metrics::Shown;
use agent::preview::{Preview, preview_policy};
use agent::rules::Rules;
use agent::stock_section::is_module_loaded;
use agent::tree::Hierarchy;
use anyhow::Result;
use observe::read::cgroup;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Keep knobs as a policy file says, and show metrics to Prometheus
///
/// Sets knobs on cgroups as they appear. Runs until SIGTERM, and then leaves the knobs as they are.
/// Reads the policy again when its file changes and on SIGHUP. Exit status: 0 ended or valid, 1 the
/// policy is refused, 2 it cannot run.
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// The policy file; without one, nothing is set, and what an earlier run set is put back
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// More rules, if the file is there: weir-nri writes them
    #[arg(long, value_name = "FILE", requires = "policy")]
    pods: Option<PathBuf>,
    /// Check a policy file, say which cgroups of this host it means, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "listen", "show", "max_cgroups", "max_stalls", "scan_every", "state"])]
    check: Option<PathBuf>,
    /// With --check, say what would be written here; for `[stock]`, `mode = "observe"` does
    #[arg(long, requires = "check")]
    dry_run: bool,
    /// Where to show metrics, or `none`
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9759", value_parser = parse_listen)]
    listen: Listen,
    /// Show only cgroups that match; can be repeated
    #[arg(long, value_name = "GLOB", value_parser = |text: &str| globs::parse_pattern(text).map(|_| text.to_string()))]
    show: Vec<String>,
    /// Show at most N cgroups: those with rules first, then those nearest to the root
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_cgroups: usize,
    /// Keep at most N series of weir_stall_seconds_total, who owes whom; with 0, watch no stalls
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_stalls: usize,
    /// Scan all cgroups this often, besides hearing of new ones
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = config::units::parse_milliseconds)]
    scan_every: u64,
    /// Where to note what knobs were before
    #[arg(long, value_name = "FILE", default_value = "/run/weir/agent.json")]
    state: PathBuf,
    /// The machine's root directory, which a container may have mounted elsewhere
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// One JSON object for each thing done, instead of a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct Listen(Option<SocketAddr>);

fn parse_listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen(None));
    }
    text.parse()
        .map(|address| Listen(Some(address)))
        .map_err(|_| "write an address and a port, as in `127.0.0.1:9759` or `[::1]:9759`".into())
}

/// Runs the subcommand.
pub fn run(args: AgentArgs) -> Result<ExitCode> {
    if let Some(file) = &args.check {
        return check_policy(file, &args);
    }
    let only = args
        .show
        .iter()
        .filter_map(|glob| globs::parse_pattern(glob).ok());
    let options = agent::Options {
        policy: args.policy,
        pods: args.pods,
        listen: args.listen.0,
        shown: Shown {
            max_cgroups: args.max_cgroups,
            only: only.collect(),
        },
        max_stalls: args.max_stalls,
        scan_every: Duration::from_millis(args.scan_every),
        state: args.state,
        root: args.root,
    };
    let journal = Journal::new(std::io::stdout(), args.json);
    match agent::run(&options, &journal) {
        Err(agent::Error::Policy(problems)) => {
            output::print_note(problems);
            Ok(ExitCode::from(1))
        }
        Err(agent::Error::Other(why)) => Err(why),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn check_policy(file: &Path, args: &AgentArgs) -> Result<ExitCode> {
    let mut checked = Rules::load(file, None);
    if let Ok(rules) = &mut checked {
        rules.stock.follow_module(is_module_loaded(&args.root));
    }
    let status = ExitCode::from(u8::from(checked.is_err()));
    let tree = cgroup::mounted_directory(&args.root).ok();
    let tree = tree.and_then(|directory| Hierarchy::open(&directory).ok());
    let mut seen = checked
        .as_ref()
        .map(|rules| preview_policy(rules, tree.as_ref()))
        .unwrap_or_default();
    if !args.dry_run {
        seen.writes.clear();
    }
    if args.json {
        let problems = checked
            .as_ref()
            .err()
            .map_or(&[][..], |problems| &problems.0);
        let mut report = serde_json::json!({"valid": checked.is_ok(), "problems": problems});
        if let (Some(report), serde_json::Value::Object(seen)) =
            (report.as_object_mut(), serde_json::to_value(&seen)?)
        {
            report.extend(seen);
        }
        output::print_json(&report)?;
        return Ok(status);
    }
    match checked {
        Ok(rules) => print_preview(file, &rules, &seen)?,
        Err(problems) => output::print_note(problems),
    }
    Ok(status)
}

fn print_preview(file: &Path, rules: &Rules, seen: &Preview) -> Result<()> {
    let count = |number: usize, noun: &str| {
        let s = if number == 1 { "" } else { "s" };
        format!("{number} {noun}{s}")
    };
    let mut parts = count(rules.len(), "rule");
    if !rules.objectives.is_empty() {
        parts += &format!(", {}", count(rules.objectives.len(), "objective"));
    }
    output::print_line(format_args!("{}: valid: {parts}", file.display()))?;
    for of in &seen.matched {
        let mut found = count(of.cgroups, "cgroup");
        if of.delegated > 0 {
            found += &format!(", {} passed over as delegated", of.delegated);
        }
        if let Some(limited) = of.limited {
            found += &format!(", may limit {limited}");
        }
        let globs = of.globs.escape_debug();
        output::print_line(format_args!("  {}: {globs}: {found}", of.by))?;
    }
    for write in &seen.writes {
        let (cgroup, is) = (write.cgroup.escape_debug(), write.is.as_deref());
        let is = is.map_or_else(
            || "and the file is not there: load the module".into(),
            |text| format!("is {}", text.escape_debug()),
        );
        output::print_line(format_args!(
            "  {cgroup}: {} = {}, {is}",
            write.file, write.to
        ))?;
    }
    for warning in &seen.warnings {
        output::print_note(format_args!("{}: warning: {warning}", file.display()));
    }
    Ok(())
}
