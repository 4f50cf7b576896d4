// SPDX-License-Identifier: GPL-2.0-only
//! The host of a scenario as it is before the first phase, and the writebacks that its files belong
//! to.

use super::{HostConfig, alloc, disks, memory, write_knob};
use crate::host::SimHost;
use crate::jbd2::Journal;
use crate::mm::Cgroup;
use crate::mm::domain::PAGE;
use crate::sched::psi::HOST;
use crate::sim::SimEvent;
use crate::sim::clock::{Ns, SECOND, TICK};
use crate::task::Tasks;
use crate::weir::{CgroupRecord, Weir};
use crate::xlog::Log;
use policy::pause::Decider;
use scenario::model::{Arm, Job, Phase, Scenario};

/// Simulated time begins here, so that no clock is at 0.
const BEGIN: Ns = 100 * SECOND;

/// Pages that a fio job's processes and what the kernel keeps for them are charged: of `memory.max` of
/// 32, 48, 64 and 128 MiB a writer in a guest could dirty 23.1, 39.0, 54.2 and 116 MiB, and the kernel
/// charges some bytes with each page.
const FIO: u64 = (8 << 20) / PAGE;

/// The most fio jobs that a phase runs at or below a cgroup.
fn most_fio_jobs(scenario: &Scenario, path: &str) -> u64 {
    let is_inside = |job: &&Job| !job.fio.is_empty() && job.is_in_subtree(path);
    let in_phase = |phase: &Phase| {
        let jobs = scenario.jobs.iter().filter(is_inside);
        jobs.filter(|job| phase.jobs.contains(&job.name)).count() as u64
    };
    scenario.phases.iter().map(in_phase).max().unwrap_or(0)
}

impl HostConfig {
    /// The host as it is before the first phase.
    pub fn build_host(&self, scenario: &Scenario, arm: Arm, seed: u64) -> SimHost {
        let memory = (self.dirtyable, self.marks);
        let mut host = SimHost::new(self.machine, memory, self.sysctl, seed, BEGIN);
        let tasks = &mut host.tasks;
        tasks.cgroups.push(Cgroup::new(String::new(), None, HOST));
        let mut weir = Weir::default();
        weir.judged_by = Decider::Cgroup;
        weir.groups.push(CgroupRecord::default());
        // A path comes before those below it; a parent that is not in the file is made too.
        for (path, settings) in &scenario.cgroups {
            let first = find_or_make_cgroup(tasks, path);
            let above = tasks.cgroups[first].pressure;
            tasks.cgroups[first].pressure = tasks.psi.add(above, BEGIN);
            let all: Vec<usize> = match settings.copies {
                None => vec![first],
                Some(copies) => (0..copies)
                    .map(|n| add_cgroup_copy(tasks, first, n))
                    .collect(),
            };
            weir.groups
                .resize(tasks.cgroups.len(), CgroupRecord::default());
            let pages = |file: &str| {
                let bytes = settings
                    .files
                    .get(file)
                    .and_then(|text| policy::parse::parse_bytes(text.as_bytes()).ok());
                bytes
                    .filter(|bytes| *bytes != policy::UNLIMITED)
                    .map(|bytes| bytes / PAGE)
            };
            for index in all {
                let cgroup = &mut tasks.cgroups[index];
                cgroup.max = pages("memory.max").unwrap_or(u64::MAX);
                if cgroup.max != u64::MAX {
                    cgroup.kept = FIO * most_fio_jobs(scenario, path);
                }
                cgroup.high = pages("memory.high").unwrap_or(u64::MAX);
                cgroup.min = pages("memory.min").unwrap_or(0);
                cgroup.low = pages("memory.low").unwrap_or(0);
                for (file, value) in &settings.knobs {
                    // It was checked by configure().
                    let _ = write_knob(&mut weir.groups[index], file, value);
                }
            }
        }
        let option = |name: &str| {
            let text = scenario.host.weir.get(name);
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let seconds = scenario.host.weir.get("drain_seconds");
        weir.headroom = seconds
            .filter(|text| *text == "auto")
            .map(|_| policy::headroom::Headroom::default());
        weir.assistants.most = option("assist");
        (weir.seconds, weir.tighten) = (option("drain_seconds"), option("drain_tighten") != 0);
        weir.fair = option("fair") != 0;
        for (number, disk) in scenario.disks.iter().enumerate() {
            let mut random = tasks.random.clone();
            let device = disks::new_device(scenario, disk, &tasks.cgroups, &mut random);
            tasks.random = random;
            tasks.devices.push(device);
            tasks
                .journals
                .push(Journal::new(disks::journal_kind(scenario, disk)));
            tasks.logs.push(Log::default());
            if let Some(every) = scenario.twin.stall_every_ns.filter(|every| *every > 0) {
                let at = every.saturating_add(BEGIN);
                tasks.schedule_event(at, SimEvent::Stall(number as u32));
            }
        }
        if arm == Arm::Weir {
            tasks.weir = Some(weir);
            tasks.weir_arm();
        }
        if let Some(age) = scenario.twin.counts_ns {
            tasks.flush_time = age.max(TICK);
        }
        tasks.node = alloc::build_page_node(scenario).map(Box::new);
        host.memory = memory::build_memory(scenario, arm);
        host
    }

    /// The writeback that the file of a job's process belongs to.
    pub fn writeback_of_job(
        &self,
        tasks: &mut Tasks,
        scenario: &Scenario,
        job: usize,
        process: u32,
    ) -> usize {
        let job = &scenario.jobs[job];
        let mut disks = scenario.disks.iter();
        let device = disks.position(|disk| disk.name == job.disk).unwrap_or(0);
        // Without cgroup writeback a disk has one for all.
        let cgroup = match scenario.disks[device].filesystem.has_cgroup_writeback() {
            false => 0,
            true => find_or_make_home_cgroup(tasks, scenario, job, process),
        };
        tasks.wb_get_create(cgroup, device)
    }
}

/// The cgroup that a job's process is in.
pub fn find_or_make_home_cgroup(
    tasks: &mut Tasks,
    scenario: &Scenario,
    job: &Job,
    process: u32,
) -> usize {
    let Some(path) = &job.cgroup else { return 0 };
    match scenario.cgroups[path].copies {
        None => find_or_make_cgroup(tasks, path),
        // They were made right after it.
        Some(copies) => find_or_make_cgroup(tasks, path) + 1 + (process % copies) as usize,
    }
}

fn find_or_make_cgroup(tasks: &mut Tasks, path: &str) -> usize {
    if let Some(found) = tasks.cgroups.iter().position(|cgroup| cgroup.path == path) {
        return found;
    }
    let parent = path
        .rsplit_once('/')
        .map_or(0, |(parent, _)| find_or_make_cgroup(tasks, parent));
    let pressure = tasks.cgroups[parent].pressure;
    tasks
        .cgroups
        .push(Cgroup::new(path.into(), Some(parent), pressure));
    tasks.cgroups.len() - 1
}

/// The n-th of a kind, below `first`.
fn add_cgroup_copy(tasks: &mut Tasks, first: usize, n: u32) -> usize {
    let path = format!("{}/{n}", tasks.cgroups[first].path);
    let pressure = tasks.cgroups[first].pressure;
    tasks.cgroups.push(Cgroup::new(path, Some(first), pressure));
    tasks.cgroups.len() - 1
}
