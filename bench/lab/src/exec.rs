// SPDX-License-Identifier: GPL-2.0-only
//! Running a script in a guest.

use crate::cache::{Cache, source_tree};
use crate::disks::Disks;
use crate::emulator::Emulator;
use crate::kernel::Kernel;
use crate::kernel_spec::KernelSpec;
use crate::patched_kernel::{Asked, Bench, Side};
use crate::prepare::{Base, Contents, write_work};
use crate::qemu::{self, FailedBoot, Machine};
use crate::verdict::Witness;
use crate::{Error, module};
use anyhow::{Context, ensure};
use guest::protocol::{Event, GuestDisk, OUT, Work};
use scenario::executor::Outcome;
use scenario::model::{Filesystem, Tier};
use scenario::rundir::decode_part;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// A disk for a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptDisk {
    /// Linked as `/dev/weir/<name>` in the guest.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Made and mounted at `/mnt/<name>`, or left blank.
    pub filesystem: Option<Filesystem>,
    /// Bytes per second, or as fast as it goes.
    pub write_bandwidth: Option<u64>,
}

/// A script to run, and the guest to run it in.
#[derive(Clone, Debug)]
pub struct ScriptRequest {
    /// The kernel, as for `--kernel`.
    pub kernel: String,
    /// Builds a kernel of that one's source instead, with patches.
    pub build: Option<Asked>,
    /// RAM in bytes, where there are no tiers.
    pub memory: u64,
    /// Kinds of memory, fastest first; the guest's memory is their sum.
    pub tiers: Vec<Tier>,
    /// The last of them is a DIMM that the guest can take offline whole, and out.
    pub dimm: bool,
    /// Number of CPUs.
    pub cpus: u32,
    /// CPUs that the kernel makes per-CPU data for, if more than there are.
    pub possible_cpus: u32,
    /// Disks of the guest, in order.
    pub disks: Vec<ScriptDisk>,
    /// Files of the host, and their absolute paths in the guest.
    pub files: Vec<(PathBuf, String)>,
    /// More of the distribution's packages to put into the guest.
    pub packages: Vec<String>,
    /// More of the kernel's modules to put into the guest.
    pub drivers: Vec<String>,
    /// Counts instructions instead of time; see `Machine`.
    pub count_instructions: bool,
    /// More kernel command line.
    pub append: String,
    /// The script, on the host; run by the guest's busybox sh.
    pub script: PathBuf,
    /// Arguments of the script.
    pub args: Vec<String>,
    /// Environment of the script.
    pub env: BTreeMap<String, String>,
    /// After this long the guest is ended.
    pub limit: Duration,
    /// Builds weir.ko from the source tree and puts it at `/weir.ko`, if there is a module to
    /// build.
    pub module: bool,
    /// `NAME=VALUE` for the make that builds it.
    pub make: Vec<String>,
    /// Folders with a Kbuild of their own, for tests; the modules made of them are put at `/`.
    pub modules: Vec<PathBuf>,
    /// The binary that becomes the guest's process 1; the running one if `None`.
    pub init: Option<PathBuf>,
    /// Folder for what the script leaves in [`OUT`].
    pub out: Option<PathBuf>,
    /// The store of kernels and the like.
    pub cache: Cache,
}

/// The outcome of a script.
#[derive(Clone, Debug)]
pub struct ScriptResult {
    /// `uname -r`, if the guest got that far.
    pub kernel_release: Option<String>,
    /// The script's exit status, if it ended.
    pub status: Option<i32>,
    /// About the guest, not the script: a script that ends with 1 in a healthy guest is `Done`.
    pub outcome: Outcome,
    /// The console's log.
    pub log: PathBuf,
    /// Wall-clock seconds from the start of QEMU.
    pub seconds: f64,
}

/// A message while a guest runs.
pub enum Said<'a> {
    /// A line of the script's output.
    Line(&'a str),
    /// The guest did not boot and is booted again; no script has begun by then.
    FailedBoot(&'a FailedBoot),
    /// A thing that is being made and takes time.
    Preparing(&'a str),
}

struct Listener<'a> {
    witness: Witness,
    out: Option<&'a Path>,
    /// Files that were begun.
    begun: BTreeSet<String>,
    /// The first file that could not be kept.
    failure: Option<anyhow::Error>,
    on_said: &'a mut dyn FnMut(Said<'_>),
}

impl qemu::Listener for Listener<'_> {
    fn event(&mut self, event: Event) {
        if let Event::Line { text } = &event {
            (self.on_said)(Said::Line(text));
        }
        if let (Event::File { path, base64 }, Some(out)) = (&event, self.out) {
            let is_new = self.begun.insert(path.clone());
            if let Err(error) = keep_file(out, path, base64, is_new) {
                self.failure.get_or_insert(error);
            }
            return;
        }
        self.witness.record_event(&event);
    }

    fn failed_boot(&mut self, failed: &FailedBoot) {
        (self.on_said)(Said::FailedBoot(failed));
    }
}

