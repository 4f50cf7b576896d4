// SPDX-License-Identifier: GPL-2.0-only
//! Files to start writeback of: those that processes of the cgroups with most dirty pages have open
//! for writing, on one disk.
//!
//! A tenant chooses what its descriptors refer to, and may change it at any moment. So each is pinned
//! by an `O_PATH` descriptor first, which asks nothing of a filesystem, and is opened only if it is a
//! regular file of a mount of that very disk: a FUSE server is never asked, a FIFO or device never
//! opened. A file with a lease is left alone, as opening it would break the lease.

use super::settings::AssistSettings;
use crate::flat_keyed::find_value;
use crate::tree::Hierarchy;
use knobs::Knob;
use nix::libc;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cgroups whose files are looked at; the others hold less than these.
const MOST_CGROUPS: usize = 8;
/// A cgroup that holds less than this part of the most is left to the kernel.
const PART: u64 = 16;
/// Descriptors of one process that are looked at, and files that are kept.
const MOST_DESCRIPTORS: usize = 1_024;
const MOST_FILES: usize = 4_096;

/// A descriptor of a process that is open for writing.
#[derive(Clone, Debug)]
pub struct Open {
    /// The descriptor's link, `/proc/PID/fd/N`: it leads to the file wherever that was moved.
    path: PathBuf,
    /// The process's mounts of the disk.
    mounts: Arc<BTreeSet<u64>>,
}

/// Files open for writing on the device, of the cgroups that hold most, most first.
pub fn find_files_of_dirtiest_writers(
    root: &Path,
    tree: &Hierarchy,
    settings: &AssistSettings,
    device: &str,
) -> Vec<Open> {
    let mut files = Vec::new();
    for process in dirtiest_processes(tree, settings) {
        let directory = root.join(format!("proc/{process}"));
        let mounts = Arc::new(mounts_of(root, &directory, device));
        if !mounts.is_empty() {
            add_descriptors(&directory, &mounts, &mut files);
        }
        if files.len() >= MOST_FILES {
            break;
        }
    }
    files
}

/// Processes of cgroups that have most dirty pages.
fn dirtiest_processes(tree: &Hierarchy, settings: &AssistSettings) -> Vec<u32> {
    let mut holders = Vec::new();
    tree.walk(tree.root(), |place| {
        let text = fs::read_to_string(place.directory.join("memory.stat")).unwrap_or_default();
        let dirty = find_value(&text, "file_dirty").unwrap_or(0);
        let is_root = place.path == "/";
        if has_window(&place.directory) {
            return false;
        }
        if !is_root && dirty > 0 && !settings.is_exempt(&place.path) {
            let text = fs::read_to_string(place.directory.join("cgroup.procs"));
            let processes: Vec<u32> = text
                .unwrap_or_default()
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect();
            if !processes.is_empty() {
                holders.push((dirty, processes));
            }
        }
        is_root || dirty > 0
    });
    holders.sort_by_key(|(dirty, _)| std::cmp::Reverse(*dirty));
    let most = holders.first().map_or(0, |(dirty, _)| *dirty);
    holders
        .into_iter()
        .take(MOST_CGROUPS)
        .filter(|(dirty, _)| *dirty >= most / PART)
        .flat_map(|(_, processes)| processes)
        .collect()
}

/// True if a window holds flushers there and below on purpose.
fn has_window(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join(Knob::WritebackBytes.file_name()));
    text.is_ok_and(|text| text.trim() != "max")
}

/// Numbers of the process's mounts whose filesystem lies on the disk, or on a partition of it.
fn mounts_of(root: &Path, process: &Path, device: &str) -> BTreeSet<u64> {
    let text = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let mut disks: BTreeMap<String, bool> = BTreeMap::new();
    let mut mounts = BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (number, of) = (words.next(), words.nth(1));
        let (Some(number), Some(of)) = (number.and_then(|word| word.parse().ok()), of) else {
            continue;
        };
        let on = disks.entry(of.to_owned());
        if *on.or_insert_with(|| of == device || disk_of(root, of).as_deref() == Some(device)) {
            mounts.insert(number);
        }
    }
    mounts
}

/// The disk of a partition.
fn disk_of(root: &Path, number: &str) -> Option<String> {
    let directory = fs::canonicalize(root.join("sys/dev/block").join(number)).ok()?;
    directory.join("partition").exists().then_some(())?;
    let disk = fs::read_to_string(directory.parent()?.join("dev")).ok()?;
    Some(disk.trim().to_owned())
}

/// Adds what the process with this directory has open for writing.
fn add_descriptors(process: &Path, mounts: &Arc<BTreeSet<u64>>, files: &mut Vec<Open>) {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten();
    for entry in entries.flatten().take(MOST_DESCRIPTORS) {
        let info = process.join("fdinfo").join(entry.file_name());
        let Ok(info) = fs::read_to_string(info) else {
            continue;
        };
        if files.len() < MOST_FILES && may_open(&info, mounts) && is_writable(&info) {
            files.push(Open {
                path: entry.path(),
                mounts: Arc::clone(mounts),
            });
        }
    }
}

fn find_field<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// Returns whether the file with this `fdinfo` is on one of the mounts, and has no lease.
fn may_open(info: &str, mounts: &BTreeSet<u64>) -> bool {
    let mount = find_field(info, "mnt_id:").and_then(|number| number.parse().ok());
    let has_lease = info
        .lines()
        .any(|line| line.starts_with("lock:") && line.contains(" LEASE "));
    mount.is_some_and(|mount| mounts.contains(&mount)) && !has_lease
}

