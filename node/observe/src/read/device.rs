// SPDX-License-Identifier: GPL-2.0-only
//! Devices as writeback sees them.
//!
//! Writeback knows a disk, whichever of its partitions a filesystem is on, and calls it by its
//! number, `8:0`. Filesystems without a disk have a device each. Example: `/` on `8:1`, a partition
//! of `8:0`, and a FUSE on `0:45` are written through `8:0` and `0:45`; ntfs-3g on `8:2` through
//! its own, `8:2-fuseblk`.

use super::values::{read_number, read_text};
use crate::model::host::{Device, QueueBound, Writeback};
use crate::model::stack::Stack;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

impl Writeback {
    fn read(directory: &Path) -> Option<Writeback> {
        // Until 6.9 the figures were of the root cgroup alone; those that add up all have this
        // beside them.
        if !directory.join("wb_stats").exists() {
            return None;
        }
        Writeback::parse(&fs::read_to_string(directory.join("stats")).ok()?)
    }

    fn parse(stats: &str) -> Option<Writeback> {
        let kib = |key: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(key))?;
            value
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        };
        Some(Writeback {
            dirty: kib("BdiReclaimable:")?,
            writeback: kib("BdiWriteback:")?,
            limit: kib("BdiDirtyThresh:")?,
            dirtied: kib("BdiDirtied:")?,
        })
    }
}

/// Reads all devices; `busy_ms`, `written` and `read`, and `dirtied` of what writeback knows, are
/// running totals.
pub fn read_devices(root: &Path) -> Vec<Device> {
    let (mut mounts, mut disks, mut stack) =
        (read_mounts(root), read_disks(root), read_stack(root));
    let entries = fs::read_dir(root.join("sys/class/bdi"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            let bdi = entry.file_name().to_str()?.to_string();
            let (filesystem, mounted_at) = mounts.remove(&bdi).unzip();
            let mut device = Device {
                min_ratio: read_number(&entry.path().join("min_ratio")),
                max_ratio: read_number(&entry.path().join("max_ratio")),
                max_fine: fs::read_to_string(entry.path().join("max_ratio_fine"))
                    .ok()
                    .and_then(|text| text.trim().parse().ok()),
                strict: strict_limit(&entry.path()),
                filesystem,
                mounted_at,
                below: stack.take_below(&bdi),
                writeback: Writeback::read(&root.join("sys/kernel/debug/bdi").join(&bdi)),
                ..disks.remove(&bdi).unwrap_or_default()
            };
            // Before 6.2 nothing told; only FUSE asks for it there, and has no disk of its own.
            if device.strict.is_none() {
                let is_fuse = |kind: &String| kind.starts_with("fuse");
                let is_no_disk = device.disk.is_none();
                device.strict = match &device.filesystem {
                    None if is_no_disk => None,
                    kind => Some(kind.as_ref().is_some_and(is_fuse)),
                };
            }
            Some(Device { bdi, ..device })
        })
        .collect()
}

fn strict_limit(bdi: &Path) -> Option<bool> {
    let text = fs::read_to_string(bdi.join("strict_limit")).ok()?;
    Some(text.trim() == "1")
}

/// Device to the kind and the place of the filesystem that is mounted from it first.
fn read_mounts(root: &Path) -> BTreeMap<String, (String, String)> {
    // The first process's: one in a container, or a service, may see other places than the machine
    // has.
    let table = fs::read_to_string(root.join("proc/1/mountinfo"))
        .unwrap_or_else(|_| read_text(&root.join("proc/self/mountinfo")));
    let mut mounts = BTreeMap::new();
    for line in table.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut words = before.split_whitespace().skip(2);
        let (number, at) = (words.next(), words.nth(1));
        let (Some(number), Some(at), Some(kind)) = (number, at, after.split_whitespace().next())
        else {
            continue;
        };
        let bdi = match kind {
            "fuseblk" => format!("{number}-fuseblk"),
            _ => whole_disk(root, number).unwrap_or_else(|| number.into()),
        };
        mounts
            .entry(bdi)
            .or_insert((kind.into(), unescape_octal(at)));
    }
    mounts
}

