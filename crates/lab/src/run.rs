// SPDX-License-Identifier: GPL-2.0-only
//! Running a scenario: one guest per arm and repeat.
//!
//! The two arms of a repeat run side by side when the host has a core for every emulated CPU, because a ratio
//! between them then shares the host's mood; otherwise, like repeats, one after the other: guests that wait for
//! each other's CPU time show latencies of the host. What is prepared (kernel, module,
//! userland) is prepared once, before the first guest.

use crate::cache::{Cache, source_tree};
use crate::disks::Disks;
use crate::emulator::Emulator;
use crate::kernel::{Kernel, KernelSpec};
use crate::prepare::{Contents, initramfs};
use crate::qemu::{self, FailedBoot, Machine};
use crate::verdict::{Outcome, Witness};
use crate::{Error, module};
use anyhow::{Context, Result, anyhow, bail};
use guest::protocol::{Event, PlanDisk, Work};
use runner::kept::Kept;
use scenario::metric::{Figures, metrics};
use scenario::model::{Arm, Job, Phase, Scenario};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// More than any build machine can emulate at a speed that says something.
const MOST_CPUS: u32 = 64;
/// Guests need about this long besides their phases: boot, mkfs, layout.
const OVERHEAD: Duration = Duration::from_secs(20);
/// Writing back before a phase takes as long as the disk needs; beyond this the guest is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// What to run.
pub struct RunRequest {
    /// The scenario to run.
    pub scenario: Scenario,
    /// As for `--kernel`.
    pub kernel: String,
    /// Arms to run it in.
    pub arms: Vec<Arm>,
    /// How often each.
    pub repeat: u32,
    /// Guests whose clock counts instructions, one nanosecond each; the scenario has to have one CPU.
    pub count_instructions: bool,
    /// Keep a recording of each phase, as `weir record` makes.
    pub record: bool,
    /// Where logs, results, samples and plans are kept; a directory in the cache if `None`.
    pub out: Option<PathBuf>,
    /// The binary that becomes the guests' process 1; the running one if `None`.
    pub init: Option<PathBuf>,
    /// Where kernels and the like are kept.
    pub cache: Cache,
}

/// What one guest came to.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Arm of the guest.
    pub arm: Arm,
    /// Counted from 0.
    pub repeat: u32,
    /// `uname -r`, or of the kernel that was to be booted if it did not get that far.
    pub kernel_release: String,
    /// What became of it.
    pub outcome: Outcome,
    /// By full name; of the phases that were completed.
    pub metrics: Figures,
    /// The console's log; the guest's other files are beside it.
    pub log: PathBuf,
    /// Seconds of wall-clock time.
    pub seconds: f64,
}

/// Told what goes on, from several threads.
pub trait Progress: Sync {
    /// Something is fetched or built before guests can start.
    fn preparing(&self, what: &str);
    /// A guest has come to another stage (`mkfs slow`) or phase. About `left` remains of the whole run.
    fn stage(&self, arm: Arm, repeat: u32, what: &str, left: Duration);
    /// A guest did not boot, and is booted again.
    fn failed_boot(&self, arm: Arm, repeat: u32, failed: &FailedBoot);
    /// A guest has ended.
    fn finished(&self, guest: &Guest);
}

