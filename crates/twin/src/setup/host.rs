// SPDX-License-Identifier: GPL-2.0-only
//! The host of a scenario as it is before the first phase, and the writebacks that its files belong to.

use super::{Plan, knob, memory};
use crate::clock::{Ns, SECOND};
use crate::controller::Rates;
use crate::device::Device;
use crate::domain::{Domain, PAGE};
use crate::flusher::Flusher;
use crate::share::Share;
use crate::weir::{Group, Weir};
use crate::world::{Cgroup, Counts, Wb, World};
use scenario::model::{Arm, Filesystem, Scenario};

/// Simulated time begins here, so that no clock is at 0.
const BEGIN: Ns = 100 * SECOND;

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
            let bandwidth = disk
                .write_bandwidth
                .or(scenario.twin.disk_bandwidth)
                .unwrap_or(1);
            let mut device = Device::new(
                bandwidth,
                disk.write_bandwidth.is_some(),
                scenario.twin.burst_ns.unwrap_or(0),
                self.machine.cpus,
            );
            device.reads_apart(super::read_bandwidth(scenario, disk));
            world.devices.push(device);
        }
        world.memory = memory::memory(scenario, arm);
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
        low: 0,
        domain: Domain::default(),
    }
}
