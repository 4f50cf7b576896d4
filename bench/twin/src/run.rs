// SPDX-License-Identifier: GPL-2.0-only
//! Phase after phase, and what comes out.

mod measure;

use crate::host::SimHost;
use crate::mm::File;
use crate::mm::vmstat::Reclaimed;
use crate::mm::vmstat::Vmstat;
use crate::mm::xarray::Pages;
use crate::probe::Watched;
use crate::sched::psi::LostTime;
use crate::setup::{self, HostConfig, Refusal};
use crate::sim::clock::{MS, Ns, SECOND};
use crate::task::PhaseJob;
use crate::task::alloc::Mapped;
use crate::task::latency::Latencies;
use scenario::measured::summarize_dirty_stat;
use scenario::metric::{Figures, compute_metrics};
use scenario::model::{Arm, Filesystem, Phase, Scenario};
use std::collections::BTreeMap;

/// A process whose write has not returned this long after its time is taken for stuck, as in the
/// lab.
const SLACK: Ns = 5 * SECOND;
/// Events between two reports of how far a run is.
const TELL: u64 = 1 << 14;
/// Time that writing everything back may take.
const PATIENCE: Ns = 3600 * SECOND;

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResults {
    /// Figures by full name.
    pub metrics: Figures,
    /// Number of events in it.
    pub events: u64,
    /// Time that was simulated.
    pub simulated: Ns,
    /// Recording of each phase, if it was watched.
    pub watched: Vec<Watched>,
}

/// Runs one arm of a scenario; the same scenario and seed always come to the same.
///
/// # Errors
/// Everything in the scenario that the twin does not model, by key.
pub fn run(scenario: &Scenario, arm: Arm, seed: u64) -> Result<RunResults, Vec<Refusal>> {
    run_and_watch(scenario, arm, seed, WatchLevel::Nothing, &mut |_, _| {})
}

/// Records of a run besides its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchLevel {
    /// Figures alone are kept.
    Nothing,
    /// Levels and progress, a few times a second.
    Samples,
    /// These, and each pass through the throttle, which takes memory.
    Passes,
}

/// Runs one arm of a scenario, watched or not: it comes to the same. `tell` is told now and then in
/// which phase it is, and how much time was simulated.
///
/// # Errors
/// As for [`run`].
pub fn run_and_watch(
    scenario: &Scenario,
    arm: Arm,
    seed: u64,
    watch: WatchLevel,
    tell: &mut dyn FnMut(&str, Ns),
) -> Result<RunResults, Vec<Refusal>> {
    let config = setup::configure_host(scenario)?;
    let mut host = config.build_host(scenario, arm, seed);
    match watch {
        WatchLevel::Nothing => {}
        WatchLevel::Samples => host.probe.watch_samples(),
        WatchLevel::Passes => host.probe.watch_all(&mut host.tasks),
    }
    let begin = host.tasks.now;
    account_laid_out_files(&mut host, &config, scenario);
    let (mut figures, mut files) = (Figures::new(), BTreeMap::new());
    for phase in &scenario.phases {
        if phase.clean {
            host.write_back_all(PATIENCE);
        }
        for (path, knobs) in &phase.set {
            let tasks = &mut host.tasks;
            let index = tasks.cgroups.iter().position(|cgroup| cgroup.path == *path);
            if let (Some(index), Some(weir)) = (index, &mut tasks.weir) {
                for (file, value) in knobs {
                    let _ = setup::write_knob(&mut weir.groups[index], file, value);
                }
            }
        }
        host.tasks.weir_make_records();
        host.probe.begin_phase(&phase.name, &mut host.tasks);
        let mut tell = |now: Ns| tell(&phase.name, now - begin);
        let span = run_phase(&mut host, &config, scenario, phase, &mut files, &mut tell);
        let measured = measure::measure_phase(&host, &span, scenario, phase);
        figures.append(&mut compute_metrics(arm, &measured));
    }
    Ok(RunResults {
        metrics: figures,
        events: host.tasks.handled,
        simulated: host.tasks.now - begin,
        watched: host.probe.take_recordings(&mut host.tasks),
    })
}

