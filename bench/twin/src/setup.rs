// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to a host: what the twin models is set up, everything else is a problem that
//! names its key.

mod alloc;
mod disks;
mod holders;
mod host;
mod memory;

pub use host::find_or_make_home_cgroup;
pub use memory::phase_holders;

use crate::machine::Machine;
use crate::mm::domain::{Level, PAGE, Sysctl};
use crate::mm::zone::Watermarks;
use crate::sim::clock::{HZ, Ns};
use crate::task::fio::{self, Work};
use crate::weir::CgroupRecord;
use crate::writeback::flusher::time_for_1024_pages;
use config::reader::quote_key;
use knobs::Knob;
use scenario::model::Scenario;
use std::collections::BTreeMap;

/// Obstacle to a run: the key, as problems of scenario files name it, and the reason.
pub type Refusal = (String, String);

/// CPU time of a write() and of a page of it, on a machine of today, in nanoseconds.
const CALL: Ns = 800;
const PER_PAGE: Ns = 600;
/// CPU time of a page that is looked at to take it: 2,480 instructions
/// (`bench/weir-bench/tests/guest/scan.sh`), two to three of them a nanosecond.
const SCAN: Ns = 1000;
/// Bandwidth of a flusher that nothing but its own work bounds, in bytes per second.
const FLUSHER: u64 = 4 << 30;

/// Everything about a scenario that does not change from phase to phase.
pub struct HostConfig {
    /// By job, in file order; none of a job that reads memory.
    pub works: Vec<Option<Work>>,
    machine: Machine,
    /// Pages that can be dirty at all, while no task holds memory of its own.
    dirtyable: u64,
    marks: Watermarks,
    sysctl: Sysctl,
    /// Pages per second at which files were laid out, if the scenario says what flushers or disks
    /// can do.
    pub laid_out_at: Option<u64>,
}

/// Reads `scenario` for the twin.
///
/// # Errors
/// All that it does not model.
pub fn configure_host(scenario: &Scenario) -> Result<HostConfig, Vec<Refusal>> {
    let mut refusals = memory::refused_memory(scenario);
    let works: Vec<Option<Work>> = scenario
        .jobs
        .iter()
        .enumerate()
        .map(|(index, job)| {
            if job.memory.is_some() {
                return alloc::allocating_work(job);
            }
            let work = fio::parse_job(job);
            if let Err(why) = &work {
                let key = |option: &str| format!("job[{index}].fio.{option}");
                refusals.extend(why.iter().map(|(option, why)| (key(option), why.clone())));
            }
            work.ok()
        })
        .collect();
    check_cgroups(scenario, &mut refusals);
    disks::refuse_disks(scenario, &works, &mut refusals);
    let sysctl = read_sysctls(&scenario.host.sysctl, &mut refusals);
    holders::refuse_holders(scenario, &works, &mut refusals);
    alloc::refuse_allocating(scenario, &works, &mut refusals);
    let twin = &scenario.twin;
    // What a kernel keeps to itself: its image, page descriptors, and the reserve it does not let
    // tasks dirty.
    let kept = (scenario.host.memory_bytes / 32 + (96 << 20)).min(scenario.host.memory_bytes / 2);
    let others = twin.anonymous_bytes.unwrap_or(0);
    if kept + others >= scenario.host.memory_bytes {
        refusals.push((
            "twin.anonymous".into(),
            "leaves no memory to dirty: less than the host's memory and the kernel's own".into(),
        ));
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(HostConfig {
        works,
        machine: Machine {
            cpus: scenario.host.cpus,
            call: twin.call_ns.unwrap_or(CALL),
            page: twin.page_ns.unwrap_or(PER_PAGE),
            rewrite: twin.rewrite_ns.or(twin.page_ns).unwrap_or(PER_PAGE),
            read: twin.read_ns.or(twin.page_ns).unwrap_or(PER_PAGE),
            store: twin.store_ns.or(twin.page_ns).unwrap_or(PER_PAGE),
            refill: twin.refill_ns.unwrap_or(0),
            wake: twin.wake_ns.unwrap_or(0),
            look: twin.look_ns.unwrap_or(0),
            start: twin.start_ns.unwrap_or(0),
            scan: twin.scan_ns.unwrap_or(SCAN),
            flush_more: twin.flusher_more_pct.unwrap_or(100),
            flush_1024: time_for_1024_pages(twin.flusher_bandwidth.unwrap_or(FLUSHER)),
        },
        dirtyable: (scenario.host.memory_bytes - kept - others) / PAGE,
        marks: Watermarks::new(scenario.host.memory_bytes),
        sysctl,
        laid_out_at: [twin.flusher_bandwidth, twin.disk_bandwidth]
            .into_iter()
            .flatten()
            .min()
            .map(|bytes| bytes / PAGE),
    })
}

/// A host's dirty limits, in pages.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// Pages that may be dirty.
    pub limit: u64,
    /// From where flushers write.
    pub background: u64,
    /// Pages that can be dirtied at all.
    pub dirtyable: u64,
}

