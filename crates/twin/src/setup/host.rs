// SPDX-License-Identifier: GPL-2.0-only
//! The host of a scenario as it is before the first phase, and the writebacks that its files belong
//! to.

use super::{Plan, disks, knob, memory};
use crate::clock::{Ns, SECOND};
use crate::controller::Rates;
use crate::domain::{Domain, PAGE};
use crate::flusher::Flusher;
use crate::journal::Journal;
use crate::psi::HOST;
use crate::ram::lru::Lru;
use crate::share::Share;
use crate::weir::{Group, Weir};
use crate::world::{Cgroup, Counts, Event, Wb, World};
use scenario::model::{Arm, Filesystem, Job, Scenario};

/// Simulated time begins here, so that no clock is at 0.
const BEGIN: Ns = 100 * SECOND;

impl Plan {
    /// The host as it is before the first phase.
    pub fn world(&self, scenario: &Scenario, arm: Arm, seed: u64) -> World {
        let mut world = World::new(self.machine, self.sysctl, seed, BEGIN);
        world.cgroups.push(cgroup(String::new(), None, HOST));
        let mut weir = Weir::default();
        weir.groups.push(Group::default());
        // A path comes before those below it; a parent that is not in the file is made too.
        for (path, settings) in &scenario.cgroups {
            let first = make(&mut world, path);
            let above = world.cgroups[first].pressure;
            world.cgroups[first].pressure = world.psi.add(above, BEGIN);
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
                cgroup.low = pages("memory.low").unwrap_or(0);
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
            let device = disks::device(scenario, disk, &world.cgroups, &mut world.random);
            world.devices.push(device);
            world
                .journals
                .push(Journal::new(disks::commit_interval(scenario, disk)));
            if let Some(every) = scenario.twin.stall_every_ns.filter(|every| *every > 0) {
                let number = world.devices.len() as u32 - 1;
                world.plan(every.saturating_add(BEGIN), Event::Stall(number));
            }
        }
        world.memory = memory::memory(scenario, arm);
        if arm == Arm::Weir {
            world.weir = Some(weir);
            world.weir_arms();
        }
        world
    }

    /// The writeback that the file of a job's process belongs to, made if it is the first to need
    /// it.
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
        let cgroup = match scenario.disks[device].filesystem {
            Filesystem::Vfat => 0,
            _ => home(world, scenario, job, process),
        };
        if let Some(found) = world.wb_of.get(&(cgroup, device)) {
            return *found;
        }
        world.wb_of.insert((cgroup, device), world.wbs.len());
        let now = world.tick();
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
            flusher: Flusher::new(now),
        });
        world.wbs.len() - 1
    }
}

/// The cgroup that a job's process is in.
pub fn home(world: &mut World, scenario: &Scenario, job: &Job, process: u32) -> usize {
    let Some(path) = &job.cgroup else { return 0 };
    match scenario.cgroups[path].copies {
        None => make(world, path),
        // They were made right after it.
        Some(copies) => make(world, path) + 1 + (process % copies) as usize,
    }
}

fn make(world: &mut World, path: &str) -> usize {
    if let Some(found) = world.cgroups.iter().position(|cgroup| cgroup.path == path) {
        return found;
    }
    let parent = path
        .rsplit_once('/')
        .map_or(0, |(parent, _)| make(world, parent));
    let pressure = world.cgroups[parent].pressure;
    world
        .cgroups
        .push(cgroup(path.into(), Some(parent), pressure));
    world.cgroups.len() - 1
}

/// The n-th of a kind, below `first`.
fn copy(world: &mut World, first: usize, n: u32) -> usize {
    let path = format!("{}/{n}", world.cgroups[first].path);
    let pressure = world.cgroups[first].pressure;
    world.cgroups.push(cgroup(path, Some(first), pressure));
    world.cgroups.len() - 1
}

fn cgroup(path: String, parent: Option<usize>, pressure: u32) -> Cgroup {
    Cgroup {
        path,
        parent,
        counts: Counts::default(),
        subtree: Counts::default(),
        believed: Counts::default(),
        file: 0,
        line: Lru::default(),
        anonymous: 0,
        believed_file: 0,
        max: u64::MAX,
        high: u64::MAX,
        min: 0,
        low: 0,
        domain: Domain::default(),
        pressure,
    }
}