/// All files but those that grow were written once before the first phase, job by job, file after
/// file, before a disk's bandwidth was bounded. What is left of that is who has completed how much,
/// and, if the scenario says how fast that went, what the kernel learnt: its pace, and from a file
/// that did not fit below freerun also what one writer may have.
fn account_laid_out_files(host: &mut SimHost, config: &HostConfig, scenario: &Scenario) {
    let tasks = &mut host.tasks;
    let (limit, background) = tasks.sysctl.dirty_levels(tasks.dirtyable_pages(), None);
    for phase in &scenario.phases {
        for (index, work) in config.works.iter().enumerate() {
            let Some(work) = work else { continue };
            let pages = work.file_pages();
            if pages > 0 && !work.grows && phase.jobs.contains(&scenario.jobs[index].name) {
                for process in 0..work.processes {
                    let wb = config.writeback_of_job(tasks, scenario, index, process);
                    tasks.count_completions(wb, pages);
                    if let Some(pace) = config.laid_out_at {
                        let throttled = pages > policy::arith::freerun_level(limit, background);
                        tasks.wbs[wb]
                            .rates
                            .apply_past_writing(pace, pages, throttled);
                    }
                }
            }
        }
    }
}

/// Counters, since the host began or over a phase.
struct Span {
    elapsed: Ns,
    /// Bytes written, by disk.
    written: Vec<u64>,
    /// By disk, what its requests took together.
    queued: Vec<Ns>,
    /// By group of tasks, the host first.
    pressure: Vec<LostTime>,
    reclaimed: Reclaimed,
    /// Only where pages are kept one by one.
    vmstat: Option<Vmstat>,
    flushers: Ns,
    /// By cgroup: pages that its flushers and those below have written.
    cleaned: Vec<u64>,
    /// By cgroup: tasks killed in it and those below.
    kills: Vec<u64>,
    /// `memory.dirty_stat` by cgroup.
    stats: Vec<BTreeMap<&'static str, u64>>,
}

/// Increase of each of `now` over `then`.
fn subtract_each<T>(now: &[T], then: &[T], since: impl Fn(&T, &T) -> T) -> Vec<T> {
    let both = now.iter().zip(then);
    both.map(|(now, then)| since(now, then)).collect()
}

impl Span {
    /// Counters of all that has happened so far.
    fn read_counters(host: &mut SimHost) -> Span {
        let tasks = &mut host.tasks;
        let now = tasks.now;
        tasks.psi.average_groups(now);
        Span {
            elapsed: now,
            written: tasks.devices.iter().map(|device| device.written).collect(),
            queued: tasks
                .devices
                .iter()
                .map(|device| device.time_in_queue(now))
                .collect(),
            pressure: tasks.psi.lost_by_group(),
            reclaimed: tasks.zone.reclaimed,
            vmstat: tasks.node.as_ref().map(|node| node.vmstat),
            flushers: tasks.flushers_cpu_time(),
            cleaned: tasks.pages_cleaned(),
            kills: tasks.cgroups.iter().map(|cgroup| cgroup.kills).collect(),
            stats: (0..tasks.cgroups.len())
                .map(|cgroup| tasks.dirty_stat(cgroup))
                .collect(),
        }
    }

    fn growth_since(&self, before: &Span) -> Span {
        Span {
            elapsed: (self.elapsed - before.elapsed).max(1),
            written: subtract_each(&self.written, &before.written, |now, then| now - then),
            queued: subtract_each(&self.queued, &before.queued, |now, then| now - then),
            pressure: subtract_each(&self.pressure, &before.pressure, LostTime::growth_since),
            reclaimed: self.reclaimed.growth_since(&before.reclaimed),
            vmstat: self
                .vmstat
                .zip(before.vmstat)
                .map(|(now, then)| now.growth_since(&then)),
            flushers: self.flushers - before.flushers,
            cleaned: subtract_each(&self.cleaned, &before.cleaned, |now, then| now - then),
            kills: subtract_each(&self.kills, &before.kills, |now, then| now - then),
            stats: subtract_each(&self.stats, &before.stats, |now, then| {
                summarize_dirty_stat(then, now)
            }),
        }
    }
}

