// SPDX-License-Identifier: GPL-2.0-only
//! From a scenario to a host: what the twin models is set up, everything else is a problem that names its key.

use crate::clock::{HZ, Ns, SECOND};
use crate::controller::Rates;
use crate::device::Device;
use crate::domain::{Domain, Level, PAGE, Sysctl};
use crate::fio::{self, Work};
use crate::flusher::{Flusher, cost_of_1024};
use crate::share::Share;
use crate::weir::{Group, Weir};
use crate::world::{Cgroup, Counts, Machine, Wb, World};
use scenario::metric::{self, Name};
use scenario::model::{Arm, Filesystem, Scenario};
use std::collections::BTreeMap;

/// What stands in the way: the key, as problems of scenario files name it, and why.
pub type Refusal = (String, String);

/// Metrics of the host that the twin has.
const HOST: &[&str] = &[
    "dirty_max_bytes",
    "dirty_median_bytes",
    "writeback_median_bytes",
    "disk_bw_bytes",
    "flusher_cpu_pct",
    "io_full_pct",
    "io_some_pct",
];
/// CPU time of a write() and of a page of it, on a machine of today, in nanoseconds.
const CALL: Ns = 800;
const PER_PAGE: Ns = 600;
/// What a flusher submits when nothing but its own work bounds it, in bytes per second.
const FLUSHER: u64 = 4 << 30;
/// Simulated time begins here, so that no clock is at 0.
const BEGIN: Ns = 100 * SECOND;

/// Everything about a scenario that does not change from phase to phase.
pub struct Plan {
    /// By job, in file order.
    pub works: Vec<Work>,
    machine: Machine,
    sysctl: Sysctl,
}

