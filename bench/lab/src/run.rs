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
use crate::kernel::Kernel;
use crate::kernel_spec::KernelSpec;
use crate::module;
use crate::patched_kernel::{Asked, Bench, Side};
use crate::prepare::{Base, Contents, write_work};
use crate::qemu::{self, FailedBoot, Machine};
use crate::verdict::Witness;
use anyhow::{Context, Result, anyhow, bail};
use guest::protocol::{Event, GuestDisk, Work};
use runner::system::read_meminfo;
use scenario::executor::{self, Executor, Progress, Refusal, Request, Run};
use scenario::metric::{Figures, compute_metrics};
use scenario::model::{Arm, Disk, Scenario};
use scenario::place::{self, Place};
use scenario::rundir::{About, RunFiles};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// More than any build machine can emulate at a speed that says something.
const MOST_CPUS: u32 = 64;
/// Guests need about this long besides their phases: boot, mkfs, layout.
const OVERHEAD: Duration = Duration::from_secs(20);
/// Writing back before a phase takes as long as the disk needs; beyond this the guest is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// The lab as a place where scenarios run.
pub struct Lab {
    /// The kernel, as for `--kernel`.
    pub kernel: String,
    /// Builds the kernels of the arms instead, of that kernel's source: arm `patched` with the
    /// patches, the others without.
    pub build: Option<Asked>,
    /// Guests whose clock counts instructions, one nanosecond each; the scenario has to have one CPU.
    pub count_instructions: bool,
    /// The binary that becomes the guests' process 1; the running one if `None`.
    pub init: Option<PathBuf>,
    /// The store of kernels and the like; runs too, if they are asked for nowhere else.
    pub cache: Cache,
}

/// The parts of `scenario` that no guest can honour.
pub fn list_refusals(scenario: &Scenario, count_instructions: bool) -> Vec<Refusal> {
    let mut refused = place::refused_keys(scenario, Place::Lab);
    let mut refuse = |key: &str, what: String| refused.push(Refusal::new(key, what));
    let cpus = scenario.host.cpus;
    if cpus > MOST_CPUS {
        refuse(
            "host.cpus",
            format!(
                "a guest has at most {MOST_CPUS} CPUs, the scenario asks for {cpus}: run it on the twin"
            ),
        );
    }
    let counts = "a guest that counts instructions has one CPU and memory of one kind";
    if count_instructions && cpus > 1 {
        refuse("host.cpus", counts.into());
    }
    if count_instructions && !scenario.tiers.is_empty() {
        refuse("tier", counts.into());
    }
    refused
}

impl Executor for Lab {
    fn find_refusals(&self, scenario: &Scenario) -> Vec<Refusal> {
        list_refusals(scenario, self.count_instructions)
    }

    fn run(&self, request: &Request, progress: &dyn Progress) -> Result<Vec<Run>, executor::Error> {
        let refused = self.find_refusals(request.scenario);
        if !refused.is_empty() {
            return Err(executor::Error::Refused(refused));
        }
        Ok(run(self, request, progress)?)
    }
}

