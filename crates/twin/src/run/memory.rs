// SPDX-License-Identifier: GPL-2.0-only
//! What a phase comes to for those who hold memory, in the lab's figures and by the lab's names.
//!
//! Rates and medians are of the second half of the time in which all jobs of the phase run: in the first, memory is
//! still filled and moved.

use crate::clock::{Ns, SECOND};
use crate::domain::PAGE;
use crate::memory::HOT;
use crate::memory::holder::Holder;
use crate::memory::record::Held;
use crate::world::World;
use scenario::model::{Phase, Scenario};

/// Within so many percent a cgroup is at its budget.
const AT_BUDGET: f64 = 2.0;

/// Adds them: by subject, name, value, unit.
pub(super) fn add(
    world: &World,
    scenario: &Scenario,
    phase: &Phase,
    add: &mut dyn FnMut(&str, &str, f64, &'static str),
) {
    if world.memory.tiers.is_empty() {
        return;
    }
    let running = scenario
        .jobs
        .iter()
        .filter(|job| job.memory.is_some() && phase.jobs.contains(&job.name));
    let mut total = 0.0;
    for (job, holder) in running.zip(&world.memory.holders) {
        let rate = holder.reads as f64 * SECOND as f64 / holder.reading.max(1) as f64;
        total += rate;
        add(&job.name, "ops_per_sec", rate, "count");
        add(&job.name, "hot_low_pct", hot_low(holder), "percent");
        add(&job.name, "corrupt_pages", holder.lost() as f64, "count");
    }
    add("host", "ops_per_sec", total, "count");
    let record = &world.memory.record;
    let half = record.looks.partition_point(|at| *at < record.half());
    let (Some(first), Some(last)) = (record.migrated.get(half), record.migrated.last()) else {
        return;
    };
    let minutes = (record
        .looks
        .last()
        .map_or(0, |last| last - record.looks[half]))
    .max(1) as f64
        / (60 * SECOND) as f64;
    let moved = ((last - first) * PAGE) as f64;
    add(
        "host",
        "migrated_bytes_per_min",
        moved / minutes,
        "bytes/min",
    );
    let budgets = world.budgets();
    for (index, cgroup) in world.cgroups.iter().enumerate().skip(1) {
        if !scenario.cgroups.contains_key(&cgroup.path) {
            continue;
        }
        let subject = format!("cgroup/{}", cgroup.path);
        let series = &record.cgroups[index];
        let end = &series[half..];
        let bytes = |pages: f64| pages * PAGE as f64;
        let top = median(end.iter().map(|held| held.top as f64));
        let low = median(end.iter().map(|held| held.low as f64));
        add(&subject, "toptier_bytes", bytes(top), "bytes");
        add(&subject, "lowtier_bytes", bytes(low), "bytes");
        let share = |held: &Held| 100.0 * held.top as f64 / (held.top + held.low).max(1) as f64;
        add(
            &subject,
            "toptier_pct",
            median(end.iter().map(share)),
            "percent",
        );
        let budget = budgets.as_ref().map(|budgets| budgets[index - 1]);
        if let Some(budget) = budget.filter(|budget| *budget != policy::UNLIMITED) {
            let error = |held: &Held| off(held, budget);
            add(
                &subject,
                "budget_error_pct",
                median(end.iter().map(error)),
                "percent",
            );
            let wrong = |(_, held): &(&Ns, &Held)| error(held) > AT_BUDGET;
            let (began, ended) = (
                record.last_start(),
                record.looks.last().copied().unwrap_or(0),
            );
            // The last look at which it was not there, and the next.
            let mut settled = began;
            let mut looks = record.looks.iter().zip(series).peekable();
            while let Some(look) = looks.next() {
                if wrong(&look) {
                    settled = looks.peek().map_or(ended, |next| *next.0);
                }
            }
            add(
                &subject,
                "settle_ns",
                settled.saturating_sub(began) as f64,
                "ns",
            );
        }
    }
}

/// Pages of the hot set that were not in the fastest tier in the end, in percent of it.
fn hot_low(holder: &Holder) -> f64 {
    let low: u64 = holder.held_last.iter().skip(1).map(|heat| heat[HOT]).sum();
    100.0 * low as f64 / holder.touched[HOT].max(1) as f64
}

/// How far a cgroup is above its budget; or below, as far as it has memory in another tier. In percent of it.
fn off(held: &Held, budget: u64) -> f64 {
    let off = match held.top.checked_sub(budget) {
        Some(above) => above,
        None => (budget - held.top).min(held.low),
    };
    100.0 * off as f64 / budget.max(1) as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ if middle == 0 => 0.0,
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}