/// Reads `scenario` for the twin.
///
/// # Errors
/// All that it does not model.
pub fn plan(scenario: &Scenario) -> Result<Plan, Vec<Refusal>> {
    let mut refusals = Vec::new();
    let works: Vec<Option<Work>> = scenario
        .jobs
        .iter()
        .enumerate()
        .map(|(index, job)| {
            let work = fio::work(job);
            if let Err(why) = &work {
                let key = |option: &str| format!("job[{index}].fio.{option}");
                refusals.extend(why.iter().map(|(option, why)| (key(option), why.clone())));
            }
            work.ok()
        })
        .collect();
    cgroups(scenario, &mut refusals);
    disks(scenario, &mut refusals);
    let (sysctl, times) = sysctls(&scenario.host.sysctl, &mut refusals);
    metrics(scenario, &mut refusals);
    let twin = &scenario.twin;
    // What a kernel keeps to itself: its image, page descriptors, and the reserve it does not let anybody dirty.
    let kept = (scenario.host.memory_bytes / 32 + (96 << 20)).min(scenario.host.memory_bytes / 2);
    let others = twin.anonymous_bytes.unwrap_or(0);
    if kept + others >= scenario.host.memory_bytes {
        refusals.push(("twin.anonymous".into(), "leaves no memory to dirty".into()));
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(Plan {
        works: works.into_iter().flatten().collect(),
        machine: Machine {
            cpus: scenario.host.cpus,
            call: twin.call_ns.unwrap_or(CALL),
            page: twin.page_ns.unwrap_or(PER_PAGE),
            wake: twin.wake_ns.unwrap_or(0),
            look: twin.look_ns.unwrap_or(0),
            flush_1024: cost_of_1024(twin.flusher_bandwidth.unwrap_or(FLUSHER)),
            dirtyable: (scenario.host.memory_bytes - kept - others) / PAGE,
            expire: times.0,
            periodic: times.1,
        },
        sysctl,
    })
}

/// The host's dirty limit in bytes.
///
/// # Errors
/// As [`plan`].
pub fn dirty_limit(scenario: &Scenario) -> Result<u64, Vec<Refusal>> {
    let plan = plan(scenario)?;
    Ok(plan.sysctl.levels(plan.machine.dirtyable, None).0 * PAGE)
}

fn cgroups(scenario: &Scenario, refusals: &mut Vec<Refusal>) {
    for (path, cgroup) in &scenario.cgroups {
        let key = |file: &str| format!("cgroup.{}.{}", quoted(path), quoted(file));
        for (file, value) in &cgroup.files {
            if !["memory.max", "memory.high", "memory.min"].contains(&file.as_str()) {
                refusals.push((key(file), format!("the twin does not model `{file}`")));
            } else if policy::parse::bytes(value.as_bytes()).is_err() {
                refusals.push((key(file), format!("`{value}` is not a size or `max`")));
            }
        }
        for (file, value) in &cgroup.knobs {
            if let Err(why) = knob(&mut Group::default(), file, value) {
                refusals.push((key(file), why));
            }
        }
    }
    for (index, phase) in scenario.phases.iter().enumerate() {
        for (path, knobs) in &phase.set {
            for (file, value) in knobs {
                if let Err(why) = knob(&mut Group::default(), file, value) {
                    refusals.push((
                        format!("phase[{index}].set.{}.{}", quoted(path), quoted(file)),
                        why,
                    ));
                }
            }
        }
    }
}

/// Writes one of weir's files, through weir's own parser.
pub fn knob(group: &mut Group, file: &str, value: &str) -> Result<(), String> {
    let wrong = |why| format!("`{value}`: {why:?}");
    match file {
        "memory.dirty_min" => {
            let bytes = policy::parse::bytes(value.as_bytes()).map_err(wrong)?;
            group.floor_bytes = bytes.min(policy::parse::BYTES_MAX);
        }
        "memory.dirty_bytes" => {
            let bytes = policy::parse::bytes(value.as_bytes()).map_err(wrong)?;
            group.ceiling.bytes = policy::parse::ceiling_bytes(bytes).map_err(wrong)?;
        }
        "memory.dirty_ratio" => {
            group.ceiling.ratio_percent = policy::parse::percent(value.as_bytes()).map_err(wrong)?
        }
        _ => return Err(format!("the twin does not model `{file}`")),
    }
    Ok(())
}

fn disks(scenario: &Scenario, refusals: &mut Vec<Refusal>) {
    for (index, disk) in scenario.disks.iter().enumerate() {
        let key = |name: &str| format!("disk[{index}].{name}");
        if disk.write_bandwidth.is_none() && scenario.twin.disk_bandwidth.is_none() {
            refusals.push((
                key("write_bandwidth"),
                "is missing: a model has no disk of its own; say how fast this one is, or add `disk = \"1G/s\"` to `[twin]`".into(),
            ));
        }
        if disk.encrypted && scenario.twin.flusher_bandwidth.is_none() {
            refusals.push((
                key("encrypted"),
                "the twin does not encrypt: add to `[twin]` what a flusher that does can submit, as in `flusher = \"500M/s\"`".into(),
            ));
        }
        let options = disk
            .mount_options
            .as_deref()
            .unwrap_or_default()
            .split(',')
            .filter(|o| !o.is_empty());
        for option in options {
            let name = option.split('=').next().unwrap_or(option);
            if !["commit", "noatime", "nodiratime", "relatime", "lazytime"].contains(&name) {
                refusals.push((
                    key("mount_options"),
                    format!("the twin does not model the mount option `{option}`"),
                ));
            }
        }
    }
}

fn sysctls(
    sysctls: &BTreeMap<String, String>,
    refusals: &mut Vec<Refusal>,
) -> (Sysctl, (u64, u64)) {
    let mut sysctl = Sysctl {
        limit: Level::Percent(20),
        background: Level::Percent(10),
    };
    let (mut expire, mut periodic) = (30 * HZ, 5 * HZ);
    for (name, text) in sysctls {
        let Ok(value) = text.parse::<u64>() else {
            refusals.push((
                format!("host.sysctl.{}", quoted(name)),
                format!("`{text}` is not a whole number"),
            ));
            continue;
        };
        match name.as_str() {
            "vm.dirty_bytes" => sysctl.limit = Level::Bytes(value),
            "vm.dirty_background_bytes" => sysctl.background = Level::Bytes(value),
            "vm.dirty_ratio" => sysctl.limit = Level::Percent(value),
            "vm.dirty_background_ratio" => sysctl.background = Level::Percent(value),
            "vm.dirty_expire_centisecs" => expire = value.saturating_mul(HZ) / 100,
            "vm.dirty_writeback_centisecs" => periodic = value.saturating_mul(HZ) / 100,
            _ => refusals.push((
                format!("host.sysctl.{}", quoted(name)),
                format!("the twin does not model `{name}`"),
            )),
        }
    }
    (sysctl, (expire, periodic))
}

/// What expectations are about must be something the twin measures.
fn metrics(scenario: &Scenario, refusals: &mut Vec<Refusal>) {
    for (index, expect) in scenario.expects.iter().enumerate() {
        let named = expect
            .bound
            .0
            .iter()
            .flat_map(|term| &term.metrics)
            .chain([&expect.metric]);
        for name in named {
            let host = Name::split(name).filter(|name| name.subject == "host");
            if let Some(name) = host.filter(|name| {
                metric::HOST.contains(&name.metric.as_str())
                    && !HOST.contains(&name.metric.as_str())
            }) {
                refusals.push((
                    format!("expect[{index}].metric"),
                    format!(
                        "the twin does not model memory reclaim: it has no `{}` of the host",
                        name.metric
                    ),
                ));
            }
        }
    }
}

fn quoted(name: &str) -> String {
    let bare = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare {
        name.into()
    } else {
        format!("\"{name}\"")
    }
}

impl Plan {
    /// The host as it is before the first phase.
    pub fn world(&self, scenario: &Scenario, arm: Arm, seed: u64) -> World {
        let mut world = World::new(self.machine, self.sysctl, seed, BEGIN);
        world.cgroups.push(cgroup(String::new(), None));
        let mut weir = Weir::default();
        weir.groups.push(Group::default());
        // A path comes before those below it; a parent that is not in the file is made too.
        for (path, settings) in &scenario.cgroups {
            let first = make(&mut world, path);
            let all: Vec<usize> = match settings.copies {
                None => vec![first],
                Some(copies) => (0..copies).map(|n| copy(&mut world, first, n)).collect(),
            };
            weir.groups.resize(world.cgroups.len(), Group::default());
            let pages = |file: &str| {
                let bytes = settings
                    .files
                    .get(file)
                    .and_then(|text| policy::parse::bytes(text.as_bytes()).ok());
                bytes
                    .filter(|bytes| *bytes != policy::UNLIMITED)
                    .map(|bytes| bytes / PAGE)
            };
            for index in all {
                let cgroup = &mut world.cgroups[index];
                cgroup.max = pages("memory.max").unwrap_or(u64::MAX);
                cgroup.high = pages("memory.high").unwrap_or(u64::MAX);
                cgroup.min = pages("memory.min").unwrap_or(0);
                for (file, value) in &settings.knobs {
                    // It was checked by plan().
                    let _ = knob(&mut weir.groups[index], file, value);
                }
            }
        }
        let option = |name: &str| {
            scenario
                .host
                .weir
                .get(name)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        };
        (weir.seconds, weir.tighten) = (option("drain_seconds"), option("drain_tighten") != 0);
        world.samples.cgroups = vec![Vec::new(); world.cgroups.len()];
        for disk in &scenario.disks {
            let bandwidth = disk
                .write_bandwidth
                .or(scenario.twin.disk_bandwidth)
                .unwrap_or(1);
            world.devices.push(Device::new(
                bandwidth,
                disk.write_bandwidth.is_some(),
                self.machine.cpus,
            ));
        }
        if arm == Arm::Weir {
            world.weir = Some(weir);
            world.weir_arms();
        }
        world
    }

    /// The writeback that the file of a job's process belongs to, made if it is the first to need it.
    pub fn writeback(
        &self,
        world: &mut World,
        scenario: &Scenario,
        job: usize,
        process: u32,
    ) -> usize {
        let job = &scenario.jobs[job];
        let device = scenario
            .disks
            .iter()
            .position(|disk| disk.name == job.disk)
            .unwrap_or(0);
        // Without cgroup writeback a disk has one for all.
        let cgroup = match (&job.cgroup, scenario.disks[device].filesystem) {
            (Some(_), Filesystem::Vfat) | (None, _) => 0,
            (Some(path), _) => match scenario.cgroups[path].copies {
                None => make(world, path),
                // They were made right after it.
                Some(copies) => make(world, path) + 1 + (process % copies) as usize,
            },
        };
        if let Some(found) = world.wb_of.get(&(cgroup, device)) {
            return *found;
        }
        world.wb_of.insert((cgroup, device), world.wbs.len());
        let (now, cpu) = (world.tick(), world.wbs.len() % self.machine.cpus as usize);
        world.wbs.push(Wb {
            cgroup,
            device,
            counts: Counts::default(),
            rates: Rates::new(now),
            share: Share::default(),
            cgroup_share: Share::default(),
            exceeded: false,
            measuring: false,
            files_in_flight: 0,
            flusher: Flusher::new(cpu as u16, now),
        });
        world.wbs.len() - 1
    }
}

fn make(world: &mut World, path: &str) -> usize {
    if let Some(found) = world.cgroups.iter().position(|cgroup| cgroup.path == path) {
        return found;
    }
    let parent = path
        .rsplit_once('/')
        .map_or(0, |(parent, _)| make(world, parent));
    world.cgroups.push(cgroup(path.into(), Some(parent)));
    world.cgroups.len() - 1
}

/// The n-th of a kind, below `first`.
fn copy(world: &mut World, first: usize, n: u32) -> usize {
    let path = format!("{}/{n}", world.cgroups[first].path);
    world.cgroups.push(cgroup(path, Some(first)));
    world.cgroups.len() - 1
}

fn cgroup(path: String, parent: Option<usize>) -> Cgroup {
    Cgroup {
        path,
        parent,
        counts: Counts::default(),
        subtree: Counts::default(),
        believed: Counts::default(),
        file: 0,
        believed_file: 0,
        max: u64::MAX,
        high: u64::MAX,
        min: 0,
        domain: Domain::default(),
    }
}