/// Keeps a part of a guest's file. What a guest says is not trusted to name a place.
fn keep_file(out: &Path, path: &str, base64: &str, is_new: bool) -> anyhow::Result<()> {
    let below = Path::new(path);
    let is_plain = below
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        is_plain && !path.is_empty(),
        "`{path}` is no place below {OUT}"
    );
    let part = decode_part(base64)?;
    let file = out.join(below);
    let why = || format!("keeping {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(out)).with_context(why)?;
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(is_new)
        .append(!is_new)
        .open(&file)
        .with_context(why)?;
    Ok(file.write_all(&part)?)
}

/// Boots a guest, runs the script in it and hands its output over line by line.
pub fn run_script(
    request: &ScriptRequest,
    on_said: &mut dyn FnMut(Said<'_>),
) -> Result<ScriptResult, Error> {
    let cache = &request.cache;
    let spec: KernelSpec = request.kernel.parse()?;
    let built = match &request.build {
        Some(asked) => {
            let said = std::cell::RefCell::new(&mut *on_said);
            let say = |what: &str| (said.borrow_mut())(Said::Preparing(what));
            Some(Bench::open(cache, &spec, asked, None)?.get_kernel(Side::Patched, &say)?)
        }
        None => None,
    };
    let lock = cache.lock()?;
    let kernel = match built {
        Some(kernel) => kernel,
        None => Kernel::get(cache, &spec)?,
    };
    let emulator = Emulator::get(cache, kernel.arch)?;
    let module = match source_tree().filter(|tree| request.module && module::has_module(tree)) {
        Some(tree) => Some(module::build_weir_module(
            cache,
            &kernel,
            &tree,
            &request.make,
        )?),
        None => None,
    };
    let mut files = request.files.clone();
    for folder in &request.modules {
        for module in module::build_modules_in(cache, &kernel, folder)? {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("/{name}");
            files.push((module, place));
        }
    }
    let script = std::fs::read(&request.script)
        .with_context(|| format!("cannot read the script {}", request.script.display()))?;
    let disks = request.disks.iter().map(|disk| GuestDisk {
        encrypted: false,
        submit_bandwidth: None,
        name: disk.name.clone(),
        size: disk.size,
        filesystem: disk.filesystem,
        mount_options: None,
        write_bandwidth: disk.write_bandwidth,
        read_bandwidth: None,
    });
    let disks = Disks::get(cache, &kernel, disks.collect(), request.count_instructions)?;
    let contents = Contents {
        disks: &disks,
        work: Work::Script {
            args: request.args.clone(),
            env: request.env.clone(),
            out: request.out.is_some(),
        },
        script: Some(script),
        module,
        packages: &request.packages,
        drivers: &request.drivers,
        files: &files,
    };
    let base = Base::for_kernel(cache, &kernel, request.init.as_deref())?;
    let work = write_work(cache, &kernel, contents, None)?;
    drop(lock);

    let directory = cache.run_directory("exec")?;
    let log = directory.join("console.log");
    let machine = Machine {
        emulator: &emulator,
        image: &kernel.image,
        base: &base,
        work: &work,
        cache,
        memory: match request.tiers.as_slice() {
            [] => request.memory,
            tiers => tiers.iter().map(|tier| tier.size_bytes).sum(),
        },
        tiers: &request.tiers,
        dimm: request.dimm,
        cpus: request.cpus,
        possible_cpus: request.possible_cpus,
        drives: &disks.drives(),
        disk_memory: &disks.memory_sizes(),
        count_instructions: request.count_instructions,
        instrumented: kernel.is_instrumented(),
        append: &request.append,
        console: &log,
        scratch: &directory,
    };
    let start = Instant::now();
    let mut listener = Listener {
        witness: Witness::default(),
        out: request.out.as_deref(),
        begun: BTreeSet::new(),
        failure: None,
        on_said,
    };
    let end = qemu::boot(machine, request.limit, &mut listener)?;
    let Listener {
        witness, failure, ..
    } = listener;
    if let Some(error) = failure {
        return Err(error);
    }
    let mut outcome = witness.judge_outcome(&end, &log);
    if outcome == Outcome::Done && witness.status.is_none() {
        outcome = Outcome::Inconclusive(format!("the script did not end; see {}", log.display()));
    }
    Ok(ScriptResult {
        kernel_release: witness.release,
        status: witness.status,
        outcome,
        log,
        seconds: start.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::rundir::encode_part;

    #[test]
    fn files_are_kept_below_the_folder_and_nowhere_else() {
        let out = tempfile::tempdir().expect("made");
        let part = |path: &str, text: &str, is_new| {
            keep_file(out.path(), path, &encode_part(text.as_bytes()), is_new)
        };
        part("a/b", "old and long", true).expect("kept");
        part("a/b", "new", true).expect("kept");
        part("a/b", "er", false).expect("kept");
        let kept = fs::read_to_string(out.path().join("a/b")).expect("there");
        assert_eq!(kept, "newer");
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(part(path, "", true).is_err(), "{path}");
        }
    }
}
