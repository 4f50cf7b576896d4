// SPDX-License-Identifier: GPL-2.0-only
//! Putting everything back, whatever was made and however far a run has come. Doing it twice does
//! no harm.
//!
//! The order is that of use: processes, what they had mounted, what that was on, cgroups, and then
//! the ledger, latest entry first; only iocost, which would make all that slow, is switched off
//! before. The worker has ended when this begins, and with it the hold that made disks slow, so
//! that what is still to be written back to them takes a moment.

use crate::ledger::{self, LedgerEntry};
use crate::lock::Lock;
use crate::processes::Marked;
use crate::{CGROUP, RUN, modules, mounts, processes};
use anyhow::{Result, anyhow};
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A process that is killed ends when the disk has done what it waits for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Others may look at what was made (udev at a disk, a shell in a directory).
const SOON: Duration = Duration::from_secs(10);

/// Something that earlier runs have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver {
    /// No run has left anything.
    Nothing,
    /// Something, which is put back now.
    PutBack,
    /// A run goes on, or is being put back: it is let alone.
    GoesOn,
}

/// Puts back what runs that were killed have left.
///
/// # Errors
/// What could not be put back, and why.
pub fn clean_left_over() -> Result<LeftOver> {
    if !Path::new(RUN).exists() && !Path::new(CGROUP).exists() {
        return Ok(LeftOver::Nothing);
    }
    match Lock::take_lock(false)? {
        Some(lock) => clean_up(lock).map(|()| LeftOver::PutBack),
        None => Ok(LeftOver::GoesOn),
    }
}

/// Waits for the run to end, then does as [`clean_left_over`].
pub(crate) fn clean_after_keeper() -> Result<()> {
    match Lock::take_lock(true)? {
        Some(lock) => clean_up(lock),
        None => Ok(()),
    }
}

/// Puts everything back, and gives the lock up.
pub(crate) fn clean_up(lock: Lock) -> Result<()> {
    let mut left = Vec::new();
    let mut kept = Vec::new();
    let (first, last): (Vec<LedgerEntry>, Vec<LedgerEntry>) = ledger::latest_first()
        .into_iter()
        .partition(|entry| matches!(entry, LedgerEntry::Release { .. }));
    settle_entries(first, &mut kept, &mut left);
    // Also those that have left the environment behind, if they are in a cgroup of the run.
    let _ = fs::write(Path::new(CGROUP).join("cgroup.kill"), "1");
    if let Err(names) = processes::kill_marked(Marked::Others, PATIENCE) {
        left.push(format!("processes that do not end: {}", names.join(", ")));
    }
    left.extend(unmount_all());
    left.extend(remove_mapped_devices());
    if let Err(names) = processes::kill_marked(Marked::Disks, PATIENCE) {
        left.push(format!("processes that do not end: {}", names.join(", ")));
    }
    left.extend(remove_cgroups());
    settle_entries(last, &mut kept, &mut left);
    if left.is_empty() {
        for entry in fs::read_dir(RUN).into_iter().flatten().flatten() {
            let path = entry.path();
            // Nothing is mounted below any more.
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        if let Err(why) = lock.remove() {
            left.push(format!("{RUN}: {why}"));
        }
    } else {
        let _ = ledger::keep_entries(&kept);
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(anyhow!(
            "this is left of the run: {}; `weir run --on host --clean-up` tries again",
            left.join("; ")
        )),
    }
}

fn unmount_all() -> Option<String> {
    let below = |mount: &mounts::Mount| mount.at.starts_with(RUN);
    let mut busy = None;
    for mount in mounts::all_mounts()
        .iter()
        .rev()
        .filter(|mount| below(mount))
    {
        let done = retry_for_a_while(|| match umount2(&mount.at, MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) | Err(nix::errno::Errno::EINVAL) => Ok(()),
            Err(why) => Err(why),
        });
        if let Err(why) = done {
            // Processes that are still in there keep it, but no path leads to it any more.
            let _ = umount2(&mount.at, MntFlags::MNT_DETACH);
            busy = Some(format!("the mount {} is in use: {why}", mount.at.display()));
        }
    }
    busy
}

/// Removes device-mapper devices.
fn remove_mapped_devices() -> Option<String> {
    let mut left = None;
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = fs::read_to_string(entry.path().join("dm/name")).unwrap_or_default();
        let name = name.trim();
        if !name.starts_with("weir-run-") {
            continue;
        }
        let remove = || {
            let options = ["--noudevrules", "--noudevsync", "remove", name];
            runner::system::run(Command::new("dmsetup").args(options))
        };
        if let Err(why) = retry_for_a_while(remove) {
            left = Some(format!("the device {name}: {why:#}"));
        }
    }
    left
}

/// Removes the cgroups, the innermost first.
fn remove_cgroups() -> Option<String> {
    let mut all = vec![PathBuf::from(CGROUP)];
    let mut next = 0;
    while let Some(cgroup) = all.get(next).cloned() {
        let children = fs::read_dir(&cgroup).into_iter().flatten().flatten();
        all.extend(
            children
                .map(|entry| entry.path())
                .filter(|path| path.is_dir()),
        );
        next += 1;
    }
    let mut left = None;
    for cgroup in all.iter().rev() {
        if let Err(why) = retry_for_a_while(|| ignore_not_found(fs::remove_dir(cgroup))) {
            left = Some(format!("the cgroup {}: {why}", cgroup.display()));
        }
    }
    left
}

/// Puts entries back; what cannot be is kept, with why.
fn settle_entries(entries: Vec<LedgerEntry>, kept: &mut Vec<LedgerEntry>, left: &mut Vec<String>) {
    for entry in entries {
        if let Err(why) = put_back(&entry) {
            left.push(format!("{why:#}"));
            kept.push(entry);
        }
    }
}

fn put_back(entry: &LedgerEntry) -> Result<()> {
    match entry {
        // Without the file, or the device that the value is about, there is nothing to put back.
        LedgerEntry::Write { file, value } | LedgerEntry::Release { file, value } => {
            match fs::write(file, value) {
                Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
                Err(why) if why.raw_os_error() == Some(nix::libc::ENODEV) => Ok(()),
                written => {
                    written.map_err(|why| anyhow!("writing `{value}` to {}: {why}", file.display()))
                }
            }
        }
        LedgerEntry::Remove { directory } => ignore_not_found(fs::remove_dir_all(directory))
            .map_err(|why| anyhow!("removing {}: {why}", directory.display())),
        LedgerEntry::Unload { module } => {
            retry_for_a_while(|| match modules::try_unload(module)? {
                true => Ok(()),
                false => Err(anyhow!("the kernel module {module} is in use")),
            })
        }
    }
}

fn ignore_not_found(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Tries again for a while.
fn retry_for_a_while<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + SOON;
    loop {
        match attempt() {
            Err(why) if Instant::now() > deadline => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
            done => return done,
        }
    }
}