/// The devices of the machine that lie on others.
pub fn read_stack(root: &Path) -> Stack {
    let of = |device: &Path| {
        Some(
            fs::read_to_string(device.join("dev"))
                .ok()?
                .trim()
                .to_owned(),
        )
    };
    let entries = |of: &Path| fs::read_dir(of).into_iter().flatten().flatten();
    let disks = entries(&root.join("sys/block")).filter_map(|disk| {
        let below = entries(&disk.path().join("slaves")).filter_map(|entry| {
            let number = of(&entry.path())?;
            Some(whole_disk(root, &number).unwrap_or(number))
        });
        Some((of(&disk.path())?, below.collect()))
    });
    disks.collect()
}

/// The disk that this is a partition of, if it is one.
fn whole_disk(root: &Path, number: &str) -> Option<String> {
    let device = root.join("sys/dev/block").join(number);
    // What has no disk is of major number 0; there may be thousands of it.
    if number.starts_with("0:") || !device.join("partition").exists() {
        return None;
    }
    // A link: its parent is the disk's directory.
    let disk = fs::read_to_string(device.join("../dev")).ok()?;
    Some(disk.trim().to_string())
}

/// A path as it is: the kernel writes white space and backslashes in octal, `\\040`.
fn unescape_octal(text: &str) -> String {
    let mut parts = text.split('\\');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |path, part| {
        let letter = part
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match letter {
            Some(letter) => path + char::from(letter).encode_utf8(&mut [0; 4]) + &part[3..],
            None => path + "\\" + part,
        }
    })
}

/// Device to what its disk did.
fn read_disks(root: &Path) -> BTreeMap<String, Device> {
    let table = read_text(&root.join("proc/diskstats"));
    let disks = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |at: usize| words.get(at)?.parse::<u64>().ok();
        let device = Device {
            disk: Some(words.get(2)?.to_string()),
            queue: read_queue(root, words[2]),
            read: value(5)?.saturating_mul(512),
            written: value(9)?.saturating_mul(512),
            busy_ms: value(12)?,
            ..Device::default()
        };
        Some((format!("{}:{}", words[0], words[1]), device))
    });
    disks.collect()
}