/// Runs the scenario in every arm, `repeat` times.
///
/// # Errors
/// What kept the lab from starting guests at all. What happens to a guest is in its [`Outcome`].
pub fn run(request: &RunRequest, progress: &dyn Progress) -> Result<Vec<Guest>, Error> {
    let cache = &request.cache;
    let spec: KernelSpec = request.kernel.parse()?;
    let cpus = request.scenario.host.cpus;
    if cpus > MOST_CPUS {
        bail!(
            "a guest has at most {MOST_CPUS} CPUs, the scenario asks for {cpus}: run it on the twin"
        );
    }
    let mut cgroups = request.scenario.cgroups.iter();
    if let Some((path, _)) = cgroups.find(|(_, cgroup)| cgroup.copies.is_some()) {
        bail!("the lab makes no copies of cgroup {path}: run the scenario on the twin");
    }
    let mut jobs = request.scenario.jobs.iter();
    if let Some(job) = jobs.find(|job| job.network.is_some()) {
        bail!(
            "the lab has no network for job {} to receive over: run the scenario on the twin",
            job.name
        );
    }
    if request.count_instructions && (cpus > 1 || !request.scenario.tiers.is_empty()) {
        bail!("a guest that counts instructions has one CPU and memory of one kind");
    }
    let lock = cache.lock()?;
    let (kernel, weir, disks, emulator) = std::thread::scope(|scope| {
        // It comes through an apt root of its own, so beside the rest.
        let emulator = scope.spawn(|| {
            progress.preparing("the emulator");
            Emulator::get(cache)
        });
        progress.preparing(&format!("the kernel {}", request.kernel));
        let kernel = Kernel::get(cache, &spec)?;
        let mut weir = None;
        if request.arms.contains(&Arm::Weir) {
            progress.preparing(&format!("weir.ko for {}", kernel.release));
            let tree = source_tree().context(
                "weir's source tree is needed to build weir.ko for the guest: run from inside it",
            )?;
            weir = Some(module::module_for(cache, &kernel, &tree, &[])?);
        }
        progress.preparing("the guest's programs");
        crate::userland::archive(cache)?;
        let (packages, _) = extras(&request.scenario);
        if !packages.is_empty() {
            crate::packages::archive(cache, &packages)?;
        }
        let disks = disks(request, &kernel)?;
        Ok::<_, Error>((kernel, weir, disks, joined(emulator)?))
    })?;
    drop(lock);

    let directory = match &request.out {
        Some(out) => out.clone(),
        None => cache.run_directory(&request.scenario.name)?,
    };
    let lab = Lab {
        request,
        emulator,
        kernel,
        weir,
        disks,
        directory,
        progress,
        phases: phase_times(&request.scenario)?,
    };
    let wanted = request.arms.len() * request.scenario.host.cpus as usize;
    // Disks of their own fill guests' memory, and with that the host's.
    let each = request.scenario.host.memory_bytes + lab.disks.memory();
    let room = match lab.disks.memory() {
        0 => u64::MAX,
        _ => qemu::available_memory().unwrap_or(0),
    };
    if room < each {
        bail!(
            "a guest with its disks in its memory takes {} MiB, and {} MiB are available here",
            each >> 20,
            room >> 20
        );
    }
    let fits = room / each >= request.arms.len() as u64;
    let parallel =
        fits && std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= wanted);
    let mut guests = Vec::new();
    for repeat in 0..request.repeat {
        if parallel {
            let done: Vec<Result<Guest>> = std::thread::scope(|scope| {
                let threads: Vec<_> = request
                    .arms
                    .iter()
                    .map(|arm| scope.spawn(|| lab.guest(*arm, repeat)))
                    .collect();
                threads.into_iter().map(joined).collect()
            });
            guests.extend(done.into_iter().collect::<Result<Vec<_>>>()?);
        } else {
            for arm in &request.arms {
                guests.push(lab.guest(*arm, repeat)?);
            }
        }
    }
    Ok(guests)
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow!("a thread of the lab panicked")))
}

/// Packages and kernel modules a scenario needs besides what every guest has.
fn extras(scenario: &Scenario) -> (Vec<String>, Vec<String>) {
    if scenario.disks.iter().any(|disk| disk.encrypted) {
        let drivers = runner::disks::ENCRYPTION.map(str::to_owned);
        (vec!["dmsetup".to_owned()], drivers.into())
    } else {
        (Vec::new(), Vec::new())
    }
}

fn disks(request: &RunRequest, kernel: &Kernel) -> Result<Disks> {
    let disks = request.scenario.disks.iter().map(|disk| PlanDisk {
        name: disk.name.clone(),
        size: disk.size_bytes,
        filesystem: Some(disk.filesystem),
        mount_options: disk.mount_options.clone(),
        write_bandwidth: disk.write_bandwidth,
        read_bandwidth: disk.read_bandwidth,
        encrypted: disk.encrypted,
    });
    let own = request.count_instructions;
    Disks::get(&request.cache, kernel, disks.collect(), own)
}

/// What each phase of this scenario nominally takes.
fn phase_times(scenario: &Scenario) -> Result<Vec<Duration>> {
    let times = scenario
        .phases
        .iter()
        .map(|phase| phase_ms(scenario, phase).map(Duration::from_millis));
    times
        .collect::<Result<_, String>>()
        .map_err(|why| anyhow!(why))
}

fn phase_ms(scenario: &Scenario, phase: &Phase) -> Result<u64, String> {
    let jobs: Vec<&Job> = scenario
        .jobs
        .iter()
        .filter(|job| phase.jobs.contains(&job.name))
        .collect();
    runner::jobs::nominal_ms(&jobs, phase)
}