/// The host's dirty limits while nothing runs.
///
/// # Errors
/// As [`configure_host`].
pub fn dirty_levels(scenario: &Scenario) -> Result<Levels, Vec<Refusal>> {
    let config = configure_host(scenario)?;
    let (limit, background) = config.sysctl.dirty_levels(config.dirtyable, None);
    Ok(Levels {
        limit,
        background,
        dirtyable: config.dirtyable,
    })
}

fn check_cgroups(scenario: &Scenario, refusals: &mut Vec<Refusal>) {
    for (path, cgroup) in &scenario.cgroups {
        let key = |file: &str| format!("cgroup.{}.{}", quote_key(path), quote_key(file));
        for (file, value) in &cgroup.files {
            if matches!(file.as_str(), "io.max" | "io.weight") {
                let divided = scenario.disks.iter().any(|disk| disk.io_cost);
                if let Err(why) = disks::check_cgroup_file(file, value, divided) {
                    refusals.push((key(file), why));
                }
                continue;
            }
            let known = ["memory.max", "memory.high", "memory.min", "memory.low"];
            let has_effect = file != "memory.low" || !scenario.tiers.is_empty();
            if !known.contains(&file.as_str()) || !has_effect {
                refusals.push((key(file), format!("the twin does not model `{file}`")));
            } else if policy::parse::parse_bytes(value.as_bytes()).is_err() {
                refusals.push((key(file), format!("`{value}` is not a size or `max`")));
            }
        }
        for (file, value) in &cgroup.knobs {
            if let Err(why) = write_knob(&mut CgroupRecord::default(), file, value) {
                refusals.push((key(file), why));
            }
        }
    }
    for (index, phase) in scenario.phases.iter().enumerate() {
        for (path, knobs) in &phase.set {
            for (file, value) in knobs {
                if let Err(why) = write_knob(&mut CgroupRecord::default(), file, value) {
                    refusals.push((
                        format!("phase[{index}].set.{}.{}", quote_key(path), quote_key(file)),
                        why,
                    ));
                }
            }
        }
    }
}

/// Writes one of weir's files, through weir's own parser.
pub fn write_knob(group: &mut CgroupRecord, file: &str, value: &str) -> Result<(), String> {
    let knob = Knob::by_file(file).ok_or_else(|| format!("the twin does not model `{file}`"))?;
    let value = knob.parse(value).map_err(|why| why.to_string())?;
    match knob {
        Knob::DirtyMin => group.floor_bytes = value.min(policy::parse::BYTES_MAX),
        Knob::DirtyBytes => group.ceiling.bytes = value,
        Knob::DirtyRatio => group.ceiling.ratio_percent = value as u32,
        Knob::DirtyBandwidth => group.bandwidth_bytes = value,
        Knob::DirtyWeight => group.weight = value as u32,
        Knob::WritebackBytes => group.writeback_bytes = value,
        Knob::ToptierRatio => group.toptier_ratio = value as u32,
    }
    Ok(())
}

fn read_sysctls(sysctls: &BTreeMap<String, String>, refusals: &mut Vec<Refusal>) -> Sysctl {
    let mut sysctl = Sysctl {
        limit: Level::Percent(20),
        background: Level::Percent(10),
        dirty_expire_interval: 30 * HZ,
        dirty_writeback_interval: 5 * HZ,
    };
    let ticks = |centiseconds: u64| centiseconds.saturating_mul(HZ) / 100;
    for (name, text) in sysctls {
        let Ok(value) = text.parse::<u64>() else {
            refusals.push((
                format!("host.sysctl.{}", quote_key(name)),
                format!("`{text}` is not a whole number"),
            ));
            continue;
        };
        match name.as_str() {
            "vm.dirty_bytes" => sysctl.limit = Level::Bytes(value),
            "vm.dirty_background_bytes" => sysctl.background = Level::Bytes(value),
            "vm.dirty_ratio" => sysctl.limit = Level::Percent(value),
            "vm.dirty_background_ratio" => sysctl.background = Level::Percent(value),
            "vm.dirty_expire_centisecs" => sysctl.dirty_expire_interval = ticks(value),
            // Off, as it is here: the model's kernel moves nothing by itself.
            "kernel.numa_balancing" if value == 0 => {}
            "vm.dirty_writeback_centisecs" => sysctl.dirty_writeback_interval = ticks(value),
            _ => refusals.push((
                format!("host.sysctl.{}", quote_key(name)),
                format!("the twin does not model `{name}`"),
            )),
        }
    }
    sysctl
}
