// SPDX-License-Identifier: GPL-2.0-only
//! Booted guests, saved: a boot takes some ten seconds of CPU time, and is the same for all guests
//! of a kernel with as much memory and as many CPUs. Each run continues one, with its own disks and
//! its own work as new devices.
//!
//! Only guests that count instructions: their clock stands still while they are saved.

use super::images::free_bytes;
use super::{End, Listener, Machine, Patience, Start, boot_with_retries};
use crate::cache::Cache;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The name of the file in a directory of its own. Of a guest with 1 GiB it takes 250 MiB.
const STATE: &str = "state";
/// That many are kept, those used last.
const MOST: usize = 12;

/// Free space, in bytes, below which guests boot each time: all that are kept may take as much.
const LEAST_ROOM: u64 = 4 << 30;

/// Is there room in the cache to save guests?
pub(super) fn has_room(cache: &Cache) -> Result<bool> {
    Ok(free_bytes(&cache.path_below(""))? >= LEAST_ROOM)
}

/// The state of such a machine when it had booted, made first if necessary, or how it ended instead.
pub(super) fn get_booted_state(
    machine: &Machine<'_>,
    limit: Duration,
    patience: Patience,
    listener: &mut dyn Listener,
) -> Result<Result<File, End>> {
    let mut failed = None;
    let directory = machine
        .cache
        .make_directory(&snapshot_name(machine)?, |into| {
            remove_old_snapshots(&machine.cache.path_below("snapshots"))?;
            let path = into.join(STATE);
            let state = File::create(&path).with_context(|| format!("{}", path.display()))?;
            let start = Start::Save(machine.base.write_initramfs(machine.scratch, None)?, &state);
            let bare = Machine {
                drives: &[],
                disk_memory: &[],
                ..*machine
            };
            let end = boot_with_retries(&bare, &start, limit, patience, listener);
            match end.with_context(|| format!("saving a booted guest in {}", path.display()))? {
                End::Complete if state.metadata()?.len() == 0 => {
                    bail!("the guest's process 1 does not wait for work: build that weir again")
                }
                End::Complete => Ok(()),
                end => {
                    failed = Some(end);
                    bail!("the guest did not boot")
                }
            }
        });
    match (directory, failed) {
        (_, Some(end)) => Ok(Err(end)),
        (directory, None) => {
            let directory = directory?;
            let used = File::open(&directory).and_then(|file| file.set_modified(SystemTime::now()));
            used.with_context(|| format!("{}", directory.display()))?;
            let path = directory.join(STATE);
            let state = File::open(&path).with_context(|| format!("{}", path.display()))?;
            Ok(Ok(state))
        }
    }
}

/// Named after all that decides what a boot comes to.
fn snapshot_name(machine: &Machine<'_>) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    let program = machine.emulator.program_path();
    let here = std::env::current_exe().context("finding weir's own binary")?;
    let files = [machine.image, &program, &here].into_iter();
    for path in files.chain(machine.base.files().map(PathBuf::as_path)) {
        let metadata = fs::metadata(path).with_context(|| format!("{}", path.display()))?;
        (path, metadata.len(), metadata.modified()?).hash(&mut hasher);
    }
    (machine.memory, machine.cpus, machine.possible_cpus).hash(&mut hasher);
    (machine.dimm, machine.instrumented, machine.append).hash(&mut hasher);
    format!("{:?}", machine.tiers).hash(&mut hasher);
    Ok(format!("snapshots/{:016x}", hasher.finish()))
}

/// Removes those that were not used for the longest time, to make room for another. Two weirs may
/// tidy up at once: what is gone is gone.
fn remove_old_snapshots(snapshots: &Path) -> Result<()> {
    let entries = fs::read_dir(snapshots).with_context(|| format!("{}", snapshots.display()))?;
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            // What is being made has another name.
            let made = path.extension().is_none();
            made.then_some((fs::metadata(&path).ok()?.modified().ok()?, path))
        })
        .collect();
    all.sort();
    for (_, path) in all.iter().rev().skip(MOST - 1) {
        // Whatever continues from it has it open.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}