fn run(place: &Lab, request: &Request, progress: &dyn Progress) -> Result<Vec<Run>> {
    let cache = &place.cache;
    let spec: KernelSpec = place.kernel.parse()?;
    // Before anything is fetched.
    let tree = match request.arms.contains(&Arm::Weir) {
        true => Some(source_tree().context(
            "weir's source tree is needed to build weir.ko for the guest: run from inside it, or with `--arm stock`, `--on twin` or `--on host`",
        )?),
        false => None,
    };
    let built = match &place.build {
        Some(asked) => build_kernels(cache, &spec, asked, request, progress)?,
        None => BTreeMap::new(),
    };
    let lock = cache.lock()?;
    let (kernels, weir, disks, emulator) = std::thread::scope(|scope| {
        // It comes through an apt root of its own, so beside the rest.
        let emulator = scope.spawn(|| {
            progress.report_preparation("the emulator");
            Emulator::get(cache, spec.arch())
        });
        let mut kernels = built;
        if kernels.is_empty() {
            progress.report_preparation(&format!("the kernel {}", place.kernel));
            let kernel = Kernel::get(cache, &spec)?;
            kernels.extend(request.arms.iter().map(|arm| (*arm, kernel.clone())));
        }
        let mut weir = None;
        if let (Some(tree), Some(kernel)) = (&tree, kernels.get(&Arm::Weir)) {
            progress.report_preparation(&format!("weir.ko for {}", kernel.release));
            weir = Some(module::build_weir_module(cache, kernel, tree, &[])?);
        }
        progress.report_preparation("the guest's programs");
        crate::userland::make_archive(cache, spec.arch())?;
        let (packages, _) = needed_extras(request.scenario);
        if !packages.is_empty() {
            crate::packages::make_archive(cache, spec.arch(), &packages)?;
        }
        let mut disks = BTreeMap::new();
        for (arm, kernel) in &kernels {
            disks.insert(*arm, prepare_disks(place, request.scenario, kernel)?);
        }
        Ok::<_, anyhow::Error>((kernels, weir, disks, join_thread(emulator)?))
    })?;
    drop(lock);

    let directory = match request.out {
        Some(out) => out.to_owned(),
        None => cache.run_directory(&request.scenario.name)?,
    };
    let lab = Guests {
        place,
        request,
        emulator,
        kernels,
        weir,
        disks,
        directory,
        progress,
        phases: runner::jobs::phase_times(request.scenario)?,
    };
    let wanted = request.arms.len() * request.scenario.host.cpus as usize;
    // What guests write to disks that they make themselves fills the host's memory.
    let one = lab.disks.values().next().map(Disks::memory_sizes);
    let in_memory: u64 = one.unwrap_or_default().iter().sum();
    let each = request.scenario.host.memory_bytes + in_memory;
    let room = match in_memory {
        0 => u64::MAX,
        _ => read_meminfo("MemAvailable:").unwrap_or(0),
    };
    if room < each {
        bail!(
            "a guest with its disks in memory takes up to {} MiB, and {} MiB are available here",
            each >> 20,
            room >> 20
        );
    }
    let fits = room / each >= request.arms.len() as u64;
    let parallel =
        fits && std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= wanted);
    let mut runs = Vec::new();
    for repeat in 0..request.repeat {
        if parallel {
            let done: Vec<Result<Run>> = std::thread::scope(|scope| {
                let threads: Vec<_> = request
                    .arms
                    .iter()
                    .map(|arm| scope.spawn(|| lab.run_guest(*arm, repeat)))
                    .collect();
                threads.into_iter().map(join_thread).collect()
            });
            runs.extend(done.into_iter().collect::<Result<Vec<_>>>()?);
        } else {
            for arm in request.arms {
                runs.push(lab.run_guest(*arm, repeat)?);
            }
        }
    }
    Ok(runs)
}

/// The kernel of each arm, built of the source of `spec`'s series.
fn build_kernels(
    cache: &Cache,
    spec: &KernelSpec,
    asked: &Asked,
    request: &Request,
    progress: &dyn Progress,
) -> Result<BTreeMap<Arm, Kernel>> {
    progress.report_preparation("the kernel's source");
    let bench = Bench::open(cache, spec, asked, Some(request.scenario))?;
    let mut kernels = BTreeMap::new();
    for arm in request.arms {
        let side = match arm {
            Arm::Stock | Arm::Weir => Side::Stock,
            Arm::Patched => Side::Patched,
        };
        let kernel = bench.get_kernel(side, &|what| progress.report_preparation(what))?;
        kernels.insert(*arm, kernel);
    }
    Ok(kernels)
}

fn join_thread<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow!("a thread of the lab panicked")))
}

/// Packages and kernel modules a scenario needs besides what every guest has.
fn needed_extras(scenario: &Scenario) -> (Vec<String>, Vec<String>) {
    let any = |has: fn(&Disk) -> bool| scenario.disks.iter().any(has);
    let (encrypted, submit) = (
        any(|disk| disk.encrypted),
        any(|disk| disk.submit_bandwidth.is_some()),
    );
    let mapper = (encrypted || submit).then(|| "dmsetup".to_owned());
    let ciphers = runner::disks::ENCRYPTION.iter().filter(|_| encrypted);
    let drivers = ciphers.chain(["dm_mod"].iter().filter(|_| submit));
    let drivers = drivers.map(|name| (*name).to_owned());
    (mapper.into_iter().collect(), drivers.collect())
}

fn prepare_disks(place: &Lab, scenario: &Scenario, kernel: &Kernel) -> Result<Disks> {
    let disks = scenario.disks.iter().map(|disk| GuestDisk {
        name: disk.name.clone(),
        size: disk.size_bytes,
        filesystem: Some(disk.filesystem),
        mount_options: disk.mount_options.clone(),
        write_bandwidth: disk.write_bandwidth,
        read_bandwidth: disk.read_bandwidth,
        encrypted: disk.encrypted,
        submit_bandwidth: disk.submit_bandwidth,
    });
    let own = place.count_instructions;
    Disks::get(&place.cache, kernel, disks.collect(), own)
}

/// All guests of a request.
struct Guests<'a> {
    place: &'a Lab,
    request: &'a Request<'a>,
    emulator: Emulator,
    kernels: BTreeMap<Arm, Kernel>,
    weir: Option<PathBuf>,
    disks: BTreeMap<Arm, Disks>,
    directory: PathBuf,
    progress: &'a dyn Progress,
    /// The time that each phase takes.
    phases: Vec<Duration>,
}

