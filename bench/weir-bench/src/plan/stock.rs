// SPDX-License-Identifier: GPL-2.0-only
//! A plan for hosts that allow no module: knobs are tried as the agent's stock mode keeps them
//! ([`agent::stock::translate`]), and what that keeps of the module's gain is told.

use super::{Mode, Plan, run_twin_once};
use crate::twin::as_refusals;
use agent::stock::translate::{self, CgroupMemory, HostLimits};
use anyhow::{Result, bail};
use knobs::Knob as File;
use policy::{PAGE_SHIFT, UNLIMITED};
use scenario::executor::{self, Run};
use scenario::model::{Arm, Cgroup, Expect, Op, Scenario};
use serde_json::{Value, json};
use std::fmt::Write;
use weir::output;

/// Age of the kernel's counts while the agent reads them.
const COUNTS_NS: u64 = 20_000_000;
/// Bandwidth that no disk has: scenarios take no larger sizes.
const WBPS_MAX: u64 = 1 << 50;
/// A figure that the module changes by less than this part is none that it gains by.
const GAIN: f64 = 0.1;

/// A figure on stock, in stock mode, and with the module.
pub struct KeptGain {
    /// The figure's full name, in arm weir.
    metric: String,
    stock: f64,
    without: f64,
    module: f64,
}

impl KeptGain {
    /// The part of the gain that is left.
    fn part_kept(&self) -> f64 {
        (self.without - self.stock) / (self.module - self.stock)
    }
}

/// A run without the module, as if it were arm weir.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run> {
    let mut run = run_twin_once(&translate_scenario(scenario)?, Arm::Stock, seed)?;
    run.arm = Arm::Weir;
    let metrics = std::mem::take(&mut run.metrics).into_iter();
    run.metrics = metrics
        .filter_map(|(name, figure)| {
            Some((format!("weir.{}", name.strip_prefix("stock.")?), figure))
        })
        .collect();
    Ok(run)
}

/// The scenario with files of a stock kernel in place of knobs.
fn translate_scenario(scenario: &Scenario) -> Result<Scenario> {
    let levels =
        twin::dirty_levels(scenario).map_err(|why| executor::Error::Refused(as_refusals(why)))?;
    let host = HostLimits {
        limit: levels.limit,
        background: levels.background,
        dirtyable: levels.dirtyable,
    };
    if scenario.phases.iter().any(|phase| !phase.set.is_empty()) {
        bail!("a phase of the scenario sets knobs: --stock plans for those that stay as they are");
    }
    let floors = sum_floors(scenario);
    let leave = cgroups_leaving_room(scenario);
    let mut all = scenario.clone();
    all.host.weir.clear();
    all.twin.counts_ns = Some(COUNTS_NS);
    for (path, cgroup) in &mut all.cgroups {
        let knobs = std::mem::take(&mut cgroup.knobs);
        let value = |knob: File| {
            let value = knob.parse(knobs.get(knob.file_name())?).ok()?;
            Some(value).filter(|value| *value != knob.default())
        };
        let mut ceiling = value(File::DirtyBytes).map_or(UNLIMITED, |bytes| bytes >> PAGE_SHIFT);
        if let Some(percent) = value(File::DirtyRatio) {
            ceiling = ceiling.min(memory_max_pages(cgroup).min(host.dirtyable) * percent / 100);
        }
        if let Some(bytes) = value(File::DirtyBandwidth) {
            ceiling = ceiling.min(translate::ceiling_beside_bandwidth(bytes));
            let (disks, bytes) = (scenario.disks.iter(), bytes.min(WBPS_MAX));
            let limits = disks.map(|disk| format!("{} wbps={bytes}", disk.name));
            let limits = limits.collect::<Vec<_>>().join("; ");
            cgroup.files.entry("io.max".into()).or_insert(limits);
        }
        if let Some(weight) = value(File::DirtyWeight) {
            if scenario.disks.iter().any(|disk| disk.io_cost) {
                let weight = weight.to_string();
                cgroup.files.entry("io.weight".into()).or_insert(weight);
            }
        }
        if floors > 0 && leave.contains(&path.as_str()) {
            ceiling = ceiling.min(host.room_per_sharer(floors, leave.len() as u64));
        }
        if let Some(pages) = translate::memory_high(&host, &CgroupMemory::default(), ceiling) {
            let bytes = (pages << PAGE_SHIFT).to_string();
            cgroup.files.entry("memory.high".into()).or_insert(bytes);
        }
    }
    Ok(all)
}

/// Pages of `memory.max`.
fn memory_max_pages(cgroup: &Cgroup) -> u64 {
    let text = cgroup.files.get("memory.max");
    let bytes = text.and_then(|text| policy::parse::parse_bytes(text.as_bytes()).ok());
    bytes.map_or(UNLIMITED, |bytes| bytes >> PAGE_SHIFT)
}

fn floor_pages(cgroup: &Cgroup) -> u64 {
    let text = cgroup.knobs.get(File::DirtyMin.file_name());
    let bytes = text.and_then(|text| File::DirtyMin.parse(text).ok());
    (bytes.unwrap_or(0) >> PAGE_SHIFT) * u64::from(cgroup.copies.unwrap_or(1))
}