fn is_writable(info: &str) -> bool {
    let flags = find_field(info, "flags:").and_then(|flags| i32::from_str_radix(flags, 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

impl Open {
    /// Opens the file, if it still is one of those that may be.
    pub fn open(&self) -> io::Result<Option<File>> {
        let pinned = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(&self.path)?;
        let own = |place: &str, fd: RawFd| format!("/proc/self/{place}/{fd}");
        let info = fs::read_to_string(own("fdinfo", pinned.as_raw_fd()))?;
        // The mount is known by now, so that asking for the type asks a disk's filesystem.
        if !may_open(&info, &self.mounts) || !pinned.metadata()?.is_file() {
            return Ok(None);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOATIME)
            .open(own("fd", pinned.as_raw_fd()))?;
        Ok(Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "pos:\t0\nflags:\t0100002\nmnt_id:\t27\nino:\t14\n";

    #[test]
    fn only_files_on_the_disk_that_are_open_for_writing_count() {
        let mounts = BTreeSet::from([27]);
        assert!(may_open(INFO, &mounts) && is_writable(INFO));
        assert!(!may_open(INFO, &BTreeSet::from([2])), "another mount");
        assert!(
            !is_writable(&INFO.replace("0100002", "0100000")),
            "read only"
        );
        let leased = format!("{INFO}lock:\t1: LEASE  ACTIVE    WRITE 81 fe:00:14 0 EOF\n");
        assert!(!may_open(&leased, &mounts), "opening breaks the lease");
        let locked = format!("{INFO}lock:\t1: FLOCK  ADVISORY  WRITE 81 fe:00:14 0 EOF\n");
        assert!(may_open(&locked, &mounts));
        assert!(!may_open("", &mounts) && !is_writable("flags:\tx\n"));
    }

    #[test]
    fn a_partitions_mounts_are_its_disks() {
        let dir = tempfile::tempdir().expect("made");
        let root = dir.path();
        let process = root.join("proc/5");
        fs::create_dir_all(&process).expect("made");
        let partition = root.join("sys/devices/sda/sda1");
        fs::create_dir_all(&partition).expect("made");
        fs::write(partition.join("partition"), "1\n").expect("written");
        fs::write(root.join("sys/devices/sda/dev"), "8:0\n").expect("written");
        fs::create_dir_all(root.join("sys/dev/block")).expect("made");
        let link = |number: &str, to: &Path| {
            std::os::unix::fs::symlink(to, root.join("sys/dev/block").join(number))
                .expect("linked");
        };
        link("8:1", &partition);
        link("8:0", partition.parent().expect("has one"));
        let text = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /proc rw - proc proc rw\n\
                    24 22 8:0 / /x rw - ext4 /dev/sda rw\n25 22 0:44 / /f rw - fuse x rw\nodd\n";
        fs::write(process.join("mountinfo"), text).expect("written");
        assert_eq!(mounts_of(root, &process, "8:0"), BTreeSet::from([22, 24]));
        assert_eq!(mounts_of(root, &process, "8:16"), BTreeSet::new());
    }

    #[test]
    fn what_is_no_file_of_the_disk_is_not_opened() {
        let dir = tempfile::tempdir().expect("made");
        let path = dir.path().join("file");
        let file = File::create(&path).expect("made");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
        let info = info.expect("read");
        let mount = find_field(&info, "mnt_id:").and_then(|number| number.parse().ok());
        let mounts = Arc::new(BTreeSet::from([mount.expect("has one")]));
        let of = |fd: RawFd, mounts: &Arc<BTreeSet<u64>>| Open {
            path: format!("/proc/self/fd/{fd}").into(),
            mounts: Arc::clone(mounts),
        };
        let opened = of(file.as_raw_fd(), &mounts).open();
        assert!(opened.expect("it is there").is_some());
        let elsewhere = Arc::new(BTreeSet::new());
        let opened = of(file.as_raw_fd(), &elsewhere).open();
        assert!(opened.expect("it is there").is_none(), "another mount");
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
        let end = OpenOptions::new().read(true).write(true).open(&fifo);
        let opened = of(end.expect("opened").as_raw_fd(), &mounts).open();
        assert!(
            opened.expect("it is there").is_none(),
            "opening a FIFO waits"
        );
    }

    #[test]
    fn those_that_hold_most_come_first() {
        let dir = tempfile::tempdir().expect("made");
        let cgroup = |name: &str, dirty: u64, processes: &str| {
            let directory = dir.path().join(name);
            fs::create_dir_all(&directory).expect("made");
            let text = format!("file 1\nfile_dirty {dirty}\n");
            fs::write(directory.join("memory.stat"), text).expect("written");
            fs::write(directory.join("cgroup.procs"), processes).expect("written");
        };
        cgroup(".", 0, "1\n");
        cgroup("a", 1_700_000, "");
        cgroup("a/b", 1_600_000, "7\n8\n");
        cgroup("c", 90_000, "9\n");
        cgroup("d", 4_096, "10\n");
        cgroup("db", 9_000_000, "11\n");
        cgroup("w", 9_000_000, "");
        cgroup("w/x", 9_000_000, "12\n");
        fs::write(dir.path().join("w/memory.writeback_bytes"), "1048576\n").expect("written");
        let tree = Hierarchy::open(dir.path()).expect("is one");
        let settings = crate::rules::Rules::parse("a", "[assist]\nexempt = [\"/db\"]\n");
        let settings = settings.expect("valid").assist;
        assert_eq!(dirtiest_processes(&tree, &settings), [7, 8]);
        cgroup("c", 100_000, "9\n");
        assert_eq!(dirtiest_processes(&tree, &settings), [7, 8, 9]);
    }
}