impl Guests<'_> {
    /// Boots one guest and sees it through.
    fn run_guest(&self, arm: Arm, repeat: u32) -> Result<Run> {
        let scenario = self.request.scenario;
        let (kernel, disks) = (self.kernels.get(&arm), self.disks.get(&arm));
        let (kernel, disks) = kernel.zip(disks).context("an arm without a kernel")?;
        let directory = self
            .directory
            .join(format!("{}-{}", arm.name(), repeat + 1));
        let about = About::started_now(self.request, arm, repeat, Place::Lab);
        let record = RunFiles::create(&directory, about)?;
        let (packages, drivers) = needed_extras(scenario);
        let contents = Contents {
            disks,
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
        };
        let cache = &self.place.cache;
        let base = Base::for_kernel(cache, kernel, self.place.init.as_deref())?;
        let config = directory.join("guest.json");
        let work = write_work(cache, kernel, contents, Some(&config))?;
        let log = directory.join("console.log");
        let machine = Machine {
            emulator: &self.emulator,
            image: &kernel.image,
            base: &base,
            work: &work,
            cache,
            memory: scenario.host.memory_bytes,
            tiers: &scenario.tiers,
            dimm: false,
            cpus: scenario.host.cpus,
            possible_cpus: scenario.host.cpus,
            drives: &disks.drives(),
            disk_memory: &disks.memory_sizes(),
            count_instructions: self.place.count_instructions,
            instrumented: kernel.is_instrumented(),
            append: "",
            console: &log,
            scratch: &directory,
        };
        let mut listener = Listener {
            lab: self,
            arm,
            repeat,
            record,
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
        let run = Run {
            arm,
            repeat,
            kernel: witness
                .release
                .clone()
                .unwrap_or_else(|| kernel.release.clone()),
            outcome: witness.judge_outcome(&end, &log),
            metrics: figures,
            log: Some(log),
            seconds: start.elapsed().as_secs_f64(),
        };
        self.progress.report_finished_run(&run);
        Ok(run)
    }

    /// Says what a guest does now; `phases` of its phases are over.
    fn report_progress(&self, arm: Arm, repeat: u32, what: &str, phases: usize) {
        let ahead: Duration = self.phases.iter().skip(phases).sum();
        let rounds = self.request.repeat - repeat - 1;
        let left = ahead + (OVERHEAD + self.phases.iter().sum::<Duration>()) * rounds;
        self.progress.report_stage(arm, repeat, what, left);
    }
}

/// Takes what one guest says.
struct Listener<'a> {
    lab: &'a Guests<'a>,
    arm: Arm,
    repeat: u32,
    record: RunFiles,
    witness: Witness,
    figures: Figures,
    /// The first time that something could not be kept.
    failure: Option<anyhow::Error>,
    /// Phases that are over.
    over: usize,
}

impl qemu::Listener for Listener<'_> {
    fn event(&mut self, event: Event) {
        if let Err(error) = self.record.write_event(&event) {
            self.failure.get_or_insert(error);
        }
        let tell = |what: &str| {
            self.lab
                .report_progress(self.arm, self.repeat, what, self.over)
        };
        match &event {
            Event::Stage { text } => tell(text),
            Event::Line { text } => {
                let progress = self.lab.progress;
                progress.report_note(self.arm, self.repeat, text);
            }
            Event::PhaseStart { phase } => tell(phase),
            Event::PhaseEnd(result) => {
                self.over += 1;
                self.figures
                    .extend(compute_metrics(self.arm, &result.to_measured()));
            }
            _ => {}
        }
        self.witness.record_event(&event);
    }

    fn failed_boot(&mut self, failed: &FailedBoot) {
        let said = failed.to_string();
        self.lab.progress.report_note(self.arm, self.repeat, &said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submitting_may_cost_in_guests_with_any_clock() {
        let text = "title = \"x\"\n[host]\nmemory = \"1G\"\ncpus = 4\n\
                    [[disk]]\nname = \"d\"\nsize = \"1G\"\nfilesystem = \"ext4\"\nsubmit_bandwidth = \"8M/s\"\n\
                    [cgroup.a]\n[[job]]\nname = \"j\"\ncgroup = \"a\"\nfio = { rw = \"write\", size = \"1m\" }\n\
                    [[phase]]\nname = \"p\"\njobs = [\"j\"]\nduration = \"5s\"\n";
        let mut scenario = scenario::parse("x", "a.toml", text).expect("valid");
        assert_eq!(list_refusals(&scenario, false), []);
        assert_eq!(list_refusals(&scenario, true).len(), 1, "four CPUs");
        scenario.host.cpus = 1;
        assert_eq!(list_refusals(&scenario, true), []);
    }
}
