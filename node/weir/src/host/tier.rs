// SPDX-License-Identifier: GPL-2.0-only
//! `weir tier`: switch tiered limits on and off, and show who has what of which memory.

use super::module::KernelLog;
use super::system::System;
use crate::output;
use agent::tier::host::{TIERS, TierHost, format_list, parse_tiers};
use agent::tier::status::{BalancerStatus, FILE};
use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Give cgroups fair shares of fast memory: switch tiers on or off, or show the status
///
/// On a host with memory of several speeds. `on` makes the module show each cgroup's share
/// (memory.toptier_*, memory.tier_stat), and `weir agent`, if it runs, moves pages until each has
/// its share. Exit status: 0 done, or on, 1 refused, or off, 2 it could not be tried or told.
#[derive(clap::Args, Debug)]
pub struct TierArgs {
    /// What to do
    action: Action,
    /// With `on`: nodes of each tier, fastest first, as in '0-1;2'; without it the kernel is asked
    #[arg(long, value_name = "NODES;NODES")]
    tiers: Option<String>,
    /// With `on`: percent of each limit that may be in the fastest tier; 0, the default, is the
    /// tier's part of all memory
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    ratio: Option<u32>,
    /// With `status`: where the agent keeps its state
    #[arg(long, value_name = "DIR", default_value = "/run/weir")]
    state: PathBuf,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Action {
    /// Switch tiered limits on
    On,
    /// Switch them off; pages stay where they are
    Off,
    /// Show tiers, shares and what is being moved
    Status,
}

/// An agent that has told nothing for so long, in seconds, does not run: it tells something every
/// five.
const SILENT: u64 = 20;

/// Runs the subcommand.
pub fn run(args: &TierArgs) -> Result<ExitCode> {
    let system = System::this_machine()?;
    if args.action != Action::On && (args.tiers.is_some() || args.ratio.is_some()) {
        bail!("--tiers and --ratio are for `weir tier on`");
    }
    match args.action {
        Action::Status => show_status(&system, args),
        Action::On | Action::Off => {
            let refused = switch_tiers(&system, args).err();
            let done = refused.is_none();
            let message = match &refused {
                Some(why) => format!("{why:#}"),
                None => describe_tiers(&system),
            };
            match (args.json, done) {
                (true, _) => output::print_json(&json!({"done": done, "message": message}))?,
                (false, true) => output::print_line(message)?,
                (false, false) => output::print_note(format_args!("weir: {message}")),
            }
            Ok(ExitCode::from(u8::from(!done)))
        }
    }
}

/// Writes the module's parameters.
fn switch_tiers(system: &System, args: &TierArgs) -> Result<()> {
    if !system.path_exists("sys/module/weir") {
        if args.action == Action::Off {
            return Ok(());
        }
        bail!("weir's module is not loaded: `weir load` first");
    }
    if !system.path_exists(TIERS) {
        bail!("the module that is loaded knows no tiers: unload it and load the installed one");
    }
    let tiers = match (args.action, &args.tiers) {
        (Action::Off, _) => String::new(),
        (_, Some(tiers)) => {
            parse_tiers(tiers).with_context(|| format!("`{tiers}` is no list of tiers"))?;
            tiers.clone()
        }
        (_, None) => list_kernel_tiers(system)?,
    };
    if let Some(ratio) = args.ratio {
        write_parameter(
            system,
            "sys/module/weir/parameters/tier_ratio",
            &ratio.to_string(),
        )?;
    }
    write_parameter(system, TIERS, &tiers)
}

/// A parameter's write; the module says in the kernel's log why it refuses.
fn write_parameter(system: &System, file: &str, value: &str) -> Result<()> {
    let mut log = KernelLog::from_now();
    let Err(why) = fs::write(system.full_path(file), format!("{value}\n")) else {
        return Ok(());
    };
    let said = log.new_weir_lines().join("; ");
    match said.is_empty() {
        true => bail!("the module refused `{value}` for /{file}: {why}"),
        false => bail!("the module refused `{value}`: {said}"),
    }
}

/// The tiers as the kernel knows them.
fn list_kernel_tiers(system: &System) -> Result<String> {
    let host = TierHost::at_root(&system.full_path(""));
    let tiers = host.memory_tiers();
    let nodes = host.memory_nodes();
    let by_hand = "say which nodes are faster, as in `weir tier on --tiers '0;1'`";
    match tiers.as_slice() {
        _ if nodes.len() < 2 => {
            bail!("this machine has one node of memory: there is no slower tier to share")
        }
        [] => bail!("this kernel does not report memory tiers: {by_hand}"),
        [one] => bail!(
            "this kernel has all memory in one tier (nodes {}), so it does not tell which is faster, as 6.1 never does: \
             {by_hand}; `numactl --hardware` shows distances",
            format_list(one)
        ),
        tiers => {
            let lists: Vec<String> = tiers.iter().map(|nodes| format_list(nodes)).collect();
            Ok(lists.join(";"))
        }
    }
}

/// Describes the tiers that are in effect after a switch.
fn describe_tiers(system: &System) -> String {
    match system.read_text(TIERS).filter(|tiers| !tiers.is_empty()) {
        Some(tiers) => format!(
            "tiers are on: {tiers} (nodes, fastest first). `weir agent` moves pages; `weir tier status` shows what"
        ),
        None => "tiers are off: nothing is moved any more, pages stay where they are".into(),
    }
}

fn show_status(system: &System, args: &TierArgs) -> Result<ExitCode> {
    let tiers = system.read_text(TIERS).filter(|tiers| !tiers.is_empty());
    let file = args.state.join(FILE);
    let told =
        BalancerStatus::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let agent =
        told.filter(|told| BalancerStatus::seconds_since_epoch().saturating_sub(told.at) < SILENT);
    if args.json {
        output::print_json(&json!({"on": tiers.is_some(), "nodes": tiers, "agent": agent}))?;
    } else {
        output::print(status_text(tiers.as_deref(), agent.as_ref()))?;
    }
    Ok(ExitCode::from(u8::from(tiers.is_none())))
}

fn status_text(tiers: Option<&str>, agent: Option<&BalancerStatus>) -> String {
    let Some(tiers) = tiers else {
        return "tiers are off: `weir tier on` switches them on\n".into();
    };
    let Some(agent) = agent else {
        return format!(
            "tiers are on: {tiers} (nodes, fastest first)\n\
             no agent runs, so nothing is moved: `systemctl start weir-agent` or `weir agent`\n"
        );
    };
    let mut lines = vec![format!("tiers are on: {tiers} (nodes, fastest first)")];
    let engine = agent.engine.as_deref().unwrap_or("nothing");
    let state = if agent.moving { "moving" } else { "at rest" };
    lines.push(format!(
        "pages are moved by {engine}: {} ({state})",
        agent.why
    ));
    lines.push(format!(
        "memory that no other cgroup wants is {}",
        if agent.lend { "lent" } else { "not lent" }
    ));
    lines.push(String::new());
    let mut table = plain_table(["tier", "nodes", "capacity", "free", "kept free"]);
    for (at, tier) in agent.tiers.iter().enumerate() {
        table.add_row([
            at.to_string(),
            tier.nodes.clone(),
            format_bytes(tier.capacity),
            format_bytes(tier.free),
            format_bytes(tier.headroom),
        ]);
    }
    lines.push(align_figures(table, 1));
    lines.push(String::new());
    lines.push(cgroup_table(agent));
    let mut text = lines.join("\n") + "\n";
    for one in &agent.cgroups {
        let shared = format!(
            "{} pages are shared by several processes (counted in each) and stay",
            one.shared_pages
        );
        let shared = (one.shared_pages > 0).then_some(shared);
        for problem in one.problem.iter().chain(&shared) {
            text.push_str(&format!("{}: {problem}\n", one.cgroup));
        }
    }
    text
}

/// A row for each cgroup that has anything.
fn cgroup_table(agent: &BalancerStatus) -> String {
    let mut heads = vec!["cgroup".to_string()];
    for at in 0..agent.tiers.len() {
        heads.push(format!("tier {at}"));
        if at + 1 < agent.tiers.len() {
            heads.push("budget".into());
        }
    }
    heads.extend(["down", "up", "how it stands"].map(String::from));
    let last = heads.len() - 1;
    let mut table = plain_table(heads);
    for one in &agent.cgroups {
        if one.bytes.iter().all(|held| *held == 0) {
            continue;
        }
        let mut row = vec![one.cgroup.clone()];
        for (at, held) in one.bytes.iter().enumerate() {
            row.push(format_bytes(*held));
            if at + 1 < one.bytes.len() {
                let budget = one.budget.get(at).copied().flatten();
                row.push(budget.map_or("max".into(), format_bytes));
            }
        }
        row.extend([
            format_bytes(one.moved_down),
            format_bytes(one.moved_up),
            one.words.clone(),
        ]);
        table.add_row(row);
    }
    align_figures(table, last)
}

fn plain_table<T: Into<comfy_table::Row>>(heads: T) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(heads);
    table
}

/// The table as text, with all columns to the right but the first and the one with index `words`.
fn align_figures(mut table: Table, words: usize) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 && index != words {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// To a tenth of the largest unit that fits.
fn format_bytes(value: u64) -> String {
    for (shift, unit) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
        if value >= 1 << shift {
            return format!("{:.1}{unit}", value as f64 / (1_u64 << shift) as f64);
        }
    }
    value.to_string()
}

#[cfg(test)]
mod tests;