fn sum_floors(scenario: &Scenario) -> u64 {
    scenario.cgroups.values().map(floor_pages).sum()
}

/// Cgroups that leave room for floors: those that write and have none.
fn cgroups_leaving_room(scenario: &Scenario) -> Vec<&str> {
    let writes = |path: &str| {
        let mut jobs = scenario.jobs.iter();
        jobs.any(|job| job.cgroup.as_deref() == Some(path))
    };
    let others = scenario.cgroups.iter();
    let others = others.filter(|(path, cgroup)| floor_pages(cgroup) == 0 && writes(path));
    others.map(|(path, _)| path.as_str()).collect()
}

/// The agent's policy that keeps the scenario's knobs without the module; `before` is as the file
/// has it.
pub fn agent_policy(scenario: &Scenario, before: &Scenario) -> Vec<String> {
    let mut lines = vec!["[stock]".to_owned()];
    if sum_floors(scenario) > 0 {
        let paths = cgroups_leaving_room(scenario).into_iter();
        let paths = paths.map(|path| match scenario.cgroups[path].copies {
            None => format!("\"/{path}\""),
            Some(_) => format!("\"/{path}/*\""),
        });
        lines.push(format!(
            "limit = [{}]",
            paths.collect::<Vec<_>>().join(", ")
        ));
    }
    let limit = "vm.dirty_bytes";
    if let Some(bytes) = scenario.host.sysctl.get(limit) {
        if before.host.sysctl.get(limit) != Some(bytes) {
            lines.push(format!("sysctl = {{ \"{limit}\" = {bytes} }}"));
        }
    }
    for (path, cgroup) in scenario
        .cgroups
        .iter()
        .filter(|(_, of)| !of.knobs.is_empty())
    {
        let each = cgroup.copies.map_or("", |_| "/*");
        let knobs = cgroup.knobs.iter();
        let knobs = knobs.map(|(file, value)| format!("\"{file}\" = \"{value}\""));
        let knobs = knobs.collect::<Vec<_>>().join(", ");
        lines.push(String::new());
        lines.push("[[rule]]".into());
        lines.push(format!("cgroup = \"/{path}{each}\""));
        lines.push(format!("set = {{ {knobs} }}"));
    }
    lines
}

/// The figures of each plan that expectations are about and the module changes as they ask.
pub fn figures_of_gains(scenario: &Scenario, module: &Plan, without: &Plan) -> Vec<KeptGain> {
    let mut all: Vec<KeptGain> = Vec::new();
    for expect in &scenario.expects {
        let figures = || {
            let of_stock = format!("stock.{}", expect.metric.strip_prefix("weir.")?);
            Some(KeptGain {
                metric: expect.metric.clone(),
                stock: module.report.metrics.get(&of_stock)?.median,
                without: without.report.metrics.get(&expect.metric)?.median,
                module: module.report.metrics.get(&expect.metric)?.median,
            })
        };
        let known = |figure: &KeptGain| all.iter().any(|of| of.metric == figure.metric);
        let figure = figures().filter(|figure| is_gained(expect, figure) && !known(figure));
        all.extend(figure);
    }
    all
}

fn is_gained(expect: &Expect, figure: &KeptGain) -> bool {
    let more = match expect.op {
        Op::AtLeast => figure.module - figure.stock,
        Op::AtMost => figure.stock - figure.module,
    };
    more > GAIN * figure.stock.abs().max(figure.module.abs())
}

/// The least part of the gain that is kept.
fn least_kept(kept: &[KeptGain]) -> Option<f64> {
    kept.iter().map(KeptGain::part_kept).min_by(f64::total_cmp)
}

/// Runs both searches and prints the plan without the module.
pub fn print(module: &Plan, without: &Plan, scenario: &Scenario, as_json: bool) -> Result<()> {
    debug_assert!(module.mode == Mode::Module && without.mode == Mode::Stock);
    let kept = figures_of_gains(scenario, module, without);
    if as_json {
        return output::print_json(&to_json(without, &kept));
    }
    let mut text = without.to_text();
    for figure in &kept {
        let unit = scenario::metric::unit_of_metric(&figure.metric);
        let shown = |value| report::format_value(value, unit);
        writeln!(
            text,
            "{}: {} without the module, {} with it, {} on stock: {:.0} % of the gain",
            figure.metric.trim_start_matches("weir."),
            shown(figure.without),
            shown(figure.module),
            shown(figure.stock),
            100.0 * figure.part_kept()
        )?;
    }
    match least_kept(&kept) {
        Some(least) => writeln!(
            text,
            "Kept of what the module gains: at least {:.0} %",
            100.0 * least
        )?,
        None => writeln!(
            text,
            "The module gains nothing here that an expectation is about"
        )?,
    }
    output::print(text)
}

fn to_json(without: &Plan, kept: &[KeptGain]) -> Value {
    let figures = kept.iter().map(|figure| {
        json!({
            "metric": figure.metric,
            "stock": figure.stock,
            "without_module": figure.without,
            "module": figure.module,
            "part": figure.part_kept(),
        })
    });
    let mut value = without.to_json();
    value["kept"] = figures.collect();
    value["least_kept"] = least_kept(kept).into();
    value
}
