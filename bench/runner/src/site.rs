// SPDX-License-Identifier: GPL-2.0-only
//! The site of a scenario: cgroups and disks of this machine that its names stand for.

use anyhow::{Context, Result};
use nix::sys::stat::{major, minor};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Cgroup, disks and scratch directory that a scenario runs in.
#[derive(Clone, Debug)]
pub struct Site {
    /// The directory of the cgroup below which the scenario's cgroups are made.
    pub cgroups: PathBuf,
    /// Disks, by their names.
    pub disks: BTreeMap<String, MountedDisk>,
    /// For results of fio and the like, on no disk that is measured.
    pub scratch: PathBuf,
}

/// A disk of the scenario, mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedDisk {
    /// Directory of the jobs' files.
    pub directory: PathBuf,
    /// The block device below, as cgroup files want it: `MAJOR:MINOR`.
    pub number: String,
}

impl Site {
    /// The directory of a cgroup path of the scenario.
    pub fn cgroup_directory(&self, path: &str) -> PathBuf {
        self.cgroups.join(path)
    }

    /// The disk that the scenario calls `name`.
    ///
    /// # Errors
    /// This place has no such disk.
    pub fn find_disk(&self, name: &str) -> Result<&MountedDisk> {
        let disk = self.disks.get(name);
        disk.with_context(|| format!("there is no disk {name} here"))
    }
}

impl MountedDisk {
    /// A block device, mounted at `directory`.
    ///
    /// # Errors
    /// There is no such device.
    pub fn new(directory: &Path, device: &Path) -> Result<MountedDisk> {
        let metadata = fs::metadata(device).with_context(|| format!("{}", device.display()))?;
        let number = metadata.rdev();
        Ok(MountedDisk {
            directory: directory.to_owned(),
            number: format!("{}:{}", major(number), minor(number)),
        })
    }

    /// Directory in `/sys` of the device that has the requests, a partition or a whole disk: below
    /// those of the device mapper.
    pub fn lowest_device(&self) -> PathBuf {
        let mut at = Path::new("/sys/dev/block").join(&self.number);
        while let Some(below) = only_entry(&at.join("slaves")) {
            at = below;
        }
        at
    }
}

/// The entry of a directory, if there is exactly one.
fn only_entry(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).ok()?.flatten();
    let entry = entries.next()?.path();
    entries.next().is_none().then_some(entry)
}