/// The queue of a disk; those that hand requests on, as LVM's do, and partitions have none.
fn read_queue(root: &Path, disk: &str) -> Option<QueueBound> {
    let directory = root.join("sys/block").join(disk);
    let queue = directory.join("queue");
    directory.join("mq").exists().then(|| QueueBound {
        requests: read_number(&queue.join("nr_requests")),
        kib: read_number(&queue.join("max_sectors_kb")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("made");
        let disks = " 8 0 sda 10 0 80 5 20 0 160 9 0 33 14 0 0 0 0\n 8 1 sda1 1 0 2 5 2 0 4 9 0 3 4 0 0 0 0\n";
        for (file, text) in [
            ("proc/1/mountinfo", mounts),
            ("proc/diskstats", disks),
            ("sys/devices/sda/dev", "8:0\n"),
            ("sys/devices/sda/mq/0/nr_tags", "64\n"),
            ("sys/devices/sda/queue/nr_requests", "64\n"),
            ("sys/devices/sda/queue/max_sectors_kb", "1280\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/devices/sda/sda1/dev", "8:1\n"),
            ("sys/devices/dm-0/dev", "253:0\n"),
            ("sys/devices/dm-0/slaves/sda1/dev", "8:1\n"),
            ("sys/class/bdi/8:0/max_ratio", "100\n"),
            ("sys/class/bdi/253:0/max_ratio", "100\n"),
            ("sys/class/bdi/8:2-fuseblk/max_ratio", "1\n"),
            ("sys/class/bdi/0:45/max_ratio", "1\n"),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        }
        let links = root.path().join("sys/dev/block");
        fs::create_dir_all(&links).expect("made");
        for (number, to) in [("8:0", "sda"), ("8:1", "sda/sda1")] {
            let to = Path::new("../../devices").join(to);
            std::os::unix::fs::symlink(to, links.join(number)).expect("made");
        }
        let disks = root.path().join("sys/block");
        fs::create_dir_all(&disks).expect("made");
        for name in ["sda", "dm-0"] {
            let to = Path::new("../devices").join(name);
            std::os::unix::fs::symlink(to, disks.join(name)).expect("made");
        }
        root
    }

    #[test]
    fn a_device_tells_the_disk_of_the_partition_that_it_lies_on() {
        let machine = machine("");
        assert_eq!(found(machine.path(), "253:0").below, ["8:0"]);
        assert_eq!(found(machine.path(), "8:0").below, Vec::<String>::new());
        assert_eq!(
            read_stack(machine.path()).sum_without_handed_on([("8:0", 9), ("253:0", 9)]),
            9
        );
    }

    fn found(root: &Path, bdi: &str) -> Device {
        let mut found = read_devices(root).into_iter();
        found.find(|device| device.bdi == bdi).expect("there")
    }

    #[test]
    fn a_disk_has_what_is_mounted_from_its_partitions() {
        let machine = machine(
            "22 1 0:21 / /proc rw - proc proc rw\n32 1 8:1 / /mnt/my\\040disk rw,relatime - ext4 /dev/sda1 rw\n\
             33 1 8:1 / /again rw - ext4 /dev/sda1 rw\n",
        );
        let device = found(machine.path(), "8:0");
        assert_eq!(device.mounted_at.as_deref(), Some("/mnt/my disk"));
        assert_eq!(device.filesystem.as_deref(), Some("ext4"));
        assert_eq!(device.disk.as_deref(), Some("sda"));
        assert_eq!(
            (device.written, device.read, device.busy_ms),
            (160 * 512, 80 * 512, 33)
        );
        assert_eq!((device.max_ratio, device.strict), (100, Some(false)));
        let queue = QueueBound {
            requests: 64,
            kib: 1280,
        };
        assert_eq!(device.queue, Some(queue));
        assert_eq!(found(machine.path(), "253:0").queue, None, "hands on");
    }

    #[test]
    fn who_is_strict_is_known_where_the_kernel_does_not_tell() {
        let machine = machine(
            "40 1 8:2 / /win rw - fuseblk /dev/sda2 rw\n41 1 0:45 / /mnt/s rw - fuse.sshfs host: rw\n",
        );
        let strict = |bdi| found(machine.path(), bdi).strict;
        assert_eq!(strict("8:0"), Some(false), "a disk, mounted or not");
        assert_eq!(strict("8:2-fuseblk"), Some(true));
        assert_eq!(strict("0:45"), Some(true));
        fs::remove_file(machine.path().join("proc/1/mountinfo")).expect("removed");
        assert_eq!(strict("0:45"), None, "nobody says what it is");
        fs::write(machine.path().join("sys/class/bdi/8:0/strict_limit"), "1\n").expect("written");
        assert_eq!(strict("8:0"), Some(true));
    }

    #[test]
    fn places_are_named_as_they_are() {
        assert_eq!(unescape_octal("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape_octal("/a\\9\\é"), "/a\\9\\é");
    }

    #[test]
    fn what_writeback_knows_of_a_device() {
        let stats = "BdiWriteback:             4 kB\nBdiReclaimable:        1024 kB\nBdiDirtyThresh:        2048 kB\n\
            DirtyThresh:           9999 kB\nBackgroundThresh:       500 kB\nBdiDirtied:            4096 kB\nb_dirty: 1\n";
        let found = Writeback::parse(stats).expect("complete");
        assert_eq!(
            (found.dirty, found.writeback, found.limit, found.dirtied),
            (1 << 20, 4096, 2 << 20, 4 << 20)
        );
        assert_eq!(Writeback::parse("BdiWriteback: 4 kB\n"), None);
    }
}