/// Runs a phase; `files` are those that each job's processes had last.
fn run_phase(
    host: &mut SimHost,
    config: &HostConfig,
    scenario: &Scenario,
    phase: &Phase,
    files: &mut BTreeMap<(usize, usize), usize>,
    tell: &mut dyn FnMut(Ns),
) -> Span {
    let tasks = &mut host.tasks;
    let start = tasks.now;
    let mut nominal = 0;
    let first = tasks.tasks.len();
    tasks.jobs.clear();
    // The second half of the time in which all jobs run, as in the lab.
    let last = start + phase.delay_ms.values().max().copied().unwrap_or(0) * MS;
    let counts_from = last.midpoint(last + phase.duration_ms * MS);
    for (index, job) in scenario
        .jobs
        .iter()
        .enumerate()
        .filter(|(_, job)| phase.jobs.contains(&job.name))
    {
        let Some(work) = config.works[index].clone() else {
            continue;
        };
        let begins = start + phase.delay_ms.get(&job.name).copied().unwrap_or(0) * MS;
        let ends = begins + work.ramp + work.runtime.unwrap_or(phase.duration_ms * MS);
        nominal = nominal.max(ends);
        let (begins, ends) = (begins + tasks.machine.start, ends + tasks.machine.start);
        let pages = work.file_pages();
        let (processes, grows) = (work.processes, work.grows);
        let here = tasks.jobs.len();
        tasks.jobs.push(PhaseJob {
            work,
            latencies: Latencies::default(),
            syncs: Latencies::default(),
            bytes: 0,
            runtime: 0,
            each: vec![0; processes as usize],
            mapped: Mapped::default(),
            killed: false,
        });
        for number in 0..processes as usize {
            let wb = config.writeback_of_job(tasks, scenario, index, number as u32);
            let home = setup::find_or_make_home_cgroup(tasks, scenario, job, number as u32);
            let device = tasks.wbs[wb].device;
            let journal = &mut tasks.journals[device];
            let mut new = File::new(wb, home, journal.new_inode(), pages);
            new.large_folios = journal.has_large_folios();
            new.divide_into_buffers(match scenario.disks[device].filesystem {
                Filesystem::Ext4 => 1,
                Filesystem::Vfat => 8,
                _ => 0,
            });
            let is_fat = scenario.disks[device].filesystem == Filesystem::Vfat;
            new.fat = (grows && is_fat).then_some(0);
            if grows && journal.maps_at_writeback() {
                new.mapped = Some(Pages::new(pages));
            }
            tasks.files.push(new);
            let file = tasks.files.len() - 1;
            if let Some(before) = files.insert((index, number), file) {
                tasks.invalidate_clean(before);
            }
            tasks.start_task((here, number), (file, home), (begins, ends), counts_from);
        }
    }
    let holders = setup::phase_holders(scenario, phase, start, |path| {
        tasks.find_cgroup_or_root(path)
    });
    let ends = holders.iter().map(|holder| holder.ends);
    nominal = ends.fold(nominal, Ns::max);
    host.memory.start_phase(holders, tasks);
    tasks.wakes_preempt = tasks.jobs.iter().any(|job| job.work.sync.is_some());
    host.probe.start_sampling(tasks);
    let before = Span::read_counters(host);
    let mut steps = 0;
    while host.tasks.busy > 0 && host.run_next_event(nominal + SLACK) {
        steps += 1;
        if steps % TELL == 0 {
            tell(host.tasks.now);
        }
    }
    let span = Span::read_counters(host).growth_since(&before);
    host.probe.stop_sampling();
    let counted = host.tasks.now.saturating_sub(counts_from);
    for job in &mut host.tasks.jobs {
        job.mapped.elapsed = counted;
    }
    for index in first..host.tasks.tasks.len() {
        host.tasks.end_unfinished_task(index);
    }
    #[cfg(any(test, debug_assertions))]
    host.check_invariants(true);
    span
}