struct Lab<'a> {
    request: &'a RunRequest,
    emulator: Emulator,
    kernel: Kernel,
    weir: Option<PathBuf>,
    disks: Disks,
    directory: PathBuf,
    progress: &'a dyn Progress,
    /// What each phase takes.
    phases: Vec<Duration>,
}

impl Lab<'_> {
    /// Boots one guest and sees it through.
    fn guest(&self, arm: Arm, repeat: u32) -> Result<Guest> {
        let scenario = &self.request.scenario;
        let directory = self
            .directory
            .join(format!("{}-{}", arm.name(), repeat + 1));
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let (packages, drivers) = extras(scenario);
        let contents = Contents {
            disks: &self.disks,
            work: Work::Scenario {
                scenario: Box::new(scenario.clone()),
                arm,
                record: self.request.record,
            },
            script: None,
            module: self.weir.clone().filter(|_| arm == Arm::Weir),
            packages: &packages,
            drivers: &drivers,
            files: &[],
            init: self.request.init.as_deref(),
        };
        let initramfs = initramfs(
            &self.request.cache,
            &self.kernel,
            contents,
            Some(&directory.join("plan.json")),
        )?;
        let log = directory.join("console.log");
        let machine = Machine {
            emulator: &self.emulator,
            image: &self.kernel.image,
            initramfs,
            memory: scenario.host.memory_bytes + self.disks.memory(),
            tiers: &scenario.tiers,
            dimm: false,
            cpus: scenario.host.cpus,
            possible_cpus: scenario.host.cpus,
            drives: &self.disks.drives(),
            count_instructions: self.request.count_instructions,
            instrumented: self.kernel.is_instrumented(),
            append: "",
            console: &log,
            scratch: &directory,
        };
        let mut listener = Listener {
            lab: self,
            arm,
            repeat,
            record: Kept::create(&directory)?,
            witness: Witness::default(),
            figures: BTreeMap::new(),
            failure: None,
            over: 0,
        };
        let start = Instant::now();
        let limit = OVERHEAD
            + self.phases.iter().sum::<Duration>()
            + PATIENCE * u32::try_from(scenario.phases.len() + 1).unwrap_or(u32::MAX);
        let end = qemu::boot(machine, limit, &mut listener)?;
        let Listener {
            witness,
            figures,
            failure,
            ..
        } = listener;
        if let Some(error) = failure {
            return Err(error.context(format!("keeping results in {}", directory.display())));
        }
        let guest = Guest {
            arm,
            repeat,
            kernel_release: witness
                .release
                .clone()
                .unwrap_or_else(|| self.kernel.release.clone()),
            outcome: witness.outcome(&end, &log),
            metrics: figures,
            log,
            seconds: start.elapsed().as_secs_f64(),
        };
        self.progress.finished(&guest);
        Ok(guest)
    }

    /// Says what a guest does now; `phases` of its phases are over.
    fn tell(&self, arm: Arm, repeat: u32, what: &str, phases: usize) {
        let ahead: Duration = self.phases.iter().skip(phases).sum();
        let rounds = self.request.repeat - repeat - 1;
        let left = ahead + (OVERHEAD + self.phases.iter().sum::<Duration>()) * rounds;
        self.progress.stage(arm, repeat, what, left);
    }
}

/// Takes what one guest says.
struct Listener<'a> {
    lab: &'a Lab<'a>,
    arm: Arm,
    repeat: u32,
    record: Kept,
    witness: Witness,
    figures: Figures,
    /// The first time that something could not be kept.
    failure: Option<anyhow::Error>,
    /// Phases that are over.
    over: usize,
}

impl qemu::Listener for Listener<'_> {
    fn event(&mut self, event: Event) {
        if let Err(error) = self.record.keep(&event) {
            self.failure.get_or_insert(error);
        }
        let tell = |what: &str| self.lab.tell(self.arm, self.repeat, what, self.over);
        match &event {
            Event::Stage { text } => tell(text),
            Event::PhaseStart { phase } => tell(phase),
            Event::PhaseEnd(result) => {
                self.over += 1;
                self.figures.extend(metrics(self.arm, &result.measured()));
            }
            _ => {}
        }
        self.witness.note(&event);
    }

    fn failed_boot(&mut self, failed: &FailedBoot) {
        self.lab.progress.failed_boot(self.arm, self.repeat, failed);
    }
}
